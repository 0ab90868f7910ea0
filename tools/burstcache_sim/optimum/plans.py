"""Plans that achieve the exact optimum's cost: the runs of cache functions and Redis with perfect foresight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache_sim.optimum.exact import Variant, optimum_input

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """The spans of cache functions and Redis [us, on the trace's clock], and the requests that S3 serves.

    A span extends from its first served request to its last. It may have length 0 and be shorter than the billed time.
    In the bridged variant, Redis begins 30 s after the cache function that bridges the boot.
    """

    lambda_spans_us: tuple[Span, ...] = ()
    redis_spans_us: tuple[Span, ...] = ()
    missed: tuple[int, ...] = ()  # indices into the trace

    @property
    def misses(self) -> int:
        """The number of requests that S3 serves."""
        return len(self.missed)


def plan(
    arrivals_us: Sequence[int] | NDArray[np.int64],
    penalty_units: int | None = None,
    *,
    variant: Variant = Variant.PLAIN,
) -> Plan:
    """Return a plan whose cost and number of misses equal the result of `optimum.exact.least_cost`.

    Args:
        arrivals_us: Times of the requests, sorted, repeats allowed, over at most 19 years [us].
        penalty_units: Price of a miss in addition to the S3 GET, at least 0 [cost units], or None to forbid misses.
        variant: The minimum Lambda run, and whether a cache function bridges each Redis boot.

    Raises:
        InvalidSettingError: The arrivals are unsorted or span more than 19 years, or the penalty is below 0.

    Source:
        `docs/understand/simulation.md`, "The exact optimum".
    """
    import numpy as np

    from burstcache_sim.optimum.backtrace import backtrace
    from burstcache_sim.optimum.kernel import optimum_and_nodes

    t, prices = optimum_input(arrivals_us, penalty_units, variant)
    if not len(t):
        return Plan()
    nodes = np.zeros((4, len(t) + 1), np.int64)
    cost_units, misses = optimum_and_nodes(t, prices, nodes)
    pieces = backtrace(t, prices, nodes, cost_units, misses)[::-1].tolist()
    return _plan([int(at_us) for at_us in arrivals_us], pieces, prices.free_redis_us)


def _plan(arrivals_us: list[int], pieces: list[list[int]], bridge_us: int) -> Plan:
    from burstcache_sim.optimum.backtrace import BY_LAMBDA, BY_REDIS

    lambda_spans_us: list[Span] = []
    redis_spans_us: list[Span] = []
    missed: list[int] = []
    for kind, first, last in pieces:
        from_us, to_us = arrivals_us[first], arrivals_us[last]
        if kind == BY_LAMBDA:
            lambda_spans_us.append((from_us, to_us))
        elif kind == BY_REDIS:
            if bridge_us:
                lambda_spans_us.append((from_us, from_us + bridge_us))
            redis_spans_us.append((from_us + bridge_us, max(to_us, from_us + bridge_us)))
        else:
            missed.append(first)
    return Plan(tuple(lambda_spans_us), tuple(redis_spans_us), tuple(missed))
