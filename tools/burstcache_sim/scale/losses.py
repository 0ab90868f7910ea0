"""Losses of a service without a queue: the share of random arrivals that find all units busy.

Source:
    Erlang, "Solution of some problems in the theory of probabilities of significance in automatic telephone exchanges",
    1917 (formula B). It holds for any distribution of service times.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil

_ROUNDING = 1e-9


def refused_share(offered: float, units: int) -> float:
    """Return the share of refused arrivals of a Poisson process.

    Args:
        offered: Mean number of units that the arrivals would hold if none was refused: rate times service time.
        units: Units of the service.
    """
    if not offered:
        return 0.0
    inverse = 1.0
    for number in range(1, units + 1):
        inverse = 1 + inverse * number / offered
        if inverse > 1e300:
            return 0.0
    return 1 / inverse


def evenly_refused_share(offered: float, units: int) -> float:
    """Return the share of refused arrivals that are evenly apart, with equal service times.

    A unit that is free again takes the next arrival, so it holds a whole number of intervals.
    """
    return max(0.0, 1 - units / ceil(offered - _ROUNDING)) if offered > _ROUNDING else 0.0


@lru_cache
def used_at_first_losses(units: int, *, share: float = 0.01) -> float:
    """Return the use of all units at which a Poisson process loses this share of its arrivals."""
    least, most = 0.0, 2.0
    while most - least > 1e-4:
        used = (least + most) / 2
        if refused_share(used * units, units) < share:
            least = used
        else:
            most = used
    return least
