"""Searching a policy's parameters for a log and an objective: coarse first, then ever finer around what is good.

A log too long for a few hundred candidates is searched by its first part, and what is good there is tried on all of it.

The same log, prices and effort try the same candidates: the random numbers have a fixed seed, and how many candidates
there are depends on the log's length alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Protocol

from burstcache.core.prices import PriceSheet
from burstcache.sim.costs.comparison import HOURS_PER_MONTH, own_bill
from burstcache.sim.costs.demand import Demand, demand_of
from burstcache.sim.costs.usage import US_PER_H, Setup
from burstcache.sim.progress import progress
from burstcache.sim.run import PolicyParameters
from burstcache.sim.tune.candidates import Point, Space, unseen

if TYPE_CHECKING:
    from burstcache.sim.result import RunResult
    from burstcache.sim.trace import Trace

_WORKERS = 2
_MOST_CANDIDATES, _FEWEST_CANDIDATES = 3_000, 24
# Requests times candidates: a few seconds on two cores.
_REQUESTS_ONE_KEY, _REQUESTS_SHARED = 1_500_000_000, 150_000_000
_ON_A_PART = 400  # if a log allows fewer candidates, so many are tried on its first part
_LEAST = 8
_COARSE_SHARE = 0.4  # of the candidates; the others follow in rounds, each with half the step
_ROUNDS, _FIRST_STEP, _PARENTS = 5, 2.0, 24


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate. `text` is how a person writes it: `PolicyOverrides`, or what a hit is worth."""

    parameters: PolicyParameters
    text: str
    result: RunResult
    usd_per_month: float
    repeats_per_month: float  # how often the log comes

    @property
    def in_memory_pct(self) -> float:
        """Share of requests served from memory [%]."""
        return self.result.in_memory_pct


class Objective(Protocol):
    """What is looked for. A smaller rank is better; its first place is above 0 where the objective is missed."""

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return how far from the objective a candidate is, then how good."""


@dataclass(frozen=True, slots=True)
class CheapestAt:
    """The lowest bill with at least this share of hits."""

    in_memory_pct: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return what is missing to the share, and the bill."""
        return max(0.0, self.in_memory_pct - tried.in_memory_pct), tried.usd_per_month, -tried.in_memory_pct


@dataclass(frozen=True, slots=True)
class MostHitsFor:
    """The highest share of hits for at most this bill."""

    usd_per_month: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return what the bill exceeds, and the share."""
        return max(0.0, tried.usd_per_month - self.usd_per_month), -tried.in_memory_pct, tried.usd_per_month


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search found: what meets the objective (`best`), what comes closest, and the Pareto front by cost."""

    best: Tried | None
    closest: Tried
    front: tuple[Tried, ...]
    candidates: int
    candidates_on_part: int = 0  # tried before on the first part of a long log


@dataclass(frozen=True, slots=True)
class Workload:
    """A log as it is billed: the requests, the month they are repeated for, and the system that serves them."""

    trace: Trace
    demand: Demand
    prices: PriceSheet
    setup: Setup
    only_cache: bool = False
    capacity_bytes: int | None = None  # of a node; None: no limit

    @property
    def repeats_per_month(self) -> Fraction:
        """How often the log comes in a month, back to back."""
        return Fraction(HOURS_PER_MONTH * US_PER_H, self.demand.period_us)

    def replay(self, candidates: Sequence[PolicyParameters]) -> list[RunResult]:
        """Replay the log under each candidate, without details."""
        if self.trace.key_ids is None:
            from burstcache.sim.engine.independent import run_many_parameters

            return run_many_parameters(self.trace.arrivals_us, candidates, workers=_WORKERS)
        return self._replay_shared(candidates, details=False)

    def replay_in_detail(self, parameters: PolicyParameters) -> RunResult:
        """Replay the log under one candidate, with the tier of each request and the spans of each run."""
        if self.trace.key_ids is None:
            from burstcache.sim.engine.independent import run_fast

            return run_fast(self.trace.arrivals_us, parameters)
        return self._replay_shared([parameters], details=True)[0]

    def _replay_shared(self, candidates: Sequence[PolicyParameters], *, details: bool) -> list[RunResult]:
        from burstcache.sim.engine.shared import run_shared

        nodes, capacity_bytes = self.setup.nodes, self.capacity_bytes
        return run_shared(
            self.trace, candidates, nodes=nodes, capacity_bytes=capacity_bytes, details=details, workers=_WORKERS
        )

    def usd_per_month(self, result: RunResult) -> float:
        """Return a run's bill for a month; what outlasts the log is billed in full [USD]."""
        billed = own_bill(result, self.demand, self.prices, self.setup, only_cache=self.only_cache)
        return float(billed.usd_exact * self.repeats_per_month)


def workload_of(
    trace: Trace,
    prices: PriceSheet,
    setup: Setup,
    *,
    period_us: int | None = None,
    only_cache: bool = False,
    capacity_bytes: int | None = None,
) -> Workload:
    """Return a log as it is billed.

    Args:
        trace: Requests, at least one.
        prices: Prices of the region.
        setup: How the system is deployed.
        period_us: How often the log comes: once in so long; None: back to back [us].
        only_cache: The thesis's view of the bill.
        capacity_bytes: What a node holds; used only for many objects whose sizes are known.

    Raises:
        InvalidSettingError: The trace is empty.
    """
    demand = demand_of(trace, object_bytes=setup.object_bytes, period_us=period_us)
    has_sizes = trace.key_ids is not None and trace.sizes_bytes is not None
    return Workload(trace, demand, prices, setup, only_cache, capacity_bytes if has_sizes else None)


def candidates_for(trace: Trace) -> int:
    """Return how many candidates a search tries: fewer for a longer log."""
    budget = _REQUESTS_ONE_KEY if trace.key_ids is None else _REQUESTS_SHARED
    return min(max(budget // max(len(trace), 1), _FEWEST_CANDIDATES), _MOST_CANDIDATES)


def tune(
    workload: Workload, objective: Objective, space: Space, *, candidates: int | None = None, effort: float = 1.0
) -> Tuned:
    """Search a policy's parameters.

    Args:
        workload: The log and its prices.
        objective: What to look for.
        space: Which policy, as `candidates.ThesisSpace` or `BreakevenSpace`.
        candidates: How many to try; None: as many as `candidates_for` says.
        effort: The share of them that a simpler space needs, up to 1.
    """
    wanted = max(round((candidates or candidates_for(workload.trace)) * effort), _LEAST)
    search, coarse = _Search(workload, space), max(1, round(wanted * _COARSE_SHARE))
    on_part = 0
    if candidates is None and candidates_for(workload.trace) < _ON_A_PART:
        part = _searched(_Search(_first_part(workload), space), objective, round(_ON_A_PART * effort))
        search.try_(part.promising(objective, coarse))
        on_part = len(part.tried)
    found = _searched(search, objective, wanted)
    tried = [tried for _, tried in found.tried]
    closest = min(tried, key=objective.rank)
    best = closest if objective.rank(closest)[0] <= 0 else None
    return Tuned(best, closest, pareto_front(tried), len(tried), on_part)


def pareto_front(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Return what nothing else beats in both cost and hits, cheapest first."""
    front: list[Tried] = []
    for one in sorted(tried, key=lambda t: (t.usd_per_month, -t.in_memory_pct)):
        if not front or one.in_memory_pct > front[-1].in_memory_pct:
            front.append(one)
    return tuple(front)


class _Search:
    """What has been tried so far."""

    def __init__(self, workload: Workload, space: Space) -> None:
        self.workload, self.space = workload, space
        self.random = Random(1)
        self.tried: list[tuple[Point, Tried]] = []
        self._seen: set[Point] = set()

    def try_(self, points: Sequence[Point]) -> None:
        """Replay and price the points that are new."""
        new = unseen(points, self._seen)
        if not new:
            return
        parameters = [self.space.parameters(point) for point in new]
        results, repeats = self.workload.replay(parameters), float(self.workload.repeats_per_month)
        usd = {result: self.workload.usd_per_month(result) for result in set(results)}
        for point, p, result in zip(new, parameters, results, strict=True):
            self.tried.append((point, Tried(p, self.space.text(point), result, usd[result], repeats)))

    def promising(self, objective: Objective, count: int) -> list[Point]:
        """Return the points that meet an objective best, and as many spread over the front."""
        ranked = sorted(self.tried, key=lambda pair: objective.rank(pair[1]))
        point_of = {id(tried): point for point, tried in self.tried}
        front = pareto_front([tried for _, tried in self.tried])
        half = max(count // 2, 1)
        return [point for point, _ in ranked[:half]] + [point_of[id(tried)] for tried in spread(front, half)]


def _searched(search: _Search, objective: Objective, wanted: int) -> _Search:
    """Try so many candidates: all over the space if none was tried, then near the best and near the front."""
    if not search.tried:
        search.try_(search.space.start(max(1, round(wanted * _COARSE_SHARE)), search.random))
    per_round = -(-(wanted - len(search.tried)) // _ROUNDS)
    for round_ in progress(range(_ROUNDS), total=_ROUNDS, text="search"):
        parents, step, random = search.promising(objective, 2 * _PARENTS), _FIRST_STEP / 2**round_, search.random
        search.try_([search.space.near(random.choice(parents), step, random) for _ in range(per_round)])
    return search


def _first_part(workload: Workload) -> Workload:
    """Return the beginning of a long log, with as much time around it as its share of the log's."""
    trace, whole = workload.trace, workload.demand
    budget = _REQUESTS_ONE_KEY if trace.key_ids is None else _REQUESTS_SHARED
    first = slice(0, max(1, budget // _ON_A_PART))
    key_ids = None if trace.key_ids is None else trace.key_ids[first]
    sizes_bytes = None if trace.sizes_bytes is None else trace.sizes_bytes[first]
    part = replace(trace, arrivals_us=trace.arrivals_us[first], key_ids=key_ids, sizes_bytes=sizes_bytes)
    lasts_us, part_us = whole.last_us - whole.first_us, int(part.arrivals_us[-1] - part.arrivals_us[0])
    period_us = whole.period_us * part_us // max(lasts_us, 1)
    demand = demand_of(part, object_bytes=workload.setup.object_bytes, period_us=period_us)
    return replace(workload, trace=part, demand=demand)


def spread(front: Sequence[Tried], count: int) -> list[Tried]:
    """Return so many candidates of a front at most, evenly spread, the first and the last among them."""
    if len(front) <= count:
        return list(front)
    return [front[round(i * (len(front) - 1) / max(count - 1, 1))] for i in range(count)]
