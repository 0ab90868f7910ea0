"""A node that fills up: its checks and its readers' reports show what more memory would earn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from burstcache.adapters.redis_objects import object_key
from burstcache.core.keys import key_hash
from burstcache.core.messages.events import KeyServed
from burstcache.core.node_memory import MemorySample
from burstcache.core.node_scaling import ENTRY_BYTES
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import RecordedRequest
from burstcache.core.worth import MICRO
from burstcache.queries.explain import stack_rules
from burstcache.queries.node_memory import StackMemory, stack_memory
from support.functions import NODE
from support.policies import BY_USE, DECIDES_BY, policy_named
from support.world import World

KEYS = [f"key {number}" for number in range(10)]
LIMIT_BYTES = 2_000


class _Evicting:
    """A node's Redis that has room for some objects: it evicts the others after each read of all of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._store.sample = MemorySample(used_bytes=LIMIT_BYTES, limit_bytes=LIMIT_BYTES, evicted=0)

    def evict(self, keys: list[str]) -> None:
        sample = self._store.sample
        assert sample is not None
        gone = sum(self._world.redis.client.delete(object_key(key_hash(key))) for key in keys)
        self._store.sample = replace(sample, evicted=sample.evicted + gone)


@pytest.fixture(params=BY_USE)
def running(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose node runs and holds all keys."""
    world = make_world(policy=policy_named(request.param), runs_machines=True, has_relay=False)
    for key in KEYS:
        world.put_object(key)
    for _ in range(3):
        read_all(world)
    world.until(lambda: world.node().phase == "running", within_s=120)
    world.clock.sleep(3)
    return world


def read_all(world: World) -> list[str]:
    tiers = []
    for key in KEYS:
        world.clock.sleep(1)
        tiers.append(world.read(key))
    return tiers


def check(world: World) -> None:
    """Take the node's check now. Its execution takes others at its own times."""
    world.clock.sleep(1)
    at_us = str(world.clock.now_us())
    world.node_step("check_node", part=world.node().part, check_at_us=at_us, checks=0)


def memory_of(world: World) -> StackMemory:
    memory = stack_memory(world.system, stack_rules(DECIDES_BY | {"HIT_VALUE_USD_PER_MILLION": "100"}))
    assert memory is not None
    return memory


def report(world: World, key: str, *, times: int = 2) -> None:
    """Deliver a reader's report of one request that S3 served, at least once."""
    request = RecordedRequest(world.clock.now_us(), f"r{world.clock.now_us()}").encode()
    served = KeyServed(key=key, requests=[request], size_bytes=4, etag='"e"')
    for _ in range(times):
        world.invoke("scheduler", {"detail-type": "RequestsServed", "detail": {"keys": [served]}})


def test_a_node_with_room_has_nothing_to_say(running: World) -> None:
    _Evicting(running)
    check(running)
    version = running.uses.read(NODE).version
    report(running, KEYS[0])

    found = memory_of(running)

    assert [(node.used_bytes, node.is_full) for node in found.nodes] == [(LIMIT_BYTES, False)]
    assert found.change is None
    assert running.uses.read(NODE).version == version  # a report about a node with room writes no use


def test_a_node_that_evicts_counts_the_repeats_that_it_misses_once(running: World) -> None:
    redis = _Evicting(running)
    check(running)
    redis.evict(KEYS[:5])
    check(running)

    for key in KEYS[:3]:
        running.clock.sleep(1)
        report(running, key)
    report(running, "never seen before", times=1)

    memory = running.uses.read(NODE).memory
    assert (memory.is_evicting, memory.evicted, memory.missed) == (True, 5, 3 * MICRO)


def test_readers_of_a_full_node_report_what_it_misses(running: World) -> None:
    redis = _Evicting(running)
    check(running)
    redis.evict(KEYS[:5])
    check(running)

    assert read_all(running).count("s3") == 5  # evicted ones, which readers store again
    running.clock.sleep(310)
    read_all(running)  # a reader sends its batch with a later request

    assert running.uses.read(NODE).memory.missed == 5 * MICRO


def test_explain_names_the_full_node_and_the_parameter_to_change(running: World) -> None:
    redis = _Evicting(running)
    check(running)
    for _ in range(3):
        redis.evict(KEYS[:5])
        check(running)
        for key in KEYS[:5]:
            report(running, key)
        read_all(running)

    found = memory_of(running)

    (node,) = found.full
    memory = running.uses.read(NODE).memory
    assert node.wanted_bytes == sum(4 + ENTRY_BYTES for _ in KEYS)
    assert memory.missed >= memory.evicted * MICRO == 15 * MICRO
    assert node.lost_per_h == pytest.approx(15 / (memory.watched_us / US_PER_S / 3600))
    assert found.change is not None
    assert (found.change.parameter, found.change.pays) == ("RedisInstanceType", True)


def test_a_node_set_up_by_an_earlier_version_tells_nothing_and_is_checked_as_before(running: World) -> None:
    running.store.sample = None
    before = running.uses.read(NODE).looked_at_us

    check(running)

    stored = running.uses.read(NODE)
    assert stored.looked_at_us > before
    assert not stored.memory.limit_bytes
