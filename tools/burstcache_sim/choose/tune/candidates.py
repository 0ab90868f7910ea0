"""What a search may try: both policies' parameters, as points that can be moved a little.

The thesis's policy is searched in its single parameters, which `PolicyOverrides` sets one by one, within what a live
system does well; the break-even policy in its one knob. Every point is rounded to two or three digits, so that a
recommendation can be read and typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import log2
from random import Random
from typing import Protocol

from burstcache.core.parameters import US_PER_S, Parameters, configure
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.policy import Policy, WorthPolicy
from burstcache_sim.policies.thesis import Thesis

Point = tuple[float, ...]
TEMPLATE_RATE, TEMPLATE_SENSITIVITY = "9", "4"  # template.yaml's defaults; the overrides stand on them

_RATES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 6, 9, 12, 20, 30, 45, 60)
_SENSITIVITIES = (1, 2, 3, 4, 5)
_FINEST = 0.05  # a smaller step would vanish in rounding


class Space(Protocol):
    """Where a search looks."""

    def start(self, count: int, random: Random) -> list[Point]:
        """Return points all over the space."""

    def near(self, point: Point, step: float, random: Random) -> Point:
        """Return the point moved by a factor of up to 2 to the power of `step`."""

    def policy(self, point: Point) -> Policy:
        """Return the policy under the setting that the point stands for."""

    def text(self, point: Point) -> str:
        """Return the point as a person writes it."""

    @property
    def usual(self) -> Point | None:
        """The template's point; None if it does not have this policy."""

    def plainer(self, point: Point) -> list[Point]:
        """Return the points in which one more value is the template's."""

    def oddness(self, point: Point) -> tuple[float, float]:
        """Return how many values differ from the template's, and by how many powers of 2."""


@dataclass(frozen=True, slots=True)
class _Range:
    """One parameter: bounds, and the only values if it has few."""

    least: float
    most: float
    values: tuple[float, ...] = ()

    def draw(self, random: Random) -> float:
        if self.values:
            return random.choice(self.values)
        return _rounded(self.least * (self.most / self.least) ** random.random(), 2)

    def move(self, value: float, step: float, random: Random) -> float:
        if self.values:
            place = self.values.index(value) + random.choice((-1, 1))
            return self.values[min(max(place, 0), len(self.values) - 1)]
        return _rounded(min(max(value * 2 ** random.uniform(-step, step), self.least), self.most), 2)


# TICK, lambda threshold, window, Redis threshold, Redis utilization, check. Not a window of many requests: the table's
# row would grow with it, and with the row what every write costs.
_THESIS = (
    _Range(1, 900),
    _Range(1, 21_600),
    _Range(2, 4, (2, 3, 4)),
    _Range(0, 20, (0, 1, 2, 3, 4, 6, 8, 12, 16, 20)),
    _Range(5, 86_400),
    _Range(30, 300, (30, 60, 120, 300)),
)
_HIT_VALUE_USD = _Range(1e-9, 1)


class ThesisSpace:
    """The thesis's policy: six parameters; the seventh, `keep_running`, changes nothing from 30 s on."""

    def start(self, count: int, random: Random) -> list[Point]:
        """Return the configurator's points for rates and sensitivities, patient and eager; then random points."""
        known = [_configured(rate, s, boots) for rate in _RATES for s in _SENSITIVITIES for boots in (4, 0)]
        random.shuffle(known)
        at_random = [tuple(range_.draw(random) for range_ in _THESIS) for _ in range(count - len(known))]
        return (known + at_random)[:count]

    def near(self, point: Point, step: float, random: Random) -> Point:
        """Move one or two parameters."""
        moved = list(point)
        for place in random.sample(range(len(point)), random.choice((1, 2))):
            moved[place] = _THESIS[place].move(point[place], max(step, _FINEST), random)
        return tuple(moved)

    def policy(self, point: Point) -> Thesis:
        """Return the policy with the point's parameters."""
        return Thesis(self.parameters(point))

    def parameters(self, point: Point) -> Parameters:
        """Return the point's parameters."""
        tick_s, threshold_s, elements, redis_threshold, utilization_s, check_s = point
        return Parameters(
            tick_us=_us(tick_s),
            lambda_window_elements=int(elements),
            lambda_threshold_us=_us(threshold_s),
            redis_threshold=int(redis_threshold),
            redis_utilization_us=_us(utilization_s),
            redis_check_us=_us(check_s),
        )

    def text(self, point: Point) -> str:
        """Return the template's `PolicyOverrides`."""
        return overrides_text(self.parameters(point))

    @property
    def usual(self) -> Point:
        """What the configurator makes of the template's rate and sensitivity."""
        return _configured(float(TEMPLATE_RATE), int(TEMPLATE_SENSITIVITY), redis_threshold=4)

    def plainer(self, point: Point) -> list[Point]:
        """Return the points in which one of the odd values is put back."""
        usual = self.usual
        return [(*point[:i], usual[i], *point[i + 1 :]) for i, value in enumerate(point) if value != usual[i]]

    def oddness(self, point: Point) -> tuple[float, float]:
        """Return how many values differ, and by how many powers of 2 together."""
        pairs = [(value, usual) for value, usual in zip(point, self.usual, strict=True) if value != usual]
        return len(pairs), sum(abs(log2((value + 1) / (usual + 1))) for value, usual in pairs)


@dataclass(frozen=True, slots=True)
class WorthSpace:
    """A policy with one knob: what a hit is worth."""

    of: type[WorthPolicy]
    prices: TierPrices

    def start(self, count: int, random: Random) -> list[Point]:
        """Return values from 1e-9 to 1 USD, evenly spaced by their logarithm."""
        ratio = _HIT_VALUE_USD.most / _HIT_VALUE_USD.least
        return [(_rounded(_HIT_VALUE_USD.least * ratio ** (i / max(count - 1, 1)), 3),) for i in range(count)]

    def near(self, point: Point, step: float, random: Random) -> Point:
        """Move the value."""
        moved = point[0] * 2 ** random.uniform(-step, step)
        return (_rounded(min(max(moved, _HIT_VALUE_USD.least), _HIT_VALUE_USD.most), 3),)

    def policy(self, point: Point) -> Policy:
        """Return what follows from the value at the sheet's prices."""
        return self.of.worth(Fraction(self.text(point)), self.prices)

    def text(self, point: Point) -> str:
        """Return the value as `--hit-value-usd` takes it."""
        return f"{point[0]:.3g}"

    @property
    def usual(self) -> None:
        """Nothing: the live system does not have this policy."""

    def plainer(self, point: Point) -> list[Point]:
        """Return nothing: one value is as plain as another."""
        return []

    def oddness(self, point: Point) -> tuple[float, float]:
        """Return the same for every value."""
        return 0, 0


def space_of(policy: type[Policy], prices: TierPrices) -> Space:
    """Return where a policy's settings are searched."""
    return WorthSpace(policy, prices) if issubclass(policy, WorthPolicy) else ThesisSpace()


def overrides_text(parameters: Parameters) -> str:
    """Return the `PolicyOverrides` that make these parameters of the template's rate and sensitivity."""
    usual = configure(Fraction(TEMPLATE_RATE), Fraction(TEMPLATE_SENSITIVITY))
    changes = []
    for field in fields(Parameters):
        value = getattr(parameters, field.name)
        if value != getattr(usual, field.name):
            is_time = field.name.endswith("_us")
            name = field.name.removesuffix("_us") + "_s" if is_time else field.name
            changes.append(f"{name}={seconds_text(value) if is_time else value}")
    return ",".join(changes)


def seconds_text(time_us: int) -> str:
    """Return a time in seconds without trailing zeros: `0.5`, `12`."""
    whole, part = divmod(time_us, US_PER_S)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")


def unseen(points: Sequence[Point], seen: set[Point]) -> list[Point]:
    """Return the new points, once each, and note them."""
    new = [point for point in dict.fromkeys(points) if point not in seen]
    seen.update(new)
    return new


def _configured(rate: float, sensitivity: int, redis_threshold: int) -> Point:
    """Return the configurator's answer, moved into the space."""
    p = configure(Fraction(str(rate)), Fraction(sensitivity), least_tick_s=0)
    wanted = p.tick_us / US_PER_S, p.lambda_threshold_us / US_PER_S, p.redis_utilization_us / US_PER_S
    tick_s, threshold_s, utilization_s = (
        _rounded(min(max(value, range_.least), range_.most), 2)
        for value, range_ in zip(wanted, (_THESIS[0], _THESIS[1], _THESIS[4]), strict=True)
    )
    return tick_s, threshold_s, p.lambda_window_elements, redis_threshold, utilization_s, p.redis_check_us / US_PER_S


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
