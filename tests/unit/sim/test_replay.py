"""Whichever simulator replays a trace, the result is the same."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np
import pytest

from burstcache_sim import replay
from burstcache_sim.engine import run as engine
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.generate import poisson
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario

ONE_KEY = Trace(np.array(poisson(1, 9, 3600), np.int64))
MANY_KEYS = changed(
    ONE_KEY,
    key_ids=np.arange(len(ONE_KEY), dtype=np.int32) % 7,
    sizes_bytes=np.arange(len(ONE_KEY), dtype=np.int64) % 7 + 1,
    keys=tuple("abcdefg"),
)
THESIS = Thesis.configured(9, 4)


@pytest.mark.parametrize("policy", [THESIS, Breakeven.worth("1e-4"), Hazard.worth("1e-4")])
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(ONE_KEY),
        Scenario(ONE_KEY, until_us=10**9),
        Scenario(MANY_KEYS),
        Scenario(MANY_KEYS, nodes=2, capacity_bytes=9, until_us=10**9),
    ],
    ids=["one key", "one key, horizon", "many keys", "many keys, capacity, horizon"],
)
def test_a_long_trace_gives_what_the_readable_simulator_gives(
    monkeypatch: pytest.MonkeyPatch, policy: Policy, scenario: Scenario
) -> None:
    readable = replay.replay(policy, scenario)

    monkeypatch.setattr(type(policy), "least_compiled", 1)
    assert replay.replay(policy, scenario) == readable


def test_a_log_that_is_wanted_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thesis, "least_compiled", 1)

    assert replay.replay(THESIS, Scenario(ONE_KEY), has_log=True).log
    assert not replay.replay(THESIS, Scenario(ONE_KEY)).log


@pytest.mark.parametrize("trace", [ONE_KEY, MANY_KEYS], ids=["one key", "many keys"])
def test_a_short_trace_loads_no_compiled_code(monkeypatch: pytest.MonkeyPatch, trace: Trace) -> None:
    monkeypatch.setattr(engine, "run_compiled", None)  # a call would fail

    assert replay.replay(THESIS, Scenario(trace)).n == len(trace)


def test_a_policy_without_a_compiled_engine_runs_in_the_readable_simulator() -> None:
    class Readable(Thesis):
        def compiled(self) -> None:  # type: ignore[override]
            return None

    policies = [THESIS, Readable(THESIS.parameters), Breakeven.worth("1e-4")]

    found = replay.replay_each(policies, Scenario(MANY_KEYS, nodes=2), details=True)

    assert found[0] == found[1]
    assert found[2] == replay.replay(policies[2], Scenario(MANY_KEYS, nodes=2))
