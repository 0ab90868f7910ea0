"""Many keys on shared nodes, by the rules of `docs/understand/simulation.md`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.node_use import Breakeven
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from support.runs import run_fast, run_many
from support.searches import search

S = US_PER_S
THESIS = Thesis.configured(9, 4)  # TICK 5 s, lambdaThreshold 10 s, redisUtilization 60 s
POLICIES = [THESIS, Thesis.configured(3, 2), *map(Breakeven.worth, ("1e-5", "1e-4", "1e-3"))]

gaps_us = st.one_of(st.sampled_from([0, 1, 20_000, 4 * S, 5 * S, 30 * S, 60 * S, 600 * S]), st.integers(0, 90 * S))
BURST = [(second, "a") for second in range(7)]  # under the thesis policy its node boots at 6 and is ready at 36


def trace_of(*requests: tuple[float, str], sizes_bytes: dict[str, int] | None = None) -> Trace:
    """Return a trace of (time [s], key)."""
    ordered = sorted(requests, key=lambda request: request[0])
    names = tuple(sorted({key for _, key in requests}))
    sizes = None if sizes_bytes is None else np.array([sizes_bytes[key] for _, key in ordered], np.int64)
    return Trace(
        arrivals_us=np.array([round(time_s * S) for time_s, _ in ordered], np.int64),
        key_ids=np.array([names.index(key) for _, key in ordered], np.int32),
        sizes_bytes=sizes,
        keys=names,
    )


def tiers_of(trace: Trace, tiers: str, key: str) -> str:
    assert trace.key_ids is not None
    return "".join(tier for tier, id_ in zip(tiers, trace.key_ids, strict=True) if trace.keys[id_] == key)


@search(300)
@given(
    st.lists(gaps_us, max_size=60), st.sampled_from(POLICIES), st.integers(1, 3), st.none() | st.integers(0, 900 * S)
)
def test_one_key_gives_what_the_engine_of_one_key_gives_whatever_the_nodes(
    gaps: list[int], policy: Policy, nodes: int, until_us: int | None
) -> None:
    times_us = np.cumsum(np.array(gaps, np.int64))
    trace = Trace(times_us, np.zeros(len(gaps), np.int32), None, ("key",))

    result = run_many(trace, policy, nodes=nodes, until_us=until_us)

    assert result == run_fast(times_us, policy, until_us=until_us)


@search(200)
@given(
    st.lists(st.tuples(gaps_us, st.integers(0, 4)), min_size=1, max_size=80),
    st.sampled_from(POLICIES),
    st.integers(1, 3),
    st.none() | st.integers(5, 20),
    st.none() | st.integers(0, 900 * S),
)
def test_counts_add_up(
    requests: list[tuple[int, int]],
    policy: Policy,
    nodes: int,
    capacity: int | None,
    until_us: int | None,
) -> None:
    gaps, ids = zip(*requests, strict=True)
    key_ids = np.array(ids, np.int32)
    trace = Trace(np.cumsum(np.array(gaps, np.int64)), key_ids, 4 + 2 * key_ids.astype(np.int64), tuple("abcde"))

    result = run_many(trace, policy, nodes=nodes, capacity_bytes=capacity, until_us=until_us)

    counted = Counter(result.tiers)
    assert (result.n_s3, result.n_lambda, result.n_redis) == (counted["S"], counted["L"], counted["R"])
    assert result.n == sum(until_us is None or at_us <= until_us for at_us in trace.arrivals_us)
    into_redis = result.guests.loads if policy.takes_guests else result.redis_starts
    assert result.s3_requests >= result.n_s3 + result.cold_starts + into_redis
    assert len(result.redis_spans_us) <= result.redis_starts
    assert all(start_us <= end_us <= result.end_us for start_us, end_us in result.redis_spans_us)


def test_a_hot_key_goes_straight_to_a_running_node() -> None:
    trace = trace_of(*BURST, (40, "b"), (41, "b"), (41, "b"), (42, "b"))

    result = run_many(trace, THESIS)

    assert tiers_of(trace, result.tiers, "b") == "SSRR"
    assert (result.invocations, result.redis_starts) == (1, 1)
    assert result.s3_requests == result.n_s3 + 1 + 2  # a cold start, two objects put into Redis


def test_a_key_that_is_promoted_during_a_boot_joins_it() -> None:
    other = [(10 + second, "b") for second in range(7)]
    trace = trace_of(*BURST, *other, (36, "b"), (36, "a"))

    result = run_many(trace, THESIS)

    assert result.tiers.endswith("RR")
    assert (result.redis_starts, len(result.redis_spans_us)) == (1, 1)
    assert {end_us for _, end_us in result.lambda_spans_us} == {36 * S}


def test_a_node_stops_when_its_last_key_is_released() -> None:
    busy = [(30 + 10 * step, "b") for step in range(20)]  # until 220
    trace = trace_of(*BURST, *[(10 + second, "b") for second in range(7)], *busy, (97, "a"), (98, "a"), (98.5, "a"))

    result = run_many(trace, THESIS)

    # The check at 96 releases a; 98 makes it hot again, and it goes straight back.
    assert tiers_of(trace, result.tiers, "a").endswith("SSR")
    assert len(result.redis_spans_us) == 1
    assert (
        result.redis_spans_us[0][1] == (36 + 60 * 4) * S
    )  # b's last five: 180 to 220; 276 is the first check past 240
    assert result.checks == 4


def test_keys_of_different_nodes_boot_both() -> None:
    trace = trace_of(*BURST, *[(second, "b") for second in range(7)])  # of two nodes a has the second, b the first

    shared, apart = run_many(trace, THESIS, nodes=1), run_many(trace, THESIS, nodes=2)

    assert shared.redis_starts == 1
    assert apart.redis_starts == 2


def test_the_least_recently_used_object_leaves_a_full_node() -> None:
    others = [(time_s, key) for time_s in (40, 41) for key in "bc"]
    reads = [(42, "a"), (43, "b"), (44, "c")]
    trace = trace_of(*BURST, *others, *reads, sizes_bytes={"a": 4, "b": 4, "c": 4})

    result = run_many(trace, THESIS, capacity_bytes=8)

    assert result.tiers[-3:] == "SRR"


def test_a_key_whose_object_has_left_returns_to_s3_at_the_second_check() -> None:
    others = [(time_s, key) for time_s in (40, 41) for key in "bc"]
    busy = [(45 + 5 * step, key) for step in range(40) for key in "bc"]
    asks = [(time_s, "a") for time_s in (42, 43, 154, 155, 156.5, 157, 158)]  # checks at 96 and 156
    trace = trace_of(*BURST, *others, *busy, *asks, sizes_bytes={"a": 4, "b": 4, "c": 4})

    result = run_many(trace, THESIS, capacity_bytes=8)

    assert tiers_of(trace, result.tiers, "a")[-5:] == "SSSRR"


def test_an_object_larger_than_a_node_starts_nothing() -> None:
    trace = trace_of(*BURST, sizes_bytes={"a": 9})

    result = run_many(trace, THESIS, capacity_bytes=8)

    assert (result.tiers, result.invocations) == ("S" * 7, 0)


def test_no_node_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="nodes 0: expected at least 1"):
        run_many(trace_of(*BURST), THESIS, nodes=0)


def test_no_capacity_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="capacity 0 bytes: expected at least 1"):
        run_many(trace_of(*BURST, sizes_bytes={"a": 4}), THESIS, capacity_bytes=0)


def test_a_capacity_without_sizes_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="the trace has no sizes"):
        run_many(trace_of(*BURST), THESIS, capacity_bytes=8)


def test_a_start_is_warm_only_after_the_keys_own_cache_function() -> None:
    result = run_many(trace_of((0, "a"), (1, "a"), (100, "b"), (101, "b"), (200, "a"), (201, "a")), THESIS)

    assert (result.invocations, result.cold_starts) == (3, 2)


def test_a_key_that_is_not_promoted_stays_with_its_cache_function_when_the_node_is_ready() -> None:
    trace = trace_of(*BURST, (34, "b"), (35, "b"), *[(time_s, "b") for time_s in (36.5, 37, 38, 39, 40, 41)])

    result = run_many(trace, THESIS)

    assert tiers_of(trace, result.tiers, "b") == "SSLLLLLR"  # promoted at 40, and served by Redis from then on


def test_nothing_joins_a_node_that_stops() -> None:
    during = [(97 + second, "b") for second in range(9)]  # the node stops from 96 to 126
    trace = trace_of(*BURST, *during, (127, "b"))

    result = run_many(trace, THESIS)

    assert tiers_of(trace, result.tiers, "b") == "SS" + "L" * 8
    assert (result.redis_starts, result.redis_spans_us[1][0]) == (2, 157 * S)
