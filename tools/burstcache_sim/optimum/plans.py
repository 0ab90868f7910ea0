"""One plan that costs the exact optimum: what would have run when if the future were known."""

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
    """What runs from when to when [us, on the trace's clock], and which requests S3 serves.

    A span reaches from the first request that it serves to the last one, so it may be empty, and shorter than what is
    billed. In the bridged variant Redis begins 30 s after the cache function that bridges its boot.
    """

    lambda_spans_us: tuple[Span, ...] = ()
    redis_spans_us: tuple[Span, ...] = ()
    missed: tuple[int, ...] = ()  # positions in the trace

    @property
    def misses(self) -> int:
        """How many requests S3 serves."""
        return len(self.missed)


def plan(
    arrivals_us: Sequence[int] | NDArray[np.int64],
    penalty_units: int | None = None,
    *,
    variant: Variant = Variant.PLAIN,
) -> Plan:
    """Return one of the plans that cost what `optimum.exact.least_cost` says, with as few misses as that has.

    Args:
        arrivals_us: When the requests come, sorted, repeats allowed, over at most 19 years [us].
        penalty_units: What a miss costs on top of its S3 GET, at least 0 [cost units]; None forbids misses.
        variant: The rules.

    Raises:
        InvalidSettingError: The arrivals are unsorted or span too much, or the penalty is below 0.

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
