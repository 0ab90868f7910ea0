"""Guests of nodes are never older than the last write that was handled, in whatever order things happen to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from burstcache.access import RedisNode
from burstcache.adapters.digest_reader import DigestReader
from burstcache.adapters.redis_objects import RedisObjects, lease_key, object_key
from burstcache.adapters.use_table import StoredUse
from burstcache.control.node_copies import NodeCopies
from burstcache.control.read_through import ReadThroughLoader
from burstcache.core.digest import FORGOTTEN_S, Digest, Route, RunningNode, prefix_of
from burstcache.core.errors import RedisDownError
from burstcache.core.placement import node_for
from burstcache.core.rows import NodeRow, SeenKey
from burstcache.serve.hit_counter import Served
from burstcache.serve.memory_tier import MemoryTier
from burstcache.serve.reader import Miss, Reader
from burstcache.serve.redis_tier import RedisGuestTier
from burstcache.serve.tier import Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.clock import ManualClock
from support.policies import policy_named
from support.redis_in_process import NodeRedis, ObjectsInProcess
from support.searches import search

_BOUND_S = 2.0
_STOPS_AFTER_S = 3.0  # docs/understand/lifecycle.md, "A node"
_NAMES = ("node-1", "node-2")
_HASHES = {"a": "0" * 32, "b": "1" * 32, "c": "2" * 32}
_KEYS = st.sampled_from(sorted(_HASHES))
_NODES = st.sampled_from(_NAMES)
_READERS = st.sampled_from([0, 1])
_TIMES_S = st.sampled_from([0.0, 0.1, 1.1, 2.1, 6.0])
_MAX_OBJECT_BYTES = 1 << 10


def _entry(version: int) -> Entry:
    body = str(version).encode()
    return Entry({"etag": f'"{version}"', "content-length": str(len(body))}, body)


def test_the_keys_have_different_homes() -> None:
    assert {node_for(hash_, _NAMES) for hash_ in _HASHES.values()} == set(_NAMES)


@dataclass
class S3:
    """The newest versions of all objects; something may happen while one is on its way."""

    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_HASHES, 0))
    meanwhile: list[Callable[[], None]] = field(default_factory=list)

    def fetch(self, key: str, *, max_bytes: int) -> Entry:
        entry = _entry(self.versions[key])
        while self.meanwhile:
            self.meanwhile.pop()()
        return entry

    def read(self, request: Request) -> Response:
        entry = self.fetch(request.key, max_bytes=_MAX_OBJECT_BYTES)
        return Response(200, dict(entry.meta), entry.body)

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        entry = _entry(self.versions[request.key])
        return None if entry.etag == known.etag else entry

    def is_current(self, key: str, known: Entry) -> bool:
        raise AssertionError("what a guest's node gives needs no confirmation")

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class SlowTier:
    """A node whose answers are on their way while something happens."""

    tier: RedisGuestTier
    meanwhile: list[Callable[[], None]]

    def fetch(self, request: Request) -> Entry | Fill | None:
        found = self.tier.fetch(request)
        while self.meanwhile:
            self.meanwhile.pop()()
        return found

    def count(self, batch: Sequence[Served]) -> None:
        raise AssertionError("a node is judged by what it has served itself")

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Write:
    """A write whose event is on its way."""

    key: str
    version: int
    removed_at_s: float | None = None  # no reader asks a node for an older copy from then on


@dataclass
class Load:
    """A read that missed: it has yet to ask S3, then to keep what it got."""

    reader: Reader
    key: str
    miss: Miss
    entry: Entry | None = None


class Uses:
    """Each key was seen a moment ago."""

    def read(self, node: str) -> StoredUse:
        return StoredUse()

    def newest_seen(self, node: str, *, now_us: int) -> list[SeenKey]:
        return [SeenKey(hash_, key, 1, now_us) for key, hash_ in _HASHES.items()]


class Guesthouse(RuleBasedStateMachine):
    """Two nodes, two readers with memories; reads, writes and their events, boots, stops and losses as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.s3 = ManualClock(1000.0), S3()
        self.rows = {name: NodeRow(name) for name in _NAMES}
        self.shown: dict[str, RunningNode] = {}
        self.redis = {name: NodeRedis() for name in _NAMES}
        self.stopping_since_s: dict[str, float] = {}
        self.cut_off: set[str] = set()  # from the control plane
        self.lost: set[str] = set()  # nodes that did not hear of a write, until they have stopped
        self.log: list[str] = []
        self.events: list[Write] = []
        self.handled: list[tuple[str, int, float]] = []  # key, version, when it was announced
        self.loads: list[Load] = []
        self.while_redis_answers: list[Callable[[], None]] = []
        parts: Any = self
        uses: Any = Uses()
        policy = policy_named("breakeven").use
        self.copies = NodeCopies(_NAMES, parts, self._store, self._lose, self.clock)
        self.guests = ReadThroughLoader(uses, parts.s3, self._store, _MAX_OBJECT_BYTES, self.clock, policy)
        self.readers = [self._reader() for _ in range(2)]

    def _reader(self) -> Reader:
        def now(work: Callable[[], None]) -> None:
            work()

        return Reader(
            DigestReader(self._read_digest, self.clock, max_age_s=_BOUND_S, start=now),
            self.s3,  # type: ignore[arg-type]
            lambda route: SlowTier(
                RedisGuestTier(self._objects(route.node), _MAX_OBJECT_BYTES), self.while_redis_answers
            ),
            self.clock,
            memory=MemoryTier(1 << 20, max_object_bytes=_MAX_OBJECT_BYTES),
            max_stale_s=_BOUND_S,
            start=now,
        )

    def _objects(self, node: str) -> ObjectsInProcess:
        return ObjectsInProcess(RedisNode(node, "", "", 0), self.redis[node].client)

    def _store(self, node: str) -> RedisObjects:
        if node in self.cut_off:
            raise RedisDownError(node)
        return self._objects(node)

    def _read_digest(self) -> Digest:
        return Digest(len(self.log), tuple(self.log), {}, dict(self.shown))

    def read_many(self, names: Iterable[str]) -> list[NodeRow]:
        return [self.rows[name] for name in names]

    # writes

    @rule(key=_KEYS)
    def write(self, key: str) -> None:
        self.s3.versions[key] += 1
        self.events.append(Write(key, self.s3.versions[key]))

    @precondition(lambda self: self.events)
    @rule(data=st.data())
    def copies_are_removed(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.events))
        event.removed_at_s = self._removed_at_s(event.key)

    def _removed_at_s(self, key: str) -> float:
        """Remove an object's guests, and return when the write may be announced."""
        is_lost = self.copies.drop([_HASHES[key]], {}).lost
        return self.clock.now_s + (FORGOTTEN_S if is_lost else 0)

    def _lose(self, row: NodeRow) -> NodeRow:
        self.lost.add(row.node)
        self.a_node_is_to_stop(row.node)
        return self.rows[row.node]

    @precondition(lambda self: self._announceable())
    @rule(data=st.data())
    def a_write_is_announced(self, data: st.DataObject) -> None:
        self._announce(data.draw(st.sampled_from(self._announceable())))

    def _announceable(self) -> list[Write]:
        now_s = self.clock.now_s
        return [event for event in self.events if event.removed_at_s is not None and event.removed_at_s <= now_s]

    def _announce(self, event: Write) -> None:
        self.log.append(prefix_of(_HASHES[event.key]))
        self.events.remove(event)
        self.handled.append((event.key, event.version, self.clock.now_s))

    @rule(key=_KEYS)
    def write_and_its_event(self, key: str) -> None:
        """An event that comes twice is announced twice."""
        self.write(key)
        for event in [*self.events]:
            self.log.append(prefix_of(_HASHES[event.key]))
            self.clock.now_s = max(self.clock.now_s, self._removed_at_s(event.key))
            self._announce(event)

    # reads

    @rule(reader=_READERS, key=_KEYS, after_s=_TIMES_S)
    def read(self, reader: int, key: str, after_s: float) -> None:
        self.clock.now_s += after_s
        expected = self._expected(key)
        answer = self.readers[reader].read(self._request(key))
        self._check(answer, *expected)

    @rule(reader=_READERS, key=_KEYS)
    def a_read_begins(self, reader: int, key: str) -> None:
        expected = self._expected(key)
        found = self.readers[reader].find(self._request(key))
        if isinstance(found, Miss):
            self.loads.append(Load(self.readers[reader], key, found))
        else:
            self._check(found, *expected)

    @precondition(lambda self: self.loads)
    @rule(data=st.data())
    def a_read_goes_on(self, data: st.DataObject) -> None:
        load = data.draw(st.sampled_from(self.loads))
        if load.entry is None:
            load.entry = _entry(self.s3.versions[load.key])
        else:
            self.loads.remove(load)
            load.reader.keep(self._request(load.key), load.entry, load.miss)

    @rule(key=_KEYS, is_new=st.booleans())
    def a_guest_is_brought(self, key: str, is_new: bool) -> None:
        """With memories and digests that know nothing older."""
        self.readers = [self._reader() for _ in range(2)]
        if is_new:
            for node in _NAMES:
                self.an_entry_is_evicted(node, key)
                self.a_lease_runs_out(node, key)
        self.read(0, key, 0)

    @rule(key=_KEYS, is_brought_by_another=st.booleans(), after_s=_TIMES_S)
    def load_that_a_write_overtakes(self, key: str, is_brought_by_another: bool, after_s: float) -> None:
        self.a_guest_is_brought(key, True)
        for node in _NAMES:
            self.an_entry_is_evicted(node, key)
        self.readers[1:] = [self._reader()]
        self.a_read_begins(1, key)
        overtaken = [load for load in self.loads if load.reader is self.readers[1]]
        for load in overtaken:
            load.entry = _entry(self.s3.versions[key])
        self.write_and_its_event(key)
        if is_brought_by_another:
            self.a_guest_is_brought(key, False)
        for load in overtaken:
            self.loads.remove(load)
            assert load.entry is not None
            load.reader.keep(self._request(key), load.entry, load.miss)
        self.read(0, key, after_s)

    @rule(key=_KEYS)
    def hit_that_a_write_overtakes(self, key: str) -> None:
        """The reader knows of the write by the time at which the node's answer is there."""

        def overtake() -> None:
            self.write_and_its_event(key)
            self.clock.now_s += _BOUND_S + 0.1
            self.readers[1].local_cache.recall(self._request(key))
            self.readers[1].find(self._request("a" if key == "b" else "b"))

        self.a_guest_is_brought(key, True)
        self.while_redis_answers.append(overtake)
        self.readers[1].read(self._request(key))
        self.while_redis_answers.clear()
        self.read(1, key, 0)

    @rule(key=_KEYS, node=_NODES, after_s=_TIMES_S)
    def write_of_which_a_node_does_not_hear_at_once(self, key: str, node: str, after_s: float) -> None:
        self.a_guest_is_brought(key, True)
        self.the_network_of_the_control_plane_changes(node, True)
        self.write_and_its_event(key)
        self.read(1, key, after_s)
        self.the_network_of_the_control_plane_changes(node, False)

    def _expected(self, key: str) -> tuple[int, int]:
        """Return the oldest versions that Redis and that memory may give for a read that starts now."""
        now_s = self.clock.now_s
        in_redis = max((version for each, version, _ in self.handled if each == key), default=0)
        in_memory = [version for each, version, at_s in self.handled if each == key and at_s + _BOUND_S < now_s]
        return in_redis, max(in_memory, default=0)

    def _check(self, answer: Response, in_redis: int, in_memory: int) -> None:
        tier, version = answer.headers["x-cache-tier"], int(answer.body)
        assert version >= (in_memory if tier == "memory" else in_redis), (tier, version, in_redis, in_memory)

    # nodes

    @initialize(is_alone=st.booleans())
    def nodes_run(self, is_alone: bool) -> None:
        for node in _NAMES:
            self.a_node_boots(node, is_alone)
            self.a_node_is_ready(node, None)

    @rule(node=_NODES, is_alone=st.booleans())
    def a_node_boots(self, node: str, is_alone: bool) -> None:
        row = self.rows[node]
        if row.phase == "stopped":
            self.redis[node] = NodeRedis()
            peers = ("node-1",) if is_alone and node == "node-1" else _NAMES
            self.rows[node] = replace(row, phase="booting", generation=row.generation + 1, peers=peers)

    @rule(node=_NODES, written=st.none() | _KEYS)
    def a_node_is_ready(self, node: str, written: str | None) -> None:
        if self.rows[node].phase == "booting":
            row = self.rows[node] = replace(self.rows[node], phase="running", ready_at_us=self.clock.now_us())
            if written is not None:
                self.s3.meanwhile.append(lambda: self.write_and_its_event(written))
            self.guests.load(row)
            self.s3.meanwhile.clear()
            self.shown[node] = RunningNode(row.generation, 2, True, row.peers)

    @rule(node=_NODES)
    def a_node_is_to_stop(self, node: str) -> None:
        row = self.rows[node]
        if row.phase == "running":
            self.rows[node] = replace(row, phase="stopping")
            self.shown[node] = RunningNode(row.generation, 3, False, row.peers)
            self.stopping_since_s[node] = self.clock.now_s

    @rule(node=_NODES, after_s=_TIMES_S)
    def a_node_has_stopped(self, node: str, after_s: float) -> None:
        self.clock.now_s += after_s
        row = self.rows[node]
        if row.phase == "stopping" and self.clock.now_s >= self.stopping_since_s[node] + _STOPS_AFTER_S:
            self.redis[node].kill()
            self.rows[node] = replace(row, phase="stopped")
            self.lost.discard(node)

    @rule(node=_NODES, is_cut_off=st.booleans())
    def the_network_of_the_control_plane_changes(self, node: str, is_cut_off: bool) -> None:
        (self.cut_off.add if is_cut_off else self.cut_off.discard)(node)

    @rule(node=_NODES)
    def redis_restarts(self, node: str) -> None:
        if self.rows[node].phase != "stopped":
            self.redis[node].client.flushall()

    @rule(node=_NODES, key=_KEYS)
    def an_entry_is_evicted(self, node: str, key: str) -> None:
        if self.rows[node].phase != "stopped":
            self.redis[node].client.delete(object_key(_HASHES[key]))

    @rule(node=_NODES, key=_KEYS)
    def a_lease_runs_out(self, node: str, key: str) -> None:
        if self.rows[node].phase != "stopped":
            self.redis[node].client.delete(lease_key(_HASHES[key]))

    @invariant()
    def no_guest_is_stale_for_good(self) -> None:
        written = {event.key for event in self.events}
        for node, row in self.rows.items():
            for key, hash_ in _HASHES.items():
                if row.phase != "stopped" and node not in self.lost and key not in written:
                    body: Any = self.redis[node].client.hget(object_key(hash_), "body")
                    assert body is None or int(body) == self.s3.versions[key], (node, key)

    def _request(self, key: str) -> Request:
        return Request("GET", key, _HASHES[key], {}, None, "r", self.clock.now_us())


TestGuesthouse = pytest.mark.slow(Guesthouse.TestCase)
TestGuesthouse.settings = settings(search(100), stateful_step_count=20)


def test_guests_are_brought_and_hit() -> None:
    """The machine above would hold of a reader that asks no node, too."""
    house = Guesthouse()
    house.a_node_boots("node-1", True)
    house.a_node_is_ready("node-1", None)
    house.redis["node-1"].client.flushall()

    tiers = [house.readers[reader].read(house._request("a")).headers["x-cache-tier"] for reader in (0, 1, 1)]

    assert tiers == ["s3", "redis", "memory"]
    assert Route("redis", "node-1", is_guest=True) == house._read_digest().home(_HASHES["a"], now_us=0)
