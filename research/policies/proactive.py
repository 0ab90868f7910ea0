"""Proactive boots: break-even that also boots a node before a burst that recurs.

The policy learns from the node's own use when bursts begin: at a minute of the hour, or at a time of the day and on
some days of the week. It keeps a few numbers for each such time (`Recurrence`), at most `MAX_RECURRENCES` of them, and
boots where the expected worth of the hits that a reactive boot would miss exceeds the expected price of waiting.
`Hindsight` is the bound: it is told when bursts begin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from burstcache.core.parameters import US_PER_S
from burstcache.core.recency import is_repeat
from burstcache.core.worth import MICRO
from burstcache_sim.policies.node_use import Breakeven, NodeMemory, weight_of
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World

HOUR_US = 3_600 * US_PER_S
DAY_US = 24 * HOUR_US
MAX_RECURRENCES = 8
# By period: how far from the usual time a burst may begin and still belong to it [us].
TOLERANCES_US = {HOUR_US: 90 * US_PER_S, DAY_US: 300 * US_PER_S}
LEAST_TRIALS = 2  # a time is tried after as many bursts
_KEPT = 0.9  # weight of the past at each trial
_SHRINKS = 2.0  # trials of a day of the week that its chance among all days counts for
_WARMS_UP_US = 5 * US_PER_S  # a node is ready this long before the earliest burst


@dataclass(slots=True)
class Recurrence:
    """A time at which bursts begin, every hour or every day, with its chances by day of the week."""

    period_us: int
    at_us: float  # usual start within the period
    spread_us: float  # mean distance of a start from it
    weight: float  # mean weight of the requests that a reactive boot misses [hits]
    came: float = 1.0
    tried: float = 1.0
    weekdays: dict[int, tuple[float, float]] = field(default_factory=dict)  # came and tried
    is_due_us: int = 0  # the next occurrence, by its number

    def distance_us(self, at_us: int) -> float:
        """Return the distance of a time from the nearest occurrence, negative before it [us]."""
        return (at_us - self.at_us + self.period_us / 2) % self.period_us - self.period_us / 2

    def occurrence(self, at_us: int) -> int:
        """Return the number of the occurrence that is nearest to a time."""
        return round((at_us - self.at_us) / self.period_us)

    def learn(self, number: int, start_us: int | None, weight: float) -> None:
        """Learn whether a burst came at an occurrence."""
        day = self._weekday(number)
        came, tried = self.weekdays.get(day, (0.0, 0.0))
        is_come = start_us is not None
        self.weekdays[day] = (_KEPT * came + is_come, _KEPT * tried + 1)
        self.came, self.tried = _KEPT * self.came + is_come, _KEPT * self.tried + 1
        if start_us is not None:
            distance_us = self.distance_us(start_us)
            self.at_us = (self.at_us + distance_us / 4) % self.period_us
            self.spread_us += (abs(distance_us) - self.spread_us) / 4
            self.weight += (weight - self.weight) / 4

    def chance(self, number: int) -> float:
        """Return the chance that a burst comes at an occurrence: of its day of the week, drawn to that of all days."""
        chance = self.came / (self.tried + 1)
        if self.period_us < DAY_US:
            return chance
        came, tried = self.weekdays.get(self._weekday(number), (0.0, 0.0))
        return (came + _SHRINKS * chance) / (tried + _SHRINKS)

    def _weekday(self, number: int) -> int:
        return int((number * self.period_us + self.at_us) // DAY_US) % 7


@dataclass(slots=True)
class Bursts:
    """A node's memory of bursts."""

    recurrences: list[Recurrence] = field(default_factory=list)
    missed: deque[tuple[int, int]] = field(default_factory=deque)  # repeats without a node: time [us], weight
    planned: Recurrence | None = None  # the recurrence that the node has booted or will boot for
    waits_until_us: int = 0  # a node that booted proactively waits for the burst until then
    first_hits: list[tuple[int, int]] = field(default_factory=list)  # of a proactive run: time, weight
    boots: int = 0


@dataclass(slots=True)
class _Memory(NodeMemory):
    bursts: Bursts = field(default_factory=Bursts)


@dataclass(frozen=True)
class Proactive(Breakeven):
    """Break-even that also boots before a burst that recurs. One node."""

    noted: list[tuple[int, float]] = field(default_factory=list, compare=False)  # start and weight of each burst
    plans: bool = True  # whether it boots before bursts, or only notes them
    boot_us: int = 40 * US_PER_S  # duration of a reactive boot, the wait for a report included

    title: ClassVar[str] = "proactive break-even"

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Note requests that a proactive boot would serve or serves, then decide as break-even does."""
        bursts = self._bursts(key.node)
        weight = weight_of(self.parameters.worth, key.size_bytes)
        if key.node.since_us is None:
            if is_repeat(key.memory.seen_us, at_us):
                bursts.missed.append((at_us, weight))
                while bursts.missed[0][0] < at_us - 2 * self.boot_us:
                    bursts.missed.popleft()
        elif bursts.waits_until_us:
            bursts.first_hits.append((at_us, weight if tier == "R" else 0))
        super().handle_request(world, key, at_us, tier)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Learn the burst that has booted the node. A node that booted before a burst waits for it."""
        bursts = self._bursts(node)
        super().handle_ready(world, node, at_us)
        if bursts.waits_until_us:
            assert node.check_us is not None
            world.schedule_check(node, max(node.check_us, bursts.waits_until_us))
        elif bursts.missed:
            start_us = bursts.missed[0][0]
            weight = sum(weight for _, weight in bursts.missed) / MICRO
            self.noted.append((start_us, weight))
            self._learn(bursts, start_us, weight)
        bursts.missed.clear()

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Check a running node, or boot for a burst."""
        bursts = self._bursts(node)
        if node.since_us is None:
            if node.is_off and bursts.planned is not None:
                bursts.boots += 1
                latest_us = bursts.planned.spread_us * 2 + 2 * _WARMS_UP_US
                bursts.waits_until_us = int(at_us + self._own_boot_us(world) + latest_us)
                bursts.first_hits = []
                world.boot(node, at_us)
            return
        if bursts.waits_until_us:
            self._learn_hits_after_boot(bursts, at_us)
            bursts.waits_until_us = 0
        super().check_node(world, node, at_us)
        if node.stopped_us is not None:
            self._plan(world, node, node.stopped_us)

    def _own_boot_us(self, world: World) -> int:
        return world.timings.redis_boot_us

    def _learn_hits_after_boot(self, bursts: Bursts, at_us: int) -> None:
        """Learn whether the burst came that the node waited for, from its first hits."""
        assert bursts.planned is not None
        times_us = [time_us for time_us, _ in bursts.first_hits]
        weights = [weight for _, weight in bursts.first_hits]
        needed = self.parameters.node.arrival_weight * 2
        for first, start_us in enumerate(times_us):
            end = bisect_right(times_us, start_us + self.boot_us)
            if (weight := sum(weights[first:end])) >= needed:
                self._learn(bursts, start_us, weight / MICRO)
                return
        self._learn(bursts, None, 0.0, at_us=at_us)

    def _learn(self, bursts: Bursts, start_us: int | None, weight: float, *, at_us: int = 0) -> None:
        """Count every occurrence that has passed, and add a burst to those that it belongs to or begin new ones."""
        now_us = at_us if start_us is None else start_us
        for one in bursts.recurrences:
            number = one.occurrence(now_us)
            is_near = abs(one.distance_us(now_us)) <= TOLERANCES_US[one.period_us]
            while one.is_due_us < number:
                one.learn(one.is_due_us, None, 0.0)
                one.is_due_us += 1
            if is_near and one.is_due_us == number:
                one.learn(number, start_us, weight)
                one.is_due_us = number + 1
        if start_us is None:
            return
        for period_us in TOLERANCES_US:
            known = [one for one in bursts.recurrences if one.period_us == period_us]
            if any(abs(one.distance_us(start_us)) <= TOLERANCES_US[period_us] for one in known):
                continue
            new = Recurrence(period_us, start_us % period_us, TOLERANCES_US[period_us] / 4, weight)
            new.is_due_us = new.occurrence(start_us) + 1
            new.weekdays[int(start_us // DAY_US) % 7] = (1.0, 1.0)
            bursts.recurrences.append(new)
            if len(bursts.recurrences) > MAX_RECURRENCES:
                bursts.recurrences.remove(
                    min(bursts.recurrences, key=lambda one: one.came / (one.tried + 1) * one.weight)
                )

    def _plan(self, world: World, node: Node, off_us: int) -> None:
        """Schedule the first proactive boot that is expected to pay."""
        bursts, prices = self._bursts(node), self.parameters.worth.prices
        hit_usd, usd_per_us = float(self.parameters.worth.hit_usd), float(prices.redis_usd_per_s) / US_PER_S
        best: tuple[float, Recurrence] | None = None
        for one in bursts.recurrences:
            if one.came < LEAST_TRIALS - 0.5:
                continue
            lead_us = self._own_boot_us(world) + one.spread_us + _WARMS_UP_US
            number = one.occurrence(int(off_us + lead_us))
            for later in range(26 if one.period_us == HOUR_US else 8):
                boot_us = (number + later) * one.period_us + one.at_us - lead_us
                if boot_us <= off_us or (best is not None and boot_us >= best[0]):
                    continue
                chance = one.chance(number + later)
                waits_us = max(60 * US_PER_S, 2 * one.spread_us + 2 * _WARMS_UP_US)
                waiting_usd = (1 - chance) * (float(prices.run_usd) + waits_us * usd_per_us)
                waiting_usd += chance * (one.spread_us + _WARMS_UP_US) * usd_per_us
                if chance * one.weight * hit_usd > waiting_usd:
                    best = (boot_us, one)
                    break
        bursts.planned = None if best is None else best[1]
        if best is not None and self.plans:
            world.schedule_check(node, int(best[0]))

    def _bursts(self, node: Node) -> Bursts:
        memory = self._memory_of(node)
        assert isinstance(memory, _Memory), "made by this policy"
        return memory.bursts

    def _first_memory(self) -> NodeMemory:
        return _Memory(self._node_rule.first())

    def compiled(self) -> None:  # type: ignore[override]
        """Return None, since break-even's engine has other decisions."""


@dataclass(frozen=True)
class Hindsight(Proactive):
    """Break-even that is told when bursts begin: the bound on proactive boots."""

    begun: tuple[tuple[int, float], ...] = ()  # start [us] and weight of the requests that a reactive boot misses

    title: ClassVar[str] = "hindsight"

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Plan the first boot at the first request."""
        super().handle_request(world, key, at_us, tier)
        if key.node.is_off and key.node.check_us is None:
            self._plan(world, key.node, at_us)

    def _plan(self, world: World, node: Node, off_us: int) -> None:
        prices, bursts = self.parameters.worth.prices, self._bursts(node)
        waiting_usd = 2 * _WARMS_UP_US / US_PER_S * float(prices.redis_usd_per_s)
        for start_us, weight in self.begun:
            boot_us = start_us - world.timings.redis_boot_us - _WARMS_UP_US
            if boot_us > off_us and weight * float(self.parameters.worth.hit_usd) > waiting_usd:
                bursts.planned = Recurrence(DAY_US, start_us % DAY_US, 0.0, weight)
                world.schedule_check(node, boot_us)
                return
