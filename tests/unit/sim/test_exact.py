"""Amounts beyond 64 bits: terabytes kept for months, held against Python's own integers."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.express import LEAST_US, ExpressRule, express_rule
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.cost import BillLine, ImpossibleBillError
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.engine import express as compiled_express
from burstcache_sim.engine.compiled import compiled
from burstcache_sim.engine.exact import LIMBS, add_product, sum_of
from burstcache_sim.engine.node_use import _root
from burstcache_sim.engine.run import _unwrapped
from burstcache_sim.engine.shared_world import EXPRESS, S3
from burstcache_sim.traces.inspect import describe
from burstcache_sim.traces.log_format import MAX_BYTES
from burstcache_sim.traces.read import RequestLog
from burstcache_sim.traces.trace import Trace, exact_sum
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.express import Express, copy_rules
from support.searches import search

TODAY = price_sheet("today-us-east-1")
GB, TB, DAY_US = 1024**3, 1024**4, 24 * US_PER_H
MOST = 2**62 - 1
FACTORS = st.integers(0, MOST) | st.integers(0, 1 << 20)
SIZES_BYTES = st.sampled_from([1, GB, 5 * TB, 50 * TB, MOST // 4]) | st.integers(0, MOST // 4)
GAPS_US = st.sampled_from([1, US_PER_H, DAY_US, 30 * DAY_US, 300 * DAY_US])


@compiled
def _add_each(limbs: Any, ones: Any, others: Any) -> None:
    for i in range(len(ones)):
        add_product(limbs, ones[i], others[i])


@compiled
def _roots(ones: Any, others: Any) -> Any:
    return [_root(ones[i], others[i]) for i in range(len(ones))]


@search(300)
@given(st.lists(st.tuples(FACTORS, FACTORS), max_size=40))
@example([(MOST, MOST)] * 40)
def test_a_sum_of_products_is_exact(pairs: list[tuple[int, int]]) -> None:
    limbs, columns = np.zeros(LIMBS, np.int64), np.array(pairs, np.int64).reshape(-1, 2)

    _add_each(limbs, columns[:, 0], columns[:, 1])

    assert sum_of(limbs) == sum(one * other for one, other in pairs)


@search(300)
@given(st.integers(0, 2**60), st.integers(0, 2**40))
@example(2 * 31_536_000_000 * 20, 10_800_000)  # a node that has run for twenty years, looks worth three hours of it
def test_the_root_of_a_product_beyond_64_bits_is_exact(one: int, other: int) -> None:
    assert _roots(np.array([one]), np.array([other])) == [isqrt(one * other)]


@search(200)
@given(st.lists(st.integers(0, 2**62), max_size=20))
def test_a_sum_of_times_that_wrapped_around_is_known_from_its_bill(lives_us: list[int]) -> None:
    wrapped_us = (sum(lives_us) + 2**63) % 2**64 - 2**63

    assert _unwrapped(wrapped_us, most=1_000 * sum(-(-life_us // 1_000) for life_us in lives_us)) == sum(lives_us)


@search(200)
@given(st.lists(st.integers(0, MAX_BYTES), max_size=30))
def test_a_sum_of_sizes_is_exact(sizes_bytes: list[int]) -> None:
    assert exact_sum(np.array(sizes_bytes, np.int64)) == sum(sizes_bytes)


@search(300)
@given(
    st.lists(st.tuples(GAPS_US, st.integers(0, 3), SIZES_BYTES), min_size=1, max_size=40),
    st.sampled_from([1e-6, 1.0, 1e9]),
    st.none() | st.integers(1, 10**18),
)
@example([(1, 0, 50 * TB), (DAY_US, 0, 50 * TB)], 1e9, None)
def test_copies_of_terabytes_that_are_kept_for_months_take_what_exact_integers_say(
    requests: list[tuple[int, int, int]], usd_per_hit: float, until_us: int | None
) -> None:
    times_us = np.cumsum([gap_us for gap_us, _, _ in requests]).astype(np.int64)
    keys, sizes = (np.array(column) for column in list(zip(*requests, strict=True))[1:])
    rule, tiers = express_rule(TODAY, hit_value_usd=usd_per_hit), np.full(len(requests), S3, np.uint8)
    assume(until_us is None or until_us >= times_us[-1])

    found = compiled_express.serve(tiers, times_us, keys.astype(np.int32), sizes, copy_rules(rule, sizes), 4, until_us)

    readable = Express(rule)
    served = [readable.serves(*each) for each in zip(keys.tolist(), times_us.tolist(), sizes.tolist(), strict=True)]
    assert (tiers == EXPRESS).tolist() == served
    assert found == readable.close(until_us)


@search(300)
@given(st.lists(st.integers(0, MAX_BYTES), min_size=1), st.sampled_from([0.0, 1e-6, 1e-3, 1.0, 1e9]))
def test_many_sizes_get_what_the_rule_says_about_each(sizes_bytes: list[int], usd_per_hit: float) -> None:
    rule = express_rule(TODAY, hit_value_usd=usd_per_hit)

    rules = copy_rules(rule, np.array(sizes_bytes, np.int64))

    of_each = (ExpressRule.copy_at, ExpressRule.keep_days, ExpressRule.copy_usd, ExpressRule.saved_usd)
    for answers, one in zip(rules, of_each, strict=True):
        assert answers.tolist() == [one(rule, size_bytes) for size_bytes in sizes_bytes]


def rival(requests: list[tuple[int, int, int]], name: str, *, period_us: int, usd_per_hit: str = "0") -> Quote:
    """Return S3 Express for (time [us], key, size [bytes])."""
    times_us, keys, sizes_bytes = (np.array(column) for column in zip(*requests, strict=True))
    trace = Trace(times_us, keys.astype(np.int32), sizes_bytes, tuple(map(str, range(1 + int(keys.max())))))
    demand = demand_of(trace, object_bytes=1, period_us=period_us)
    market = Market(
        demand=demand,
        locality=locality_of(trace, object_bytes=1, period_us=demand.period_us),
        prices=TODAY,
        setup=Setup(),
        usd_per_hit=Fraction(usd_per_hit),
    )
    return quotes(market, names=(name,))[0]


def gb_h(offer: Quote) -> float:
    (line,) = (line for line in offer.bill.lines if line.item == "s3-express-storage")
    return float(line.quantity)


@search(200)
@given(st.lists(st.tuples(GAPS_US, SIZES_BYTES.filter(lambda size: 0 < size <= 2**54)), min_size=1, max_size=16))
@example([(US_PER_H, 3 * GB)] * 16)
def test_storage_in_express_is_what_exact_integers_say(objects: list[tuple[int, int]]) -> None:
    times_us = np.cumsum([gap_us for gap_us, _ in objects]).tolist()
    requests = [(at_us, key, size) for key, (at_us, (_, size)) in enumerate(zip(times_us, objects, strict=True))]
    period_us = times_us[-1] - times_us[0] + DAY_US

    found = gb_h(rival(requests, "s3-express-all", period_us=period_us))

    held = sum(size * (max(times_us[0] + period_us, at_us + LEAST_US) - at_us) for at_us, _, size in requests)
    assert found == pytest.approx(float(Fraction(held, GB * US_PER_H)), rel=1e-12)


@pytest.mark.parametrize("name", ["s3-express", "s3-express-all"])
def test_three_gigabytes_read_hourly_for_84_hours_are_stored_for_249_gb_h(name: str) -> None:
    offer = rival([(hour * US_PER_H, 0, 3 * GB) for hour in range(84)], name, period_us=83 * US_PER_H, usd_per_hit="1")

    assert gb_h(offer) == pytest.approx(249)


def test_200_gigabytes_for_three_days_cost_22_dollars_a_month_to_store() -> None:
    reads = sorted((hour * US_PER_H + key, key, GB) for hour in range(0, 78, 6) for key in range(200))

    offer = rival(reads, "s3-express-all", period_us=72 * US_PER_H, usd_per_hit="1e-3")

    (storage,) = (line for line in offer.bill.lines if line.item == "s3-express-storage")
    assert storage.usd * 730 / 72 == pytest.approx(200 * 0.11, rel=0.05)
    assert all(line.quantity >= 0 for line in rival(reads, "s3-express", period_us=72 * US_PER_H).bill.lines)


def test_a_log_of_exabytes_is_described_exactly_and_its_bytes_are_billed_exactly() -> None:
    sizes = np.full(9, MAX_BYTES)
    trace = Trace(np.arange(9), np.arange(9, dtype=np.int32) % 3, sizes, ("a", "b", "c"))

    demand = demand_of(trace, object_bytes=1)

    assert (demand.body_bytes, demand.stored_bytes) == (9 * MAX_BYTES, 3 * MAX_BYTES)
    described = describe(RequestLog(trace, "csv", 1, 9, 0, 0, 0, 0, (), None), top=1)
    assert (described["requested_bytes"], described["object_bytes"]) == (9 * MAX_BYTES, 3 * MAX_BYTES)


def test_objects_whose_sums_would_not_fit_64_bits_are_refused() -> None:
    trace = Trace(np.arange(3), np.arange(3, dtype=np.int32), np.full(3, MAX_BYTES), ("a", "b", "c"))

    with pytest.raises(InvalidSettingError, match=f"objects of {3 * MAX_BYTES} bytes in total"):
        locality_of(trace, object_bytes=1, period_us=US_PER_H)


@pytest.mark.parametrize(("quantity", "usd"), [(-1, 1), (1, -1)])
def test_no_amount_of_a_bill_is_below_0(quantity: int, usd: int) -> None:
    with pytest.raises(ImpossibleBillError, match="storage: .* expected amounts of at least 0"):
        BillLine("storage", Fraction(quantity), "GB-h", Fraction(usd), False, "a sheet")


@pytest.mark.parametrize("amount", [float("nan"), float("inf")])
def test_no_amount_of_a_bill_is_infinite(amount: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        Fraction(amount)
