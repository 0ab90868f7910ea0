"""The timescale of a figure: time units, tick distances and bucket widths."""

from __future__ import annotations

from dataclasses import dataclass

from burstcache.core.parameters import US_PER_S

_UNITS = (("s", 1, 600), ("min", 60, 5 * 3600), ("h", 3600, 3 * 86_400), ("d", 86_400, 0))  # name, seconds, span limit
_STEPS_S = (
    *(1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 182, 364)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A time unit and its length [s]."""

    name: str
    seconds: int


def unit_for(span_us: int) -> TimeUnit:
    """Return the unit that suits a time span."""
    name, seconds, _ = next((row for row in _UNITS if row[2] and span_us <= row[2] * US_PER_S), _UNITS[-1])
    return TimeUnit(name, seconds)


def step_s(span_us: int, *, most: int) -> int:
    """Return the smallest round number of seconds that fits at most `most` times into a span."""
    wanted_s = span_us / US_PER_S / most
    return next((step for step in _STEPS_S if step >= wanted_s), int(-(-wanted_s // 86_400)) * 86_400)
