"""How well tuned parameters last: tuned on a log's first half, used in its second.

The best of thousands of candidates looks better on the log it was chosen on. Here it meets requests that it was not
chosen on, next to what choosing on these would have given, and to what the template gives without any choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from burstcache_sim.choose.tune.candidates import Point, Space
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.choose.tune.objectives import Objective
from burstcache_sim.choose.tune.search import Tuned, tried_on, tune
from burstcache_sim.choose.tune.workload import Workload

LEAST_REQUESTS = 100  # in either half
_EFFORT = 0.25  # of a whole search, for each half


@dataclass(frozen=True, slots=True)
class HoldOut:
    """What parameters give in a log's second half, repeated for a month."""

    workload: Workload  # the second half
    tuned_before: Tried  # on the first half
    tuned_on_it: Tried  # on the second half itself: hindsight
    usual: Tried | None  # the template's; None if it does not have this policy

    def rows(self) -> list[tuple[str, Tried]]:
        """Return each with what it was tuned on."""
        rows = [("the first half", self.tuned_before), ("the second half itself", self.tuned_on_it)]
        return rows + ([("nothing: the template's own", self.usual)] if self.usual else [])


def hold_out(
    workload: Workload,
    objective_of: Callable[[Workload], Objective],
    space: Space,
    *,
    candidates: int | None = None,
) -> HoldOut | None:
    """Check how well tuned parameters last.

    Args:
        workload: The whole log.
        objective_of: The objective of each half.
        space: Which policy.
        candidates: How many the search of the whole log tries; None for what takes seconds.

    Returns:
        None if one half, by time, has too few requests.
    """
    first, second = _halves(workload)
    if first is None or second is None:
        return None

    def tuned(half: Workload, *known: Point) -> Tuned:
        return tune(half, objective_of(half), space, candidates=candidates, effort=_EFFORT, known=known)

    before = tuned(first)
    points = [(before.best or before.closest).point, *([space.usual] if space.usual else [])]
    there = {tried.point: tried for tried in tried_on(second, space, points)}
    hindsight = tuned(second, points[0]).closest  # never worse than what the first half taught
    return HoldOut(second, there[points[0]], hindsight, there[points[-1]] if space.usual else None)


def _halves(workload: Workload) -> tuple[Workload | None, Workload | None]:
    times_us = workload.trace.arrivals_us
    middle_us = (int(times_us[0]) + int(times_us[-1])) // 2
    middle = int(times_us.searchsorted(middle_us, side="right"))
    if min(middle, len(times_us) - middle) < LEAST_REQUESTS:
        return None, None
    return workload.part(0, middle, Fraction(1, 2)), workload.part(middle, len(times_us), Fraction(1, 2))
