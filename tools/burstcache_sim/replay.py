"""Replay of a scenario by the faster of two simulators, which produce the same results."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache_sim.policies.policy import Policy
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate


def replay(policy: Policy, scenario: Scenario, *, has_log: bool = False) -> RunResult:
    """Replay a scenario's requests under a policy, with all details.

    Args:
        policy: The policy that starts and stops cache functions and nodes.
        scenario: Requests and nodes.
        has_log: Whether the result must include the log of the scenario's only key. Only the readable simulator writes
            a log.

    Raises:
        InvalidSettingError: The compiled engine rejects a setting or a time.
    """
    if has_log or len(scenario.trace) < policy.least_compiled or policy.compiled() is None:
        return simulate(policy, scenario, has_log=has_log)
    from burstcache_sim.engine.run import run_compiled

    return run_compiled([policy], scenario)[0]


def replay_each(
    policies: Sequence[Policy], scenario: Scenario, *, details: bool = False, workers: int = 1
) -> list[RunResult]:
    """Replay a scenario's requests under many policies, in the compiled engine if it supports the policy.

    Args:
        policies: Policies of any kind.
        scenario: Requests and nodes.
        details: Whether the results must include the tier of each request and the spans.
        workers: Number of threads for the compiled engines, at least 1.

    Returns:
        One result per policy, in the same order.

    Raises:
        InvalidSettingError: The compiled engine rejects a setting or a time.
    """
    from burstcache_sim.engine.run import run_compiled

    fast = [policy for policy in policies if policy.compiled() is not None]
    results = iter(run_compiled(fast, scenario, details=details, workers=workers))
    return [next(results) if policy.compiled() is not None else simulate(policy, scenario) for policy in policies]
