"""Competitors: each one's bill, and the loads at which it is cheaper."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.breakeven_frequency import HourlyCost, burst_frequency
from burstcache_sim.bill.comparison import OURS, Billing, ComparedSystem, compare
from burstcache_sim.bill.competitors import competitor_names, quotes
from burstcache_sim.bill.demand import demand_of, perfect_redis_us
from burstcache_sim.bill.infinicache import pool_for
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from support.searches import seeds

TODAY = price_sheet("today-us-east-1")
THESIS = price_sheet("thesis-2022")
GIB = 1024**3
DAY_US = 24 * US_PER_H


def many(requests: int = 1_000, objects: int = 10, size_bytes: int = 10_240, period_us: int = DAY_US) -> Trace:
    """Objects in turn, evenly over a period."""
    arrivals_us = np.arange(requests, dtype=np.int64) * (period_us // requests)
    ids = (np.arange(requests) % objects).astype(np.int32)
    return Trace(arrivals_us, ids, np.full(requests, size_bytes), tuple(f"key-{i}" for i in range(objects)))


DAY = many()


def market(trace: Trace = DAY, *, period_us: int = DAY_US, setup: Setup | None = None, **options: Any) -> Market:
    demand = demand_of(trace, object_bytes=10_000, period_us=period_us)
    locality = locality_of(trace, object_bytes=10_000, period_us=demand.period_us)
    return Market(demand=demand, locality=locality, prices=TODAY, setup=setup or Setup(), **options)


def offer(name: str, trace: Trace = DAY, **options: Any) -> Quote:
    return quotes(market(trace, **options), names=(name,))[0]


def items(found: Quote) -> dict[str, float]:
    return {line.text: line.usd for line in found.bill.lines}


def trace_of(*arrivals_s: float) -> Trace:
    return Trace(np.array([round(at_s * US_PER_S) for at_s in arrivals_s], dtype=np.int64))


def test_s3_alone_costs_its_gets_and_serves_nothing_from_memory() -> None:
    found = offer("s3-only")

    assert (found.bill.usd, found.in_memory_pct) == (pytest.approx(1_000 * 4e-7), 0.0)


def test_a_node_always_on_costs_every_second_and_its_volume() -> None:
    assert items(offer("ec2:t4g.micro")) == {
        "t4g.micro, always on": pytest.approx(24 * 0.0084),
        "volume": pytest.approx(3 * 0.08 * 24 / 730),
        "S3 GET": pytest.approx(10 * 4e-7),
    }
    assert "volume" not in items(offer("ec2:t4g.micro", only_cache=True))


@pytest.mark.parametrize(("period_s", "hours"), [(60, 1), (3600, 1), (3601, 2), (90_000, 25)])
def test_elasticache_is_billed_by_the_full_hour(period_s: int, hours: int) -> None:
    found = items(offer("elasticache-redis:t4g.micro", trace_of(0), period_us=period_s * US_PER_S))

    assert found["cache.t4g.micro, redis"] == pytest.approx(hours * 0.016)


@pytest.mark.parametrize(("engine", "month_usd"), [("valkey", 6.13), ("redis", 91.25)])
def test_serverless_has_a_minimum(engine: str, month_usd: float) -> None:
    found = offer(f"serverless-{engine}", trace_of(0), period_us=730 * US_PER_H)

    assert found.bill.usd == pytest.approx(month_usd, abs=0.01)


def test_serverless_costs_what_is_stored_and_what_is_moved() -> None:
    large = many(objects=20, size_bytes=GIB // 10)

    found = items(offer("serverless-valkey", large))

    assert found["memory"] == pytest.approx(2 * 24 * 0.084)
    # 980 hits move an object out; 20 misses ask in vain, which is a unit, and move one in.
    assert found["processing units"] == pytest.approx((1_000 * (GIB // 10) / 1024 + 20) * 2.3e-9, rel=1e-9)


def test_serverless_with_a_maximum_pays_for_that_and_drops_what_was_used_least_recently() -> None:
    large = many(objects=20, size_bytes=GIB // 10)

    found = offer("serverless-valkey:1GB", large)

    assert items(found)["memory"] == pytest.approx(24 * 0.084)
    assert found.in_memory_pct == 0  # 20 objects in turn, room for 10


def test_cloudfront_costs_bytes_and_requests() -> None:
    assert offer("cloudfront").bill.usd == pytest.approx(1_000 * (10_240 / GIB * 0.085 + 1e-6) + 10 * 4e-7)


def test_a_cache_function_always_on_costs_its_memory() -> None:
    assert items(offer("lambda-always"))["cache function, always on"] == pytest.approx(24 * 3600 / 4 * 0.0000133334)


def test_a_cache_function_always_on_misses_each_object_once_in_15_minutes_and_never_more_than_are_asked_for() -> None:
    arrivals_us = np.array([0, 1, 2, 899, 900, 901], dtype=np.int64) * US_PER_S
    ids = np.array([0, 1, 0, 1, 1, 1], dtype=np.int32)
    one, two = Trace(arrivals_us), Trace(arrivals_us, ids, None, ("a", "b"))

    found = [offer("lambda-always", trace) for trace in (one, two)]

    assert [demand_of(trace, object_bytes=1).invocation_misses for trace in (one, two)] == [2, 3]
    assert [one.in_memory_pct for one in found] == [pytest.approx(400 / 6), 50.0]
    assert items(found[0])["invocations, one each 15 minutes"] == pytest.approx(96 * 2e-7)


@pytest.mark.parametrize("period_h", [1, 730])
def test_no_competitor_has_more_misses_than_requests(period_h: int) -> None:
    found = quotes(market(trace_of(0, 1), period_us=period_h * US_PER_H))

    assert all(0 <= one.in_memory_pct <= 100 for one in found)


def test_infinicache_has_a_function_per_piece_at_least_and_more_for_more_bytes() -> None:
    assert pool_for(1).functions == 12
    assert pool_for(500 * GIB).functions == 400
    assert offer("infinicache").bill.fixed_usd_exact > 0


def test_offers_come_cheapest_first_and_only_those_that_have_prices() -> None:
    setup = Setup("x86", "t2.micro", 1024)
    today = quotes(replace(market(), own_memory_mb=0))
    thesis = quotes(replace(market(setup=setup, only_cache=True), prices=THESIS))

    assert [found.bill.usd for found in today] == sorted(found.bill.usd for found in today)
    assert {found.name.partition(":")[0] for found in today} == {
        name.partition(":")[0] for name in competitor_names(TODAY, Setup())
    } - {"range-memory"}  # without ranges the same as a reader's memory
    assert {"ec2:t2.micro", "elasticache-redis:t2.micro"} <= {found.name for found in thesis}
    assert "cloudfront" not in {found.name for found in thesis}


def test_an_unknown_competitor_is_named_with_those_that_exist() -> None:
    with pytest.raises(InvalidSettingError, match="'memcachier': expected one of s3-only"):
        quotes(market(), names=("memcachier",))


def test_a_competitor_that_was_asked_for_by_name_needs_its_price() -> None:
    with pytest.raises(PriceMissingError, match=r"elasticache-valkey:x9\.huge; it has t2\.micro"):
        offer("elasticache-valkey:x9.huge")


def test_perfect_automation_runs_from_the_first_to_the_last_request_of_a_spike() -> None:
    assert perfect_redis_us([0, 40 * US_PER_S, 90 * US_PER_S]) == 90 * US_PER_S
    assert perfect_redis_us([5]) == 60 * US_PER_S


def test_perfect_automation_stops_where_that_saves() -> None:
    assert perfect_redis_us([0, 100 * US_PER_S]) == 100 * US_PER_S
    assert perfect_redis_us([0, 130 * US_PER_S]) == 120 * US_PER_S


@pytest.mark.parametrize("seed", seeds(30))
def test_perfect_automation_is_the_cheapest_division_into_runs(seed: int) -> None:
    draw = random.Random(seed)
    times = sorted(draw.randrange(0, 900) * US_PER_S for _ in range(draw.randrange(1, 25)))

    @cache
    def cheapest(first: int) -> int:
        """Try every end of the run that serves request `first`."""
        if first == len(times):
            return 0
        return min(
            max(60 * US_PER_S, times[last] - times[first]) + cheapest(last + 1)
            for last in range(first, len(times))
            if last + 1 == len(times) or times[last + 1] - times[last] >= 60 * US_PER_S
        )

    assert perfect_redis_us(times) == cheapest(0), f"seed {seed}"


def test_a_demand_sums_a_trace_of_many_keys_up() -> None:
    arrivals = np.array([0, 1, 700, 2000], dtype=np.int64) * US_PER_S
    ids, sizes = np.array([0, 2, 0, 2], dtype=np.int32), np.array([10, 500, 0, 500], dtype=np.int64)

    demand = demand_of(Trace(arrivals, ids, sizes, ("a", "b", "c")), object_bytes=1, period_us=7)

    assert (demand.requests, demand.objects, demand.body_bytes, demand.stored_bytes) == (4, 2, 1010, 510)
    assert (demand.wakes, demand.period_us) == (3, 2000 * US_PER_S)


def test_an_api_meters_each_answer_by_itself() -> None:
    sizes = np.array([0, 1, 524_288, 524_289, 4_000_000], dtype=np.int64)

    demand = demand_of(Trace(np.arange(5), None, sizes), object_bytes=1)

    assert demand.metered_512kb == 1 + 1 + 1 + 2 + 8
    assert demand_of(Trace(np.arange(5)), object_bytes=600_000).metered_512kb == 10


def test_a_period_beyond_reason_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="--period-hours: expected at most 876000"):
        demand_of(trace_of(1), object_bytes=1, period_us=876_001 * US_PER_H)


def test_an_empty_trace_has_no_demand() -> None:
    with pytest.raises(InvalidSettingError, match="empty"):
        demand_of(trace_of(), object_bytes=1)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((0, 2), (10, 0), "up to 4 (40 %)"),  # at five they are equal, which is not cheaper
        ((0, 1), (0, 0), "never"),
        ((5, 1), (1, 0), "never"),
        ((0, 1), (1, 1), "any number"),
        ((1, 1), (0, 2), "from 2"),
        ((0, 1), (0, 2), "any number"),
        ((1, 1), (1, 1), "never"),
    ],
)
def test_how_often_a_burst_may_come(ours: tuple[int, int], theirs: tuple[int, int], expected: str) -> None:
    a, b = (HourlyCost(Fraction(hour), Fraction(burst)) for hour, burst in (ours, theirs))

    assert str(burst_frequency(a, b, burst_us=360 * US_PER_S)) == expected


def compared(trace: Trace) -> dict[str, ComparedSystem]:
    billing = Billing(THESIS, Setup("x86", "t2.micro", 1024), only_cache=True)
    systems = compare(Thesis.configured(9, 4), trace, billing)
    return {system.name: system for system in systems}


def test_a_comparison_has_this_system_first_and_a_break_even_for_every_other() -> None:
    found = compared(trace_of(*range(0, 600, 5)))

    assert next(iter(found)) == OURS
    assert [name for name, system in found.items() if system.cheaper_at is None] == [OURS]


def test_a_month_of_a_short_burst_bills_elasticache_every_hour_once() -> None:
    month_usd = compared(trace_of(0, 30, 60))["elasticache-redis:t2.micro"].usd_per_month

    assert month_usd == pytest.approx(730 * 0.019, rel=0.01)


def test_when_a_trace_begins_changes_no_bill() -> None:
    early, late = (compared(trace_of(*range(start_s, start_s + 600, 5))) for start_s in (0, 1_700_000_000))

    assert [(system.name, system.bill) for system in early.values()] == [
        (system.name, system.bill) for system in late.values()
    ]


def test_bursts_of_more_than_an_hour_are_counted_by_the_month() -> None:
    frequency = compared(trace_of(0, 1, 5000))["ec2:t2.micro"].cheaper_at

    assert frequency is not None
    assert frequency.window_h == 730


def test_without_a_node_more_is_paid_for_lambda_and_nothing_for_redis() -> None:
    found = compared(trace_of(*range(0, 600, 5)))

    texts = [line.text for line in found["lambda-only"].bill.lines]
    assert not any("Redis" in text for text in texts)
    assert found["lambda-only"].usd > found[OURS].usd
