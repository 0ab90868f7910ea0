"""The redundancy of a pool: the chunks, warm-ups and backups that reach a target availability at minimum cost.

Availability is defined as in the paper: the share of reads that find enough chunks of a stored slice. A read restores
lost chunks, so only losses between two reads count. Without backup, every member reclaimed since the last read is a
loss. With backup, a loss is a member that lost both environments between two backups or, for a new slice, was reclaimed
before the first backup.

Source:
    Wang 2020, section 4.3; section 5.2 for the availability of reads; section 4.1, figure 8 for the prior of reclaims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.availability import Reclaims, loss, measured, poisson
from burstcache.core.pool.costs import MemberPrice, PoolHour
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy

TARGET_AVAILABILITY = 0.99
WARM_UPS_S = (60, 540)  # the intervals for which the paper measured reclaims
BACKUPS_S = (0, 60, 120, 300, 600, 900, 1_800, 3_600)  # 0: none

# Assumed, not measured on AWS.
WARM_UP_MS = 2
SERVE_MS = 5  # an invocation that serves one chunk, excluding the transfer
BACKUP_MS = 150  # until source and replica have connected through the hub and agreed on the missing chunks
BYTES_PER_MS = 625_000_000 // 8 // 1000  # bandwidth of a function in a VPC (Lambda's quotas)

_DATA_CHUNKS = (1, 2, 4, 6, 8, 10, 12)
_MAX_PARITY = 8
_MAX_CHUNK_MS = 12.0  # maximum transfer of a chunk; with the hub, a slice is then as fast as an S3 GET's first byte
_PRIOR_INTERVALS = 60  # weight of the paper's reclaims, the same as an hour of measurements at one-minute intervals
_PAPER_MEMBERS = 400
_RECLAIMED_PER_MIN = 2.28  # of 400 members warmed up each minute (figure 9: 0.6 to 7.21 in six months)
_ALL_EVERY_S = 6 * 3_600  # interval between losses of all members together, if warmed up every nine minutes (figure 8)
_REUSE_H = 1.0  # assumed before any read; 37 to 46 % of the paper's large objects are read again within this time
_TOLERANCE = 0.005  # accepted distance from the best availability, if the target is out of reach
_LOSS_SHARE = 0.25  # share of the allowed losses for a new code, which leaves room for growing losses
_CHANGE_BELOW = 0.8  # maximum cost of a new code, as a share of the current cost, since stored slices keep their code


@dataclass(frozen=True, slots=True)
class Load:
    """A pool's load.

    Attributes:
        reads_per_h: Slices read per hour.
        writes_per_h: Slices written per hour.
        stored_slices: Slices in the pool.
        slice_bytes: Mean length of a slice [bytes].
    """

    reads_per_h: Fraction = Fraction(0)
    writes_per_h: Fraction = Fraction(0)
    stored_slices: int = 0
    slice_bytes: int = SLICE_BYTES

    @property
    def reuse_s(self) -> float:
        """The mean time between two reads of a slice, by Little's law [s]."""
        if not (self.reads_per_h and self.stored_slices):
            return _REUSE_H * 3_600
        return float(3_600 * self.stored_slices / self.reads_per_h)

    @property
    def new_share(self) -> float:
        """The share of reads that are the first after a write (0 to 1)."""
        return min(1.0, float(self.writes_per_h / self.reads_per_h)) if self.reads_per_h else 1.0


@dataclass(frozen=True, slots=True)
class UpkeepPlan:
    """A plan for keeping slices available: code, warm-up interval, backup interval (0: no backup)."""

    redundancy: Redundancy
    warm_s: int
    backup_s: int


@dataclass(frozen=True, slots=True)
class UpkeepChoice:
    """A plan with its availability, its cost and the reasons for it.

    Attributes:
        plan: The plan.
        availability: Share of reads that find their slice (0 to 1).
        hour: Cost of an hour.
        is_enough: Whether the plan reaches the target availability.
        reasons: Human-readable sentences.
    """

    plan: UpkeepPlan
    availability: float
    hour: PoolHour
    is_enough: bool
    reasons: tuple[str, ...] = ()


def choose(
    members: int,
    load: Load,
    price: MemberPrice,
    reclaims: Mapping[int, Mapping[int, float]] | None = None,
    *,
    target: float = TARGET_AVAILABILITY,
    present: Redundancy | None = None,
) -> UpkeepChoice:
    """Return the cheapest plan that reaches a target availability, or else the cheapest of the most available plans.

    Parity takes memory from data, so the upkeep cost is multiplied by (d + p) / d, as if the pool had more members.

    Args:
        members: Number of members.
        load: Reads, writes and stored slices.
        price: Price of a member.
        reclaims: For each warm-up interval [s], the number of intervals by the number of members reclaimed in each.
        target: Availability to reach, below 1.
        present: Code of the stored slices. This code is kept unless it misses the target or another code saves a fifth.
            A new code may cause at most a quarter of the allowed losses.

    Raises:
        InvalidSettingError: There are fewer than 2 members, more members were reclaimed than the pool has, or the
            target is not between 0 and 1.
    """
    if members < 2:
        raise InvalidSettingError(f"{members} members: expected at least 2")
    if not 0 < target < 1:
        raise InvalidSettingError(f"availability {target}: expected a number between 0 and 1")
    candidates = [_evaluate(plan, model, load, price, target) for plan, model in _plans(members, load, reclaims or {})]
    best = _best(candidates)
    if present is not None:
        same = [choice for choice in candidates if choice.plan.redundancy == present]
        kept = _best(same) if same else None
        if kept and kept.is_enough >= best.is_enough and _cost(best) > _CHANGE_BELOW * _cost(kept):
            best = kept
        elif best.plan.redundancy != present:
            best = _best(
                [one for one in candidates if one.availability >= 1 - (1 - target) * _LOSS_SHARE] or candidates
            )
    return _explained(best, candidates, load, reclaims or {}, target)


def expected(members: int, warm_s: int, reclaims: Mapping[int, Mapping[int, float]]) -> Reclaims:
    """Return the expected reclaims in a warm-up interval: measurements combined with the paper's reclaims.

    A longer interval never means fewer reclaims, regardless of the measurements at shorter intervals.
    """
    shortest_s = WARM_UPS_S[0]
    if warm_s <= shortest_s:
        prior = poisson(_RECLAIMED_PER_MIN * members / _PAPER_MEMBERS * warm_s / 60, members)
    else:
        all_at_once = min(1.0, warm_s / _ALL_EVERY_S)
        at_once = Reclaims(members, {0: 1 - all_at_once, members: all_at_once})
        prior = expected(members, shortest_s, reclaims).after(ceil(warm_s / shortest_s)).plus(at_once)
    return measured(reclaims.get(warm_s, {}), prior, _PRIOR_INTERVALS)


class LossModel:
    """The losses of a pool with one warm-up interval, over periods of any length."""

    def __init__(self, reclaims: Reclaims, warm_s: int) -> None:
        self.reclaims, self.warm_s = reclaims, warm_s
        self._single: dict[int, Reclaims] = {}
        self._double: dict[tuple[int, int, bool], Reclaims] = {}

    def loss(self, reuse_s: float, plan: UpkeepPlan, *, is_new: bool) -> float:
        """Return the probability that a slice is lost between two reads.

        Args:
            reuse_s: Time between the reads [s].
            plan: The plan for keeping the slice available.
            is_new: Whether the slice has no backup at the first read.
        """
        backup_s, code = plan.backup_s, plan.redundancy
        if not backup_s:
            return self._loss(self._members(reuse_s), code) * min(1.0, reuse_s / self.warm_s)
        alone_s = min(reuse_s, backup_s / 2) if is_new else 0.0
        backups = max(1, round((reuse_s - alone_s) / backup_s))
        key = (backup_s, backups, bool(alone_s))
        if key not in self._double:
            lost = self._members(backup_s).of_both_copies().after(backups)
            self._double[key] = lost.plus(self._members(alone_s)) if alone_s else lost
        return self._loss(self._double[key], code) * min(1.0, reuse_s / backup_s)

    def _members(self, period_s: float) -> Reclaims:
        times = max(1, ceil(period_s / self.warm_s))
        if times not in self._single:
            self._single[times] = self.reclaims.after(times)
        return self._single[times]

    @staticmethod
    def _loss(reclaims: Reclaims, code: Redundancy) -> float:
        return loss(reclaims, chunks=code.chunks, parity=code.parity)


def _plans(
    members: int, load: Load, reclaims: Mapping[int, Mapping[int, float]]
) -> Iterator[tuple[UpkeepPlan, LossModel]]:
    fitting = [data for data in _DATA_CHUNKS if data < members]
    fast = [data for data in fitting if _transfer_ms(load, data) <= _MAX_CHUNK_MS] or fitting[-1:]
    for warm_s in sorted({*WARM_UPS_S, *reclaims}):
        model = LossModel(expected(members, warm_s, reclaims), warm_s)
        for backup_s in BACKUPS_S:
            if backup_s and backup_s < warm_s:
                continue
            for data in fast:
                for parity in range(1, min(_MAX_PARITY, members - data) + 1):
                    yield UpkeepPlan(Redundancy(data, parity), warm_s, backup_s), model


def availability_of(plan: UpkeepPlan, model: LossModel, load: Load) -> float:
    """Return the share of reads that find their slice (0 to 1)."""
    old, new = (model.loss(load.reuse_s, plan, is_new=is_new) for is_new in (False, True))
    return 1 - load.new_share * new - (1 - load.new_share) * old


def _evaluate(plan: UpkeepPlan, model: LossModel, load: Load, price: MemberPrice, target: float) -> UpkeepChoice:
    availability = availability_of(plan, model, load)
    return UpkeepChoice(plan, availability, _hour(plan, model, load, price), availability >= target)


def _hour(plan: UpkeepPlan, model: LossModel, load: Load, price: MemberPrice) -> PoolHour:
    members, redundancy, warm_s, backup_s = model.reclaims.members, plan.redundancy, plan.warm_s, plan.backup_s
    chunk_requests = (load.reads_per_h + load.writes_per_h) * redundancy.chunks
    reclaimed_per_h = Fraction(round(model.reclaims.mean * 3_600 / warm_s * 1_000), 1_000)
    backup_usd, environments = Fraction(0), 1
    if backup_s:
        per_member = Fraction(load.slice_bytes * redundancy.chunks, redundancy.data * members)  # bytes of one slice
        lost_share = min(Fraction(1), reclaimed_per_h * backup_s / 3_600 / members)  # share of empty replicas
        slices = load.writes_per_h * backup_s / 3_600 + lost_share * load.stored_slices
        duration_ms = BACKUP_MS + slices * per_member / BYTES_PER_MS
        backup_usd = price.invocations_usd(Fraction(2 * members * 3_600, backup_s), duration_ms)
        environments = 2
    return PoolHour(
        serving_usd=price.invocations_usd(chunk_requests, SERVE_MS + ceil(_transfer_ms(load, redundancy.data))),
        warm_up_usd=price.invocations_usd(Fraction(members * 3_600, warm_s), WARM_UP_MS),
        backup_usd=backup_usd,
        renewal_usd=environments * reclaimed_per_h * price.environment_usd,
    )


def _transfer_ms(load: Load, data: int) -> float:
    return load.slice_bytes / data / BYTES_PER_MS


def _cost(choice: UpkeepChoice) -> Fraction:
    redundancy = choice.plan.redundancy
    return choice.hour.serving_usd + choice.hour.upkeep_usd * Fraction(redundancy.chunks, redundancy.data)


def _best(candidates: list[UpkeepChoice]) -> UpkeepChoice:
    """Return the cheapest candidate that reaches the target, or else the cheapest of the most available candidates."""
    enough = [one for one in candidates if one.is_enough]
    if not enough:
        least = max(one.availability for one in candidates) - _TOLERANCE
        enough = [one for one in candidates if one.availability >= least]
    return min(enough, key=_cost)


def _explained(
    best: UpkeepChoice,
    candidates: list[UpkeepChoice],
    load: Load,
    reclaims: Mapping[int, Mapping[int, float]],
    target: float,
) -> UpkeepChoice:
    plan, hour = best.plan, best.hour
    redundancy = plan.redundancy
    intervals = reclaims.get(plan.warm_s, {})
    observed, lost = sum(intervals.values()), sum(count * times for count, times in intervals.items())
    by_plan = {one.plan: one for one in candidates}
    less = by_plan.get(replace(plan, redundancy=Redundancy(redundancy.data, redundancy.parity - 1)))
    without = by_plan.get(replace(plan, backup_s=0)) if plan.backup_s else None
    reasons = [
        f"{observed:.0f} intervals of {plan.warm_s} s measured, {lost:.0f} members reclaimed; the paper's reclaims "
        f"count as {_PRIOR_INTERVALS} more",
        f"a slice is read every {load.reuse_s / 60:.0f} min: {redundancy.data}+{redundancy.parity} chunks serve "
        f"{best.availability:.3%} of reads, the target is {target:.3%}",
    ]
    if less:
        reasons.append(f"one chunk of parity less: {less.availability:.3%}")
    if without:
        reasons.append(f"backup every {plan.backup_s} s: without it {without.availability:.3%}")
    if not plan.backup_s:
        reasons.append("no backup: parity is cheaper, or enough")
    if not best.is_enough:
        reasons.append("no plan reaches the target; this is the cheapest of those that come closest")
    reasons.append(
        f"{float(hour.usd):.4f} USD/h: serving {float(hour.serving_usd):.4f}, warm-up {float(hour.warm_up_usd):.4f}, "
        f"backup {float(hour.backup_usd):.4f}, new environments {float(hour.renewal_usd):.4f}"
    )
    return replace(best, reasons=tuple(reasons))
