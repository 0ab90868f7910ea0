"""What latency is worth against what a system costs: the rule by which `burstcache advise` decides.

A system's net value is what its hits, or the milliseconds that it saves against S3 read directly, are worth, less
what its bill exceeds that of S3 alone. S3 alone has a net value of 0; the highest net value is the best buy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isclose

from burstcache_sim.bill.clock import NOT_MODIFIED_SHARE

_SAME = 1e-7  # shares of hits are rounded to 1e-8


@dataclass(frozen=True, slots=True)
class Value:
    """What latency is worth; one of the two is 0."""

    usd_per_hit: float = 0.0
    usd_per_ms: float = 0.0  # per millisecond saved, of one request

    @property
    def is_known(self) -> bool:
        """Whether a value was given."""
        return self.usd_per_hit > 0 or self.usd_per_ms > 0


@dataclass(frozen=True, slots=True)
class Yield:
    """What a system gives and takes in a month, all against S3 read directly."""

    extra_usd: float
    hits: float  # answers fast enough to count as hits
    saved_ms: float  # over all requests; below 0 if it makes requests slower
    served: float = 0.0  # answers without S3, however fast
    confirmed: float = 0.0  # answers that S3 only confirms

    def at_s3_ms(self, extra_ms: float) -> Yield:
        """Return what it would give if S3 took this much longer; shorter if below 0 [ms]."""
        return replace(self, saved_ms=self.saved_ms + self.s3_waits * extra_ms)

    @property
    def s3_waits(self) -> float:
        """How many times as long as S3's first byte takes it saves."""
        return self.served + (1 - NOT_MODIFIED_SHARE) * self.confirmed

    def net_usd(self, value: Value) -> float:
        """Return what the system is worth above its bill [USD a month]."""
        return value.usd_per_hit * self.hits + value.usd_per_ms * self.saved_ms - self.extra_usd


@dataclass(frozen=True, slots=True)
class Pays:
    """From which value something is the best buy, and up to which (None: without limit) [USD]."""

    from_usd: float
    to_usd: float | None


def pays(ours: Sequence[Yield], others: Sequence[Yield], amount: Callable[[Yield], float]) -> Pays | None:
    """Return the values at which the best of `ours` is worth more than every one of `others`.

    Args:
        ours: One system under all parameters worth considering.
        others: What else one could buy, S3 alone among it.
        amount: What the value is paid for: hits or milliseconds.

    Returns:
        The first such span; None if there is none. The net value of a system is a straight line over the value, and
        the best of several has the highest line, so the best changes only where two lines cross.
    """
    mine = _best_lines([(amount(one), one.extra_usd) for one in ours])
    theirs = _best_lines([(amount(one), one.extra_usd) for one in others])
    crossings = {(a_usd - b_usd) / (a - b) for a, a_usd in mine for b, b_usd in theirs if a != b}
    values = [0.0, *sorted(value for value in crossings if value > 0)]
    spans = [*pairwise(values), (values[-1], None)]
    won = [span for span in spans if _highest(mine, _inside(*span)) > _highest(theirs, _inside(*span))]
    if not won:
        return None
    first = won[0]
    last = first
    for span in won[1:]:
        if span[0] != last[1]:
            break
        last = span
    return Pays(first[0], last[1])


@dataclass(frozen=True, slots=True)
class Span:
    """What is the best buy between two values; `to` None: without limit."""

    name: str
    start: float
    to: float | None


def best_buys(lines: Sequence[tuple[str, float, float]], least: float = 0.0) -> tuple[Span, ...]:
    """Return what is the best buy at each value, in their order.

    Args:
        lines: Names, what each gains per unit of the value, and what it costs; a name may come several times. Of equal
            ones the first counts.
        least: The lowest value that is looked at.
    """
    spans: list[Span] = []
    at = least
    lines = _different(lines)
    name, slope, cost = min(lines, key=lambda line: (line[2] - line[1] * at, line[2]))
    while True:
        crossings = [
            ((other_cost - cost) / (other_slope - slope), -other_slope, other_cost, other)
            for other, other_slope, other_cost in lines
            if other_slope - slope > _SAME * abs(other_slope)
        ]
        later = [crossing for crossing in crossings if crossing[0] >= at]
        if not later:
            break
        following = min(later)
        if following[3] != name and following[0] > at:
            spans.append(Span(name, at, following[0]))
            at = following[0]
        name, slope, cost = following[3], -following[1], following[2]
    return (*spans, Span(name, at, None))


def _different(lines: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """Return the lines without those that an earlier one equals, but for rounding."""
    found: list[tuple[str, float, float]] = []
    for line in lines:
        if not any(all(isclose(*pair, rel_tol=_SAME) for pair in zip(line[1:], one[1:], strict=True)) for one in found):
            found.append(line)
    return found


def _best_lines(lines: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the lines (slope, cost) that are not below another one everywhere."""
    best: list[tuple[float, float]] = []
    for slope, cost in sorted(lines, key=lambda line: (line[1], -line[0])):
        if not best or slope > best[-1][0]:
            best.append((slope, cost))
    return best


def _inside(low: float, high: float | None) -> float:
    return low * 2 + 1 if high is None else (low + high) / 2


def _highest(lines: Sequence[tuple[float, float]], value: float) -> float:
    return max((slope * value - cost for slope, cost in lines), default=float("-inf"))
