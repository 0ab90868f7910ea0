"""The exact optimum: the least cost of serving a trace of one key if the future were known.

Every request is served by a cache function, by Redis or, if misses have a price, by S3. Costs are exact integers. The
program is compiled at first use; importing this module loads neither numpy nor numba.
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

# 19 years. At Lambda's and Redis's rate together so long a trace costs less than 2**62 units, and no sum exceeds that.
MAX_SPAN_US = 600_000_000 * US_PER_S
_DEAREST_PENALTY_UNITS = 10**12  # a cache function for one request costs a thirtieth: beyond this there is no miss

_BRIDGE_US = 30 * US_PER_S  # how long a cache function bridges the boot of Redis


class Variant(Enum):
    """Rules of the optimum: the least Lambda run [us], and whether a cache function bridges each boot of Redis."""

    PLAIN = (5 * US_PER_S, False)
    SHORT_LAMBDA = (1 * US_PER_S, False)
    BRIDGED = (5 * US_PER_S, True)


@dataclass(frozen=True, slots=True)
class OptimumResult:
    """The least cost of a trace in exact cost units, and with a penalty that of the best mixture with misses."""

    cost_units: int  # no miss allowed
    cost_units_dmin_1s: int  # the same with a least Lambda run of 1 s
    cost_units_bridged: int  # the same with a cache function before every Redis run
    penalty_units: int | None = None
    objective_units: int | None = None  # cost and the penalties of the misses
    fewest_misses: int | None = None  # at that objective

    @property
    def cost_units_at_fewest_misses(self) -> int | None:
        """The objective without the penalties [cost units]."""
        if self.objective_units is None or self.penalty_units is None or self.fewest_misses is None:
            return None
        return self.objective_units - self.penalty_units * self.fewest_misses


def solve(arrivals_us: Sequence[int] | NDArray[np.int64], penalty_units: int | None = None) -> OptimumResult:
    """Return the optimum of a trace of one key in all variants.

    Args:
        arrivals_us: When the requests come, sorted, repeats allowed, over at most 19 years [us].
        penalty_units: What a miss costs on top of its S3 GET, at least 0 [cost units]; None forbids misses.

    Raises:
        InvalidSettingError: The arrivals are unsorted or span too much, or the penalty is below 0.

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
    """Return the least objective of one variant [cost units] and the fewest misses at it.

    Args:
        arrivals_us: As in `solve` [us].
        penalty_units: As in `solve`; several penalties over one trace give its Pareto front [cost units].
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
    """Return what the compiled program takes: arrivals from zero [us], prices [cost units]; raises as `least_cost`."""
    return _from_zero(arrivals_us), _prices(penalty_units, variant)


def _from_zero(arrivals_us: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the arrivals relative to the first one; a shift in time changes no cost."""
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
