"""What the Pareto plot turns: each policy's knob, from little memory to much."""

from __future__ import annotations

from fractions import Fraction

from burstcache.core.breakeven import BreakevenPrices, breakeven
from burstcache.core.parameters import parameters_from_text
from burstcache_sim.world.run import PolicyParameters

_SENSITIVITIES = [Fraction(step, 4) for step in range(1, 21)]  # 0.25 to 5
_PER_DECADE = 6
_DECADES = (-6, -2)  # a hit worth 1e-6 to 1e-2 USD


def knobs(prices: BreakevenPrices, *, rate: str, overrides: str = "") -> dict[str, list[PolicyParameters]]:
    """Return per policy what to try: the thesis's sensitivity at one rate, and what a hit is worth.

    Args:
        prices: What the break-even policy weighs a hit against.
        rate: The thesis policy's expected requests per minute.
        overrides: Its single parameters, which no step changes.

    Raises:
        InvalidSettingError: The rate or an override is not accepted.
    """
    by_sensitivity: list[PolicyParameters] = [
        parameters_from_text(rate=rate, sensitivity=str(float(value)), overrides=overrides, least_tick_s=0)
        for value in _SENSITIVITIES
    ]
    first, last = (decade * _PER_DECADE for decade in _DECADES)
    by_worth: list[PolicyParameters] = [
        breakeven(Fraction(f"{10 ** (step / _PER_DECADE):.2e}"), prices) for step in range(first, last + 1)
    ]
    low, high = float(_SENSITIVITIES[0]), float(_SENSITIVITIES[-1])
    return {
        f"thesis, rate {rate}, sensitivity {low:g} to {high:g}": by_sensitivity,
        f"break-even, a hit worth 1e{_DECADES[0]} to 1e{_DECADES[1]} USD": by_worth,
    }
