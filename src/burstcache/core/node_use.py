"""A Redis node's use by all of its keys. It decides when the node boots, is checked and stops.

Only repeats count: requests for a key that was read within the last day. A node could not have loaded other objects in
time. The weight of a repeat is the amount that Redis saves on the request. Repeats that add up to a fixed weight count
as one arrival. This fixed weight grows with the node's price and shrinks with a hit's saving. The break-even and hazard
policies decide by arrivals.

A use is a value of a few hundred bytes with an exact binary encoding. The live system stores this value in a row, and
so makes the same decisions as a simulation. Times are integer microseconds, and weights are integer millionths of a
hit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isqrt
from struct import Struct
from typing import Protocol

from burstcache.core import breakeven, hazard
from burstcache.core.breakeven import BreakevenParameters, BreakevenPrices
from burstcache.core.comparison import Comparison
from burstcache.core.hazard import LONGEST_IDLE_US, RATES_PER_S, Belief, HazardParameters
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO, Worth

FIRST_CHECK_US = 60 * US_PER_S  # after readiness, since this minute is billed in any case
MAX_HITS = 256  # newest hits that a node stores for its next check
MAX_LOADS = 2_000  # maximum number of objects per boot, loaded eight at a time for ten seconds
MAX_SEEN = 20_000  # maximum number of seen keys that a boot reads: about 2 MB, 250 read units
# Minimum gap between arrivals at which a node breaks even at its usual price. It keeps the break-even rate far below
# four per second, the hazard policy's highest rate, also at the threefold price of Fargate on demand.
_LEAST_GAP_S = 4
LEAST_ARRIVALS = 4  # a full list of hits counts as at least this many arrivals
_NEVER_US = -1
_MAX_ARRIVALS = 64  # at one instant; further arrivals change no decision
_FOR_LATE_REPORTS = 16  # arrivals kept in addition to a boot's window, since readers report at different times
_US_PER_MS = 1_000


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The learned arrivals of one node."""

    last_us: int = _NEVER_US  # the newest arrival
    is_followed: bool = False  # all requests since then were observed; otherwise the current gap is not learned
    part: int = 0  # weight since the newest arrival, less than an arrival's [millionths]
    belief: Belief | None = None  # only under the hazard policy
    times_us: tuple[int, ...] = ()  # the newest arrivals, oldest first


class UseRule(Protocol):
    """The rule that learns a node's use and makes decisions from it. Equal rules make equal decisions."""

    @property
    def arrival_weight(self) -> int:
        """The weight of one arrival [millionths]."""

    def first(self) -> NodeUse:
        """Return the use of a node without any requests."""

    def knows(self, use: NodeUse) -> bool:
        """Return whether a use was learned under the same policy. The stack's policy may have changed."""

    def observe(self, use: NodeUse, at_us: int, weight: int) -> NodeUse:
        """Return the use after a repeat. A late repeat is inserted at its own time.

        Args:
            use: The use before the repeat.
            at_us: Time of the repeat [us].
            weight: Weight of the repeat, as computed by `Worth.weight` [millionths].
        """

    def boots(self, use: NodeUse, at_us: int) -> bool:
        """Return whether a stopped node boots at a repeat, which the use already includes."""

    def boot_comparisons(self, use: NodeUse, at_us: int) -> tuple[Comparison, ...]:
        """Return the comparisons that `boots` makes. All of them must hold."""

    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return the time at which a node that has run since `since_us` stops paying if no hit follows [us]."""

    def next_check_us(self, use: NodeUse, *, since_us: int, at_us: int) -> int | None:
        """Return the time of a running node's next check after the one at `at_us`, or None if the node stops now [us].

        A check costs more than a minute of a small node, and a node that has run for a long time will probably
        continue. The interval therefore grows with the square root of the node's age. Checks then cost about as much as
        idle time.
        """


def use_or_first(rule: UseRule, use: NodeUse | None) -> NodeUse:
    """Return the stored use, or a new one if there is none or another policy learned it."""
    return use if use is not None and rule.knows(use) else rule.first()


def learn_repeats(rule: UseRule, use: NodeUse, repeats: Iterable[tuple[int, int]]) -> Iterator[tuple[int, NodeUse]]:
    """Yield the time of each repeat, oldest first, and the use after it [us]."""
    for at_us, weight in sorted(repeats):
        use = rule.observe(use, at_us, weight)
        yield at_us, use


def arrive(rule: UseRule, use: NodeUse, at_us: int) -> NodeUse:
    """Add the weight that completes one more arrival, and return the new use."""
    return rule.observe(use, at_us, rule.arrival_weight - use.part)


def weight_until(rule: UseRule, use: NodeUse, at_us: int, decides: Callable[[NodeUse], bool]) -> int | None:
    """Return the minimum weight to add at an instant to make `decides` True, or None if no weight does [millionths].

    Only complete arrivals matter, so `decides` is called once before the first arrival and once after each arrival.
    """
    weight = 0
    for _ in range(_MAX_ARRIVALS):
        if decides(use):
            return weight
        weight += rule.arrival_weight - use.part
        use = arrive(rule, use, at_us)
    return None


def stops_at_us(rule: UseRule, use: NodeUse, *, since_us: int, check_at_us: int) -> int:
    """Return the time of the check that stops a node if no hit follows. The next check is at `check_at_us` [us]."""
    while (following_us := rule.next_check_us(use, since_us=since_us, at_us=check_at_us)) is not None:
        check_at_us = following_us
    return check_at_us


def interrupted(use: NodeUse) -> NodeUse:
    """Return the use with `is_followed` cleared, because requests since the newest arrival may be missing."""
    return replace(use, is_followed=False, part=0)


def learn_hits(rule: UseRule, use: NodeUse, hits: Sequence[tuple[int, int]], *, is_cut: bool | None = None) -> NodeUse:
    """Return the use after the hits that a node has recorded since the last check.

    A truncated list is a sample. The gap before it is not learned. If its hits add up to fewer than `LEAST_ARRIVALS`
    arrivals, that many arrivals at the hits' rate replace the hits.

    Args:
        rule: The rule that learns the hits.
        use: The use at the last check.
        hits: Time and weight of the newest hits, at most `MAX_HITS`, oldest first [us, millionths].
        is_cut: Whether the list is truncated. If None, a list of `MAX_HITS` hits counts as truncated.
    """
    if len(hits) >= MAX_HITS if is_cut is None else is_cut:
        use = interrupted(use)
        weight = sum(weight for _, weight in hits)
        if 0 < weight < LEAST_ARRIVALS * rule.arrival_weight:
            newest_us = hits[-1][0]
            gap_us = (newest_us - hits[0][0]) * rule.arrival_weight // weight
            hits = [(newest_us - ago * gap_us, rule.arrival_weight) for ago in reversed(range(LEAST_ARRIVALS))]
    for at_us, weight in hits:
        use = rule.observe(use, max(at_us, use.last_us), weight)
    return use


@dataclass(frozen=True)
class _WeightedUse(ABC):
    """The common part of both policies' rules: weights that add up to arrivals, and the interval of checks."""

    arrival_weight: int  # [millionths]
    check_us: int  # running time of the node that costs as much as one check

    def observe(self, use: NodeUse, at_us: int, weight: int) -> NodeUse:
        """Add a weight, and record each arrival that the sum completes."""
        if not use.is_followed:
            at_us = max(at_us, use.last_us)
        part = use.part + weight
        while part >= self.arrival_weight:
            part -= self.arrival_weight
            use = self._arrive(use, at_us) if at_us >= use.last_us else self._arrive_late(use, at_us)
        return replace(use, part=part)

    def next_check_us(self, use: NodeUse, *, since_us: int, at_us: int) -> int | None:
        """Return the time at which the node no longer pays, or the end of the optimal interval if that is later."""
        stop_us = self.stop_us(use, since_us)
        if stop_us <= at_us:
            return None
        # In milliseconds, the product fits in the compiled simulator's 64 bits.
        age_ms, check_ms = max(at_us - since_us, 0) // _US_PER_MS, self.check_us // _US_PER_MS
        return max(stop_us, at_us + isqrt(2 * age_ms * check_ms) * _US_PER_MS)

    @abstractmethod
    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return the time at which a node stops paying, as in `UseRule.stop_us` [us]."""

    @abstractmethod
    def _arrive(self, use: NodeUse, at_us: int) -> NodeUse:
        """Return the use after an arrival that is now the newest."""

    @abstractmethod
    def _arrive_late(self, use: NodeUse, at_us: int) -> NodeUse:
        """Return the use after an arrival that is older than the newest."""


@dataclass(frozen=True)
class BreakevenUse(_WeightedUse):
    """The rule for a node's use under the break-even policy."""

    parameters: BreakevenParameters

    def first(self) -> NodeUse:
        """Return a use without arrivals."""
        return NodeUse()

    def knows(self, use: NodeUse) -> bool:
        """Return whether a use has no belief."""
        return use.belief is None

    def boots(self, use: NodeUse, at_us: int) -> bool:
        """Return whether enough arrivals, around the one at `at_us`, came within the limit."""
        return _are_close(use, at_us, self.parameters)

    def boot_comparisons(self, use: NodeUse, at_us: int) -> tuple[Comparison, ...]:
        """Return the span of the newest arrivals and its limit."""
        return (_span_comparison(use, at_us, self.parameters),)

    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return the later of the minimum run's end and the end of the idle timeout after the newest arrival [us]."""
        return breakeven.redis_stop_us(since_us=since_us, last_us=use.last_us, parameters=self.parameters)

    def _arrive(self, use: NodeUse, at_us: int) -> NodeUse:
        times_us = _times_us(use, at_us, self.parameters)
        return replace(use, last_us=at_us, is_followed=True, times_us=times_us)

    def _arrive_late(self, use: NodeUse, at_us: int) -> NodeUse:
        return replace(use, times_us=_times_us(use, at_us, self.parameters))


@dataclass(frozen=True)
class HazardUse(_WeightedUse):
    """The rule for a node's use under the hazard policy.

    A belief interprets a pair of requests as the start of a burst, even if all earlier bursts were only pairs. A boot
    therefore also requires as many arrivals as under break-even.
    """

    parameters: HazardParameters
    least: BreakevenParameters  # break-even's condition for a boot

    def first(self) -> NodeUse:
        """Return a use with the prior belief."""
        return NodeUse(belief=hazard.first_belief(self.parameters))

    def knows(self, use: NodeUse) -> bool:
        """Return whether a use has a belief."""
        return use.belief is not None

    def boots(self, use: NodeUse, at_us: int) -> bool:
        """Return whether enough arrivals came recently, and the expected rate pays for the node."""
        return _are_close(use, at_us, self.least) and hazard.pays(
            _belief(use), self.parameters.boot, idle_us=_idle_us(use, at_us)
        )

    def boot_comparisons(self, use: NodeUse, at_us: int) -> tuple[Comparison, ...]:
        """Return the newest arrivals' span with its limit, and the expected gain with the expected loss."""
        benefit = hazard.compare(_belief(use), self.parameters.boot, idle_us=_idle_us(use, at_us))
        return _span_comparison(use, at_us, self.least), benefit

    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return the later of the minimum run's end and the time at which the expected rate stops paying [us]."""
        least_us = since_us + self.parameters.redis_least_us
        return max(least_us, use.last_us + hazard.pays_until_us(_belief(use), self.parameters.stay))

    def _arrive(self, use: NodeUse, at_us: int) -> NodeUse:
        belief = _belief(use)
        if use.is_followed:
            belief = hazard.learn(belief, at_us - use.last_us, self.parameters)
        times_us = _times_us(use, at_us, self.least)
        return replace(use, last_us=at_us, is_followed=True, belief=belief, times_us=times_us)

    def _arrive_late(self, use: NodeUse, at_us: int) -> NodeUse:
        """Learn the gap since the preceding arrival if its time is still stored. Older gaps have been learned."""
        before_us = max((time_us for time_us in use.times_us if time_us <= at_us), default=None)
        belief = _belief(use)
        if before_us is not None:
            belief = hazard.learn(belief, at_us - before_us, self.parameters)
        return replace(use, belief=belief, times_us=_times_us(use, at_us, self.least))


def breakeven_use(worth: Worth, *, task_kind: str = "") -> BreakevenUse:
    """Return the break-even rule for a stack's nodes.

    Args:
        worth: The worth of hits.
        task_kind: Kind of the task whose price the rule weighs (`core.rows.NodeRow`). The weight of an arrival does not
            depend on it, so a use that one kind's rule has learned is valid for every other's.
    """
    weight, arrival_usd, prices = _arrivals(worth, task_kind)
    return BreakevenUse(weight, _check_us(worth, task_kind), breakeven.breakeven(arrival_usd, prices))


def hazard_use(worth: Worth, *, task_kind: str = "") -> HazardUse:
    """Return the hazard rule for a stack's nodes. The arguments are those of `breakeven_use`."""
    weight, arrival_usd, prices = _arrivals(worth, task_kind)
    least = breakeven.breakeven(arrival_usd, prices)
    return HazardUse(weight, _check_us(worth, task_kind), hazard.hazard(arrival_usd, prices), least)


def encode(use: NodeUse) -> bytes:
    """Encode a use for its row, exactly and in less than 1 KB."""
    head = _HEAD.pack(use.last_us, use.is_followed, use.part, len(use.times_us), use.belief.gaps if use.belief else -1)
    times = Struct(f"<{len(use.times_us)}q").pack(*use.times_us)
    return head + times + (b"" if use.belief is None else _BELIEF.pack(*use.belief.weights, *use.belief.counts))


def decode(data: bytes) -> NodeUse:
    """Decode a use that `encode` wrote."""
    last_us, is_followed, part, times, gaps = _HEAD.unpack_from(data)
    times_us = Struct(f"<{times}q").unpack_from(data, _HEAD.size)
    if gaps < 0:
        return NodeUse(last_us, is_followed, part, None, times_us)
    numbers = _BELIEF.unpack_from(data, _HEAD.size + 8 * times)
    rates = len(RATES_PER_S)
    return NodeUse(last_us, is_followed, part, Belief(numbers[:rates], numbers[rates:], gaps), times_us)


_HEAD = Struct("<q?qiq")
_BELIEF = Struct(f"<{2 * len(RATES_PER_S)}d")


def _arrivals(worth: Worth, task_kind: str) -> tuple[int, Fraction, BreakevenPrices]:
    """Return the weight of an arrival, its saving [USD], and the prices to compare the saving with."""
    prices = worth.prices
    hits = ceil(_LEAST_GAP_S * prices.redis_usd_per_s / worth.hit_usd)
    node_usd_per_s = prices.node_usd_per_s(task_kind)
    # The GET is free here, because the saving already includes its price and the policies would add it again.
    weighed = BreakevenPrices(prices.lambda_usd_per_s, node_usd_per_s, Fraction(0), prices.run_usd)
    return hits * MICRO, hits * worth.hit_usd, weighed


def _check_us(worth: Worth, task_kind: str) -> int:
    return int(US_PER_S * worth.prices.check_usd / worth.prices.node_usd_per_s(task_kind))


def _span_us(use: NodeUse, at_us: int, requests: int) -> int | None:
    """Return the shortest span of that number of arrivals around `at_us`, or None if there are too few [us]."""
    times_us = use.times_us
    place = bisect_right(times_us, at_us) - 1
    return min(
        (
            max(at_us, newest_us) - oldest_us
            for newest_us, oldest_us in zip(
                times_us[max(place, requests - 1) : place + requests],
                times_us[max(place - requests + 1, 0) : place + 1],
                strict=False,
            )
        ),
        default=None,
    )


def _are_close(use: NodeUse, at_us: int, parameters: BreakevenParameters) -> bool:
    """Return whether the arrivals that break-even requires for a boot came within its limit."""
    span_us = _span_us(use, at_us, parameters.boot_requests)
    return span_us is not None and span_us < parameters.boot_within_us


def _span_comparison(use: NodeUse, at_us: int, parameters: BreakevenParameters) -> Comparison:
    span_us = _span_us(use, at_us, parameters.boot_requests)
    value_s = None if span_us is None else span_us / US_PER_S
    return Comparison("arrivals_span_s", value_s, parameters.boot_within_us / US_PER_S)


def _idle_us(use: NodeUse, at_us: int) -> int:
    return min(max(at_us - use.last_us, 0), LONGEST_IDLE_US)


def _times_us(use: NodeUse, at_us: int, parameters: BreakevenParameters) -> tuple[int, ...]:
    """Add an arrival, and return the newest arrivals in order: a boot's window, plus some for late reports [us]."""
    observed = use.times_us if use.is_followed else ()
    return tuple(sorted((*observed, at_us))[-parameters.boot_requests - _FOR_LATE_REPORTS :])


def _belief(use: NodeUse) -> Belief:
    assert use.belief is not None, "the use of another policy"
    return use.belief
