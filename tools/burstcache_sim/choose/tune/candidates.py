"""Search candidates: a policy's parameters as points that move in small steps.

The thesis's policy is searched over the parameters that `PolicyOverrides` sets individually, within the range that a
live system handles well. The other policies are searched over their single knob. Points are rounded to two or three
digits to keep recommendations easy to read and type.
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
TEMPLATE_RATE, TEMPLATE_SENSITIVITY = "9", "4"  # template.yaml's defaults, which the overrides change

_RATES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 6, 9, 12, 20, 30, 45, 60)
_SENSITIVITIES = (1, 2, 3, 4, 5)
_FINEST = 0.05  # a smaller step would vanish in rounding


class Space(Protocol):
    """A policy's search space."""

    def start(self, count: int, random: Random) -> list[Point]:
        """Return points spread over the space."""

    def near(self, point: Point, step: float, random: Random) -> Point:
        """Move the point by a factor of at most 2 to the power of `step`, up or down."""

    def policy(self, point: Point) -> Policy:
        """Return the policy with the point's values."""

    def text(self, point: Point) -> str:
        """Format the point for an option or template parameter."""

    @property
    def usual(self) -> Point | None:
        """The template's point, or None if the template uses another policy."""

    def plainer(self, point: Point) -> list[Point]:
        """Return the point's variants in which one more value equals the template's."""

    def oddness(self, point: Point) -> tuple[float, float]:
        """Return the number of non-template values, and their total distance from the template in powers of 2."""


@dataclass(frozen=True, slots=True)
class _Range:
    """A parameter's bounds, and its values if only a few are allowed."""

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


# TICK, lambda threshold, window, Redis threshold, Redis utilization, check. Windows stay small, because a larger window
# enlarges the table's row and thus the cost of every write.
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
    """The thesis policy's search space of six parameters. The seventh, `keep_running`, has no effect from 30 s on."""

    def start(self, count: int, random: Random) -> list[Point]:
        """Return the configurator's points for many rates, sensitivities and Redis thresholds, then random points."""
        configured = [_configured(rate, s, boots) for rate in _RATES for s in _SENSITIVITIES for boots in (4, 0)]
        random.shuffle(configured)
        at_random = [tuple(range_.draw(random) for range_ in _THESIS) for _ in range(count - len(configured))]
        return (configured + at_random)[:count]

    def near(self, point: Point, step: float, random: Random) -> Point:
        """Move one or two of the point's values."""
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
        """Format the point as the template's `PolicyOverrides`."""
        return overrides_text(self.parameters(point))

    @property
    def usual(self) -> Point:
        """The configurator's point for the template's rate and sensitivity."""
        return _configured(float(TEMPLATE_RATE), int(TEMPLATE_SENSITIVITY), redis_threshold=4)

    def plainer(self, point: Point) -> list[Point]:
        """Return the point's variants in which one changed value is reset to the template's."""
        usual = self.usual
        return [(*point[:i], usual[i], *point[i + 1 :]) for i, value in enumerate(point) if value != usual[i]]

    def oddness(self, point: Point) -> tuple[float, float]:
        """Return the number of changed values, and their total distance from the template in powers of 2."""
        pairs = [(value, usual) for value, usual in zip(point, self.usual, strict=True) if value != usual]
        return len(pairs), sum(abs(log2((value + 1) / (usual + 1))) for value, usual in pairs)


@dataclass(frozen=True, slots=True)
class WorthSpace:
    """The search space of a policy with a single knob, the hit value."""

    of: type[WorthPolicy]
    prices: TierPrices

    def start(self, count: int, random: Random) -> list[Point]:
        """Return hit values from 1e-9 to 1 USD, evenly spaced on a logarithmic scale."""
        ratio = _HIT_VALUE_USD.most / _HIT_VALUE_USD.least
        return [(_rounded(_HIT_VALUE_USD.least * ratio ** (i / max(count - 1, 1)), 3),) for i in range(count)]

    def near(self, point: Point, step: float, random: Random) -> Point:
        """Move the hit value."""
        moved = point[0] * 2 ** random.uniform(-step, step)
        return (_rounded(min(max(moved, _HIT_VALUE_USD.least), _HIT_VALUE_USD.most), 3),)

    def policy(self, point: Point) -> Policy:
        """Return the policy for the hit value, at the sheet's prices."""
        return self.of.worth(Fraction(self.text(point)), self.prices)

    def text(self, point: Point) -> str:
        """Format the hit value for `--hit-value-usd`."""
        return f"{point[0]:.3g}"

    @property
    def usual(self) -> None:
        """Always None, because no hit value is plainer than another."""

    def plainer(self, point: Point) -> list[Point]:
        """Return an empty list, because all hit values are equally plain."""
        return []

    def oddness(self, point: Point) -> tuple[float, float]:
        """Return zeros, because all hit values are equally plain."""
        return 0, 0


def space_of(policy: type[Policy], prices: TierPrices) -> Space:
    """Return a policy's search space."""
    return WorthSpace(policy, prices) if issubclass(policy, WorthPolicy) else ThesisSpace()


def overrides_text(parameters: Parameters) -> str:
    """Return the `PolicyOverrides` that turn the template's rate and sensitivity into these parameters."""
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
    """Return the distinct points that are not in `seen`, and add these points to `seen`."""
    new = [point for point in dict.fromkeys(points) if point not in seen]
    seen.update(new)
    return new


def _configured(rate: float, sensitivity: int, redis_threshold: int) -> Point:
    """Return the configurator's point, clipped to the space."""
    p = configure(Fraction(str(rate)), Fraction(sensitivity), least_tick_s=0)
    times_s = p.tick_us / US_PER_S, p.lambda_threshold_us / US_PER_S, p.redis_utilization_us / US_PER_S
    tick_s, threshold_s, utilization_s = (
        _rounded(min(max(value, range_.least), range_.most), 2)
        for value, range_ in zip(times_s, (_THESIS[0], _THESIS[1], _THESIS[4]), strict=True)
    )
    return tick_s, threshold_s, p.lambda_window_elements, redis_threshold, utilization_s, p.redis_check_us / US_PER_S


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
