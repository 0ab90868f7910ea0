"""Break-even and hazard as the live system has them: a node is judged by the use that all its keys make of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from burstcache.core.gathering import AT_LEAST_US
from burstcache.core.key_use import KeyRule, KeyUse
from burstcache.core.node_use import (
    FIRST_LOOK_US,
    MOST_HITS,
    NodeUse,
    UseRule,
    interrupted,
    learn_hits,
)
from burstcache.core.policies import POLICIES, UsePolicy
from burstcache.core.policy import EVENT_LATENESS_US
from burstcache.core.seen import is_repeat, notes_seen
from burstcache.core.worth import MICRO, TierPrices, Worth
from burstcache_sim.policies.policy import THESIS_PRICES, Options, WorthPolicy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A load that has been over for this long when it is reported boots nothing, and starts no cache function.
_LATENESS_US = AT_LEAST_US + EVENT_LATENESS_US
_LEAST_RATE = Fraction(1, 50)
_NEVER_WHOLE = 1 << 62  # a weight that no trace adds up to


@lru_cache(maxsize=1 << 16)
def weight_of(worth: Worth, size_bytes: int) -> int:
    """Return what Redis saves for an object of that size, as a share of what it saves above S3 [millionths]."""
    return worth.weight_of(size_bytes)


def weights_of(worth: Worth, sizes_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `weight_of` each of many sizes: all amounts of a size are a fixed one and so much per byte."""
    import numpy as np

    if not worth.prices.has_express:
        return np.full(len(sizes_bytes), MICRO, np.int64)

    def line(amount: Callable[[int], Fraction]) -> tuple[int, int, int]:
        """Return integers p, q and r, so that an amount is (p + q * size) / r."""
        fixed, each = amount(0), amount(1) - amount(0)
        whole = lcm(fixed.denominator, each.denominator)
        return int(fixed * whole), int(each * whole), whole

    saved = line(lambda size: worth.saved_usd("express", size_bytes=size))
    above = line(lambda size: MICRO * worth.saved_usd("redis", "express", size) / worth.hit_usd)
    return _weights(saved, above, sizes_bytes.tobytes())


@lru_cache(maxsize=4)  # stacks that differ in their nodes alone weigh alike
def _weights(saved: tuple[int, int, int], above: tuple[int, int, int], sizes_bytes: bytes) -> NDArray[np.int64]:
    """Return what Redis saves above Express by size, or above S3 where Express saves nothing [millionths]."""
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
    seen_us: int | None = None  # when it was last noted as seen


@dataclass(slots=True)
class _NodeMemory:
    use: NodeUse
    hits: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MOST_HITS))  # time [us], weight
    seen: dict[int, Key] = field(default_factory=dict)  # in the order in which they were noted as seen
    left_out: set[int] = field(default_factory=set)  # keys seen lately that it runs without
    ran_us: int = -1  # when it last ran


class UseRow(NamedTuple):
    """The setting, for the compiled engine."""

    parameters: UsePolicy
    has_relay: bool


@dataclass(frozen=True)
class _ByUse(WorthPolicy):
    """Repeats of all its keys boot a node; while it runs its keys are guests, and its hits are learned at looks.

    Source:
        `docs/understand/simulation.md`, "Guests", "The use of a node".
    """

    parameters: UsePolicy
    has_relay: bool = True  # without one there are no cache functions

    takes_guests: ClassVar[bool] = True
    least_compiled: ClassVar[int] = 10_000

    @property
    def window(self) -> int:
        """One request; uses have their own memory."""
        return 1

    @property
    def _node_rule(self) -> UseRule:
        return self.parameters.node

    @property
    def _key_rule(self) -> KeyRule:
        return self.parameters.key

    def memory(self) -> _KeyMemory:
        """Return the memory of a key that nobody has asked for."""
        return _KeyMemory(self._key_rule.first())

    def request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Note a hit of the node; a reader tells any other request, which may be a repeat that boots the node."""
        node, memory = key.node, self._memory_of(key.node)
        weight = weight_of(self.parameters.worth, key.size_bytes)
        if tier == "R":
            memory.hits.append((at_us, weight))
            return
        if node.since_us is not None:
            if key.index in memory.left_out:
                memory.left_out.remove(key.index)
                memory.hits.append((at_us, weight))
            self._tell(world, key, at_us)
            world.fill(key)
            return
        if is_repeat(key.memory.seen_us, at_us):
            memory.use = self._node_rule.observe(memory.use, at_us, weight)
            if node.is_off and self._node_rule.boots(memory.use, max(at_us, world.now_us - _LATENESS_US)):
                world.boot(node, at_us)
        self._tell(world, key, at_us)
        if self.has_relay and self._key_rule.ever_starts:
            self._keep(world, key, at_us)

    def look(self, world: World, node: Node, at_us: int) -> None:
        """Learn what the node has served; stop it, or look again when it would no longer pay."""
        assert node.since_us is not None, "only a running node is looked at"
        world.checks += 1
        memory = self._memory_of(node)
        memory.use = learn_hits(self._node_rule, memory.use, tuple(memory.hits))
        memory.hits.clear()
        look_us = self._node_rule.next_look_us(memory.use, since_us=node.since_us, at_us=at_us)
        if look_us is None:
            world.stop_node(node, at_us)
            memory.ran_us = at_us
        else:
            world.set_look(node, look_us)

    def ready(self, world: World, node: Node, at_us: int) -> None:
        """Load the keys seen lately that pay for it, newest first, and end the cache functions of the node's keys."""
        memory = self._memory_of(node)
        run_us = self._node_rule.stop_us(memory.use, at_us) - at_us
        newest = [key for key in reversed(memory.seen.values()) if is_repeat(key.memory.seen_us, at_us)]
        world.load(node, [key for key in newest if self._is_loaded(key, at_us, run_us)])
        memory.left_out = {key.index for key in newest if key.index not in node.store}
        for key in world.keys:
            if key.node is node:
                world.end_lambda(key, at_us)
        world.set_look(node, at_us + FIRST_LOOK_US)

    def _memory_of(self, node: Node) -> _NodeMemory:
        if node.memory is None:
            node.memory = _NodeMemory(self._node_rule.first())
        memory: _NodeMemory = node.memory
        return memory

    def _is_loaded(self, key: Key, at_us: int, run_us: int) -> bool:
        seen_us = key.memory.seen_us
        weight = weight_of(self.parameters.worth, key.size_bytes)
        return is_repeat(seen_us, at_us) and self.parameters.load.loads(
            age_us=at_us - seen_us, run_us=run_us, weight=weight
        )

    def _tell(self, world: World, key: Key, at_us: int) -> None:
        """Tell a request that the node does not serve, and note its key as seen."""
        is_noted = notes_seen(key.memory.seen_us, at_us, is_booting=key.node.ready_us is not None)
        weight = weight_of(self.parameters.worth, key.size_bytes)
        world.tell(at_us, weight, self.parameters.gather, is_noted=is_noted)
        if is_noted:
            key.memory.seen_us = at_us
            seen = self._memory_of(key.node).seen
            seen.pop(key.index, None)
            seen[key.index] = key

    def _keep(self, world: World, key: Key, at_us: int) -> None:
        """Start a cache function if one pays, and let the key's live as long as it does."""
        rule, use, is_booting = self._key_rule, key.memory.use, key.node.ready_us is not None
        if use.is_followed and key.node.memory.ran_us > use.last_us:
            use = interrupted(use)  # while the node ran nobody told the key's requests
        weight = weight_of(self.parameters.worth, key.size_bytes)
        key.memory.use = use = rule.observe(use, at_us, weight)
        is_in_time = use.last_us == at_us and world.now_us - at_us < _LATENESS_US
        if not key.has_lambda and is_in_time and rule.starts(use, is_booting=is_booting):
            world.start_lambda(key, at_us)
        if key.lambda_ready_us is not None:
            world.set_deadline(key, max(key.lambda_ready_us, rule.lives_until_us(use, is_booting=is_booting)))

    def without_redis(self, requests: int) -> Self:
        """Return the policy whose nodes never have an arrival."""
        rule: Any = self.parameters.node
        return replace(self, parameters=replace(self.parameters, node=replace(rule, whole=_NEVER_WHOLE)))

    def compiled(self) -> UseRow:
        """Return the rules."""
        return UseRow(self.parameters, self.has_relay)

    def of_sample(self, rate: Fraction) -> Self:
        """Return the policy for a sample of a log's keys, a share of them: as much less makes an arrival.

        A request stands for at most fifty: of a smaller sample a node is used less than of its log.
        """
        rule: Any = self.parameters.node
        whole = max(1, int(rule.whole * max(rate, _LEAST_RATE)))
        return replace(self, parameters=replace(self.parameters, node=replace(rule, whole=whole)))

    def fields(self) -> dict[str, Any]:
        """Return what all rules follow from."""
        return {"hit_value_usd": float(self.parameters.worth.wait_usd), "has_relay": self.has_relay}

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Return the policy for the worth that a person names."""
        return replace(super().from_options(options, prices), has_relay=options.has_relay)

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Return the policy for which a saved wait for S3 has that worth; raises `InvalidSettingError`."""
        rules = POLICIES[cls.name]
        assert rules is not None, "a policy that weighs"
        return cls(rules(Worth(Fraction(hit_value_usd), prices)))


@dataclass(frozen=True)
class Breakeven(_ByUse):
    """By the times of the newest arrivals."""

    name: ClassVar[str] = "breakeven"
    title: ClassVar[str] = "break-even"


@dataclass(frozen=True)
class Hazard(_ByUse):
    """By a belief about the rate of arrivals."""

    name: ClassVar[str] = "hazard"
    title: ClassVar[str] = "hazard"
