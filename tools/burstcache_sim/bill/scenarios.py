"""Scenarios of deployments: a log's requests on the nodes of a setup."""

from __future__ import annotations

from burstcache.core.node_kinds import node_kind
from burstcache_sim.bill.setup import Setup
from burstcache_sim.policies.policy import Policy
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.interruptions import Interruptions
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import node_timings


def scenario_of(trace: Trace, setup: Setup, policy: Policy, *, until_us: int | None = None) -> Scenario:
    """Return the scenario of a log on a setup's nodes, with the boots, stops and interruptions of their kind."""
    timings = node_timings(node_kind(setup.instance_type), setup.node_times)
    return Scenario(
        trace, setup.nodes, until_us=until_us, timings=timings, interruptions=interruptions_of(setup, policy)
    )


def interruptions_of(setup: Setup, policy: Policy) -> Interruptions | None:
    """Return the interruptions of a setup's nodes, or None if AWS does not interrupt them.

    Only policies with read-through entries are simulated with interruptions.
    """
    if node_kind(setup.instance_type) != "fargate-spot" or not policy.takes_guests:
        return None
    return Interruptions(setup.interruptions_per_h, setup.interruption_seed)
