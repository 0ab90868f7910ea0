"""Contract of a node's Redis for slices of large objects. The in-process Redis must meet it as well."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_objects import GUEST_S, LEASE_S, RedisObjects, lease_key, object_key, slice_key
from burstcache.core.errors import RedisDownError
from burstcache.core.slices import SLICE_BYTES
from support.redis_in_process import NO_SECRETS
from support.servers import RedisServer
from support.waiting import LIMIT_S

_BODY = random.Random(1).randbytes(SLICE_BYTES)
_NAMES = [f"{number:032x}" for number in range(8)]
_SIZES = dict.fromkeys(_NAMES, SLICE_BYTES)
_NAME = _NAMES[0]
_ONE = {_NAME: SLICE_BYTES}
_READERS = 50


def test_a_slice_is_loaded_at_its_second_miss_so_that_a_scan_evicts_nothing(objects: RedisObjects) -> None:
    misses = [objects.read_slices(_ONE) for _ in range(3)]

    assert misses == [({}, []), ({}, [_NAME]), ({}, [])]


def test_stored_slices_are_read_in_one_call(objects: RedisObjects) -> None:
    bodies = {name: bytes([number]) * SLICE_BYTES for number, name in enumerate(_NAMES)}

    objects.store_slices(bodies)

    assert objects.read_slices(_SIZES) == (bodies, [])


def test_of_some_slices_the_missing_ones_are_leased(objects: RedisObjects) -> None:
    objects.store_slices({_NAMES[1]: _BODY})
    objects.read_slices(_SIZES)

    assert objects.read_slices(_SIZES) == ({_NAMES[1]: _BODY}, [_NAMES[0], *_NAMES[2:]])


def test_of_many_readers_at_once_one_loads_the_slice(objects: RedisObjects) -> None:
    objects.read_slices(_ONE)
    together = threading.Barrier(_READERS)

    def read(_: int) -> list[str]:
        together.wait(LIMIT_S)
        return objects.read_slices(_ONE)[1]

    with ThreadPoolExecutor(_READERS) as threads:
        leased = list(threads.map(read, range(_READERS)))

    assert sum(map(len, leased)) == 1


@pytest.mark.parametrize("stored", [b"", _BODY[:-1], _BODY + b"x"], ids=["empty", "cut", "longer"])
def test_a_value_of_another_length_is_a_miss_and_is_replaced(
    objects: RedisObjects, client: redis.Redis, stored: bytes
) -> None:
    client.set(slice_key(_NAME), stored)

    assert [objects.read_slices(_ONE) for _ in range(2)] == [({}, []), ({}, [_NAME])]
    objects.store_slices({_NAME: _BODY})
    assert objects.read_slices(_ONE) == ({_NAME: _BODY}, [])


def test_a_value_of_another_type_is_a_miss_and_is_replaced(objects: RedisObjects, client: redis.Redis) -> None:
    client.hset(slice_key(_NAME), "meta", "{}")

    assert [objects.read_slices(_ONE) for _ in range(2)] == [({}, []), ({}, [_NAME])]
    objects.store_slices({_NAME: _BODY})
    assert objects.read_slices(_ONE) == ({_NAME: _BODY}, [])


def test_stored_slices_are_named_without_their_bytes_and_without_a_lease(
    objects: RedisObjects, client: redis.Redis
) -> None:
    objects.store_slices({_NAMES[0]: _BODY, _NAMES[1]: _BODY[:1]})
    client.set(slice_key(_NAMES[2]), _BODY[:-1])
    client.hset(slice_key(_NAMES[3]), "meta", "{}")

    assert objects.stored_slices(_SIZES | {_NAMES[1]: 1}) == set(_NAMES[:2])
    assert objects.read_slices({_NAMES[4]: SLICE_BYTES}) == ({}, [])  # its first miss


@pytest.mark.parametrize("size_bytes", [1, 2, 16])
def test_the_last_slice_of_an_object_may_be_short(objects: RedisObjects, size_bytes: int) -> None:
    objects.store_slices({_NAME: _BODY[:size_bytes]})

    assert objects.read_slices({_NAME: size_bytes}) == ({_NAME: _BODY[:size_bytes]}, [])


def test_slices_leases_and_marks_expire(objects: RedisObjects, client: redis.Redis) -> None:
    for _ in range(2):
        objects.read_slices(_SIZES)
    objects.store_slices({_NAME: _BODY})

    remaining_s = {bytes(key).decode(): client.ttl(key) for key in client.scan_iter()}
    assert lease_key(f"slice:{_NAME}") not in remaining_s
    assert len(remaining_s) == 2 * len(_NAMES)
    assert all(0 < left <= GUEST_S for left in remaining_s.values())
    assert 0 < remaining_s[lease_key(f"slice:{_NAMES[1]}")] <= LEASE_S


def test_slices_are_no_hits_of_the_node(objects: RedisObjects) -> None:
    objects.store_slices({_NAME: _BODY})
    objects.read_slices(_SIZES)

    assert objects.hits() == []


def test_a_slice_and_an_entry_of_the_same_name_are_different(objects: RedisObjects, client: redis.Redis) -> None:
    objects.store_slices({_NAME: _BODY})

    assert not client.exists(object_key(_NAME))
    assert objects.read_guest(_NAME, at_us=1, leases=False) == (None, "")


def test_a_server_that_has_forgotten_the_script_is_taught_it_anew(objects: RedisObjects, client: redis.Redis) -> None:
    objects.read_slices(_ONE)
    client.script_flush()

    assert objects.read_slices(_ONE) == ({}, [_NAME])


@pytest.mark.parametrize("policy", ["allkeys-lru", "noeviction"])
def test_a_full_node_loses_slices_and_fails_no_read(policy: str) -> None:
    room = 12 * (1 << 20) // SLICE_BYTES
    with RedisServer(options=("--maxmemory", "12mb", "--maxmemory-policy", policy)) as server:
        objects = RedisObjects(
            RedisNode("node-1", "i-1", "127.0.0.1", server.port), NO_SECRETS, RedisAccess(), timeout_s=LIMIT_S
        )
        names = [f"{number:032x}" for number in range(3 * room)]
        for name in names:
            objects.store_slices({name: _BODY})

        found, _ = objects.read_slices(dict.fromkeys(names, SLICE_BYTES))

        assert 0 < len(found) < room
        assert set(found.values()) == {_BODY}
        assert (max(found) > names[room]) == (policy == "allkeys-lru")
        objects.close()


def test_a_node_that_is_gone_is_an_error() -> None:
    node = RedisNode("node-1", "i-1", "127.0.0.1", 9)
    with pytest.raises(RedisDownError):
        RedisObjects(node, NO_SECRETS, RedisAccess(), timeout_s=LIMIT_S).read_slices(_ONE)
