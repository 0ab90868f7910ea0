"""How a pool keeps its data: chunks of data and parity, warm-up and backup, for a wished availability at least cost.

Availability is the paper's: the share of reads that find enough chunks of a stored slice. A read writes lost chunks
back, so what counts is what is lost between two reads: without backup all members that were reclaimed since, with
backup those that lost both environments between two backups, and of a slice that is new, its time until the first one.

Source:
    Wang 2020, section 4.3; section 5.2 for the availability of reads; section 4.1, figure 8 for what is believed of
    reclaims before any were measured.
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

WISHED = 0.99
WARM_UPS_S = (60, 540)  # of which the paper says what to expect
BACKUPS_S = (0, 60, 120, 300, 600, 900, 1_800, 3_600)  # 0: none

# Assumed; AWS has not been asked.
WARM_UP_MS = 2
SERVE_MS = 5  # of an invocation that serves one chunk, in addition to the chunk's way
BACKUP_MS = 150  # until source and copy have found each other through the hub, and agree on what is missing
BYTES_PER_MS = 625_000_000 // 8 // 1000  # what a function in a VPC may send (Lambda's quotas)

_DATA = (1, 2, 4, 6, 8, 10, 12)
_MOST_PARITY = 8
_CHUNK_MS = 12.0  # a chunk's way: with the hub's share a slice then takes no longer than an S3 GET's first byte
_PRIOR_INTERVALS = 60  # that the paper's reclaims weigh: an hour of worse ones outweighs them
_PAPERS_MEMBERS = 400
_PER_MIN = 2.28  # reclaimed of 400 that were warmed up each minute (figure 9: 0.6 to 7.21 in six months)
_ALL_EVERY_S = 6 * 3_600  # of those that were warmed up every nine minutes (figure 8)
_REUSE_H = 1.0  # where nothing was read yet; 37 to 46 % of the paper's large objects are read again within it
_NEARLY = 0.005  # of availability, where the wished one cannot be had
_SPARE = 0.25  # of the losses that are allowed: a code that is changed to lasts a while when losses grow
_WORTH_A_CHANGE = 0.8  # another code makes all that is stored unreachable


@dataclass(frozen=True, slots=True)
class Load:
    """What a pool has to do.

    Attributes:
        reads_per_h: Slices read.
        writes_per_h: Slices written.
        stored_slices: Slices that it holds.
        slice_bytes: Their mean length [bytes].
    """

    reads_per_h: Fraction = Fraction(0)
    writes_per_h: Fraction = Fraction(0)
    stored_slices: int = 0
    slice_bytes: int = SLICE_BYTES

    @property
    def reuse_s(self) -> float:
        """Mean time between two reads of a slice, by Little's law [s]."""
        if not (self.reads_per_h and self.stored_slices):
            return _REUSE_H * 3_600
        return float(3_600 * self.stored_slices / self.reads_per_h)

    @property
    def new_share(self) -> float:
        """Share of reads that are the first after a write (0 to 1)."""
        return min(1.0, float(self.writes_per_h / self.reads_per_h)) if self.reads_per_h else 1.0


@dataclass(frozen=True, slots=True)
class Keeping:
    """One way to keep data; `backup_s` is 0 without backup."""

    redundancy: Redundancy
    warm_s: int
    backup_s: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to keep data, what it gives and why it was chosen.

    Attributes:
        keeping: The way.
        availability: Share of reads that find their slice (0 to 1).
        hour: What it costs.
        is_enough: Whether the wished availability is reached.
        reasons: Sentences for a person.
    """

    keeping: Keeping
    availability: float
    hour: PoolHour
    is_enough: bool
    reasons: tuple[str, ...] = ()


def choose(
    members: int,
    load: Load,
    price: MemberPrice,
    reclaims: Mapping[int, Mapping[int, int]] | None = None,
    *,
    wished: float = WISHED,
    present: Redundancy | None = None,
) -> Choice:
    """Return the cheapest way to keep data that reaches a wished availability, or else comes close to what can be had.

    Parity takes memory that data could have, so what is paid without a read counts (d + p) / d times, as if a pool had
    that many members more.

    Args:
        members: How many the pool has.
        load: What is read, written and stored.
        price: What a member costs.
        reclaims: By the warm-up's interval [s]: in how many of these intervals a number of members was reclaimed.
        wished: Availability to reach, below 1.
        present: The code of what is stored; it is kept unless it is not enough or another saves a fifth. One that takes
            its place loses a quarter of what it may.

    Raises:
        InvalidSettingError: There are too few members for a chunk of parity, more were reclaimed than there are, or
            the wished availability is not between 0 and 1.
    """
    if members < 2:
        raise InvalidSettingError(f"{members} members; a pool needs 2 at least")
    if not 0 < wished < 1:
        raise InvalidSettingError(f"an availability of {wished}; between 0 and 1 is right")
    tried = [_weigh(keeping, odds, load, price, wished) for keeping, odds in _ways(members, load, reclaims or {})]
    best = _best(tried)
    if present is not None:
        same = [choice for choice in tried if choice.keeping.redundancy == present]
        kept = _best(same) if same else None
        if kept and kept.is_enough >= best.is_enough and _cost(best) > _WORTH_A_CHANGE * _cost(kept):
            best = kept
        elif best.keeping.redundancy != present:
            best = _best([one for one in tried if one.availability >= 1 - (1 - wished) * _SPARE] or tried)
    return _explained(best, tried, load, reclaims or {}, wished)


def expected(members: int, warm_s: int, reclaims: Mapping[int, Mapping[int, int]]) -> Reclaims:
    """Return how many members an interval of warm-ups reclaims: what was measured, before that the paper's.

    Members that are left alone for longer are not reclaimed less, whatever has been measured of shorter intervals.
    """
    shortest_s = WARM_UPS_S[0]
    if warm_s <= shortest_s:
        prior = poisson(_PER_MIN * members / _PAPERS_MEMBERS * warm_s / 60, members)
    else:
        all_at_once = min(1.0, warm_s / _ALL_EVERY_S)
        at_once = Reclaims(members, {0: 1 - all_at_once, members: all_at_once})
        prior = expected(members, shortest_s, reclaims).after(ceil(warm_s / shortest_s)).plus(at_once)
    return measured(reclaims.get(warm_s, {}), prior, _PRIOR_INTERVALS)


class Odds:
    """What a pool loses under one interval of warm-ups, for any stretch of time."""

    def __init__(self, reclaims: Reclaims, warm_s: int) -> None:
        self.reclaims, self.warm_s = reclaims, warm_s
        self._single: dict[int, Reclaims] = {}
        self._double: dict[tuple[int, int, bool], Reclaims] = {}

    def loss(self, reuse_s: float, keeping: Keeping, *, is_new: bool) -> float:
        """Return how likely a slice is lost between two reads.

        Args:
            reuse_s: The time between them [s].
            keeping: How data is kept.
            is_new: Whether no backup has been made when it begins.
        """
        backup_s, code = keeping.backup_s, keeping.redundancy
        if not backup_s:
            return self._loss(self._members(reuse_s), code) * min(1.0, reuse_s / self.warm_s)
        alone_s = min(reuse_s, backup_s / 2) if is_new else 0.0
        backups = max(1, round((reuse_s - alone_s) / backup_s))
        key = (backup_s, backups, bool(alone_s))
        if key not in self._double:
            lost = self._members(backup_s).of_both_copies().after(backups)
            self._double[key] = lost.plus(self._members(alone_s)) if alone_s else lost
        return self._loss(self._double[key], code) * min(1.0, reuse_s / backup_s)

    def _members(self, stretch_s: float) -> Reclaims:
        times = max(1, ceil(stretch_s / self.warm_s))
        if times not in self._single:
            self._single[times] = self.reclaims.after(times)
        return self._single[times]

    @staticmethod
    def _loss(reclaims: Reclaims, code: Redundancy) -> float:
        return loss(reclaims, chunks=code.chunks, parity=code.parity)


def _ways(members: int, load: Load, reclaims: Mapping[int, Mapping[int, int]]) -> Iterator[tuple[Keeping, Odds]]:
    fitting = [data for data in _DATA if data < members]
    fast = [data for data in fitting if _way_ms(load, data) <= _CHUNK_MS] or fitting[-1:]
    for warm_s in sorted({*WARM_UPS_S, *reclaims}):
        odds = Odds(expected(members, warm_s, reclaims), warm_s)
        for backup_s in BACKUPS_S:
            if backup_s and backup_s < warm_s:
                continue
            for data in fast:
                for parity in range(1, min(_MOST_PARITY, members - data) + 1):
                    yield Keeping(Redundancy(data, parity), warm_s, backup_s), odds


def availability_of(keeping: Keeping, odds: Odds, load: Load) -> float:
    """Return the share of reads that find their slice (0 to 1)."""
    old, new = (odds.loss(load.reuse_s, keeping, is_new=is_new) for is_new in (False, True))
    return 1 - load.new_share * new - (1 - load.new_share) * old


def _weigh(keeping: Keeping, odds: Odds, load: Load, price: MemberPrice, wished: float) -> Choice:
    availability = availability_of(keeping, odds, load)
    return Choice(keeping, availability, _hour(keeping, odds, load, price), availability >= wished)


def _hour(keeping: Keeping, odds: Odds, load: Load, price: MemberPrice) -> PoolHour:
    members, redundancy, warm_s, backup_s = odds.reclaims.members, keeping.redundancy, keeping.warm_s, keeping.backup_s
    chunk_requests = (load.reads_per_h + load.writes_per_h) * redundancy.chunks
    reclaimed_per_h = Fraction(round(odds.reclaims.mean * 3_600 / warm_s * 1_000), 1_000)
    backup_usd, environments = Fraction(0), 1
    if backup_s:
        per_member = Fraction(load.slice_bytes * redundancy.chunks, redundancy.data * members)  # of one slice
        lost_share = min(Fraction(1), reclaimed_per_h * backup_s / 3_600 / members)  # of copies that begin anew
        slices = load.writes_per_h * backup_s / 3_600 + lost_share * load.stored_slices
        duration_ms = BACKUP_MS + slices * per_member / BYTES_PER_MS
        backup_usd = price.invocations_usd(Fraction(2 * members * 3_600, backup_s), duration_ms)
        environments = 2
    return PoolHour(
        serving_usd=price.invocations_usd(chunk_requests, SERVE_MS + ceil(_way_ms(load, redundancy.data))),
        warm_up_usd=price.invocations_usd(Fraction(members * 3_600, warm_s), WARM_UP_MS),
        backup_usd=backup_usd,
        renewal_usd=environments * reclaimed_per_h * price.environment_usd,
    )


def _way_ms(load: Load, data: int) -> float:
    return load.slice_bytes / data / BYTES_PER_MS


def _cost(choice: Choice) -> Fraction:
    redundancy = choice.keeping.redundancy
    return choice.hour.serving_usd + choice.hour.keeping_usd * Fraction(redundancy.chunks, redundancy.data)


def _best(tried: list[Choice]) -> Choice:
    """Return the cheapest one that is enough; if none is, the cheapest one that is nearly as good as can be."""
    enough = [one for one in tried if one.is_enough]
    if not enough:
        least = max(one.availability for one in tried) - _NEARLY
        enough = [one for one in tried if one.availability >= least]
    return min(enough, key=_cost)


def _explained(
    best: Choice, tried: list[Choice], load: Load, reclaims: Mapping[int, Mapping[int, int]], wished: float
) -> Choice:
    keeping, hour = best.keeping, best.hour
    redundancy = keeping.redundancy
    intervals = reclaims.get(keeping.warm_s, {})
    seen, lost = sum(intervals.values()), sum(count * times for count, times in intervals.items())
    found = {one.keeping: one for one in tried}
    less = found.get(replace(keeping, redundancy=Redundancy(redundancy.data, redundancy.parity - 1)))
    without = found.get(replace(keeping, backup_s=0)) if keeping.backup_s else None
    reasons = [
        f"{seen} intervals of {keeping.warm_s} s measured, {lost} members reclaimed; the paper's reclaims weigh "
        f"{_PRIOR_INTERVALS} more",
        f"a slice is read every {load.reuse_s / 60:.0f} min: {redundancy.data}+{redundancy.parity} chunks are enough "
        f"for {best.availability:.3%} of reads, {wished:.3%} were wished",
    ]
    if less:
        reasons.append(f"one chunk of parity less: {less.availability:.3%}")
    if without:
        reasons.append(f"backup every {keeping.backup_s} s: without it {without.availability:.3%}")
    if not keeping.backup_s:
        reasons.append("no backup: parity is cheaper, or enough")
    if not best.is_enough:
        reasons.append("no way reaches what was wished; this is the cheapest of those that come closest")
    reasons.append(
        f"{float(hour.usd):.4f} USD/h: serving {float(hour.serving_usd):.4f}, warm-up {float(hour.warm_up_usd):.4f}, "
        f"backup {float(hour.backup_usd):.4f}, new environments {float(hour.renewal_usd):.4f}"
    )
    return replace(best, reasons=tuple(reasons))
