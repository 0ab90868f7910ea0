"""The compiled engine equals the readable simulator, request by request, and keeps its own books."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.engine import compiled
from burstcache_sim.engine.books import MAX_TIME_US
from burstcache_sim.engine.compiled import cache_folder, sources_digest
from burstcache_sim.engine.run import run_compiled
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import Timings
from support.policy_strategies import HORIZONS, POLICIES
from support.runs import run, run_fast
from support.searches import search
from support.trace_strategies import traces_us

SECOND = 1_000_000
THESIS = Thesis.configured(9, 4)


def overridden(**parameters: int) -> Thesis:
    return Thesis(replace(THESIS.parameters, **parameters))


@pytest.mark.slow
@search(1000)
@given(traces_us(most=80), POLICIES, HORIZONS)
def test_the_engine_equals_the_readable_simulator_request_by_request(
    t: list[int], policy: Policy, until_us: int | None
) -> None:
    readable = run(t, policy, until_us=until_us)

    assert run_fast(t, policy, until_us=until_us) == replace(readable, log=())


@search(200)
@given(traces_us(most=80), POLICIES)
def test_other_timings_give_the_readable_simulators_results_too(t: list[int], policy: Policy) -> None:
    timings = Timings(5 * SECOND, 50 * SECOND, 90 * SECOND, 16 * SECOND, 7 * SECOND, 10 * SECOND)

    assert run_fast(t, policy, timings=timings) == replace(run(t, policy, timings=timings), log=())


@search(200)
@given(traces_us(most=80), POLICIES, st.integers(0, 10**15))
def test_shifting_a_trace_in_time_changes_nothing_but_the_end(t: list[int], policy: Policy, shift_us: int) -> None:
    shifted = run_fast([at_us + shift_us for at_us in t], policy)

    plain = run_fast(t, policy)
    assert shifted.tiers == plain.tiers
    assert replace(shifted, end_us=0, lambda_spans_us=(), redis_spans_us=()) == replace(
        plain, end_us=0, lambda_spans_us=(), redis_spans_us=()
    )
    assert shifted.end_us == plain.end_us + shift_us


@search(200)
@given(traces_us(most=80), POLICIES, HORIZONS)
def test_served_counts_add_up_and_no_time_is_negative(t: list[int], policy: Policy, until_us: int | None) -> None:
    result = run_fast(t, policy, until_us=until_us)

    assert result.n_s3 + result.n_lambda + result.n_redis == result.n == len(result.tiers)
    assert all(from_us <= to_us for from_us, to_us in (*result.lambda_spans_us, *result.redis_spans_us))
    assert min(result.n_s3, result.lambda_us_exact, result.redis_us_exact, result.end_us) >= 0


@search(50)
@given(traces_us(most=80), st.lists(POLICIES, max_size=7), HORIZONS, st.integers(1, 3))
def test_many_candidates_give_what_each_gives_alone(
    t: list[int], candidates: list[Policy], until_us: int | None, workers: int
) -> None:
    scenario = Scenario(Trace.of_times(t), until_us=until_us)

    found = run_compiled(candidates, scenario, details=False, workers=workers)

    assert found == [run_fast(t, policy, until_us=until_us, details=False) for policy in candidates]


@pytest.mark.parametrize(
    ("arrivals_us", "message"),
    [([-1, 5], "expected times from 0"), ([0, MAX_TIME_US + 1], "expected times from 0"),
     ([0, 10**30], "exceeds 64 bits"), ([4, 9, 8], "arrival 3 precedes")],
)  # fmt: skip
def test_arrivals_that_the_engine_cannot_take_are_refused(arrivals_us: list[int], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        run_fast(arrivals_us, THESIS)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (overridden(tick_us=10**18), "tick_us 1000000000000000000 added by 2 requests"),
        (overridden(keep_running_us=10**19), "expected values from 0"),
        (overridden(redis_check_us=0), "redis_check_us 0"),
    ],
)
def test_parameters_that_would_overflow_or_never_end_are_refused(policy: Policy, message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        run_fast([0, 1], policy)


def test_a_horizon_below_zero_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="horizon -1 us"):
        run_fast([0], THESIS, until_us=-1)


def test_compiled_code_is_kept_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert cache_folder() == tmp_path / "cache" / "burstcache"
    assert os.access(cache_folder(), os.W_OK)


def test_a_cache_folder_that_cannot_be_made_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert cache_folder() != tmp_path / "file" / "burstcache"
    assert cache_folder().is_dir()


def test_a_change_in_any_compiled_source_makes_the_compiled_code_anew(tmp_path: Path) -> None:
    for name in ("engine/a.py", "engine/b.py", "optimum/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("A = 1\n")
    before = sources_digest(tmp_path)

    for name in ("engine/b.py", "optimum/c.py"):
        (tmp_path / name).write_text("A = 2\n")
        changed, before = sources_digest(tmp_path) != before, sources_digest(tmp_path)
        assert changed


def test_the_digest_covers_every_module_that_compiles() -> None:
    folder = Path(compiled.__file__).parents[1]

    compiling = {path for path in folder.rglob("*.py") if "burstcache_sim.engine.compiled import" in path.read_text()}

    assert {path.parent.relative_to(folder).as_posix() for path in compiling} == {"engine", "optimum"}
