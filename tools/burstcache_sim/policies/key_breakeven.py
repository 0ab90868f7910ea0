"""The break-even policy: `core.breakeven`'s decisions on simulated time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from burstcache.core.breakeven import (
    BreakevenParameters,
    boots,
    breakeven,
    invokes,
    redis_stop_us,
)
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.policy import THESIS_PRICES, WorthPolicy, weighed_by_keys
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World


@dataclass(slots=True)
class _Memory:
    is_bridging: bool = False  # the cache function bridges a boot: requests extend it no more


class KeyBreakevenRow(NamedTuple):
    """The setting as integers, for the compiled engine."""

    keep_running_us: int
    boot_requests: int
    boot_within_us: int
    uses_lambda: int
    invoke_requests: int
    gap_us: int
    idle_us: int
    least_us: int


@dataclass(frozen=True)
class KeyBreakeven(WorthPolicy):
    """A running node serves whatever would start something; it stops when none of its keys is requested.

    Source:
        `docs/understand/simulation.md`, "The break-even policy".
    """

    parameters: BreakevenParameters

    name: ClassVar[str] = "breakeven-per-key"
    title: ClassVar[str] = "break-even per key"

    @property
    def window(self) -> int:
        """Enough requests for either start."""
        return max(2, self.parameters.boot_requests)

    def memory(self) -> _Memory:
        """Return the memory of a key without a cache function."""
        return _Memory()

    def request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Extend what serves, or start what pays."""
        node = key.node
        if tier == "L" and not key.memory.is_bridging:
            world.set_deadline(key, at_us + self.parameters.lambda_gap_us)
        if tier == "R":
            self._set_stop(world, node, at_us)
        elif node.since_us is not None:
            if self._invokes(key) or boots(key.window, self.parameters):
                world.join(key, at_us)
                self._set_stop(world, node, at_us)
        elif not key.is_leased:
            if self._invokes(key):
                self._start(world, key, at_us, self.parameters.lambda_gap_us)
            if node.stopped_us is None and boots(key.window, self.parameters):
                world.join(key, at_us)
                self._bridge(world, key, at_us)

    def look(self, world: World, node: Node, at_us: int) -> None:
        """Stop the node: the look is set to the instant at which it has idled long enough."""
        world.stop_node(node, at_us)

    def ready(self, world: World, node: Node, at_us: int) -> None:
        """Let the node run at least as long as it is billed."""
        self._set_stop(world, node, max(key.window[-1] for key in node.leases.values()))

    def _invokes(self, key: Key) -> bool:
        return not key.has_lambda and invokes(key.window, self.parameters)

    def _set_stop(self, world: World, node: Node, last_us: int) -> None:
        assert node.since_us is not None, "only a running node stops"
        world.set_look(node, redis_stop_us(since_us=node.since_us, last_us=last_us, parameters=self.parameters))

    def _start(self, world: World, key: Key, at_us: int, life_us: int) -> None:
        world.set_deadline(key, world.start_lambda(key, at_us) + life_us)
        key.memory.is_bridging = False

    def _bridge(self, world: World, key: Key, at_us: int) -> None:
        if not self.parameters.uses_lambda:
            return
        if key.lambda_deadline_us is None:
            self._start(world, key, at_us, self.parameters.keep_running_us)
        else:
            world.set_deadline(key, key.lambda_deadline_us + self.parameters.keep_running_us)
        key.memory.is_bridging = True

    def without_redis(self, requests: int) -> Self:
        """Return the policy with a threshold that no trace of that many requests reaches, and with cache functions."""
        return replace(self, parameters=replace(self.parameters, boot_requests=requests + 1, uses_lambda=True))

    def compiled(self) -> KeyBreakevenRow | None:
        """Return the parameters in the order of their places."""
        p = self.parameters
        return KeyBreakevenRow(
            p.keep_running_us,
            p.boot_requests,
            p.boot_within_us,
            int(p.uses_lambda),
            p.invoke_requests,
            p.lambda_gap_us,
            p.redis_idle_us,
            p.redis_least_us,
        )

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Return the policy whose parameters follow from what a hit is worth; raises `InvalidSettingError`."""
        return cls(breakeven(Fraction(hit_value_usd), weighed_by_keys(prices)))
