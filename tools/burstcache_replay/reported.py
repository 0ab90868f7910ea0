"""A policy for reported requests, which decides when the proxy reports requests, as in the live system.

Other simulated policies decide at the request itself. The proxy batches its reports until a read finds the batch due
(`burstcache.core.batching`). Decisions therefore come at a later read in the trace, up to about 15 s later. The model
has a single proxy environment. With several environments, batches would become due at other reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from burstcache.core.batching import BatchRule
from burstcache.core.worth import Worth
from burstcache_sim.policies.policy import Policy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World


@dataclass(slots=True)
class Reported:
    """A policy that learns of S3's requests from reports. Nodes and cache functions count requests immediately."""

    policy: Policy
    _waiting: list[tuple[Key, int]] = field(default_factory=list)  # unreported requests served by S3: key and time [us]
    _weight: int = 0

    @property
    def window(self) -> int:
        """Number of a key's latest requests that the policy considers."""
        return self.policy.window

    def memory(self) -> Any:
        """Return the policy's initial state for a key."""
        return self.policy.memory()

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Handle a request. A request served by S3 joins the batch, which is reported when due."""
        if tier != "S" or key.node.since_us is not None:
            self.policy.handle_request(world, key, at_us, tier)
            return
        rule: BatchRule = self.policy.parameters.batch
        worth: Worth = self.policy.parameters.worth
        self._waiting.append((key, at_us))
        self._weight += worth.weight_of(key.size_bytes)
        if rule.is_due(age_us=at_us - self._waiting[0][1], weight=self._weight):
            reported, self._waiting, self._weight = self._waiting, [], 0
            for each, then_us in reported:
                self.policy.handle_request(world, each, then_us, "S")

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Check the utilisation of a running node."""
        self.policy.check_node(world, node, at_us)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Schedule the first check of a node that is ready."""
        self.policy.handle_ready(world, node, at_us)
