"""Guests of running nodes: what a write takes away, and what a boot brings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from burstcache.access import RedisNode
from burstcache.adapters.use_table import StoredUse
from burstcache.control.node_copies import NodeCopies
from burstcache.control.read_through import ReadThroughLoader
from burstcache.core.errors import ObjectNotFoundError
from burstcache.core.keys import key_hash
from burstcache.core.phases import NodePhase
from burstcache.core.placement import node_for
from burstcache.core.rows import NodeRow, SeenKey
from burstcache.web.entry import Entry
from support.clock import ManualClock
from support.policies import policy_named
from support.redis_in_process import NodeRedis, ObjectsInProcess

_NAMES = ("node-1", "node-2")
_KEYS = [f"key-{number}" for number in range(20)]
_MAX_OBJECT_BYTES = 100


def _entry(body: bytes) -> Entry:
    return Entry({"etag": '"e"', "content-length": str(len(body))}, body)


@dataclass
class S3:
    """Objects that take their time."""

    clock: ManualClock
    bodies: dict[str, bytes] = field(default_factory=dict)
    takes_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    def fetch(self, key: str, *, max_bytes: int) -> Entry:
        self.asked.append(key)
        self.clock.now_s += self.takes_s
        if key not in self.bodies:
            raise ObjectNotFoundError(key)
        return _entry(self.bodies[key])


class Desk:
    """Two nodes, and what looks after their guests."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.redis = {name: NodeRedis() for name in _NAMES}
        self.stores = {
            name: ObjectsInProcess(RedisNode(name, "", "", 0), redis.client) for name, redis in self.redis.items()
        }
        ready_us = self.clock.now_us()
        self.rows = {name: NodeRow(name, "running", 7, peers=_NAMES, ready_at_us=ready_us) for name in _NAMES}
        self.policy = policy_named("breakeven").use
        self.seen: dict[str, list[SeenKey]] = {}
        self.s3 = S3(self.clock, {key: key.encode() for key in _KEYS})
        parts: Any = self
        s3: Any = self.s3
        store = self.stores.__getitem__
        self.copies = NodeCopies(_NAMES, parts, store, partial(replace, phase="stopping"), self.clock)
        self.guests = ReadThroughLoader(parts, s3, store, _MAX_OBJECT_BYTES, self.clock, self.policy)

    def read(self, node: str) -> StoredUse:
        return StoredUse()

    def read_many(self, names: Iterable[str]) -> list[NodeRow]:
        return [self.rows[name] for name in names]

    def newest_seen(self, node: str, *, now_us: int) -> list[SeenKey]:
        return self.seen.get(node, [])

    def bring(self, key: str, node: str = "") -> None:
        store = self.stores[node or home_of(key)]
        _, token = store.read_guest(key_hash(key), at_us=1, leases=True)
        assert store.store_guest(key_hash(key), _entry(b"old"), token)

    def has(self, key: str, node: str = "") -> bool:
        return self.stores[node or home_of(key)].read_meta(key_hash(key)) is not None


def home_of(key: str) -> str:
    return node_for(key_hash(key), _NAMES)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_write_takes_guests_from_their_homes_and_leaves_the_others(desk: Desk) -> None:
    for key in _KEYS:
        desk.bring(key)
    assert {home_of(key) for key in _KEYS[:10]} == set(_NAMES)

    for key in _KEYS[:10]:
        desk.copies.drop([key_hash(key)], {})

    assert [desk.has(key) for key in _KEYS] == [False] * 10 + [True] * 10


@pytest.mark.parametrize("phase", ["booting", "running", "stopping"])
def test_a_node_hears_of_writes_until_it_has_stopped(desk: Desk, phase: NodePhase) -> None:
    desk.rows = {name: replace(row, phase=phase) for name, row in desk.rows.items()}
    desk.bring("key-1")

    desk.copies.drop([key_hash("key-1")], {})

    assert not desk.has("key-1")


@pytest.mark.parametrize("row", [{"phase": "stopped"}, {"peers": ()}], ids=["stopped", "takes no guests"])
def test_a_node_without_guests_is_not_asked(desk: Desk, row: dict[str, Any]) -> None:
    for name in _NAMES:
        desk.rows[name] = replace(desk.rows[name], **row)
        desk.redis[name].kill()

    desk.copies.drop([key_hash("key-1")], {})


def test_a_node_that_does_not_answer_is_lost_after_all_others_were_asked(desk: Desk) -> None:
    desk.rows["node-1"] = replace(desk.rows["node-1"], peers=("node-1",))
    key = next(key for key in _KEYS if home_of(key) == "node-2")
    for node in _NAMES:
        desk.bring(key, node)
    desk.redis["node-1"].kill()

    dropped = desk.copies.drop([key_hash(key)], {})

    assert dropped.lost == [replace(desk.rows["node-1"], phase="stopping")]
    assert not desk.has(key, "node-2")


def test_a_node_that_boots_need_not_answer(desk: Desk) -> None:
    desk.rows = {name: replace(row, phase="booting") for name, row in desk.rows.items()}
    for redis in desk.redis.values():
        redis.kill()

    desk.copies.drop([key_hash("key-1")], {})


def test_a_key_is_removed_from_every_node_that_took_it_when_it_booted(desk: Desk) -> None:
    """`node-1` booted when it was the only one, and readers may ask either."""
    desk.rows["node-1"] = replace(desk.rows["node-1"], peers=("node-1",))
    key = next(key for key in _KEYS if home_of(key) == "node-2")
    for node in _NAMES:
        desk.bring(key, node)

    desk.copies.drop([key_hash(key)], {})

    assert [desk.has(key, node) for node in _NAMES] == [False, False]


def _seen(desk: Desk, keys: Iterable[str], *, size_bytes: int = 10, age_us: int = 0) -> None:
    for more_us, key in enumerate(keys):
        seen = SeenKey(key_hash(key), key, size_bytes, desk.clock.now_us() - age_us - more_us)
        desk.seen.setdefault(home_of(key), []).append(seen)


def test_a_boot_brings_the_keys_seen_lately(desk: Desk) -> None:
    _seen(desk, [*_KEYS[:10], "deleted"])

    desk.guests.load(desk.rows["node-1"])

    assert [desk.has(key) for key in _KEYS] == [key in _KEYS[:10] and home_of(key) == "node-1" for key in _KEYS]


def test_a_key_whose_chance_does_not_pay_is_left_out_and_its_first_read_counts_as_a_hit(desk: Desk) -> None:
    old, new = [key for key in _KEYS if home_of(key) == "node-1"][:2]
    _seen(desk, [new])
    _seen(desk, [old], age_us=6 * 3600 * 10**6)

    desk.guests.load(desk.rows["node-1"])

    assert (desk.has(new), desk.has(old)) == (True, False)
    for key in (new, old):
        desk.stores["node-1"].read_guest(key_hash(key), at_us=5, leases=True)
    assert len(desk.stores["node-1"].hits()) == 2


def test_a_node_that_never_stops_loads_what_may_come_in_a_day(desk: Desk) -> None:
    old = next(key for key in _KEYS if home_of(key) == "node-1")
    _seen(desk, [old], age_us=6 * 3600 * 10**6)

    desk.guests.load(desk.rows["node-1"], is_always_on=True)

    assert desk.has(old)


def test_a_boot_fills_half_of_the_node_with_what_was_seen_last(desk: Desk) -> None:
    keys = [key for key in _KEYS if home_of(key) == "node-1"]
    _seen(desk, keys, size_bytes=30)
    desk.stores["node-1"].max_bytes = 120

    desk.guests.load(desk.rows["node-1"])

    assert [desk.has(key) for key in keys] == [True, True] + [False] * (len(keys) - 2)


def test_a_boot_waits_for_objects_only_so_long(desk: Desk) -> None:
    keys = [f"many-{number}" for number in range(300)]
    desk.s3.bodies |= dict.fromkeys(keys, b"body")
    desk.s3.takes_s = 0.5
    _seen(desk, keys)

    desk.guests.load(desk.rows["node-1"])

    assert 20 <= len(desk.s3.asked) <= 28  # in ten seconds, and what eight threads had begun by then


def test_an_object_that_is_written_while_a_boot_loads_it_stays_away(desk: Desk) -> None:
    key = next(key for key in _KEYS if home_of(key) == "node-1")
    _seen(desk, [key])
    fetch = desk.s3.fetch

    def overtaken(key: str, *, max_bytes: int) -> Entry:
        old = fetch(key, max_bytes=max_bytes)
        desk.copies.drop([key_hash(key)], {})
        return old

    desk.s3.fetch = overtaken  # type: ignore[method-assign]

    desk.guests.load(desk.rows["node-1"])

    assert not desk.has(key)


def test_what_a_reader_is_bringing_is_not_loaded_as_well(desk: Desk) -> None:
    key = next(key for key in _KEYS if home_of(key) == "node-1")
    _seen(desk, [key])
    desk.stores["node-1"].read_guest(key_hash(key), at_us=1, leases=True)

    desk.guests.load(desk.rows["node-1"])

    assert desk.s3.asked == []


def test_a_node_is_ready_even_if_nothing_can_be_loaded(desk: Desk) -> None:
    _seen(desk, _KEYS)
    desk.redis["node-1"].kill()

    desk.guests.load(desk.rows["node-1"])

    assert desk.s3.asked == []


def test_a_node_that_takes_no_guests_loads_none(desk: Desk) -> None:
    _seen(desk, _KEYS)

    desk.guests.load(replace(desk.rows["node-1"], peers=()))

    assert desk.s3.asked == []
