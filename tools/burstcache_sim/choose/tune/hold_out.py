"""Hold-out validation: parameters tuned on a log's first half are tested on its second half.

The best of thousands of candidates overfits the log that selected it. On the second half, the best candidate of the
first half is compared with parameters tuned on the second half (hindsight) and with the template's parameters.
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

LEAST_REQUESTS = 100  # minimum in each half
_EFFORT = 0.25  # share of a full search's candidates to try on each half


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Results of three settings in a log's second half, repeated for a month."""

    workload: Workload  # the second half
    tuned_before: Tried  # tuned on the first half
    tuned_on_it: Tried  # tuned on the second half (hindsight)
    usual: Tried | None  # the template's setting (None if the template uses another policy)

    def rows(self) -> list[tuple[str, Tried]]:
        """Return the results, each labelled by the requests used for tuning."""
        rows = [("the first half", self.tuned_before), ("the second half itself", self.tuned_on_it)]
        return rows + ([("nothing: the template's own", self.usual)] if self.usual else [])


def hold_out(
    workload: Workload,
    objective_of: Callable[[Workload], Objective],
    space: Space,
    *,
    candidates: int | None = None,
) -> HoldOut | None:
    """Tune parameters on a log's first half and test them on its second half.

    Args:
        workload: The whole log.
        objective_of: Function that returns the objective for a half.
        space: The policy's search space.
        candidates: Number of candidates for a search of the whole log. If None, as many as finish within seconds.

    Returns:
        The results, or None if the log's first or second half (by time) has too few requests.
    """
    first, second = _halves(workload)
    if first is None or second is None:
        return None

    def tuned(half: Workload, *seeds: Point) -> Tuned:
        return tune(half, objective_of(half), space, candidates=candidates, effort=_EFFORT, seeds=seeds)

    before = tuned(first)
    points = [(before.best or before.closest).point, *([space.usual] if space.usual else [])]
    by_point = {tried.point: tried for tried in tried_on(second, space, points)}
    hindsight = tuned(second, points[0]).closest  # never worse than the point tuned on the first half
    return HoldOut(second, by_point[points[0]], hindsight, by_point[points[-1]] if space.usual else None)


def _halves(workload: Workload) -> tuple[Workload | None, Workload | None]:
    times_us = workload.trace.arrivals_us
    middle_us = (int(times_us[0]) + int(times_us[-1])) // 2
    middle = int(times_us.searchsorted(middle_us, side="right"))
    if min(middle, len(times_us) - middle) < LEAST_REQUESTS:
        return None, None
    return workload.part(0, middle, Fraction(1, 2)), workload.part(middle, len(times_us), Fraction(1, 2))
