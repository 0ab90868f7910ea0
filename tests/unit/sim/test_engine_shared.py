"""The compiled engine of keys that share nodes equals the readable simulator, request by request."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import parameters_from_text
from burstcache_sim.engine.run import run_compiled
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.generate import zipf
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from burstcache_sim.world.timings import Timings
from support import policy_strategies
from support.policy_strategies import CONFIGURED, HORIZONS, OVERRIDDEN, POLICIES, SECOND
from support.runs import run_fast, run_many, run_shared
from support.searches import search
from support.trace_strategies import gaps_us, traces_us

THESIS = Thesis.configured(9, 4)
# Looked at each second, leases last longer than there are lists that wait for later checks.
OFTEN_CHECKED = Thesis(
    parameters_from_text(rate="9", sensitivity="4", overrides="redis_utilization_s=200,redis_check_s=1")
)
slow = partial(pytest.param, marks=pytest.mark.slow)
BY_USE = [
    make(kind.worth(worth_usd))
    for kind in (Breakeven, Hazard)
    for make, worth_usd in ((slow, "3e-6"), (pytest.param, "1e-5"), (slow, "1e-4"))
]
KEYS = "abcdefgh"
# Gaps of one key are those of the boundaries; with several keys the same instants meet more often if gaps are short.
GAPS_US = st.one_of(gaps_us(), st.integers(0, 4).map(lambda seconds: seconds * SECOND), st.just(0), st.just(SECOND))
KEY_IDS = st.one_of(st.sampled_from([1, 2]), st.integers(0, len(KEYS) - 1))
REQUESTS = st.lists(st.tuples(GAPS_US, KEY_IDS, st.integers(0, 6)), max_size=100)
CAPACITIES = st.none() | st.integers(1, 20)


def trace_of(requests: list[tuple[int, int, int]]) -> Trace:
    """Return a trace of (gap [us], key, size [bytes])."""
    columns = np.array(requests, np.int64).reshape(-1, 3)
    return Trace(np.cumsum(columns[:, 0]), columns[:, 1].astype(np.int32), columns[:, 2], tuple(KEYS))


@pytest.mark.slow
@search(1000)
@given(REQUESTS, POLICIES, st.integers(1, 3), CAPACITIES, HORIZONS)
def test_the_shared_engine_equals_the_readable_simulator_in_every_field(
    requests: list[tuple[int, int, int]],
    policy: Policy,
    nodes: int,
    capacity_bytes: int | None,
    until_us: int | None,
) -> None:
    trace = trace_of(requests)

    found = run_shared(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)

    assert found == run_many(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)


@pytest.mark.slow
@search(500)
@given(REQUESTS, CONFIGURED | OVERRIDDEN | policy_strategies.BY_USE, st.integers(1, 3), CAPACITIES, HORIZONS, st.data())
def test_nodes_that_are_always_on_give_the_readable_simulators_result(
    requests: list[tuple[int, int, int]],
    policy: Policy,
    nodes: int,
    capacity_bytes: int | None,
    until_us: int | None,
    data: st.DataObject,
) -> None:
    trace, always_on = trace_of(requests), data.draw(st.integers(0, nodes))
    scenario: dict[str, Any] = {"nodes": nodes, "capacity_bytes": capacity_bytes, "until_us": until_us}

    found = run_shared(trace, policy, **scenario, always_on=always_on)

    assert found == run_many(trace, policy, **scenario, always_on=always_on)
    assert len(found.redis_spans_us) >= always_on


@search(300)
@given(REQUESTS, policy_strategies.BY_USE, st.integers(1, 3), CAPACITIES, st.integers(0, 1), st.integers(1, len(KEYS)))
def test_nodes_with_slices_give_the_readable_simulators_result(
    requests: list[tuple[int, int, int]],
    policy: Policy,
    nodes: int,
    capacity_bytes: int | None,
    always_on: int,
    slices: int,
) -> None:
    trace = trace_of(requests)
    scenario: dict[str, Any] = {"nodes": nodes, "capacity_bytes": capacity_bytes, "always_on": always_on}

    found = run_shared(trace, policy, **scenario, slices=slices)

    assert found == run_many(trace, policy, **scenario, slices=slices)


@search(300)
@given(REQUESTS, POLICIES, CAPACITIES, st.builds(Timings, *[st.integers(0, 60).map(lambda s: s * SECOND)] * 6))
def test_other_timings_give_the_readable_simulators_results_too(
    requests: list[tuple[int, int, int]], policy: Policy, capacity_bytes: int | None, timings: Timings
) -> None:
    trace = trace_of(requests)

    found = run_shared(trace, policy, capacity_bytes=capacity_bytes, timings=timings)

    assert found == run_many(trace, policy, capacity_bytes=capacity_bytes, timings=timings)


@search(200)
@given(traces_us(most=80), POLICIES, HORIZONS)
def test_one_key_gives_the_single_keys_result(t: list[int], policy: Policy, until_us: int | None) -> None:
    trace = Trace(np.array(t), np.zeros(len(t), np.int32), None, ("key",))

    found = run_shared(trace, policy, until_us=until_us)

    assert found == run_fast(t, policy, until_us=until_us)


@pytest.mark.parametrize("policy", [THESIS, slow(Thesis.configured(3, 4)), OFTEN_CHECKED, *BY_USE])
@pytest.mark.parametrize(("nodes", "capacity_bytes"), [(1, None), slow(3, None), slow(1, 200_000), (3, 100_000)])
@pytest.mark.parametrize("lasts_s", [1_200, slow(7_200)])
def test_a_zipf_trace_gives_the_readable_simulators_result(
    policy: Policy, nodes: int, capacity_bytes: int | None, lasts_s: int
) -> None:
    trace = zipf_trace(lasts_s)

    found = run_shared(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes)

    assert found == run_many(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes)


@pytest.mark.parametrize(
    ("requests_s", "expected_s"),
    [  # a (time [s], key) each; the cache functions' spans [s], in the order of their ends
        # b's node boots at 6 and is ready at 36; a times out then, and time-outs come first.
        ([*((second, "b") for second in range(7)), (30, "a"), (30.4, "a")], ((31, 36), (1.6, 36))),
        # Both time out at 16, in the order of their numbers, whichever was queued first.
        ([(0, "b"), (0.4, "b"), (1.5, "b"), (2.5, "b"), (10, "a"), (10.4, "a")], ((11, 16), (1, 16))),
        # The same where b's end is put off while a's is queued.
        ([(0, "b"), (0.4, "b"), (5, "a"), (5, "b"), (5.4, "a")], ((6, 11), (1, 11))),
    ],
)
def test_what_ends_at_the_same_instant_ends_in_order(
    requests_s: list[tuple[float, str]], expected_s: tuple[tuple[float, float], ...]
) -> None:
    arrivals_us = np.array([round(at_s * SECOND) for at_s, _ in requests_s])
    trace = Trace(arrivals_us, np.array([KEYS.index(key) for _, key in requests_s], np.int32), None, tuple(KEYS))

    found = run_shared(trace, THESIS)

    assert found.lambda_spans_us == tuple((round(a * SECOND), round(b * SECOND)) for a, b in expected_s)
    assert found == run_many(trace, THESIS)


def test_a_cache_function_that_is_kept_for_a_boot_is_no_longer_extended() -> None:
    policy = Thesis(replace(THESIS.parameters, tick_us=SECOND, keep_running_us=5 * SECOND))
    requests_us = np.arange(0, 8 * SECOND, SECOND)
    trace = Trace(
        requests_us, np.zeros(8, np.int32), None, ("key",)
    )  # the node boots at 6 s, when 7.6 s is the deadline

    found = run_shared(trace, policy)

    assert found.lambda_spans_us == ((1_600_000, 12_600_000),)
    assert found == run_many(trace, policy)


def test_candidates_over_threads_give_what_each_gives_alone_and_no_details_change_no_count() -> None:
    trace = zipf_trace()
    candidates = [THESIS, *(Breakeven.worth(worth) for worth in ("1e-5", "1e-4", "1e-3")), THESIS]

    found = run_compiled(candidates, Scenario(trace, 2), details=False, workers=2)

    assert found == [without_details(run_shared(trace, policy, nodes=2)) for policy in candidates]


def test_a_capacity_beyond_all_objects_is_none() -> None:
    trace = zipf_trace()

    assert run_shared(trace, THESIS, capacity_bytes=10**30) == run_shared(trace, THESIS)


def test_no_candidate_gives_no_result() -> None:
    assert run_compiled([], Scenario(zipf_trace())) == []


@pytest.mark.parametrize(
    ("key_ids", "message"), [([0, 8], "key numbers from 0 to 8: expected numbers from 0"), ([-1, 3], "numbers from -1")]
)
def test_a_key_without_a_name_is_refused(key_ids: list[int], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        run_shared(Trace(np.array([0, 1]), np.array(key_ids, np.int32), None, tuple(KEYS)), THESIS)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"nodes": 0}, "nodes 0: expected at least 1"),
        ({"capacity_bytes": 0}, "capacity 0 bytes: expected at least 1"),
        ({"capacity_bytes": 8}, "the trace has no sizes"),
        ({"until_us": -1}, "horizon -1 us"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        run_shared(Trace(np.array([0, 1])), THESIS, **setting)


def test_no_worker_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="workers 0: expected at least 1"):
        run_compiled([THESIS], Scenario(zipf_trace()), workers=0)


@pytest.mark.slow
@pytest.mark.parametrize(("lasts_s", "handovers"), [(825, 0), (835, 1), (1_660, 1), (1_670, 2)])
def test_both_simulators_count_the_invocations_that_a_long_life_takes(lasts_s: int, handovers: int) -> None:
    policy = Thesis(replace(parameters_from_text(rate="9", sensitivity="4"), redis_threshold=10**6))
    arrivals_us = [0, SECOND]

    while (found := run_fast(arrivals_us, policy)).lambda_us_exact < lasts_s * SECOND:
        arrivals_us.append(arrivals_us[-1] + SECOND)
    readable = simulate(policy, Scenario(Trace(np.array(arrivals_us, np.int64))))

    assert (found.invocations, found.handovers) == (1, handovers)
    assert (readable.invocations, readable.handovers) == (1, handovers)


@cache
def zipf_trace(lasts_s: int = 1_200) -> Trace:
    """Return 300 requests a minute for 300 objects of 1 to 300 KB."""
    arrivals_us, key_ids = zipf(1, 300, lasts_s, 300)
    ids = np.array(key_ids, np.int32)
    return Trace(np.array(arrivals_us, np.int64), ids, 1_000 * (ids.astype(np.int64) + 1), tuple(map(str, range(300))))


def without_details(result: RunResult) -> RunResult:
    return replace(result, tiers="", lambda_spans_us=(), redis_spans_us=())
