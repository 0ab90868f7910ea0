"""The exact optimum, which is the minimum cost of serving a trace of one key with perfect foresight.

Each request is served by a cache function, by Redis or, if misses have a price, by S3. Costs are exact integers. The
program is compiled on first use. Importing this module loads neither numpy nor numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.units import INVOCATION_UNITS, LAMBDA_UNITS_PER_US, REDIS_UNITS_PER_US, S3_GET_UNITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.optimum.bridge import Prices

# 19 years. Even at the combined rates of Lambda and Redis, such a trace costs less than 2**62 units: no sum overflows.
MAX_SPAN_US = 600_000_000 * US_PER_S
_DEAREST_PENALTY_UNITS = 10**12  # 30 times the cost of a cache function per request, so that no request misses

_BRIDGE_US = 30 * US_PER_S  # a cache function bridges the boot of Redis


class Variant(Enum):
    """The optimum's rules: the minimum Lambda run [us], and whether a cache function bridges each Redis boot."""

    PLAIN = (5 * US_PER_S, False)
    SHORT_LAMBDA = (1 * US_PER_S, False)
    BRIDGED = (5 * US_PER_S, True)


@dataclass(frozen=True, slots=True)
class OptimumResult:
    """A trace's minimum cost in exact cost units, and its minimum cost with misses if misses have a penalty."""

    cost_units: int  # without misses
    cost_units_dmin_1s: int  # `cost_units` with a minimum Lambda run of 1 s
    cost_units_bridged: int  # `cost_units` with a cache function before every Redis run
    penalty_units: int | None = None
    objective_units: int | None = None  # cost plus the penalties of misses
    fewest_misses: int | None = None  # minimum number of misses at that objective

    @property
    def cost_units_at_fewest_misses(self) -> int | None:
        """The objective without the penalties [cost units]."""
        if self.objective_units is None or self.penalty_units is None or self.fewest_misses is None:
            return None
        return self.objective_units - self.penalty_units * self.fewest_misses


def solve(arrivals_us: Sequence[int] | NDArray[np.int64], penalty_units: int | None = None) -> OptimumResult:
    """Compute the optimum for a trace of one key in all variants.

    Args:
        arrivals_us: Times of the requests, sorted, repeats allowed, over at most 19 years [us].
        penalty_units: Price of a miss in addition to the S3 GET, at least 0 [cost units], or None to forbid misses.

    Raises:
        InvalidSettingError: The arrivals are unsorted or span more than 19 years, or the penalty is below 0.

    Source:
        `docs/understand/simulation.md`, "The exact optimum".
    """
    plain, short, bridged = (least_cost(arrivals_us, variant=variant)[0] for variant in Variant)
    if penalty_units is None:
        return OptimumResult(plain, short, bridged)
    objective_units, misses = least_cost(arrivals_us, penalty_units)
    return OptimumResult(plain, short, bridged, penalty_units, objective_units, misses)


def least_cost(
    arrivals_us: Sequence[int] | NDArray[np.int64],
    penalty_units: int | None = None,
    *,
    variant: Variant = Variant.PLAIN,
) -> tuple[int, int]:
    """Compute a variant's minimum objective [cost units], and the minimum number of misses at that objective.

    Args:
        arrivals_us: As in `solve` [us].
        penalty_units: As in `solve` [cost units]. Solving for several penalties yields the Pareto front.
        variant: The rules.

    Raises:
        InvalidSettingError: As in `solve`.
    """
    from burstcache_sim.optimum.kernel import optimum

    t, prices = optimum_input(arrivals_us, penalty_units, variant)
    if not len(t):
        return 0, 0
    cost_units, misses = optimum(t, prices)
    return int(cost_units), int(misses)


def optimum_input(
    arrivals_us: Sequence[int] | NDArray[np.int64], penalty_units: int | None, variant: Variant
) -> tuple[NDArray[np.int64], Prices]:
    """Return arrivals from 0 on [us] and prices [cost units] for the compiled program. Errors: see `least_cost`."""
    return _from_zero(arrivals_us), _prices(penalty_units, variant)


def _from_zero(arrivals_us: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the arrivals relative to the first arrival. A shift in time does not change the cost."""
    import numpy as np

    if len(arrivals_us) and not 0 <= int(arrivals_us[-1]) - int(arrivals_us[0]) <= MAX_SPAN_US:
        raise InvalidSettingError(
            f"arrivals from {arrivals_us[0]} to {arrivals_us[-1]} us: expected them sorted and over at most"
            f" {MAX_SPAN_US} us (19 years), whose costs fit 64 bits"
        )
    t = np.array(arrivals_us, np.int64)
    if np.any(t[1:] < t[:-1]):
        raise InvalidSettingError(f"arrival {int(np.argmax(t[1:] < t[:-1])) + 2} precedes the one before it: sort them")
    return t - t[:1]


def _prices(penalty_units: int | None, variant: Variant) -> Prices:
    from burstcache_sim.optimum.bridge import INFINITE, Prices

    if penalty_units is not None and penalty_units < 0:
        raise InvalidSettingError(f"penalty of {penalty_units} units per miss: expected at least 0")
    least_us, is_bridged = variant.value
    prices = Prices(
        lambda_rate=LAMBDA_UNITS_PER_US,
        lambda_start=INVOCATION_UNITS,
        least_lambda_us=least_us,
        redis_rate=REDIS_UNITS_PER_US,
        redis_start=S3_GET_UNITS,
        least_redis_us=60 * US_PER_S,
        free_redis_us=0,
        cool_down_us=60 * US_PER_S,  # 30 s stop, 30 s boot
        miss=INFINITE if penalty_units is None else S3_GET_UNITS + min(penalty_units, _DEAREST_PENALTY_UNITS),
    )
    if not is_bridged:
        return prices
    return prices._replace(  # the cache function serves the first 30 s, while Redis boots
        redis_start=S3_GET_UNITS + INVOCATION_UNITS + LAMBDA_UNITS_PER_US * _BRIDGE_US,
        least_redis_us=60 * US_PER_S + _BRIDGE_US,
        free_redis_us=_BRIDGE_US,
        cool_down_us=30 * US_PER_S,
    )
