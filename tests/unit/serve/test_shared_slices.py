"""Slices on Redis nodes and in S3 Express: spread over the nodes, and never the reason why a read fails."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import redis

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.circuit_breaker import FIRST_S
from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.adapters.redis_objects import RedisObjects, slice_key
from burstcache.core.digest import MAX_AGE_S, Digest, Route, RunningNode
from burstcache.core.errors import ServiceError
from burstcache.core.placement import node_for
from burstcache.core.slices import SLICE_BYTES, Slice, SliceNames, Version
from burstcache.serve.reader import EXPRESS
from burstcache.serve.redis_tier import RedisGuestTier
from burstcache.serve.shared_slices import SharedSlices, SliceStores
from burstcache.serve.tier import FetchedSlices, Tier
from burstcache.serve.tiers import Tiers
from support.clock import ManualClock
from support.redis_in_process import NO_SECRETS, NodeRedis, ObjectsInProcess
from support.servers import RedisServer, Silence, Trickle
from support.waiting import LIMIT_S, free_port

_NODES = ("node-1", "node-2", "node-3")
_SIZE = 32 * SLICE_BYTES + 16
_VERSION = Version("key", "hash", '"1"', _SIZE)
_SLICES = SliceNames("", "bucket").slices(_VERSION, 0, _SIZE)


def body_of(slice_: Slice) -> bytes:
    return random.Random(slice_.name).randbytes(slice_.size_bytes)


@dataclass
class Bucket:
    """S3 Express that has some slices, and accepts all others or fails."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    def fetch_slices(self, slices: Sequence[Slice]) -> FetchedSlices:
        self.asked += (each.name for each in slices)
        if self.error is not None:
            raise self.error
        found = {each.name: self.bodies[each.name] for each in slices if each.name in self.bodies}
        return FetchedSlices(found, frozenset(each.name for each in slices) - found.keys(), self.bodies.update)


class Stack:
    """Nodes in this process, a digest, and a reader of their slices."""

    def __init__(self, *, bucket: Bucket | None = None, has_nodes: bool = True) -> None:
        self.clock = ManualClock(1000.0)
        self.nodes = {name: NodeRedis() for name in _NODES}
        self.generation = 1
        self.stopped: set[str] = set()
        self.bucket = bucket
        self.digests_read = 0
        self.failures: list[Exception | None] = []
        timeout = AdaptiveTimeout(clock=self.clock)
        tiers = Tiers(self._make_tier, self.clock, self.failures.append, timeout)
        digest = DigestReader(self._read_digest, self.clock, start=at_once) if has_nodes else None
        self.slices = SharedSlices(tiers, digest, None if bucket is None else EXPRESS, timeout)

    def _make_tier(self, route: Route) -> Tier:
        if route == EXPRESS:
            return self.bucket  # type: ignore[return-value]
        return RedisGuestTier(ObjectsInProcess(RedisNode(route.node, "", "", 0), self.nodes[route.node].client), 1)

    def _read_digest(self) -> Digest:
        self.digests_read += 1
        return Digest(
            nodes={name: RunningNode(self.generation, 2, name not in self.stopped, _NODES) for name in _NODES}
        )

    def read(self, slices: Sequence[Slice] = _SLICES) -> tuple[dict[str, bytes], list[Slice], set[str], SliceStores]:
        """Return the bodies found, the missing slices, the tiers that had some, and the stores."""
        found: dict[str, bytes] = {}
        tiers = set()

        def keep(slice_: Slice, body: bytes, tier: str) -> None:
            found[slice_.name] = body
            tiers.add(tier)

        missing, stores = self.slices.fetch(slices, keep)
        return found, missing, tiers, stores

    def load(self, slices: Sequence[Slice] = _SLICES) -> None:
        """Read slices until the nodes accept them, and store them."""
        for _ in range(2):
            self.read(slices)[3].put(bodies_of(slices))


def bodies_of(slices: Sequence[Slice]) -> Mapping[str, bytes]:
    return {each.name: body_of(each) for each in slices}


def test_one_large_file_spreads_over_all_nodes_and_every_reader_finds_it_there() -> None:
    stack = Stack()

    stack.load()

    assert stack.read()[:3] == (bodies_of(_SLICES), [], {"redis"})
    counts = [sum(key.startswith(b"object:slice:") for key in node.client.scan_iter()) for node in stack.nodes.values()]
    assert sum(counts) == len(_SLICES)
    assert min(counts) >= len(_SLICES) // 8


def test_all_nodes_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack()
    stack.load()
    together, fetch = threading.Barrier(len(_NODES), timeout=LIMIT_S), RedisGuestTier.fetch_slices

    def fetch_together(tier: RedisGuestTier, slices: Sequence[Slice]) -> FetchedSlices:
        together.wait()
        return fetch(tier, slices)

    monkeypatch.setattr(RedisGuestTier, "fetch_slices", fetch_together)

    assert stack.read()[:2] == (bodies_of(_SLICES), [])


def test_a_slice_that_was_missed_once_is_stored_nowhere() -> None:
    stack = Stack()

    stack.read()[3].put(bodies_of(_SLICES))

    assert stack.read()[1] == _SLICES


def test_missing_slices_come_back_in_their_order() -> None:
    stack = Stack()
    stack.load(_SLICES[5:9])

    found, missing, _, _ = stack.read()

    assert found == bodies_of(_SLICES[5:9])
    assert missing == [*_SLICES[:5], *_SLICES[9:]]


def test_a_dead_node_costs_its_own_slices_and_is_asked_once_until_its_breaker_closes() -> None:
    stack = Stack()
    stack.load()
    lost = [each for each in _SLICES if node_for(each.name, _NODES) == "node-2"]
    stack.nodes["node-2"].kill()

    for _ in range(3):
        found, missing, _, _ = stack.read()
        assert missing == lost
        assert found.keys() == {each.name for each in _SLICES} - {each.name for each in lost}
    assert [error is None for error in stack.failures] == [False, True, True]

    stack.nodes["node-2"].start()
    stack.clock.now_s += FIRST_S
    assert stack.read()[1] == []


def test_a_node_that_has_stopped_is_not_asked_after_two_seconds() -> None:
    stack = Stack()
    stack.load()
    stack.stopped.add("node-1")
    stack.nodes["node-1"].kill()

    stack.clock.now_s += MAX_AGE_S + 0.1
    missing = stack.read()[1]

    assert missing == [each for each in _SLICES if node_for(each.name, _NODES) == "node-1"]
    assert stack.failures == []


def test_a_node_of_a_new_run_is_empty_and_filled_anew() -> None:
    stack = Stack()
    stack.load()
    for node in stack.nodes.values():
        node.empty()
    stack.generation = 2

    assert stack.read()[1] == _SLICES
    stack.load()
    assert stack.read()[1] == []


def test_a_long_read_refreshes_the_digest() -> None:
    stack = Stack()
    stack.load()
    read_before = stack.digests_read

    stack.clock.now_s += 10 * MAX_AGE_S

    assert stack.read()[1] == []
    assert stack.digests_read == read_before + 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda client, key: client.setrange(key, SLICE_BYTES, b"more"),
        lambda client, key: client.set(key, b"short"),
        lambda client, key: client.set(key, b""),
        lambda client, key: (client.delete(key), client.hset(key, "meta", "{}")),
    ],
    ids=["longer", "short", "empty", "another type"],
)
def test_a_damaged_slice_is_a_miss_and_is_replaced(damage: Callable[[redis.Redis, str], object]) -> None:
    stack = Stack()
    stack.load()
    slice_ = _SLICES[3]
    for node in stack.nodes.values():
        if node.client.exists(slice_key(slice_.name)):
            damage(node.client, slice_key(slice_.name))

    assert stack.read()[1] == [slice_]
    assert stack.failures == []

    for node in stack.nodes.values():  # its former mark may still stand, its lease has run out
        node.client.delete(f"load:slice:{slice_.name}", f"recent:slice:{slice_.name}")
    stack.load([slice_])
    assert stack.read()[:2] == (bodies_of(_SLICES), [])


def test_another_versions_slices_are_never_found() -> None:
    stack = Stack()
    stack.load()

    for other in (Version("key", "hash", '"2"', _SIZE), Version("key", "hash", '"1"', _SIZE - 1)):
        slices = SliceNames("", "bucket").slices(other, 0, other.size_bytes)
        assert stack.read(slices)[:2] == ({}, slices)


def test_s3_express_is_asked_for_what_the_nodes_lack_and_fills_them() -> None:
    bucket = Bucket(dict(bodies_of(_SLICES[:3])))
    stack = Stack(bucket=bucket)
    stack.load(_SLICES[:1])
    bucket.asked.clear()

    found, missing, tiers, _ = stack.read()

    assert (found, missing) == (bodies_of(_SLICES[:3]), _SLICES[3:])
    assert tiers == {"redis", "express"}
    assert bucket.asked.count(_SLICES[0].name) == 0
    stack.read()[3].put(bodies_of(_SLICES[:3]))
    assert stack.read(_SLICES[:3])[2] == {"redis"}


def test_without_nodes_s3_express_alone_is_asked() -> None:
    bucket = Bucket(dict(bodies_of(_SLICES)))

    assert Stack(bucket=bucket, has_nodes=False).read()[:3] == (bodies_of(_SLICES), [], {"express"})


def test_a_bucket_that_fails_is_skipped_until_its_breaker_closes() -> None:
    bucket = Bucket(error=ServiceError("down", code="x"))
    stack = Stack(bucket=bucket, has_nodes=False)

    for _ in range(3):
        assert stack.read()[:2] == ({}, _SLICES)
    assert len(bucket.asked) == len(_SLICES)

    bucket.error = None
    stack.clock.now_s += FIRST_S
    stack.read()[3].put(bodies_of(_SLICES))
    assert stack.read()[1] == []


def test_a_tier_that_fails_to_store_fails_nothing_and_is_skipped() -> None:
    stack = Stack()
    stack.read()
    _, _, _, stores = stack.read()
    for node in stack.nodes.values():
        node.kill()

    stores.put(bodies_of(_SLICES))

    assert stack.read()[1] == _SLICES
    assert stack.failures == [None] * len(_NODES)


class Node:
    """A reader of slices on one node at a port of this machine."""

    def __init__(self, port: int, *, wait_s: float = 0.1) -> None:
        timeout = AdaptiveTimeout(least_s=wait_s / 2, most_s=wait_s)
        node = RedisNode("node-1", "i-1", "127.0.0.1", port)
        self.objects = RedisObjects(node, NO_SECRETS, RedisAccess(), adaptive_timeout=timeout)
        clock = ManualClock()
        digest = Digest(nodes={"node-1": RunningNode(1, 2, True, ("node-1",))})
        self.failures: list[Exception | None] = []
        tiers = Tiers(lambda _: RedisGuestTier(self.objects, 1), clock, self.failures.append, timeout)
        self.slices = SharedSlices(tiers, DigestReader(lambda: digest, clock), None, timeout)

    def missing(self) -> list[Slice]:
        return self.slices.fetch(_SLICES[:8], lambda *_: pytest.fail("there are no slices"))[0]


@pytest.fixture
def silent_port() -> Iterator[int]:
    with Silence() as silence:
        yield int(silence.address.rpartition(":")[2])


@pytest.fixture
def trickling_port() -> Iterator[int]:
    with Trickle() as trickle:
        yield trickle.port


@pytest.mark.parametrize("kind", ["silent", "trickling", "closed"])
def test_a_node_that_does_not_answer_in_time_is_left_and_then_skipped(
    kind: str, request: pytest.FixtureRequest
) -> None:
    node = Node(free_port() if kind == "closed" else request.getfixturevalue(f"{kind}_port"))

    assert [node.missing(), node.missing()] == [_SLICES[:8]] * 2
    assert [error is None for error in node.failures] == [False, True]
    node.objects.close()


def test_a_slow_transfer_of_slices_leaves_the_nodes_small_objects_alone(silent_port: int) -> None:
    node = Node(silent_port)
    node.missing()

    assert not node.slices._tiers._breakers.is_open(Route("redis", "node-1", is_guest=True))
    node.objects.close()


def test_a_real_server_keeps_slices() -> None:
    with RedisServer() as server:
        node = Node(server.port, wait_s=LIMIT_S)
        node.missing()
        node.slices.fetch(_SLICES[:8], lambda *_: None)[1].put(bodies_of(_SLICES[:8]))
        found = {}

        missing, _ = node.slices.fetch(_SLICES[:8], lambda slice_, body, _: found.update({slice_.name: body}))

        assert (found, missing) == (bodies_of(_SLICES[:8]), [])
        node.objects.close()
