"""The exact optimum against its rules written plainly, against the policies, and at the edges of its arithmetic."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.optimum.exact import MAX_SPAN_US, Variant, least_cost, solve
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.units import run_cost_units
from support.runs import run
from support.searches import search
from support.trace_strategies import traces_us

LAMBDA, REDIS, INVOCATION, S3_GET, SECOND = 6_012, 1_340, 72_000_000, 154_800_000, 1_000_000
Costs = tuple[int, int]  # objective, misses
LAMBDA_RUN = 72_000_000 + 6_012 * 5_000_000
PENALTIES = st.one_of(st.none(), st.integers(0, 40 * 10**9), st.sampled_from([0, 10**8, 3_600_000_000, 10**18]))
# Their Lambda runs last at least 5 s, or there are none.
POLICIES: list[Policy] = [
    Thesis.configured(9, 4),
    Thesis.configured(3, 2),
    *(replace(kind.worth(value), has_relay=False) for kind in (Breakeven, Hazard) for value in ("1e-4", "1e-3")),
]


def readable_optimum(
    t: Sequence[int], *, penalty: int | None = None, least_lambda_s: int = 5, is_bridged: bool = False
) -> Costs:
    """Return the least objective and its fewest misses. `t` is sorted [us]."""
    # Best costs so far, by number of requests served and by end of the last Redis run (None: no run yet).
    best: list[dict[int | None, Costs]] = [{} for _ in range(len(t) + 1)]
    best[0][None] = (0, 0)
    for i in range(len(t)):
        for ended, (cost, misses) in best[i].items():
            if penalty is not None:
                _offer(best[i + 1], ended, (cost + S3_GET + penalty, misses + 1))
            may_boot = ended is None or t[i] - ended >= (30 if is_bridged else 60) * SECOND
            for j in range(i, len(t)):
                length = t[j] - t[i]
                lambda_run = INVOCATION + LAMBDA * max(least_lambda_s * SECOND, length)
                _offer(best[j + 1], ended, (cost + lambda_run, misses))
                if may_boot:
                    _offer(best[j + 1], t[j], (cost + _redis_run(length, is_bridged), misses))
    return min(best[len(t)].values())


def _redis_run(length: int, is_bridged: bool) -> int:
    if not is_bridged:
        return S3_GET + REDIS * max(60 * SECOND, length)
    return INVOCATION + LAMBDA * 30 * SECOND + S3_GET + REDIS * max(60 * SECOND, length - 30 * SECOND)


def _offer(there: dict[int | None, Costs], ended: int | None, costs: Costs) -> None:
    there[ended] = min(there.get(ended, costs), costs)


@search(300)
@given(traces_us(most=30), PENALTIES, st.sampled_from(Variant))
def test_optimum_equals_its_rules_written_plainly(t: list[int], penalty: int | None, variant: Variant) -> None:
    least_us, is_bridged = variant.value

    found = least_cost(t, penalty, variant=variant)

    assert found == readable_optimum(t, penalty=penalty, least_lambda_s=least_us // 10**6, is_bridged=is_bridged)


@search(200)
@given(traces_us(most=60), st.sampled_from(POLICIES), st.integers(0, 10**11))
def test_no_policy_costs_less_than_the_optimum_with_the_same_price_per_miss(
    t: list[int], policy: Policy, penalty: int
) -> None:
    result = run(t, policy)

    assert least_cost(t, penalty)[0] <= run_cost_units(result) + penalty * result.n_s3


@search(100)
@given(traces_us(most=60), PENALTIES, st.integers(0, 10**18))
def test_shifting_a_trace_in_time_changes_no_optimum(t: list[int], penalty: int | None, shift_us: int) -> None:
    shifted = [at_us + shift_us for at_us in t]

    assert solve(shifted, penalty) == solve(t, penalty)


@search(100)
@given(traces_us(most=60), st.integers(0, 10**11))
def test_freedom_never_costs_more(t: list[int], penalty: int) -> None:
    result = solve(t, penalty)

    assert result.objective_units is not None
    assert result.objective_units <= result.cost_units <= result.cost_units_bridged
    assert result.cost_units_dmin_1s <= result.cost_units


def test_a_short_stretch_of_requests_does_not_pay_for_two_runs_of_redis() -> None:
    assert solve([0, 1_000_000, 5_000_000]).cost_units == LAMBDA_RUN


def test_an_empty_trace_costs_nothing() -> None:
    assert solve([], 5).objective_units == solve([]).cost_units == 0


def test_a_trace_of_the_longest_span_is_exact() -> None:
    assert solve([0, MAX_SPAN_US], 10**30).objective_units == 2 * LAMBDA_RUN


@pytest.mark.parametrize(
    ("arrivals_us", "message"),
    [([0, MAX_SPAN_US + 1], "over at most"), ([0, 10**30], "over at most"), ([5, 3, 9], "arrival 2 precedes")],
)
def test_a_trace_whose_sums_could_be_wrong_is_refused(arrivals_us: list[int], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        solve(arrivals_us)


def test_a_penalty_below_zero_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="penalty of -1 units"):
        solve([0], -1)


@pytest.mark.slow
def test_importing_the_optimum_and_the_engine_loads_neither_numpy_nor_numba() -> None:
    modules = "burstcache_sim.engine.run, burstcache_sim.optimum.exact, sys"
    code = f"import {modules}; print({{'numba', 'numpy'}} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
