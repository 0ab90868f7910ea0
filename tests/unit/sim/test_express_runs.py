"""Copies in S3 Express below the tiers of memory: which requests they serve and what they take, in both engines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.express import LEAST_US, ExpressRule, expires_us, express_rule
from burstcache.core.prices import price_sheet
from burstcache_sim.engine.copies import COPIED_BYTES, COPIES, SERVED, SERVED_BYTES, keep_copies
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.express import copy_rules
from burstcache_sim.world.result import NO_EXPRESS, ExpressUse
from support.policy_strategies import HORIZONS, POLICIES, SECOND
from support.runs import run_many, run_shared
from support.searches import search

H = 3600 * SECOND
KB = 1024
NO_MEMORY = Thesis(Thesis.configured(9, 4).parameters, has_relay=False).without_redis(0)
PRICES = price_sheet("today-us-east-1")
AT_NOTHING, AT_A_MICRODOLLAR = (express_rule(PRICES, hit_value_usd=worth_usd) for worth_usd in (0.0, 1e-6))
RULES = st.sampled_from([AT_NOTHING, AT_A_MICRODOLLAR, express_rule(PRICES, hit_value_usd=1e-5)])
GAPS_US = st.sampled_from([0, 1, SECOND, 20 * SECOND, H // 2, H, 20 * H, 400 * H])
SIZES_BYTES = st.sampled_from([1, 4 * KB, 100 * KB, 500 * KB, 3_000 * KB])
REQUESTS = st.lists(st.tuples(GAPS_US, st.integers(0, 3), SIZES_BYTES), max_size=80)


def trace_of(requests: list[tuple[int, int, int]]) -> Trace:
    """Return a trace of (gap [us], key, size [bytes])."""
    columns = np.array(requests, np.int64).reshape(-1, 3)
    return Trace(np.cumsum(columns[:, 0]), columns[:, 1].astype(np.int32), columns[:, 2], tuple("abcd"))


@search(500)
@given(REQUESTS, POLICIES, RULES, st.none() | st.integers(1, 4_000 * KB), HORIZONS)
def test_the_compiled_engines_equal_the_readable_simulator_in_every_field(
    requests: list[tuple[int, int, int]],
    policy: Policy,
    rule: ExpressRule,
    capacity_bytes: int | None,
    until_us: int | None,
) -> None:
    trace = trace_of(requests)
    scenario: dict[str, Any] = {"capacity_bytes": capacity_bytes, "until_us": until_us, "express": rule}

    found = run_shared(trace, policy, **scenario)

    assert found == run_many(trace, policy, **scenario)
    assert found.n_express + found.n_s3 == found.express.asks
    assert [found.n_s3, found.n_express] == [found.tiers.count(tier) for tier in "SX"]
    no_details = run_shared(trace, policy, details=False, **scenario)
    assert no_details == replace(found, tiers="", lambda_spans_us=(), redis_spans_us=())


@search(200)
@given(REQUESTS, POLICIES)
def test_express_takes_requests_from_s3_alone(requests: list[tuple[int, int, int]], policy: Policy) -> None:
    trace = trace_of(requests)

    without, found = run_shared(trace, policy), run_shared(trace, policy, express=AT_NOTHING)

    assert found.tiers.replace("X", "S") == without.tiers
    assert without.express == NO_EXPRESS


def test_a_copy_is_made_at_the_read_that_pays_and_served_until_s3_deletes_it() -> None:
    days = AT_NOTHING.keep_days(4 * KB)
    end_us = expires_us(3 * SECOND, days)
    times_us = [0, SECOND, 2 * SECOND, 3 * SECOND, end_us - 1, end_us]  # the fourth read of 4 KB pays
    trace = Trace(np.array(times_us), None, np.full(len(times_us), 4 * KB), ())

    result = run_many(trace, NO_MEMORY, express=AT_NOTHING)

    held_s = (end_us - 3 * SECOND) // SECOND
    assert result.tiers == "SSSSXS"
    assert result.express == ExpressUse(6, 1, 4 * KB, 4 * KB, 4 * KB * held_s)


def test_a_copy_is_billed_for_an_hour_at_least_also_if_the_run_ends_before() -> None:
    trace = Trace(np.arange(4) * SECOND, None, np.full(4, 4 * KB), ())

    result = run_many(trace, NO_MEMORY, express=AT_NOTHING, until_us=10 * SECOND)

    assert result.express.byte_s == 4 * KB * LEAST_US // SECOND


def test_an_object_that_is_too_large_for_the_prices_is_never_copied() -> None:
    trace = Trace(np.arange(2_000) * SECOND, None, np.full(2_000, 700 * KB), ())

    assert run_many(trace, NO_MEMORY, express=AT_NOTHING).express == ExpressUse(asks=2_000)


@search(100)
@given(st.lists(st.tuples(GAPS_US, st.integers(0, 3)), min_size=1, max_size=80), RULES)
def test_without_memory_it_is_the_rival_that_bills_compare_with(
    requests: list[tuple[int, int]], rule: ExpressRule
) -> None:
    sizes_bytes = np.array([1, 4 * KB, 100 * KB, 500 * KB])
    trace = trace_of([(gap_us, key, int(sizes_bytes[key])) for gap_us, key in requests])
    assert trace.key_ids is not None
    period_us = int(trace.arrivals_us[-1])

    found = run_shared(trace, NO_MEMORY, express=rule)

    rules, asked = copy_rules(rule, sizes_bytes), np.ones((2, len(requests)), np.bool_)
    log = (trace.arrivals_us, trace.key_ids, sizes_bytes)
    stays = np.zeros(len(sizes_bytes), np.bool_)
    books = keep_copies(*log, rules, period_us, LEAST_US, 1, asked, stays, period_us)[0]
    use = found.express
    assert [found.n_express, use.copies, use.read_bytes, use.copied_bytes] == [
        int(books[column]) for column in (SERVED, COPIES, SERVED_BYTES, COPIED_BYTES)
    ]


def test_a_trace_without_sizes_has_no_express() -> None:
    with pytest.raises(InvalidSettingError, match="S3 Express: the trace has no sizes"):
        run_many(Trace(np.array([0])), NO_MEMORY, express=AT_NOTHING)
