"""A policy whose decisions wait for the proxy's reports, as those of the live system do.

The simulator decides at the request itself. The proxy gathers what it reports until a read finds it due
(`burstcache.core.gathering`), so what a request decides begins up to some fifteen seconds later, at a read that the
trace has as well. One environment of the proxy is taken for all: what several gather is due at other reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from burstcache.core.gathering import GatherRule
from burstcache.core.worth import Worth
from burstcache_sim.policies.policy import Policy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World


@dataclass(slots=True)
class Reported:
    """A policy that learns of requests from reports, except where a node or a cache function sees them itself."""

    policy: Policy
    _waiting: list[tuple[Key, int]] = field(default_factory=list)  # requests that S3 served, and when [us]
    _weight: int = 0

    @property
    def window(self) -> int:
        """Requests of a key that the policy looks back on."""
        return self.policy.window

    def memory(self) -> Any:
        """Return what the policy remembers of a key."""
        return self.policy.memory()

    def request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Handle a request; one that S3 serves is reported with those before it, if they are due."""
        if tier != "S" or key.node.since_us is not None:
            self.policy.request(world, key, at_us, tier)
            return
        rule: GatherRule = self.policy.parameters.gather
        worth: Worth = self.policy.parameters.worth
        self._waiting.append((key, at_us))
        self._weight += worth.weight_of(key.size_bytes)
        if rule.is_due(age_us=at_us - self._waiting[0][1], weight=self._weight):
            reported, self._waiting, self._weight = self._waiting, [], 0
            for each, then_us in reported:
                self.policy.request(world, each, then_us, "S")

    def look(self, world: World, node: Node, at_us: int) -> None:
        """Judge a running node."""
        self.policy.look(world, node, at_us)

    def ready(self, world: World, node: Node, at_us: int) -> None:
        """Set the first look at a node."""
        self.policy.ready(world, node, at_us)
