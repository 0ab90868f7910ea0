"""The search for a policy's parameters for a log and an objective: coarse at first, then finer around good candidates.

A log too long for a few hundred candidates is searched on its first part. The good candidates of that part are then
tried on the whole log. At the end, parameters are reset to the configurator's defaults where the extra cost is
negligible. The best of thousands of candidates overfits the log, and a nearby plainer setting performs as well on
future requests.

The search is deterministic. Its random numbers have a fixed seed, and the number of candidates depends only on the
log's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

from burstcache_sim.choose.tune.candidates import Point, Space, unseen
from burstcache_sim.choose.tune.front import Tried, pareto_front, spread
from burstcache_sim.choose.tune.objectives import Objective
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.progress import progress

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_MOST_CANDIDATES, _FEWEST_CANDIDATES = 3_000, 24
# Budget in requests times candidates, for a few seconds on two cores.
_REQUESTS_ONE_KEY, _REQUESTS_SHARED = 1_500_000_000, 150_000_000
_ON_A_PART = 400  # if a log allows fewer candidates, this many are tried on its first part
_LEAST = 8
_COARSE_SHARE = 0.4  # share of candidates in the coarse search; each later round halves the step
_ROUNDS, _FIRST_STEP, _PARENTS = 5, 2.0, 24


@dataclass(frozen=True, slots=True)
class Tuned:
    """The results of a search, with the Pareto front in cost and hits."""

    best: Tried | None  # the plainest candidate within 1 % of the best (None if no candidate meets the objective)
    closest: Tried  # the best candidate, or the closest to the objective
    front: tuple[Tried, ...]
    candidates: int
    candidates_on_part: int = 0  # candidates tried earlier on the first part of a long log


def candidates_for(trace: Trace) -> int:
    """Return the number of candidates that a search tries. A longer log gets fewer candidates."""
    return min(max(_budget(trace) // max(len(trace), 1), _FEWEST_CANDIDATES), _MOST_CANDIDATES)


def tune(
    workload: Workload,
    objective: Objective,
    space: Space,
    *,
    candidates: int | None = None,
    effort: float = 1.0,
    seeds: Sequence[Point] = (),
) -> Tuned:
    """Search a policy's parameters.

    Args:
        workload: The log and its prices.
        objective: Objective of the search.
        space: Search space of the policy (`candidates.space_of`).
        candidates: Number of candidates. If None, `candidates_for` decides.
        effort: Share of the candidates to try, up to 1.
        seeds: Points that are always tried.
    """
    wanted = max(round((candidates or candidates_for(workload.trace)) * effort), _LEAST)
    coarse = max(1, round(wanted * _COARSE_SHARE))
    search, on_part = _Search(workload, space), 0
    if candidates is None and candidates_for(workload.trace) < _ON_A_PART:
        part, on_part = _Search(_first_part(workload), space), round(_ON_A_PART * effort)
        part.try_(space.start(max(1, round(on_part * _COARSE_SHARE)), part.random))
        part.refine(objective, on_part)
        start, on_part = part.promising(objective, coarse), len(part.tried)
    else:
        start = space.start(coarse, search.random)
    search.try_([*seeds, *start])
    search.refine(objective, wanted)
    closest = min(search.tried, key=objective.rank)
    best = search.plainest(objective) if objective.rank(closest)[0] <= 0 else None
    return Tuned(best, closest, pareto_front(search.tried), len(search.tried), on_part)


def tried_on(workload: Workload, space: Space, points: Sequence[Point]) -> list[Tried]:
    """Return the results of points on a log, without duplicates."""
    search = _Search(workload, space)
    search.try_(points)
    return search.tried


class _Search:
    """A search with the candidates tried so far."""

    def __init__(self, workload: Workload, space: Space) -> None:
        self.workload, self.space = workload, space
        self.random = Random(1)
        self.tried: list[Tried] = []
        self._seen: set[Point] = set()

    def try_(self, points: Sequence[Point]) -> None:
        """Replay and price the new points."""
        new = unseen(points, self._seen)
        if not new:
            return
        policies = [self.space.policy(point) for point in new]
        results, repeats = self.workload.replay(policies), float(self.workload.repeats_per_month)
        usd = {result: self.workload.usd_per_month(result) for result in set(results)}
        for point, policy, result in zip(new, policies, results, strict=True):
            self.tried.append(Tried(point, policy, self.space.text(point), result, usd[result], repeats))

    def refine(self, objective: Objective, wanted: int) -> None:
        """Try points around the best candidates and the front in decreasing steps, up to about `wanted` candidates."""
        per_round = -(-(wanted - len(self.tried)) // _ROUNDS)
        for round_ in progress(range(_ROUNDS), total=_ROUNDS, text="search"):
            parents, step, random = self.promising(objective, 2 * _PARENTS), _FIRST_STEP / 2**round_, self.random
            self.try_([self.space.near(random.choice(parents), step, random) for _ in range(per_round)])

    def promising(self, objective: Objective, count: int) -> list[Point]:
        """Return the best points for an objective, and as many points spread over the front."""
        half = max(count // 2, 1)
        ranked = sorted(self.tried, key=objective.rank)[:half]
        return [tried.point for tried in (*ranked, *spread(pareto_front(self.tried), half))]

    def plainest(self, objective: Objective) -> Tried:
        """Return the candidate closest to the configurator's defaults among candidates as good as the best."""
        while True:
            best = min(self.tried, key=objective.rank)
            good = [tried for tried in self.tried if objective.is_as_good(tried, best)]
            plain = min(good, key=lambda tried: (self.space.oddness(tried.point), objective.rank(tried)))
            before = len(self.tried)
            self.try_(self.space.plainer(plain.point))
            if len(self.tried) == before:
                return plain


def _budget(trace: Trace) -> int:
    return _REQUESTS_ONE_KEY if trace.key_ids is None else _REQUESTS_SHARED


def _first_part(workload: Workload) -> Workload:
    """Return the first part of a long log, with its share of the log's period."""
    times_us = workload.trace.arrivals_us
    last = min(max(1, _budget(workload.trace) // _ON_A_PART), len(times_us))
    part_us, whole_us = int(times_us[last - 1] - times_us[0]), int(times_us[-1] - times_us[0])
    return workload.part(0, last, Fraction(part_us, max(whole_us, 1)))
