"""Properties of every bill: no negative amount, more usage costs no less, bills of disjoint logs add up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.prices import SHEETS, PriceSheet, price_sheet
from burstcache_sim.bill.competitors import quotes, unpriced
from burstcache_sim.bill.cost import BillLine, bill
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import OriginEvents, Setup
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult
from support.searches import search

TODAY = price_sheet("today-us-east-1")
PERIOD_US = 24 * US_PER_H
GIB = 1024**3
# What has room for everything: what it costs depends on nothing but what is asked for.
ROOMY = ("s3-only", "s3-express-all", "efs", "cloudfront", "serverless-valkey")
EVERYBODY = (
    *ROOMY, "s3-express", "reader-memory:64MB", "reader-memory-confirmed:64MB", "ec2:t4g.nano", "fargate:0.5GB",
    "fargate-spot:2x0.5GB", "elasticache-redis:t4g.micro", "serverless-redis:1GB", "ec2-scheduled:t4g.nano",
    "reader-memory+s3-express-all",
)  # fmt: skip
REQUESTS = st.lists(
    st.tuples(st.integers(0, PERIOD_US - 1), st.integers(0, 5), st.integers(0, 3 * GIB), st.floats(0, 1)),
    min_size=1,
    max_size=30,
)
Row = tuple[int, int, int, float]


def trace_of(rows: list[Row]) -> Trace:
    """Return requests of (instant, object, size, share that was sent)."""
    times_us, ids, sizes, shares = (np.array(column) for column in zip(*sorted(rows), strict=True))
    sent = (sizes * shares).astype(np.int64)
    keys = tuple(map(str, range(int(ids.max()) + 1)))
    return Trace(times_us.astype(np.int64), ids.astype(np.int32), sizes.astype(np.int64), keys, sent_bytes=sent)


def market_of(rows: list[Row], *, readers: str = "aws", repeats: int = 1, prices: PriceSheet = TODAY) -> Market:
    trace = trace_of(rows)
    demand = demand_of(trace, object_bytes=1, period_us=PERIOD_US)
    locality = locality_of(trace, object_bytes=1, period_us=PERIOD_US)
    setup = Setup(readers=readers)  # type: ignore[arg-type]
    return Market(demand=demand, locality=locality, prices=prices, setup=setup, repeats=Fraction(repeats))


def offer(rows: list[Row], name: str, *, readers: str = "aws", repeats: int = 1) -> Quote:
    return quotes(market_of(rows, readers=readers, repeats=repeats), names=(name,))[0]


def variable(found: Quote) -> Fraction:
    """Return the variable part of a bill: without hourly items, and without INIT, which is billed once per wake-up."""
    lines: list[BillLine] = [line for line in found.bill.lines if not line.is_fixed and "INIT" not in line.text]
    return sum((line.usd_exact for line in lines), Fraction(0))


@pytest.mark.slow
@search(40)
@given(REQUESTS, st.sampled_from(EVERYBODY), st.sampled_from(["aws", "internet"]), st.integers(1, 30))
def test_no_line_of_a_bill_is_below_nothing(rows: list[Row], name: str, readers: str, repeats: int) -> None:
    found = offer(rows, name, readers=readers, repeats=repeats)

    assert [line for line in found.bill.lines if line.quantity < 0 or line.usd_exact < 0] == []
    assert 0 <= found.in_memory_pct <= 100
    assert 0 <= found.own_memory_pct <= 100
    assert 0 <= found.confirmed_pct <= 100 - found.in_memory_pct + 1e-6


@search(60)
@given(REQUESTS, st.sampled_from(ROOMY), st.sampled_from(["aws", "internet"]))
def test_more_bytes_of_the_same_requests_cost_no_less(rows: list[Row], name: str, readers: str) -> None:
    more = [(at_us, key, 2 * size + 1, share) for at_us, key, size, share in rows]

    assert offer(rows, name, readers=readers).bill.usd_exact <= offer(more, name, readers=readers).bill.usd_exact


@search(60)
@given(REQUESTS, st.sampled_from(ROOMY), st.sampled_from(["aws", "internet"]))
def test_one_more_request_costs_no_less(rows: list[Row], name: str, readers: str) -> None:
    at_us, key, size, share = max(rows)
    more = [*rows, (at_us, key, size, share)]

    assert offer(rows, name, readers=readers).bill.usd_exact <= offer(more, name, readers=readers).bill.usd_exact


@search(60)
@given(REQUESTS, REQUESTS, st.sampled_from(["s3-only", "cloudfront", "serverless-valkey"]))
def test_disjoint_logs_cost_together_what_each_costs(one: list[Row], other: list[Row], name: str) -> None:
    apart = [(at_us, key + 6, size, share) for at_us, key, size, share in other]

    together = variable(offer([*one, *apart], name))

    assert float(together) == pytest.approx(float(variable(offer(one, name)) + variable(offer(apart, name))), rel=1e-9)


@search(60)
@given(REQUESTS, st.sampled_from(["s3-only", "cloudfront", "serverless-valkey", "efs", "s3-express-all"]))
def test_what_was_not_sent_is_not_billed(rows: list[Row], name: str) -> None:
    whole = [(at_us, key, size, 1.0) for at_us, key, size, _ in rows]

    assert offer(rows, name, readers="internet").bill.usd_exact <= offer(whole, name, readers="internet").bill.usd_exact


@search(60)
@given(st.integers(0, 10**9), st.integers(0, 10_000), st.sampled_from(["today-us-east-1", "today-eu-central-1"]))
def test_a_queue_costs_more_than_direct_calls_by_its_polls_and_three_requests_a_write(
    writes_per_h: int, hours: int, sheet: str
) -> None:
    run = RunResult(
        n=0, n_s3=0, n_lambda=0, n_redis=0, lambda_ms=0, invocations=0, cold_starts=0, redis_s=0, redis_starts=0,
        s3_requests=0, lambda_us_exact=0, redis_us_exact=0, end_us=0,
    )  # fmt: skip

    def usd(origin_events: OriginEvents) -> Fraction:
        setup = Setup(writes_per_h=writes_per_h, origin_events=origin_events)
        return bill(live_usage(run, setup, period_us=hours * US_PER_H), price_sheet(sheet)).usd_exact

    requests = 15 * 60 * hours + 3 * writes_per_h * hours
    assert usd("queue") - usd("direct") == requests * Fraction("0.40") / 10**6


@pytest.mark.parametrize("prices", [sheet for name, sheet in SHEETS.items() if name.startswith("today-")])
def test_every_competitor_has_a_price_is_named_or_is_not_sold(prices: PriceSheet) -> None:
    every = {name for other in SHEETS.values() if other.name.startswith("today-") for name in other.kinds("")}
    rows = {row.item for row in prices.rows}

    def is_named(item: str) -> bool:
        parts = item.replace(":", "-").split("-")
        named = [name.replace(":", "-").split("-") for name in (*unpriced(prices), *prices.not_sold)]
        return any(set(words) <= set(parts) or words[0] == parts[0] for words in named)

    assert [item for item in every - rows if not is_named(item)] == []
    assert set(unpriced(prices)).isdisjoint(offer.name for offer in quotes(market_of([(0, 0, 1, 1.0)], prices=prices)))


def test_frankfurt_names_what_it_cannot_price() -> None:
    found = unpriced(price_sheet("today-eu-central-1"))

    assert {"efs", "serverless-redis", "elasticache-redis:r7g.large", "elasticache-valkey:t4g.small"} <= set(found)
    assert not any(name.startswith("ec2:") for name in found)
    assert not any("express" in name for name in found)
    assert price_sheet("today-eu-central-1").not_sold == ("s3-express",)
    assert unpriced(TODAY) == ()


def test_efs_meters_files_by_four_kilobytes_and_their_inode() -> None:
    stored = {line.item: line.quantity for line in offer([(0, 0, 1, 1.0), (1, 1, 4_097, 1.0)], "efs").bill.lines}

    assert stored["efs-storage"] * GIB == 24 * (6 * 1024 + 10 * 1024)
