"""The worth of latency against the cost of a system: the rule by which `burstcache advise` decides.

A system's net value is the value of its hits, or of the milliseconds that it saves over direct reads from S3, minus
its extra cost. The extra cost is the excess of its bill over the bill of S3 alone. S3 alone has a net value of 0. The
system with the highest net value is the best buy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isclose

from burstcache_sim.bill.latency_model import NOT_MODIFIED_SHARE

_SAME = 1e-7  # relative tolerance, because hit shares are rounded to 1e-8


@dataclass(frozen=True, slots=True)
class Value:
    """The value of latency, per hit or per millisecond. At most one of the two is above 0."""

    usd_per_hit: float = 0.0
    usd_per_ms: float = 0.0  # per millisecond saved on one request

    @property
    def is_known(self) -> bool:
        """Whether either value is set."""
        return self.usd_per_hit > 0 or self.usd_per_ms > 0


@dataclass(frozen=True, slots=True)
class Yield:
    """A system's monthly gains and cost, compared with direct reads from S3."""

    extra_usd: float
    hits: float  # answers fast enough to count as hits
    saved_ms: float  # over all requests (negative if requests get slower)
    served: float = 0.0  # answers without S3, at any latency
    confirmed: float = 0.0  # answers after a 304 from S3

    def at_s3_ms(self, extra_ms: float) -> Yield:
        """Return the gains if S3's latency changed by `extra_ms` [ms]."""
        return replace(self, saved_ms=self.saved_ms + self.s3_waits * extra_ms)

    @property
    def s3_waits(self) -> float:
        """The number of saved waits for S3's first byte. A 304 saves part of a wait."""
        return self.served + (1 - NOT_MODIFIED_SHARE) * self.confirmed

    def net_usd(self, value: Value) -> float:
        """Return the net value [USD a month]."""
        return value.usd_per_hit * self.hits + value.usd_per_ms * self.saved_ms - self.extra_usd


@dataclass(frozen=True, slots=True)
class Pays:
    """The range of values at which a system is the best buy (`to_usd` None: no upper limit) [USD]."""

    from_usd: float
    to_usd: float | None


def pays(ours: Sequence[Yield], others: Sequence[Yield], amount: Callable[[Yield], float]) -> Pays | None:
    """Return the values at which the best of `ours` has a higher net value than all `others`.

    Args:
        ours: Gains of one system, under all parameters worth considering.
        others: Gains of the competitors, including S3 alone.
        amount: Function that returns the valued quantity: hits or milliseconds.

    Returns:
        The first such range, or None if Burstcache never wins. A system's net value is linear in the value of latency,
        so the best system changes only where two lines cross.
    """
    our_lines = _best_lines([(amount(gain), gain.extra_usd) for gain in ours])
    other_lines = _best_lines([(amount(gain), gain.extra_usd) for gain in others])
    crossings = {(a_usd - b_usd) / (a - b) for a, a_usd in our_lines for b, b_usd in other_lines if a != b}
    values = [0.0, *sorted(value for value in crossings if value > 0)]
    spans = [*pairwise(values), (values[-1], None)]
    wins = [span for span in spans if _highest(our_lines, _inside(*span)) > _highest(other_lines, _inside(*span))]
    if not wins:
        return None
    first = wins[0]
    last = first
    for span in wins[1:]:
        if span[0] != last[1]:
            break
        last = span
    return Pays(first[0], last[1])


@dataclass(frozen=True, slots=True)
class Span:
    """The best buy between two values (`to` None: no upper limit)."""

    name: str
    start: float
    to: float | None


def best_buys(lines: Sequence[tuple[str, float, float]], least: float = 0.0) -> tuple[Span, ...]:
    """Return the best buy at each value, in ascending order of values.

    Args:
        lines: Each system's name, gain per unit of value, and cost. A name may occur several times. Among equal lines,
            the first wins.
        least: The lowest value to consider.
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
    """Return the lines without duplicates, up to rounding errors."""
    kept: list[tuple[str, float, float]] = []
    for line in lines:
        if not any(all(isclose(*pair, rel_tol=_SAME) for pair in zip(line[1:], one[1:], strict=True)) for one in kept):
            kept.append(line)
    return kept


def _best_lines(lines: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto front of lines (slope, cost). No other line has a higher slope at the same or a lower cost."""
    best: list[tuple[float, float]] = []
    for slope, cost in sorted(lines, key=lambda line: (line[1], -line[0])):
        if not best or slope > best[-1][0]:
            best.append((slope, cost))
    return best


def _inside(low: float, high: float | None) -> float:
    return low * 2 + 1 if high is None else (low + high) / 2


def _highest(lines: Sequence[tuple[float, float]], value: float) -> float:
    return max((slope * value - cost for slope, cost in lines), default=float("-inf"))
