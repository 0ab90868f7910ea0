"""The live break-even and hazard policies: a node's use by all of its keys decides when the node boots and stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache.core.key_use import KeyRule, KeyUse
from burstcache.core.node_use import (
    FIRST_CHECK_US,
    MAX_HITS,
    NodeUse,
    UseRule,
    interrupted,
    learn_hits,
)
from burstcache.core.parameters import US_PER_S
from burstcache.core.policies import POLICIES, UsePolicy
from burstcache.core.policy import EVENT_LATENESS_US
from burstcache.core.recency import is_repeat, should_record
from burstcache.core.slices import MISSED_AGAIN_S
from burstcache.core.worth import MICRO, TierPrices, Worth
from burstcache_sim.policies.policy import THESIS_PRICES, Options, WorthPolicy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Ignore bursts that ended longer ago than this when they are reported.
_LATENESS_US = MIN_BATCH_AGE_US + EVENT_LATENESS_US
MISSED_AGAIN_US = MISSED_AGAIN_S * US_PER_S
_LEAST_RATE = Fraction(1, 50)
_NEVER_WHOLE = 1 << 62  # a weight that no trace reaches


@lru_cache(maxsize=1 << 16)
def weight_of(worth: Worth, size_bytes: int) -> int:
    """Return the weight of a hit on an object of this size, compared with the tier below Redis [millionths]."""
    return worth.weight_of(size_bytes)


def weights_of(worth: Worth, sizes_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `weight_of` for each size. Amounts are linear in the size, so their coefficients are computed once."""
    import numpy as np

    if not worth.prices.has_express:
        return np.full(len(sizes_bytes), MICRO, np.int64)

    def line(amount: Callable[[int], Fraction]) -> tuple[int, int, int]:
        """Return the integers p, q and r of an amount (p + q * size) / r."""
        fixed, each = amount(0), amount(1) - amount(0)
        whole = lcm(fixed.denominator, each.denominator)
        return int(fixed * whole), int(each * whole), whole

    saved = line(lambda size: worth.saved_usd("express", size_bytes=size))
    above = line(worth.weight_above_express)
    return _weights(saved, above, sizes_bytes.tobytes())


@lru_cache(maxsize=4)  # stacks that differ only in their nodes have equal weights
def _weights(saved: tuple[int, int, int], above: tuple[int, int, int], sizes_bytes: bytes) -> NDArray[np.int64]:
    """Return weights by size: of Redis over Express, or over S3 if Express saves nothing [millionths]."""
    import numpy as np

    fixed, each, _ = saved
    above_fixed, above_each, whole = above
    sizes = np.frombuffer(sizes_bytes, np.int64).tolist()
    return np.array(
        [(above_fixed + above_each * n) // whole if fixed + each * n > 0 else MICRO for n in sizes], np.int64
    )


@dataclass(slots=True)
class _KeyMemory:
    use: KeyUse
    seen_us: int | None = None  # time at which the key was last recorded as seen
    missed_us: int | None = None  # of a slice: time of the mark that its first miss leaves in its node


@dataclass(slots=True)
class NodeMemory:
    """A node's use, and the hits and keys that it learns from."""

    use: NodeUse
    hits: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MAX_HITS))  # time [us], weight
    seen: dict[int, Key] = field(default_factory=dict)  # keys in the order in which they were recorded as seen
    left_out: set[int] = field(default_factory=set)  # recently seen keys that the boot did not load
    ran_us: int = -1  # the end of its last run


class UseRow(NamedTuple):
    """A policy's parameters for the compiled engine."""

    parameters: UsePolicy
    has_relay: bool


@dataclass(frozen=True)
class _NodeUsePolicy(WorthPolicy):
    """A policy based on node use: repeated requests boot a read-through node, and each check learns the node's hits.

    Source:
        `docs/understand/simulation.md`, "The use of nodes and keys" and "Read-through entries".
    """

    parameters: UsePolicy
    has_relay: bool = True  # whether there are cache functions

    takes_guests: ClassVar[bool] = True
    least_compiled: ClassVar[int] = 10_000

    @property
    def window(self) -> int:
        """One request, because uses are stored separately."""
        return 1

    @property
    def _node_rule(self) -> UseRule:
        return self.parameters.node

    @property
    def _key_rule(self) -> KeyRule:
        return self.parameters.key

    def memory(self) -> _KeyMemory:
        """Return the memory of a key before its first request."""
        return _KeyMemory(self._key_rule.first())

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Record a hit on the node. Report any other request, and boot the node if a repeated request makes it pay."""
        if key.is_slice:
            self._handle_slice(world, key, at_us, tier)
            return
        node, memory = key.node, self._memory_of(key.node)
        weight = weight_of(self.parameters.worth, key.size_bytes)
        if tier == "R":
            memory.hits.append((at_us, weight))
            return
        if node.since_us is not None:
            if key.index in memory.left_out:
                memory.left_out.remove(key.index)
                memory.hits.append((at_us, weight))
            self._report(world, key, at_us)
            world.fill(key)
            return
        if is_repeat(key.memory.seen_us, at_us):
            memory.use = self._node_rule.observe(memory.use, at_us, weight)
            if node.is_off and self._node_rule.boots(memory.use, max(at_us, world.now_us - _LATENESS_US)):
                world.boot(node, at_us)
        self._report(world, key, at_us)
        if self.has_relay and self._key_rule.ever_starts:
            self._keep(world, key, at_us)

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Learn the node's hits. Stop the node, or schedule the next check for the time when it would no longer pay."""
        assert node.since_us is not None, "only a running node is checked"
        world.checks += 1
        memory = self._memory_of(node)
        memory.use = learn_hits(self._node_rule, memory.use, tuple(memory.hits))
        memory.hits.clear()
        check_us = self._node_rule.next_check_us(memory.use, since_us=node.since_us, at_us=at_us)
        if check_us is None or node.is_interrupted:
            world.stop_node(node, at_us)
            memory.ran_us = at_us
        else:
            world.schedule_check(node, check_us)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Load recently seen keys that are worth a GET, newest first. End all cache functions of the node's keys."""
        memory = self._memory_of(node)
        run_us = self._node_rule.stop_us(memory.use, at_us) - at_us
        newest = [key for key in reversed(memory.seen.values()) if is_repeat(key.memory.seen_us, at_us)]
        world.load(node, [key for key in newest if self._is_loaded(key, at_us, run_us)])
        memory.left_out = {key.index for key in newest if key.index not in node.store}
        for key in world.keys:
            if key.node is node:
                world.end_lambda(key, at_us)
        world.schedule_check(node, at_us + FIRST_CHECK_US)

    def _handle_slice(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Store a slice in its running node at its second miss within a while. Neither hits nor misses are reported."""
        since_us, missed_us = key.node.since_us, key.memory.missed_us
        if tier == "R" or since_us is None:
            return
        if missed_us is not None and missed_us >= since_us and at_us - missed_us < MISSED_AGAIN_US:
            world.store_slice(key)
        else:
            key.memory.missed_us = at_us

    def _memory_of(self, node: Node) -> NodeMemory:
        if node.memory is None:
            node.memory = self._first_memory()
        memory: NodeMemory = node.memory
        return memory

    def _first_memory(self) -> NodeMemory:
        return NodeMemory(self._node_rule.first())

    def _is_loaded(self, key: Key, at_us: int, run_us: int) -> bool:
        seen_us = key.memory.seen_us
        weight = weight_of(self.parameters.worth, key.size_bytes)
        return is_repeat(seen_us, at_us) and self.parameters.load.loads(
            age_us=at_us - seen_us, run_us=run_us, weight=weight
        )

    def _report(self, world: World, key: Key, at_us: int) -> None:
        """Report a request that the node does not serve, and record its key as seen."""
        is_noted = should_record(key.memory.seen_us, at_us, is_booting=key.node.ready_us is not None)
        weight = weight_of(self.parameters.worth, key.size_bytes)
        world.report_request(at_us, weight, self.parameters.batch, is_noted=is_noted)
        if is_noted:
            key.memory.seen_us = at_us
            seen = self._memory_of(key.node).seen
            seen.pop(key.index, None)
            seen[key.index] = key

    def _keep(self, world: World, key: Key, at_us: int) -> None:
        """Start the key's cache function if it pays, and extend its life as long as it pays."""
        rule, use, is_booting = self._key_rule, key.memory.use, key.node.ready_us is not None
        if use.is_followed and key.node.memory.ran_us > use.last_us:
            use = interrupted(use)  # requests of the key were not reported while the node ran
        weight = weight_of(self.parameters.worth, key.size_bytes)
        key.memory.use = use = rule.observe(use, at_us, weight)
        is_in_time = use.last_us == at_us and world.now_us - at_us < _LATENESS_US
        if not key.has_lambda and is_in_time and rule.starts(use, is_booting=is_booting):
            world.start_lambda(key, at_us)
        if key.lambda_ready_us is not None:
            world.set_deadline(key, max(key.lambda_ready_us, rule.lives_until_us(use, is_booting=is_booting)))

    def without_redis(self, requests: int) -> Self:
        """Return a variant of the policy that never boots a node."""
        rule: Any = self.parameters.node
        return replace(self, parameters=replace(self.parameters, node=replace(rule, arrival_weight=_NEVER_WHOLE)))

    def compiled(self) -> UseRow:
        """Return the parameters for the compiled engine."""
        return UseRow(self.parameters, self.has_relay)

    def of_sample(self, rate: Fraction) -> Self:
        """Return the policy for a sample of this share of a log's keys.

        The weight of an arrival is multiplied by the share, but by at least 1/50. A sample of a smaller share therefore
        uses its node less than the whole log does.
        """
        rule: Any = self.parameters.node
        whole = max(1, int(rule.arrival_weight * max(rate, _LEAST_RATE)))
        return replace(self, parameters=replace(self.parameters, node=replace(rule, arrival_weight=whole)))

    def fields(self) -> dict[str, Any]:
        """Return the hit value, from which all rules are derived, and whether there is a relay."""
        return {"hit_value_usd": float(self.parameters.worth.wait_usd), "has_relay": self.has_relay}

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Build the policy from `--hit-value-usd` and the relay."""
        return replace(super().from_options(options, prices), has_relay=options.has_relay)

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Derive the policy from a hit value [USD]. Raises `InvalidSettingError` if the value is invalid."""
        rules = POLICIES[cls.name]
        assert rules is not None, "a policy that weighs"
        return cls(rules(Worth(Fraction(hit_value_usd), prices)))


@dataclass(frozen=True)
class Breakeven(_NodeUsePolicy):
    """The break-even policy, which decides from the times of the newest arrivals."""

    name: ClassVar[str] = "breakeven"
    title: ClassVar[str] = "break-even"


@dataclass(frozen=True)
class Hazard(_NodeUsePolicy):
    """The hazard policy, which decides from a belief about the arrival rate."""

    name: ClassVar[str] = "hazard"
    title: ClassVar[str] = "hazard"
