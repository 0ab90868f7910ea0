"""The search for a policy's parameters for a log and an objective: coarse first, then ever finer around what is good.

A log too long for a few hundred candidates is searched by its first part, and what is good there is tried on all of it.
At the end parameters go back to the configurator's defaults wherever that costs next to nothing: the best of thousands
on one log fits that log's accidents, and a plain setting close to it is worth as much tomorrow.

The same log, prices and effort try the same candidates: the random numbers have a fixed seed, and how many candidates
there are depends on the log's length alone.
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
# Requests times candidates: a few seconds on two cores.
_REQUESTS_ONE_KEY, _REQUESTS_SHARED = 1_500_000_000, 150_000_000
_ON_A_PART = 400  # if a log allows fewer candidates, this many are tried on its first part
_LEAST = 8
_COARSE_SHARE = 0.4  # of the candidates; the others follow in rounds, each with half the step
_ROUNDS, _FIRST_STEP, _PARENTS = 5, 2.0, 24


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search found, and the Pareto front by cost."""

    best: Tried | None  # the plainest within one per cent of the best; None: nothing meets the objective
    closest: Tried  # the best, or what comes closest to the objective
    front: tuple[Tried, ...]
    candidates: int
    candidates_on_part: int = 0  # tried before on the first part of a long log


def candidates_for(trace: Trace) -> int:
    """Return how many candidates a search tries: fewer for a longer log."""
    return min(max(_budget(trace) // max(len(trace), 1), _FEWEST_CANDIDATES), _MOST_CANDIDATES)


def tune(
    workload: Workload,
    objective: Objective,
    space: Space,
    *,
    candidates: int | None = None,
    effort: float = 1.0,
    known: Sequence[Point] = (),
) -> Tuned:
    """Search a policy's parameters.

    Args:
        workload: The log and its prices.
        objective: What to look for.
        space: Which policy, as `candidates.space_of` has it.
        candidates: How many to try; None for `candidates_for`.
        effort: The share of them that is tried, up to 1.
        known: Points to try in any case.
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
    search.try_([*known, *start])
    search.refine(objective, wanted)
    closest = min(search.tried, key=objective.rank)
    best = search.plainest(objective) if objective.rank(closest)[0] <= 0 else None
    return Tuned(best, closest, pareto_front(search.tried), len(search.tried), on_part)


def tried_on(workload: Workload, space: Space, points: Sequence[Point]) -> list[Tried]:
    """Return what points give for a log, once each."""
    search = _Search(workload, space)
    search.try_(points)
    return search.tried


class _Search:
    """What has been tried so far."""

    def __init__(self, workload: Workload, space: Space) -> None:
        self.workload, self.space = workload, space
        self.random = Random(1)
        self.tried: list[Tried] = []
        self._seen: set[Point] = set()

    def try_(self, points: Sequence[Point]) -> None:
        """Replay and price the points that are new."""
        new = unseen(points, self._seen)
        if not new:
            return
        policies = [self.space.policy(point) for point in new]
        results, repeats = self.workload.replay(policies), float(self.workload.repeats_per_month)
        usd = {result: self.workload.usd_per_month(result) for result in set(results)}
        for point, policy, result in zip(new, policies, results, strict=True):
            self.tried.append(Tried(point, policy, self.space.text(point), result, usd[result], repeats))

    def refine(self, objective: Objective, wanted: int) -> None:
        """Try points near the best and near the front, ever nearer, until about this many were tried."""
        per_round = -(-(wanted - len(self.tried)) // _ROUNDS)
        for round_ in progress(range(_ROUNDS), total=_ROUNDS, text="search"):
            parents, step, random = self.promising(objective, 2 * _PARENTS), _FIRST_STEP / 2**round_, self.random
            self.try_([self.space.near(random.choice(parents), step, random) for _ in range(per_round)])

    def promising(self, objective: Objective, count: int) -> list[Point]:
        """Return the points that best meet an objective, and the same number spread over the front."""
        half = max(count // 2, 1)
        ranked = sorted(self.tried, key=objective.rank)[:half]
        return [tried.point for tried in (*ranked, *spread(pareto_front(self.tried), half))]

    def plainest(self, objective: Objective) -> Tried:
        """Return the candidate as good as the best that differs least from the configurator's defaults."""
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
    """Return the beginning of a long log, with its share of the time around the log."""
    times_us = workload.trace.arrivals_us
    last = min(max(1, _budget(workload.trace) // _ON_A_PART), len(times_us))
    part_us, whole_us = int(times_us[last - 1] - times_us[0]), int(times_us[-1] - times_us[0])
    return workload.part(0, last, Fraction(part_us, max(whole_us, 1)))
