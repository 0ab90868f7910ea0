"""Contract of all policies towards the simulator. Every registered policy is tested."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.policy import THESIS_PRICES, Options, Policy
from burstcache_sim.policies.registry import POLICIES
from burstcache_sim.traces.generate import poisson
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import run_cost_units
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from research.policies.key_breakeven import KeyBreakeven
from research.policies.registry import PER_KEY
from support.runs import run, run_fast, run_shared
from support.searches import search
from support.trace_strategies import gaps_us, traces_us

WORTHS_USD = ("1e-6", "1e-5", "1e-4", "3e-4", "1e-3", "1e-2")
RATES = ("0.5", "3", "9")
HORIZONS_US = st.none() | st.integers(0, 1_000 * US_PER_S)
HOUR = Trace.of_times(poisson(1, 4, 3600))

CLASSES: dict[str, type[Policy]] = {**POLICIES, **PER_KEY}
each_policy = pytest.mark.parametrize("name", CLASSES)
contract = search(60)

REQUESTS = st.lists(st.tuples(gaps_us(), st.integers(0, 3)), min_size=1, max_size=60)


def policy_of(name: str, options: Options) -> Policy:
    return CLASSES[name].from_options(options, THESIS_PRICES)


OPTIONS = st.builds(
    lambda rate, sensitivity, worth_usd: Options(rate, sensitivity, hit_value_usd=worth_usd),
    st.sampled_from(RATES),
    st.sampled_from(["2", "4", "5"]),
    st.sampled_from(WORTHS_USD).map(Fraction),
)


def trace_of(requests: list[tuple[int, int]]) -> Trace:
    """Return a trace of (gap [us], key): key 0 has an object of 2 bytes, key 3 one of 5."""
    columns = np.array(requests, np.int64)
    return Trace(np.cumsum(columns[:, 0]), columns[:, 1].astype(np.int32), columns[:, 1] + 2, tuple("abcd"))


def moved(result: RunResult, by_us: int) -> RunResult:
    """Return a run as it would be that much later."""

    def spans(spans_us: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        return tuple((from_us + by_us, to_us + by_us) for from_us, to_us in spans_us)

    return replace(
        result,
        end_us=result.end_us + by_us,
        log=tuple((at_us + by_us, state, what) for at_us, state, what in result.log),
        lambda_spans_us=spans(result.lambda_spans_us),
        redis_spans_us=spans(result.redis_spans_us),
    )


@each_policy
@contract
@given(traces_us(most=60), OPTIONS, HORIZONS_US)
def test_every_request_is_answered_once_and_the_books_balance(
    name: str, t: list[int], options: Options, until_us: int | None
) -> None:
    result = run(t, policy_of(name, options), until_us=until_us)

    assert result.n == len(result.tiers) == sum(until_us is None or at_us <= until_us for at_us in t)
    assert [result.n_s3, result.n_lambda, result.n_redis] == [result.tiers.count(tier) for tier in "SLR"]
    into_redis = result.guests.loads if CLASSES[name].takes_guests else result.redis_starts
    assert result.s3_requests == result.n_s3 + result.cold_starts + into_redis
    assert result.cold_starts <= result.invocations
    assert len(result.redis_spans_us) <= result.redis_starts
    assert 60 * len(result.redis_spans_us) <= result.redis_s
    assert result.lambda_ms * 1_000 >= result.lambda_us_exact == sum(to - since for since, to in result.lambda_spans_us)
    assert result.redis_s * US_PER_S >= result.redis_us_exact == sum(to - since for since, to in result.redis_spans_us)
    for since_us, to_us in (*result.lambda_spans_us, *result.redis_spans_us):
        assert since_us <= to_us <= result.end_us


@each_policy
@contract
@given(traces_us(most=60), OPTIONS)
def test_every_tier_is_that_of_the_spans(name: str, t: list[int], options: Options) -> None:
    result = run(t, policy_of(name, options))

    def is_within(at_us: int, spans_us: tuple[tuple[int, int], ...]) -> bool:
        return any(since_us <= at_us < to_us for since_us, to_us in spans_us)

    fills = 0
    for at_us, tier in zip(t, result.tiers, strict=True):
        if is_within(at_us, result.redis_spans_us):
            fills += tier == "S"  # what the boot did not load, S3 serves once
            assert tier in "RS"
        else:
            assert tier == ("L" if is_within(at_us, result.lambda_spans_us) else "S")
    assert fills == result.guests.fills


@each_policy
@contract
@given(traces_us(most=60), OPTIONS, HORIZONS_US)
def test_the_compiled_engine_gives_what_the_readable_simulator_gives_for_one_key(
    name: str, t: list[int], options: Options, until_us: int | None
) -> None:
    policy = policy_of(name, options)
    if policy.compiled() is None:
        return

    assert run_fast(t, policy, until_us=until_us) == replace(run(t, policy, until_us=until_us), log=())


@pytest.mark.parametrize("name", [name for name in CLASSES if name != KeyBreakeven.name])  # its engine takes one key
@contract
@given(REQUESTS, OPTIONS, st.integers(1, 3), st.none() | st.integers(1, 12), HORIZONS_US)
def test_the_compiled_engine_gives_what_the_readable_simulator_gives_for_keys_that_share_nodes(
    name: str,
    requests: list[tuple[int, int]],
    options: Options,
    nodes: int,
    capacity_bytes: int | None,
    until_us: int | None,
) -> None:
    policy, trace = policy_of(name, options), trace_of(requests)
    if policy.compiled() is None:
        return

    found = run_shared(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)

    assert found == simulate(policy, Scenario(trace, nodes, capacity_bytes, until_us))


@each_policy
@contract
@given(REQUESTS, OPTIONS, st.none() | st.integers(1, 12))
def test_the_same_run_gives_the_same_result(
    name: str, requests: list[tuple[int, int]], options: Options, capacity_bytes: int | None
) -> None:
    scenario = Scenario(trace_of(requests), capacity_bytes=capacity_bytes)

    assert simulate(policy_of(name, options), scenario) == simulate(policy_of(name, options), scenario)


@each_policy
@contract
@given(traces_us(most=60), OPTIONS, st.integers(0, 10**12))
def test_shifting_a_trace_in_time_shifts_the_run(name: str, t: list[int], options: Options, shift_us: int) -> None:
    policy = policy_of(name, options)

    assert run([at_us + shift_us for at_us in t], policy) == moved(run(t, policy), shift_us)


@each_policy
@contract
@given(traces_us(most=60), OPTIONS)
def test_a_horizon_after_the_end_changes_nothing_but_the_end(name: str, t: list[int], options: Options) -> None:
    natural = run(t, policy_of(name, options))

    bounded = run(t, policy_of(name, options), until_us=natural.end_us + 1)

    assert bounded == replace(natural, end_us=natural.end_us + 1)


@each_policy
@contract
@given(traces_us(most=60), OPTIONS, st.lists(st.integers(0, 1_000 * US_PER_S), min_size=2, max_size=2).map(sorted))
def test_a_later_horizon_changes_no_tier_and_never_lowers_the_bill(
    name: str, t: list[int], options: Options, horizons_us: list[int]
) -> None:
    policy = policy_of(name, options)

    early, late = (run(t, policy, until_us=until_us) for until_us in horizons_us)

    assert late.tiers.startswith(early.tiers)
    assert run_cost_units(late) >= run_cost_units(early)


@each_policy
@contract
@given(REQUESTS, OPTIONS)
def test_without_redis_no_node_boots(name: str, requests: list[tuple[int, int]], options: Options) -> None:
    policy = policy_of(name, options).without_redis(len(requests))

    assert simulate(policy, Scenario(trace_of(requests))).redis_starts == 0


@each_policy
def test_the_knob_goes_from_little_memory_to_much(name: str) -> None:
    said, policies = CLASSES[name].knob(Options(rate="4"), THESIS_PRICES)

    results = [simulate(policy, Scenario(HOUR)) for policy in policies]

    assert said
    assert results[0].in_memory_pct < 50 < 90 < results[-1].in_memory_pct
    assert run_cost_units(results[0]) < run_cost_units(results[-1])


@each_policy
def test_a_policy_names_itself_and_its_options(name: str) -> None:
    options = Options(rate="3", sensitivity="2", hit_value_usd=Fraction("1e-4"))
    other = Options(rate="4", sensitivity="2", hit_value_usd=Fraction("1e-3"))

    assert policy_of(name, options).name == name
    assert CLASSES[name].describe(options) != CLASSES[name].describe(other)
    assert policy_of(name, options) == policy_of(name, options) != policy_of(name, other)
