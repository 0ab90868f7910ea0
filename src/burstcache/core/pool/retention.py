"""The state of retention, which keeps the pool's members alive: members, reclaims, hubs and the chosen plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from burstcache.core.keys import pool_execution_name
from burstcache.core.messages.pool_control import HubTotals, KnownHub
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.slices import Redundancy
from burstcache.core.table import HUB_PREFIX

REPORT_S = 60  # interval of a hub's reports
_HUB_LOST_US = 3 * REPORT_S * US_PER_S  # a hub that has been silent for longer counts as gone
_MAX_RECENT = 60  # rounds with reclaims that are stored individually
_MAX_INTERVALS = 7 * 24 * 60  # at this number, a week of minutes, all counts are halved
_LEAST_TIMES = 1 / 64  # an interval is forgotten after six halvings
_MAX_FORMER = 2  # earlier codes whose slices can still be read


def tenants(members: int) -> list[str]:
    """Return the names of all members, which are their tenant IDs."""
    return [f"pool-{number}" for number in range(members)]


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status of a member at its last answer."""

    environment: str = ""  # its execution environment; empty if the member has never answered
    former: str = ""  # its previous environment, perhaps its replica, which may answer again
    seen_at_us: int = 0
    chunks: int = 0
    stored_bytes: int = 0
    is_silent: bool = False  # the last invocation had no answer

    def after_answer(
        self, environment: str, *, chunks: int, stored_bytes: int, at_us: int, has_copies: bool = False
    ) -> tuple[MemberStatus, bool]:
        """Return the status after an answer, and whether the member's memory was lost since the previous answer.

        An unknown environment means a reclaim. If members have replicas, the first other environment with chunks is the
        replica. Any further environment has replaced the member or its replica.
        """
        if environment in (self.environment, ""):
            return replace(self, seen_at_us=at_us, chunks=chunks, stored_bytes=stored_bytes, is_silent=False), False
        is_copy = has_copies and chunks > 0 and not self.former
        is_reclaimed = bool(self.environment) and environment != self.former and not is_copy
        return MemberStatus(environment, self.environment, at_us, chunks, stored_bytes), is_reclaimed


@dataclass(frozen=True, slots=True)
class ReclaimHistory:
    """The history of reclaims: numbers of members that were reclaimed in the observed intervals.

    Attributes:
        intervals: For each warm-up interval [s], the number of intervals by the number of members reclaimed in each.
            Old intervals count as fractions.
        recent: The newest rounds with reclaims: time [s since the epoch], number of members.
    """

    intervals: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    recent: tuple[tuple[int, int], ...] = ()

    @property
    def watched_minutes(self) -> float:
        """The observed time [min]."""
        return sum(warm_s * sum(counts.values()) for warm_s, counts in self.intervals.items()) / 60

    @property
    def per_minute(self) -> float:
        """The mean number of reclaimed members per minute, 0 without observations."""
        reclaimed = sum(count * times for counts in self.intervals.values() for count, times in counts.items())
        return reclaimed / self.watched_minutes if reclaimed else 0.0

    def after(self, reclaimed: int, *, warm_s: int, since_us: int, at_us: int) -> ReclaimHistory:
        """Return the history after a round.

        All reclaims found after several intervals count as losses of one interval, since simultaneous losses are the
        worst case. Halves are not rounded: a mass reclaim seen once would be forgotten at the first halving.
        """
        passed = max(1, round((at_us - since_us) / (warm_s * US_PER_S)))
        counts: dict[int, float] = dict(self.intervals.get(warm_s, {}))
        counts[0] = counts.get(0, 0) + passed - 1
        counts[reclaimed] = counts.get(reclaimed, 0) + 1
        if sum(counts.values()) > _MAX_INTERVALS:
            counts = {count: times / 2 for count, times in counts.items()}
        counts = {count: times for count, times in counts.items() if times >= _LEAST_TIMES}
        recent = (*self.recent, (at_us // US_PER_S, reclaimed)) if reclaimed else self.recent
        return ReclaimHistory({**self.intervals, warm_s: counts}, recent[-_MAX_RECENT:])


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """The current choice: redundancy of new slices, and intervals of warm-ups and backups."""

    redundancy: Redundancy
    former: tuple[Redundancy, ...] = ()  # newest first
    warm_s: int = 60
    backup_s: int = 0  # 0: never
    availability: float = 0.0  # expected share of reads that find their slice
    reasons: tuple[str, ...] = ()
    chosen_at_us: int = 0
    requests: int = 0  # counted up to this choice: later requests are the load for the next choice …
    stored_bytes: int = 0  # … and the same for bytes written

    def after(self, former: PoolChoice) -> PoolChoice:
        """Return this choice with the codes of earlier choices, so that their slices remain readable."""
        codes = dict.fromkeys((former.redundancy, *former.former))
        codes.pop(self.redundancy, None)
        return replace(self, former=tuple(codes)[:_MAX_FORMER])


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """The totals of rounds and earlier hubs since the pool's first use."""

    requests: int = 0
    hits: int = 0
    stored_bytes: int = 0
    invocations: int = 0
    served_ms: int = 0
    rounds: int = 0
    warm_ups: int = 0
    warm_ms: int = 0  # billed time of the warm-ups
    environments: int = 0  # new environments, as far as answers have shown
    control_requests: int = 0  # invocations of pool control
    control_ms: int = 0  # billed time of pool control
    used_at_us: int = 0  # last use by an earlier hub

    def plus(self, hub: HubStatus) -> PoolTotals:
        """Return the totals plus a hub's counts since they were last added."""
        counted = dict(hub.counted)
        return replace(
            self,
            **{name: getattr(self, name) + total - counted[name] for name, total in hub.totals.items()},
            control_requests=self.control_requests + hub.control[0],
            control_ms=self.control_ms + hub.control[1],
            used_at_us=max(self.used_at_us, hub.used_at_us),
        )


NO_TOTALS = HubTotals(requests=0, hits=0, stored_bytes=0, invocations=0, served_ms=0)


@dataclass(frozen=True, slots=True)
class HubStatus:
    """The last reported status of a hub, or of a reader without a hub. A reader's address has only the ID."""

    address: KnownHub
    reported_at_us: int = 0
    used_at_us: int = 0  # last report of a hit or a stored chunk; 0 before the first
    totals: HubTotals = field(default_factory=lambda: HubTotals(**NO_TOTALS))
    used: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # by member: environment, time of the report [us]
    takes_readers: bool = False  # serves readers that members cannot connect to
    counted: HubTotals = field(default_factory=lambda: HubTotals(**NO_TOTALS))  # part of `totals` in the pool's totals
    control: tuple[int, int] = (0, 0)  # invocations of pool control not yet in the pool's totals, and their time [ms]

    def is_live(self, now_us: int) -> bool:
        """Return whether the hub is still expected to report."""
        return now_us < self.reported_at_us + _HUB_LOST_US

    @property
    def has_left(self) -> bool:
        """Whether the hub has announced its stop."""
        return not self.reported_at_us

    @property
    def is_counted(self) -> bool:
        """Whether the pool's totals include all of the hub's totals. Such a hub fell silent, and may report again."""
        return self.counted == self.totals

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Decode a hub's status from a DynamoDB item with plain Python values."""
        address = KnownHub(
            id=item["sk"].removeprefix(HUB_PREFIX),
            host=item["host"],
            port=item["port"],
            token=item["token"],
            certificate=item["certificate"],
        )
        used = {member: (environment, at_us) for member, (environment, at_us) in json.loads(item["used"]).items()}
        return cls(
            address,
            item["reported_at_us"],
            item["used_at_us"],
            json.loads(item["totals"]),
            used,
            takes_readers=item.get("takes_readers", False),
            counted=json.loads(item["counted"]) if "counted" in item else HubTotals(**NO_TOTALS),
            control=(item.get("control_requests", 0), item.get("control_ms", 0)),
        )


@dataclass(frozen=True, slots=True)
class PoolState:
    """The state of the pool: the execution that keeps it alive, its choice and its totals."""

    generation: int = 0  # 0: no execution has ever kept the pool alive
    part: int = 0
    deadline_at_us: int = 0  # after this time the execution that keeps the pool alive counts as dead
    ended_at_us: int = 0  # end of the last execution; older answers are invalid
    warmed_at_us: int = 0
    choice: PoolChoice | None = None  # None before the first choice
    totals: PoolTotals = field(default_factory=PoolTotals)
    reader_at_us: int = 0  # last report of an active reader that needs a separate hub

    def is_kept(self, now_us: int) -> bool:
        """Return whether an execution keeps the members alive."""
        return now_us < self.deadline_at_us

    @property
    def execution_name(self) -> str:
        """The name of the execution that keeps the members alive."""
        return pool_execution_name(self.generation, self.part)

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Decode the state from a DynamoDB item with plain Python values."""
        choice, totals = item.get("choice"), item.get("totals")
        numbers = ("generation", "part", "deadline_at_us", "ended_at_us", "warmed_at_us", "reader_at_us")
        return cls(
            **{name: item[name] for name in numbers if name in item},
            choice=decode_choice(choice) if choice else None,
            totals=PoolTotals(**json.loads(totals)) if totals else PoolTotals(),
        )


def encode_choice(choice: PoolChoice) -> str:
    """Encode a choice for its column."""
    return _text(asdict(choice))


def decode_choice(text: str) -> PoolChoice:
    """Decode a choice from its column."""
    values = json.loads(text)
    redundancy, former = Redundancy(**values.pop("redundancy")), values.pop("former")
    reasons = tuple(values.pop("reasons"))
    return PoolChoice(redundancy, tuple(Redundancy(**each) for each in former), reasons=reasons, **values)


def encode_totals(totals: PoolTotals) -> str:
    """Encode totals for their column."""
    return _text(asdict(totals))


def encode_members(members: Mapping[str, MemberStatus]) -> str:
    """Encode members for their column, without field names, because there may be hundreds of members."""
    return _text({name: list(asdict(member).values()) for name, member in members.items()})


def decode_members(text: str) -> dict[str, MemberStatus]:
    """Decode members from their column."""
    return {name: MemberStatus(*values) for name, values in json.loads(text).items()}


def encode_reclaims(reclaims: ReclaimHistory) -> str:
    """Encode a history for its column."""
    intervals = [(warm_s, list(counts.items())) for warm_s, counts in reclaims.intervals.items()]
    return _text({"intervals": intervals, "recent": reclaims.recent})


def decode_reclaims(text: str) -> ReclaimHistory:
    """Decode a history from its column."""
    values = json.loads(text)
    recent = tuple((start_s, count) for start_s, count in values["recent"])
    return ReclaimHistory({warm_s: dict(counts) for warm_s, counts in values["intervals"]}, recent)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
