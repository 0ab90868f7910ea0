"""Runs of the readable and the compiled simulator, with short arguments for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.run import run_compiled
from burstcache_sim.policies.policy import Policy
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate

Times = Sequence[int] | NDArray[np.int64]  # [us]


def run(arrivals_us: Times, policy: Policy, **scenario: Any) -> RunResult:
    """Run the readable simulator over one key, with a log."""
    return simulate(policy, Scenario(Trace.of_times(arrivals_us), **scenario), has_log=True)


def run_fast(arrivals_us: Times, policy: Policy, *, details: bool = True, **scenario: Any) -> RunResult:
    """Run the compiled simulator over one key."""
    return run_compiled([policy], Scenario(Trace.of_times(arrivals_us), **scenario), details=details)[0]


def run_many(trace: Trace, policy: Policy, **scenario: Any) -> RunResult:
    """Run the readable simulator over a trace."""
    return simulate(policy, Scenario(trace, **scenario))


def run_shared(trace: Trace, policy: Policy, *, details: bool = True, **scenario: Any) -> RunResult:
    """Run the compiled simulator over a trace, with the engine of shared nodes."""
    return run_compiled([policy], Scenario(trace, **scenario), details=details)[0]
