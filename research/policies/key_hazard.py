"""Hazard per key: each key takes a lease on its node, and each key and node learns a belief about its own requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from burstcache.core.hazard import (
    RATES_PER_S,
    Belief,
    ExpectedBenefit,
    HazardParameters,
    first_belief,
    hazard,
    learn,
    pays,
    pays_until_us,
)
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.policy import THESIS_PRICES, WorthPolicy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World
from research.policies.key_breakeven import prices_without_control

_NEVER = ExpectedBenefit(gains=(0.0,) * len(RATES_PER_S), losses=(1.0,) * len(RATES_PER_S))


@dataclass(slots=True)
class _Memory:
    belief: Belief
    last_us: int | None = None  # the newest request

    def learn(self, at_us: int, parameters: HazardParameters) -> Belief:
        """Return the belief after a request."""
        if self.last_us is not None:
            self.belief = learn(self.belief, at_us - self.last_us, parameters)
        self.last_us = at_us
        return self.belief


class KeyHazardRow(NamedTuple):
    """The parameters, for the compiled engine."""

    parameters: HazardParameters


@dataclass(frozen=True)
class KeyHazard(WorthPolicy):
    """Hazard per key: a node decides by a belief about the requests of all its keys, a cache function by its key's own.

    A requested key joins a node that boots or runs. That adds one S3 GET to the node's bill.

    Source:
        `docs/understand/simulation.md`, "The hazard policy".
    """

    parameters: HazardParameters

    name: ClassVar[str] = "hazard-per-key"
    title: ClassVar[str] = "hazard per key"
    least_compiled: ClassVar[int] = 10_000  # up to a hundred evaluations of eighteen rates per request

    @property
    def window(self) -> int:
        """One request: beliefs have a memory of their own."""
        return 1

    def memory(self) -> _Memory:
        """Return the memory of a key, or a node, without requests."""
        return _Memory(first_belief(self.parameters))

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Learn the gap, then extend the tier that serves or start a tier that pays."""
        node = key.node
        node.memory = node.memory or self.memory()
        of_node = node.memory.learn(at_us, self.parameters)
        of_key = key.memory.learn(at_us, self.parameters)
        if node.since_us is not None:
            if tier != "R":
                world.join(key, at_us)
            self._set_stop(world, node)
            return
        is_booting = node.ready_us is not None and not key.is_leased
        if is_booting or (node.is_off and pays(of_node, self.parameters.boot)):
            world.join(key, at_us)
        worth = self.parameters.invoke if node.ready_us is None else self.parameters.bridge
        if not key.has_lambda and pays(of_key, worth):
            world.start_lambda(key, at_us)
        if key.lambda_ready_us is not None:
            world.set_deadline(key, max(key.lambda_ready_us, at_us + pays_until_us(of_key, worth)))

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Stop the node. The check is due at the instant from which the node no longer pays."""
        world.stop_node(node, at_us)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Run the node for at least its minimum bill."""
        self._set_stop(world, node)

    def _set_stop(self, world: World, node: Node) -> None:
        assert node.since_us is not None, "only a running node stops"
        stop_us = node.memory.last_us + pays_until_us(node.memory.belief, self.parameters.stay)
        world.schedule_check(node, max(node.since_us + self.parameters.redis_least_us, stop_us))

    def without_redis(self, requests: int) -> Self:
        """Return the policy for which no boot pays."""
        return replace(self, parameters=replace(self.parameters, boot=_NEVER))

    def compiled(self) -> KeyHazardRow:
        """Return the parameters."""
        return KeyHazardRow(self.parameters)

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Derive the policy from the value of a hit. Raises `InvalidSettingError`."""
        return cls(hazard(Fraction(hit_value_usd), prices_without_control(prices)))
