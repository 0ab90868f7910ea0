"""A write and tiers that are ill: each part confirms, or no reader asks it any more, all of them at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from burstcache.control.node_copies import NodeCopies
from burstcache.control.tier_copies import TierCopies
from burstcache.core.digest import FORGOTTEN_S
from burstcache.core.errors import BurstcacheError, RedisDownError, RelayDownError, ServiceError
from burstcache.core.keys import key_hash
from burstcache.core.messages.relay import Order
from burstcache.core.rows import KeyRow, NodeRow
from support.virtual_time import VirtualClock

_NODES = ("node-1", "node-2", "node-3")
_RELAY = "relay"
_DETOUR = {"mark", "announcement"}
_KEY = "key"
_ASKING_S = 1.0  # until a part that is frozen has cost a time-out
_THAWS_S = 1.2
_FINDING_OUT_S = 2.5  # two time-outs, and the pause between them
_LATE_S = 0.25


@dataclass
class Stage:
    """A key with a copy on every node and in a cache function, and when each part was done with or taken off [s]."""

    health: dict[str, str]  # of each part: well, late, silent or broken
    clock: VirtualClock = field(default_factory=VirtualClock)
    confirmed_s: dict[str, float] = field(default_factory=dict)
    corrected_s: dict[str, float] = field(default_factory=dict)
    announced_s: list[float] = field(default_factory=list)
    marked_s: list[float] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    unasked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        parts: Any = self
        self.row = KeyRow(key_hash(_KEY), _KEY, phase="lambda", tier="lambda", changed_at_us=self.clock.now_us())
        self.copies = TierCopies(
            on_nodes=NodeCopies(_NODES, parts, self.store, self.lose, self.clock),
            keys=parts,
            digest=parts,
            objects=parts,
            store=self.store,
            send_cache_order=self.tell,
            max_object_bytes=1,
            clock=self.clock,
        )

    def ask(self, part: str, error: type[BurstcacheError]) -> None:
        """Be asked to let a copy go."""
        health = self.health.get(part, "well")
        if health == "broken":
            raise ServiceError("no password", code="x")
        if health == "silent" or (health == "late" and self.clock.monotonic_s() < _THAWS_S):
            self.clock.sleep(_ASKING_S)
            raise error("frozen")
        self.confirmed_s[part] = self.clock.monotonic_s()

    # what the copies work with

    def read_many(self, names: Iterable[str]) -> Any:
        """Return the rows of keys by hash, or those of nodes."""
        if self.row.hash in names:
            return {self.row.hash: self.row}
        return [NodeRow(name, "running", 7) for name in names]

    def change(self, node: NodeRow, *, unasked_in: int) -> None:
        self.unasked.add(node.node)

    def store(self, node: str) -> Any:
        return _Store(lambda: self.ask(node, RedisDownError))

    def lose(self, node: NodeRow) -> NodeRow:
        self.corrected_s[node.node] = self.clock.monotonic_s()
        return replace(node, phase="stopping")

    def tell(self, hash_: str, order: Order) -> None:
        self.ask(_RELAY, RelayDownError)

    def raise_fence(self, *, now_us: int) -> None:
        self.corrected_s[_RELAY] = self.clock.monotonic_s()

    def mark_late(self, hashes: Sequence[str], *, now_us: int) -> set[str]:
        self.ask("mark", ServiceError)
        self.marked_s.append(self.clock.monotonic_s())
        self.marks.add("mark")
        return {"mark"}

    def remove_marks(self, marks: set[str]) -> None:
        self.marks -= marks

    def announce(self, hashes: Sequence[str], *, now_us: int) -> None:
        self.ask("announcement", ServiceError)
        self.announced_s.append(self.clock.monotonic_s())


@dataclass
class _Store:
    drop_copy: Callable[[], None]

    def drop(self, hashes: Sequence[str]) -> set[str]:
        self.drop_copy()
        return {*hashes}


@pytest.mark.parametrize("health", [*itertools.product(["well", "late", "silent"], repeat=3)], ids="-".join)
def test_when_a_write_is_answered_each_part_has_confirmed_or_no_reader_asks_it(health: tuple[str, ...]) -> None:
    stage = Stage(dict(zip(("node-1", "node-2", _RELAY), health, strict=True)))

    stage.copies.apply_writes([_KEY])

    silent = {part for part, each in stage.health.items() if each == "silent"}
    assert stage.corrected_s.keys() == silent
    assert stage.confirmed_s.keys() - _DETOUR == {*_NODES, _RELAY} - silent
    assert stage.unasked == silent - {_RELAY}
    if silent:
        assert stage.clock.monotonic_s() >= max(stage.corrected_s.values()) + FORGOTTEN_S


@pytest.mark.parametrize(
    ("health", "announced_s"),
    [("well", []), ("late", [_LATE_S]), ("silent", [_LATE_S, _FINDING_OUT_S])],
)
@pytest.mark.parametrize("part", ["node-1", _RELAY])
def test_a_write_for_which_tiers_take_long_is_announced_before_they_have_followed(
    part: str, health: str, announced_s: list[float]
) -> None:
    stage = Stage({part: health})

    stage.copies.apply_writes([_KEY])

    assert stage.announced_s == announced_s  # once more by what has called this
    assert (stage.marked_s, stage.marks) == (announced_s[:1], set())  # readers ask S3 until tiers have followed


@pytest.mark.parametrize("broken", ["mark", "announcement"])
def test_a_write_that_all_tiers_have_followed_does_not_fail_with_the_detour_around_slow_ones(broken: str) -> None:
    stage = Stage({"node-1": "late", broken: "broken"})

    stage.copies.apply_writes([_KEY])

    assert {*_NODES, _RELAY} <= stage.confirmed_s.keys()
    assert stage.marks == set()


def test_however_many_parts_are_silent_a_write_finds_out_about_all_of_them_at_the_same_time() -> None:
    stage = Stage(dict.fromkeys((*_NODES, _RELAY), "silent"))

    stage.copies.apply_writes([_KEY])

    assert stage.corrected_s == dict.fromkeys((*_NODES, _RELAY), _FINDING_OUT_S)
    assert stage.clock.monotonic_s() == _FINDING_OUT_S + FORGOTTEN_S


@pytest.mark.parametrize("broken", ["node-1", _RELAY])
def test_a_write_that_fails_in_one_part_has_been_told_to_all_others(broken: str) -> None:
    stage = Stage({broken: "broken", "node-2": "late"})

    with pytest.raises(ServiceError, match="no password"):
        stage.copies.apply_writes([_KEY])

    assert stage.confirmed_s.keys() - _DETOUR == {*_NODES, _RELAY} - {broken}
