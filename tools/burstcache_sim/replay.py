"""The replay of a scenario by the faster simulator; both give the same results."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache_sim.policies.policy import Policy
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate


def replay(policy: Policy, scenario: Scenario, *, has_log: bool = False) -> RunResult:
    """Replay a scenario's requests under a policy, with all details.

    Args:
        policy: What starts and stops cache functions and nodes.
        scenario: What it meets.
        has_log: Whether the result has the log of its only key, which only the readable simulator writes.

    Raises:
        InvalidSettingError: The compiled engine refuses a setting or a time.
    """
    if has_log or len(scenario.trace) < policy.least_compiled or policy.compiled() is None:
        return simulate(policy, scenario, has_log=has_log)
    from burstcache_sim.engine.run import run_compiled

    return run_compiled([policy], scenario)[0]


def replay_each(
    policies: Sequence[Policy], scenario: Scenario, *, details: bool = False, workers: int = 1
) -> list[RunResult]:
    """Replay a scenario's requests under many policies: compiled, wherever a policy is.

    Args:
        policies: In any mixture.
        scenario: What they meet.
        details: Whether the results must have the tier per request and the spans.
        workers: Threads that the compiled engines may use, at least 1.

    Returns:
        A result per policy, in their order.

    Raises:
        InvalidSettingError: The compiled engine refuses a setting or a time.
    """
    from burstcache_sim.engine.run import run_compiled

    fast = [policy for policy in policies if policy.compiled() is not None]
    found = iter(run_compiled(fast, scenario, details=details, workers=workers))
    return [next(found) if policy.compiled() is not None else simulate(policy, scenario) for policy in policies]
