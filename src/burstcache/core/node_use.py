"""The use of a Redis node by all its keys: what boots it, and when it is looked at and stopped while it runs.

Only repeats count, requests for a key of the node that was asked for within the last day: a node holds nothing else in
time. Each counts by what Redis saves for it. A number of them, the more the cheaper a hit and the dearer the node, is
one arrival of the node's process, and the break-even or the hazard policy judges these arrivals.

A use is a value of a few hundred bytes with an exact binary form, so that the live system, which keeps it in a row,
decides as a simulation does. Times are integer microseconds, weights integer millionths of a hit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isqrt
from struct import Struct
from typing import Protocol

from burstcache.core import breakeven, hazard
from burstcache.core.breakeven import BreakevenParameters, BreakevenPrices
from burstcache.core.compared import Compared
from burstcache.core.hazard import LONGEST_IDLE_US, RATES_PER_S, Belief, HazardParameters
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO, Worth

FIRST_LOOK_US = 60 * US_PER_S  # after readiness: billed anyway
MOST_HITS = 256  # the newest that a node has noted at a look
MOST_LOADS = 2_000  # guests that a boot brings: as many as are read in ten seconds, eight at a time
# The gap at which arrivals just pay for a node is at least this long: the hazard policy's rates end at four a second.
_LEAST_GAP_S = 4
LEAST_ARRIVALS = 4  # of a full list of hits
_NEVER_US = -1
_MOST_ARRIVALS = 64  # at one instant; more change no decision
_FOR_LATE_ONES = 16  # more arrivals that are remembered than a boot looks back on: readers report in turns
_US_PER_MS = 1_000


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What is known of the arrivals of one node."""

    last_us: int = _NEVER_US  # the newest arrival
    is_followed: bool = False  # all requests since then have been observed; if not, the present gap teaches nothing
    part: int = 0  # weight since the newest arrival [millionths], less than an arrival
    belief: Belief | None = None  # of the hazard policy
    times_us: tuple[int, ...] = ()  # the newest arrivals, oldest first


class UseRule(Protocol):
    """How a use is learned and judged. A value: equal rules decide alike."""

    @property
    def whole(self) -> int:
        """The weight of one arrival [millionths]."""

    def first(self) -> NodeUse:
        """Return the use of a node of which nothing is known."""

    def knows(self, use: NodeUse) -> bool:
        """Whether a use was learned under the same policy: a stack may have changed it."""

    def observe(self, use: NodeUse, at_us: int, weight: int) -> NodeUse:
        """Return the use after a repeat. One that is reported late, when others have overtaken it, takes its place.

        Args:
            use: The use before it.
            at_us: When it came [us].
            weight: What Redis saves for it, as a share of what it saves above S3 (`Worth.weight`) [millionths].
        """

    def boots(self, use: NodeUse, at_us: int) -> bool:
        """Whether a node that is off boots at a repeat, which is already observed."""

    def boot_compares(self, use: NodeUse, at_us: int) -> tuple[Compared, ...]:
        """Return what `boots` compares; all of it has to hold."""

    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return when a node that has run since `since_us` no longer pays, if no hit follows [us]."""

    def next_look_us(self, use: NodeUse, *, since_us: int, at_us: int) -> int | None:
        """Return when a running node that is looked at at `at_us` is looked at again; None: it stops now [us].

        A node that has run for long will probably go on, so looks, which cost more than a minute of a small node, grow
        apart with the root of its age: they and the time that it runs on in vain cost about the same then.
        """


def use_or_first(rule: UseRule, use: NodeUse | None) -> NodeUse:
    """Return a stored use; a new one if there is none, or only that of another policy."""
    return use if use is not None and rule.knows(use) else rule.first()


def arrive(rule: UseRule, use: NodeUse, at_us: int) -> NodeUse:
    """Return the use after as much weight as makes one more arrival."""
    return rule.observe(use, at_us, rule.whole - use.part)


def weight_until(rule: UseRule, use: NodeUse, at_us: int, decides: Callable[[NodeUse], bool]) -> int | None:
    """Return the least weight at an instant with which something is decided [millionths]; None: with none.

    Only arrivals count, so what decides is asked after each of them, and before the first.
    """
    weight = 0
    for _ in range(_MOST_ARRIVALS):
        if decides(use):
            return weight
        weight += rule.whole - use.part
        use = arrive(rule, use, at_us)
    return None


def stops_at_us(rule: UseRule, use: NodeUse, *, since_us: int, look_at_us: int) -> int:
    """Return at which look a running node stops if no hit follows; `look_at_us` is the next one [us]."""
    while (following_us := rule.next_look_us(use, since_us=since_us, at_us=look_at_us)) is not None:
        look_at_us = following_us
    return look_at_us


def interrupted(use: NodeUse) -> NodeUse:
    """Return a use some of whose requests since its newest arrival nobody has seen."""
    return replace(use, is_followed=False, part=0)


def learn_hits(rule: UseRule, use: NodeUse, hits: Sequence[tuple[int, int]], *, is_cut: bool | None = None) -> NodeUse:
    """Return the use after the hits that a node has noted since the last look.

    Args:
        rule: How they are learned.
        use: The use at the last look.
        hits: Time and weight of the newest `MOST_HITS`, oldest first [us, millionths]. As many as that are perhaps not
            all: what came before them teaches nothing, and if they make few arrivals they stand for some at their rate.
        is_cut: Whether there were perhaps more; None: if there are `MOST_HITS`.
    """
    if len(hits) >= MOST_HITS if is_cut is None else is_cut:
        use = interrupted(use)
        weight = sum(weight for _, weight in hits)
        if 0 < weight < LEAST_ARRIVALS * rule.whole:
            newest_us = hits[-1][0]
            gap_us = (newest_us - hits[0][0]) * rule.whole // weight
            hits = [(newest_us - ago * gap_us, rule.whole) for ago in reversed(range(LEAST_ARRIVALS))]
    for at_us, weight in hits:
        use = rule.observe(use, max(at_us, use.last_us), weight)
    return use


@dataclass(frozen=True)
class _ByWorth(ABC):
    """What both policies share."""

    whole: int  # weight of one arrival [millionths]
    look_us: int  # of the node's rent cost what one look costs

    def observe(self, use: NodeUse, at_us: int, weight: int) -> NodeUse:
        """Add a weight, and for each whole one an arrival."""
        if not use.is_followed:
            at_us = max(at_us, use.last_us)
        part = use.part + weight
        while part >= self.whole:
            part -= self.whole
            use = self._arrive(use, at_us) if at_us >= use.last_us else self._arrive_late(use, at_us)
        return replace(use, part=part)

    def next_look_us(self, use: NodeUse, *, since_us: int, at_us: int) -> int | None:
        """Return the later of the instant at which the node no longer pays and of what looks are worth."""
        stop_us = self.stop_us(use, since_us)
        if stop_us <= at_us:
            return None
        # In milliseconds the product fits 64 bits, which the compiled simulator has.
        age_ms, look_ms = max(at_us - since_us, 0) // _US_PER_MS, self.look_us // _US_PER_MS
        return max(stop_us, at_us + isqrt(2 * age_ms * look_ms) * _US_PER_MS)

    @abstractmethod
    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return when a node no longer pays, as `UseRule.stop_us` [us]."""

    @abstractmethod
    def _arrive(self, use: NodeUse, at_us: int) -> NodeUse:
        """Return the use after an arrival."""

    @abstractmethod
    def _arrive_late(self, use: NodeUse, at_us: int) -> NodeUse:
        """Return the use after an arrival before the newest one."""


@dataclass(frozen=True)
class BreakevenUse(_ByWorth):
    """The use of a node under the break-even policy."""

    parameters: BreakevenParameters

    def first(self) -> NodeUse:
        """Return a use without times."""
        return NodeUse()

    def knows(self, use: NodeUse) -> bool:
        """Whether a use has no belief."""
        return use.belief is None

    def boots(self, use: NodeUse, at_us: int) -> bool:
        """Whether enough arrivals came within the limit, the last one now."""
        return _are_close(use, at_us, self.parameters)

    def boot_compares(self, use: NodeUse, at_us: int) -> tuple[Compared, ...]:
        """Return within how long the newest arrivals came, and the limit."""
        return (_closeness(use, at_us, self.parameters),)

    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return the later of the minimum run's end and of the stay after the newest arrival."""
        return breakeven.redis_stop_us(since_us=since_us, last_us=use.last_us, parameters=self.parameters)

    def _arrive(self, use: NodeUse, at_us: int) -> NodeUse:
        times_us = _times_us(use, at_us, self.parameters)
        return replace(use, last_us=at_us, is_followed=True, times_us=times_us)

    def _arrive_late(self, use: NodeUse, at_us: int) -> NodeUse:
        return replace(use, times_us=_times_us(use, at_us, self.parameters))


@dataclass(frozen=True)
class HazardUse(_ByWorth):
    """The use of a node under the hazard policy.

    A belief takes a pair of requests for the beginning of a burst, however often a pair was all that came: so a boot
    also takes as many arrivals as one by break-even.
    """

    parameters: HazardParameters
    least: BreakevenParameters  # what a boot takes at least

    def first(self) -> NodeUse:
        """Return a use with the belief of a key that nobody has asked for."""
        return NodeUse(belief=hazard.first_belief(self.parameters))

    def knows(self, use: NodeUse) -> bool:
        """Whether a use has a belief."""
        return use.belief is not None

    def boots(self, use: NodeUse, at_us: int) -> bool:
        """Whether enough arrivals came lately, and the expected rate pays for the node."""
        return _are_close(use, at_us, self.least) and hazard.pays(
            _belief(use), self.parameters.boot, idle_us=_idle_us(use, at_us)
        )

    def boot_compares(self, use: NodeUse, at_us: int) -> tuple[Compared, ...]:
        """Return within how long the newest arrivals came, and what the expected rates earn and lose."""
        earned = hazard.compares(_belief(use), self.parameters.boot, idle_us=_idle_us(use, at_us))
        return _closeness(use, at_us, self.least), earned

    def stop_us(self, use: NodeUse, since_us: int) -> int:
        """Return the later of the minimum run's end and of the instant at which the expected rate no longer pays."""
        least_us = since_us + self.parameters.redis_least_us
        return max(least_us, use.last_us + hazard.pays_until_us(_belief(use), self.parameters.stay))

    def _arrive(self, use: NodeUse, at_us: int) -> NodeUse:
        belief = _belief(use)
        if use.is_followed:
            belief = hazard.learn(belief, at_us - use.last_us, self.parameters)
        times_us = _times_us(use, at_us, self.least)
        return replace(use, last_us=at_us, is_followed=True, belief=belief, times_us=times_us)

    def _arrive_late(self, use: NodeUse, at_us: int) -> NodeUse:
        """Teach the gap since the arrival before it, if that is remembered: what is older has taught its gaps."""
        before_us = max((time_us for time_us in use.times_us if time_us <= at_us), default=None)
        belief = _belief(use)
        if before_us is not None:
            belief = hazard.learn(belief, at_us - before_us, self.parameters)
        return replace(use, belief=belief, times_us=_times_us(use, at_us, self.least))


def breakeven_use(worth: Worth) -> BreakevenUse:
    """Return the rule of the break-even policy for a stack."""
    whole, hit_usd, prices = _arrivals(worth)
    return BreakevenUse(whole, _look_us(worth), breakeven.breakeven(hit_usd, prices))


def hazard_use(worth: Worth) -> HazardUse:
    """Return the rule of the hazard policy for a stack."""
    whole, hit_usd, prices = _arrivals(worth)
    return HazardUse(whole, _look_us(worth), hazard.hazard(hit_usd, prices), breakeven.breakeven(hit_usd, prices))


def encode(use: NodeUse) -> bytes:
    """Return the use as rows hold it: less than 1 KB, nothing rounded."""
    head = _HEAD.pack(use.last_us, use.is_followed, use.part, len(use.times_us), use.belief.gaps if use.belief else -1)
    times = Struct(f"<{len(use.times_us)}q").pack(*use.times_us)
    return head + times + (b"" if use.belief is None else _BELIEF.pack(*use.belief.weights, *use.belief.counts))


def decode(data: bytes) -> NodeUse:
    """Return the use that `encode` wrote."""
    last_us, is_followed, part, times, gaps = _HEAD.unpack_from(data)
    times_us = Struct(f"<{times}q").unpack_from(data, _HEAD.size)
    if gaps < 0:
        return NodeUse(last_us, is_followed, part, None, times_us)
    numbers = _BELIEF.unpack_from(data, _HEAD.size + 8 * times)
    rates = len(RATES_PER_S)
    return NodeUse(last_us, is_followed, part, Belief(numbers[:rates], numbers[rates:], gaps), times_us)


_HEAD = Struct("<q?qiq")
_BELIEF = Struct(f"<{2 * len(RATES_PER_S)}d")


def _arrivals(worth: Worth) -> tuple[int, Fraction, BreakevenPrices]:
    """Return the weight of an arrival, what one saves [USD], and the prices that it is weighed against."""
    prices = worth.prices
    hits = ceil(_LEAST_GAP_S * prices.redis_usd_per_s / worth.hit_usd)
    # What an arrival saves is all in its worth: the policies take the price of a GET as a saving next to it.
    weighed = BreakevenPrices(prices.lambda_usd_per_s, prices.redis_usd_per_s, Fraction(0), prices.run_usd)
    return hits * MICRO, hits * worth.hit_usd, weighed


def _look_us(worth: Worth) -> int:
    return int(US_PER_S * worth.prices.look_usd / worth.prices.redis_usd_per_s)


def _span_us(use: NodeUse, at_us: int, requests: int) -> int | None:
    """Return the shortest time of that number of arrivals with the last or that of `at_us`; None: too few [us]."""
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
    """Whether as many arrivals as boot by break-even came within its limit."""
    span_us = _span_us(use, at_us, parameters.boot_requests)
    return span_us is not None and span_us < parameters.boot_within_us


def _closeness(use: NodeUse, at_us: int, parameters: BreakevenParameters) -> Compared:
    span_us = _span_us(use, at_us, parameters.boot_requests)
    value_s = None if span_us is None else span_us / US_PER_S
    return Compared("arrivals_span_s", value_s, parameters.boot_within_us / US_PER_S)


def _idle_us(use: NodeUse, at_us: int) -> int:
    return min(max(at_us - use.last_us, 0), LONGEST_IDLE_US)


def _times_us(use: NodeUse, at_us: int, parameters: BreakevenParameters) -> tuple[int, ...]:
    """Return the newest arrivals with one more, in order: what a boot looks back on and late ones join [us]."""
    observed = use.times_us if use.is_followed else ()
    return tuple(sorted((*observed, at_us))[-parameters.boot_requests - _FOR_LATE_ONES :])


def _belief(use: NodeUse) -> Belief:
    assert use.belief is not None, "the use of another policy"
    return use.belief
