"""Advice on a pool for large objects: the bill decides, and S3 Express competes where it is sold."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.pool_quotes import pool_quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.advice import advise
from burstcache_sim.choose.advise.fields import advice_fields
from burstcache_sim.choose.advise.large_objects import LargeObjects, large_objects, large_objects_lines
from burstcache_sim.choose.advise.page import advice_page
from burstcache_sim.choose.advise.text import advice_text
from burstcache_sim.choose.advise.verdict import verdict_lines
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.traces.trace import Trace
from burstcache_terminal.text import usd_text

MB = 1024**2
DAY_S = 86_400


def workload(
    *,
    requests: int = 2_000,
    objects: int = 50,
    size_bytes: int = 64 * MB,
    prices: str = "today-us-east-1",
    **setup: str,
) -> Workload:
    """Objects in turn over a day, every third request for a small one."""
    times_us = (np.arange(requests) * (DAY_S * US_PER_S // requests)).astype(np.int64)
    ids = (np.arange(requests) % objects).astype(np.int32)
    sizes = np.where(ids % 3 == 2, 1_000, size_bytes).astype(np.int64)
    trace = Trace(times_us, ids, sizes, tuple(map(str, range(objects))))
    return workload_of(trace, price_sheet(prices), Setup(**setup), period_us=DAY_S * US_PER_S)  # type: ignore[arg-type]


def large(usd_per_hit: str = "0.0001", **options: object) -> LargeObjects:
    found = large_objects(workload(**options), Fraction(usd_per_hit))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_only_requests_for_large_objects_count() -> None:
    found = large()

    assert found.request_share == pytest.approx(2 / 3, abs=0.02)
    assert found.byte_share > 0.999
    assert found.demand.stored_bytes == pytest.approx(34 * 64 * MB)


@pytest.mark.parametrize(
    "options",
    [{"size_bytes": MB}, {"readers": "internet"}, {"prices": "thesis-2022"}],
    ids=["small", "internet", "2022"],
)
def test_without_large_objects_readers_in_the_vpc_or_prices_there_is_nothing_to_say(options: dict[str, object]) -> None:
    assert large_objects(workload(**options), Fraction(1, 10_000)) is None  # type: ignore[arg-type]


def best(found: LargeObjects) -> str:
    """Return the name of the offer with the highest net value, of those that are for sale."""
    offers = [found.pool, *(one for one in found.others if one.name != "infinicache")]
    return max(offers, key=found.net_usd).name


def test_s3_alone_costs_least_where_a_hit_is_worth_nothing() -> None:
    found = large("0")

    assert best(found) == "s3-only"
    assert found.net_usd(found.pool) < 0
    assert found.pays_from_usd is not None
    assert found.pays_from_usd > 0


def test_s3_express_beats_the_pool_where_it_is_sold_and_objects_stay() -> None:
    assert best(large("0.001")).startswith("s3-express")


def test_the_pool_beats_all_others_where_there_is_no_s3_express() -> None:
    found = large("0.001", prices="today-eu-central-1")

    assert best(found) == found.pool.name


@pytest.mark.parametrize(
    ("usd_per_hit", "prices", "without", "verdict"),
    [
        (0.0, "today-us-east-1", (), "USE THE LIBRARY"),
        (1e-5, "today-us-east-1", ("reader-memory", "s3-express"), "S3 ALONE IS ENOUGH"),
        (1e-3, "today-eu-central-1", (), "USE THE LIBRARY"),
    ],
)
def test_an_answer_has_one_verdict_and_the_pool_has_figures_beside_it(
    usd_per_hit: float, prices: str, without: tuple[str, ...], verdict: str
) -> None:
    value = Value(usd_per_hit=usd_per_hit) if usd_per_hit else Value()
    found = advise(workload(prices=prices), value, LatencyModel(), candidates=8, without=without)

    text, page, fields = advice_text(found), " ".join(advice_page(found, "lake.csv").split()), advice_fields(found)
    assert found.large is not None
    lines = large_objects_lines(found.large, found.net_usd)

    assert text.startswith(verdict)
    assert f"a net value of {usd_text(found.large.net_usd(found.large.pool))} USD a month" in lines[1]
    assert f"of {usd_text(found.winner.gain.net_usd(value))}." in lines[1]
    assert not re.search(r"best buy|does not pay|is enough", " ".join(lines), re.IGNORECASE)
    assert " ".join(lines[:2]) in " ".join(text.split())
    assert lines[1] in page
    assert (fields["large_objects"]["text"], "best_buy" in fields["large_objects"]) == (lines, False)


@pytest.mark.parametrize(("usd_per_hit", "but"), [("1e-7", ""), ("1e-3", " but a pool")])
def test_s3_alone_is_enough_but_for_a_pool_that_is_worth_more_than_it_costs(usd_per_hit: str, but: str) -> None:
    found = advise(workload(), Value(), LatencyModel(), candidates=8)
    s3_alone = replace(found, winner=found.others[0], large=large(usd_per_hit))

    assert verdict_lines(s3_alone)[0].endswith(f" USD a month. No cache{but} is worth more than it costs.")


def test_the_pool_pays_from_the_value_at_which_it_costs_as_much_as_s3() -> None:
    found = large()
    assert found.pays_from_usd is not None

    less, more = (large(str(found.pays_from_usd * factor)) for factor in (0.98, 1.02))

    assert less.net_usd(less.pool) < less.net_usd(less.ranged)
    assert more.net_usd(more.pool) > more.net_usd(more.ranged)


def test_more_members_hold_more() -> None:
    load = workload(objects=900)
    market = Market(
        demand=demand_of(load.trace, object_bytes=1, period_us=DAY_S * US_PER_S),
        locality=locality_of(load.trace, object_bytes=1, period_us=DAY_S * US_PER_S),
        prices=load.prices,
        setup=load.setup,
    )

    few, many = (pool_quote(market, members) for members in (12, 64))

    assert few.in_memory_pct < many.in_memory_pct
    assert few.bill.fixed_usd_exact < many.bill.fixed_usd_exact


def test_times_are_those_of_the_size_in_parallel_or_from_the_pool() -> None:
    found = large()
    by_name = {one.name: found.mean_ms(one) for one in found.others}
    first_ms, rest_ms = 2 * MB / 270e3, (8 * MB - 2 * MB) / 85e3

    assert by_name["s3-only"] == pytest.approx(25 + first_ms + (64 * MB - 2 * MB) / 85e3)
    assert by_name["s3-ranged-gets"] == pytest.approx(25 + first_ms + rest_ms)  # eight streams at a time
    assert found.mean_ms(found.pool) < by_name["s3-only"] / 5
    assert large(size_bytes=1024 * MB).mean_ms(large(size_bytes=1024 * MB).ranged) == pytest.approx(
        25 + 1024 * MB / 1250e3  # what a reader's network bears
    )


def test_where_a_millisecond_is_worth_something_time_decides_and_not_hits() -> None:
    found = large_objects(workload(), Fraction(0), usd_per_ms=1e-6)

    assert found is not None
    saved_ms = found.clock.s3_ms - found.mean_ms(found.ranged)
    (s3,) = (one for one in found.others if one.name == "s3-only")
    hits_worth = found.net_usd(found.ranged) + found.month_usd(found.ranged) - found.month_usd(s3)
    assert hits_worth == pytest.approx(1e-6 * saved_ms * found.demand.requests * float(found.repeats))
    assert found.net_usd(s3) == 0
    assert best(found) == "s3-ranged-gets"  # nearly all of the time, for nothing to keep
