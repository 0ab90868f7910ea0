"""Whichever simulator replays a trace, the result is the same."""

from __future__ import annotations

from dataclasses import replace as changed
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from burstcache.core.breakeven import breakeven
from burstcache.core.parameters import configure
from burstcache_sim import replay
from burstcache_sim.engine import independent as engine
from burstcache_sim.engine import shared as engine_shared
from burstcache_sim.traces.generate import poisson
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.run import PolicyParameters

ONE_KEY = Trace(np.array(poisson(1, 9, 3600), np.int64))
MANY_KEYS = changed(
    ONE_KEY,
    key_ids=np.arange(len(ONE_KEY), dtype=np.int32) % 7,
    sizes_bytes=np.arange(len(ONE_KEY), dtype=np.int64) % 7 + 1,
    keys=tuple("abcdefg"),
)
THESIS = configure(Fraction(9), Fraction(4))


@pytest.mark.parametrize("policy", [THESIS, breakeven(Fraction("1e-4"))])
@pytest.mark.parametrize(
    ("trace", "setting"),
    [
        (ONE_KEY, {}),
        (ONE_KEY, {"until_us": 10**9}),
        (MANY_KEYS, {}),
        (MANY_KEYS, {"nodes": 2, "capacity_bytes": 9, "until_us": 10**9}),
    ],
)
def test_a_long_trace_gives_what_the_readable_simulator_gives(
    monkeypatch: pytest.MonkeyPatch, policy: PolicyParameters, trace: Trace, setting: dict[str, Any]
) -> None:
    readable = replay.replay(trace, policy, **setting)

    monkeypatch.setattr(replay, "LEAST_COMPILED", 1)
    assert replay.replay(trace, policy, **setting) == changed(readable, log=())


def test_a_log_that_is_wanted_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LEAST_COMPILED", 1)

    assert replay.replay(ONE_KEY, THESIS, has_log=True).log
    assert not replay.replay(ONE_KEY, THESIS).log


@pytest.mark.parametrize(
    ("trace", "module", "name"), [(ONE_KEY, engine, "run_fast"), (MANY_KEYS, engine_shared, "run_shared")]
)
def test_a_short_trace_loads_no_compiled_code(
    monkeypatch: pytest.MonkeyPatch, trace: Trace, module: object, name: str
) -> None:
    monkeypatch.setattr(module, name, None)  # a call would fail

    assert replay.replay(trace, THESIS).n == len(trace)
