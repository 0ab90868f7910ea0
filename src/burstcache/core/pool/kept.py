"""What keeps the pool's members alive remembers: members as they last answered, reclaims, hubs, what was chosen."""

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

REPORT_S = 60  # between two reports of a hub
_HUB_LOST_US = 3 * REPORT_S * US_PER_S  # a hub that has been silent for longer is gone
_MOST_RECENT = 60  # rounds with reclaims that are remembered one by one
_MOST_INTERVALS = 7 * 24 * 60  # then all count for half: of a week of minutes, if members are kept for as long
_MOST_FORMER = 2  # codings that chunks may have been written with before the present one


def tenants(members: int) -> list[str]:
    """Return the names of all members: their tenant ids."""
    return [f"pool-{number}" for number in range(members)]


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """A member as it last answered."""

    environment: str = ""  # its execution environment; empty: it has never answered
    former: str = ""  # the one before: its copy, perhaps, which may answer again
    seen_at_us: int = 0
    chunks: int = 0
    stored_bytes: int = 0
    is_silent: bool = False  # it did not answer when it was asked last

    def met(
        self, environment: str, *, chunks: int, stored_bytes: int, at_us: int, has_copies: bool = False
    ) -> tuple[MemberSeen, bool]:
        """Return the member after an answer, and whether its memory was lost since the answer before.

        An environment that was not known is a reclaim. Where members are copied, the first that has chunks is the
        copy; another one has taken the place of either.
        """
        if environment in (self.environment, ""):
            return replace(self, seen_at_us=at_us, chunks=chunks, stored_bytes=stored_bytes, is_silent=False), False
        is_copy = has_copies and chunks > 0 and not self.former
        is_reclaimed = bool(self.environment) and environment != self.former and not is_copy
        return MemberSeen(environment, self.environment, at_us, chunks, stored_bytes), is_reclaimed


@dataclass(frozen=True, slots=True)
class ReclaimHistory:
    """How many members were reclaimed in the times that were watched.

    Attributes:
        intervals: By the warm-up's interval [s]: in how many of these intervals that number of members was reclaimed,
            by the number; those of long ago count for less.
        recent: The last rounds that found members reclaimed: when [s since the epoch], how many.
    """

    intervals: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    recent: tuple[tuple[int, int], ...] = ()

    @property
    def watched_minutes(self) -> float:
        """How long members were watched [min]."""
        return sum(warm_s * sum(counts.values()) for warm_s, counts in self.intervals.items()) / 60

    @property
    def per_minute(self) -> float:
        """The mean number of reclaimed members a minute; 0 if nothing was watched."""
        reclaimed = sum(count * times for counts in self.intervals.values() for count, times in counts.items())
        return reclaimed / self.watched_minutes if reclaimed else 0.0

    def after(self, reclaimed: int, *, warm_s: int, since_us: int, at_us: int) -> ReclaimHistory:
        """Return the history after a round.

        What is found after several intervals is taken for one interval's: losses at once are what a slice fears.
        """
        watched = max(1, round((at_us - since_us) / (warm_s * US_PER_S)))
        counts = dict(self.intervals.get(warm_s, {}))
        counts[0] = counts.get(0, 0) + watched - 1
        counts[reclaimed] = counts.get(reclaimed, 0) + 1
        if sum(counts.values()) > _MOST_INTERVALS:
            counts = {count: times // 2 for count, times in counts.items()}
        counts = {count: times for count, times in counts.items() if times}
        recent = (*self.recent, (at_us // US_PER_S, reclaimed)) if reclaimed else self.recent
        return ReclaimHistory({**self.intervals, warm_s: counts}, recent[-_MOST_RECENT:])


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """How slices are written from now on, and how members are kept."""

    redundancy: Redundancy
    former: tuple[Redundancy, ...] = ()  # the newest first
    warm_s: int = 60
    backup_s: int = 0  # 0: never
    availability: float = 0.0  # that was expected of it: share of reads that find their slice
    reasons: tuple[str, ...] = ()
    chosen_at_us: int = 0
    requests: int = 0  # that had been counted then: those since then are the load of the next choice …
    stored_bytes: int = 0  # … and what had been written

    def after(self, former: PoolChoice) -> PoolChoice:
        """Return this choice, from which slices that were written under a former one can still be read."""
        written = dict.fromkeys((former.redundancy, *former.former))
        written.pop(self.redundancy, None)
        return replace(self, former=tuple(written)[:_MOST_FORMER])


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """What hubs that are gone and rounds have counted since the pool was first used."""

    requests: int = 0
    hits: int = 0
    stored_bytes: int = 0
    invocations: int = 0
    served_ms: int = 0
    rounds: int = 0
    warm_ups: int = 0
    warm_ms: int = 0  # billed for them
    environments: int = 0  # that were made, as far as answers have shown
    control_requests: int = 0  # invocations of pool control
    control_ms: int = 0  # billed for them
    used_at_us: int = 0  # when it was last of use to a hub that is gone

    def plus(self, hub: HubSeen) -> PoolTotals:
        """Return the sum with what a hub has seen since that was added up last."""
        counted = dict(hub.counted)
        return replace(
            self,
            **{name: getattr(self, name) + seen - counted[name] for name, seen in hub.totals.items()},
            control_requests=self.control_requests + hub.control[0],
            control_ms=self.control_ms + hub.control[1],
            used_at_us=max(self.used_at_us, hub.used_at_us),
        )


NO_TOTALS = HubTotals(requests=0, hits=0, stored_bytes=0, invocations=0, served_ms=0)


@dataclass(frozen=True, slots=True)
class HubSeen:
    """A hub as it last reported, or a reader without one: then the address is empty but for the id."""

    address: KnownHub
    reported_at_us: int = 0
    used_at_us: int = 0  # when it last reported a hit or something stored; 0: never
    totals: HubTotals = field(default_factory=lambda: HubTotals(**NO_TOTALS))
    used: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # members: environment, when it was reported [us]
    takes_readers: bool = False  # it is there for readers that members cannot dial
    counted: HubTotals = field(default_factory=lambda: HubTotals(**NO_TOTALS))  # of them, what has been added up
    control: tuple[int, int] = (0, 0)  # invocations of pool control since then, and their time [ms]

    def is_live(self, now_us: int) -> bool:
        """Whether the hub is still expected to report."""
        return now_us < self.reported_at_us + _HUB_LOST_US

    @property
    def has_left(self) -> bool:
        """Whether it has said that it stops."""
        return not self.reported_at_us

    @property
    def is_counted(self) -> bool:
        """Whether all that it has reported was added up: it fell silent, and may report again."""
        return self.counted == self.totals

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the hub in a DynamoDB item whose values are plain Python ones."""
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
    """Whether the pool is kept alive, and how."""

    generation: int = 0  # 0: it never was
    part: int = 0
    deadline_at_us: int = 0  # the execution that keeps it has died if this passes
    ended_at_us: int = 0  # what was known when it was last given up is from before
    warmed_at_us: int = 0
    choice: PoolChoice | None = None  # None: none yet
    totals: PoolTotals = field(default_factory=PoolTotals)
    reader_at_us: int = 0  # when a reader last reported that it reads and needs a hub elsewhere

    def is_kept(self, now_us: int) -> bool:
        """Whether an execution keeps the members alive."""
        return now_us < self.deadline_at_us

    @property
    def execution_name(self) -> str:
        """The name of the execution that does."""
        return pool_execution_name(self.generation, self.part)

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the state in a DynamoDB item whose values are plain Python ones."""
        choice, totals = item.get("choice"), item.get("totals")
        numbers = ("generation", "part", "deadline_at_us", "ended_at_us", "warmed_at_us", "reader_at_us")
        return cls(
            **{name: item[name] for name in numbers if name in item},
            choice=decode_choice(choice) if choice else None,
            totals=PoolTotals(**json.loads(totals)) if totals else PoolTotals(),
        )


def encode_choice(choice: PoolChoice) -> str:
    """Return a choice as the text of a column."""
    return _text(asdict(choice))


def decode_choice(text: str) -> PoolChoice:
    """Return the choice in the text of a column."""
    values = json.loads(text)
    redundancy, former = Redundancy(**values.pop("redundancy")), values.pop("former")
    reasons = tuple(values.pop("reasons"))
    return PoolChoice(redundancy, tuple(Redundancy(**each) for each in former), reasons=reasons, **values)


def encode_totals(totals: PoolTotals) -> str:
    """Return totals as the text of a column."""
    return _text(asdict(totals))


def encode_members(members: Mapping[str, MemberSeen]) -> str:
    """Return members as the text of a column, without the names of their fields: there may be hundreds."""
    return _text({name: list(asdict(member).values()) for name, member in members.items()})


def decode_members(text: str) -> dict[str, MemberSeen]:
    """Return the members in the text of a column."""
    return {name: MemberSeen(*values) for name, values in json.loads(text).items()}


def encode_reclaims(reclaims: ReclaimHistory) -> str:
    """Return a history as the text of a column."""
    intervals = [(warm_s, list(counts.items())) for warm_s, counts in reclaims.intervals.items()]
    return _text({"intervals": intervals, "recent": reclaims.recent})


def decode_reclaims(text: str) -> ReclaimHistory:
    """Return the history in the text of a column."""
    values = json.loads(text)
    recent = tuple((start_s, count) for start_s, count in values["recent"])
    return ReclaimHistory({warm_s: dict(counts) for warm_s, counts in values["intervals"]}, recent)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
