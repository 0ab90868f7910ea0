"""Contract of a node's Redis for guests and the readers that bring them. The in-process Redis must meet it as well."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_objects import GUEST_S, LEASE_S, Hit, RedisObjects, lease_key, object_key
from burstcache.core.errors import RedisDownError
from burstcache.core.node_use import MAX_HITS
from burstcache.web.entry import Entry
from support.read_path import entry_of
from support.redis_in_process import NO_SECRETS
from support.servers import RedisServer
from support.waiting import LIMIT_S

OLD = Entry({"etag": '"old"', "content-length": "3"}, b"old")
NEW = Entry({"etag": '"new"', "content-length": "6"}, b"newest")
_READERS = 100
HASH, OTHER = "0" * 32, "1" * 32


def token_of_a_miss(objects: RedisObjects, hash_: str = HASH) -> str:
    entry, token = objects.read_guest(hash_, at_us=1, leases=True)
    assert entry is None
    return token


def test_a_guest_that_its_loader_stored_is_read_with_its_headers(objects: RedisObjects) -> None:
    token = token_of_a_miss(objects)

    assert objects.store_guest(HASH, NEW, token)

    assert objects.read_guest(HASH, at_us=2, leases=True) == (NEW, "")


def test_one_reader_at_a_time_loads_a_guest(objects: RedisObjects, client: redis.Redis) -> None:
    tokens = [token_of_a_miss(objects) for _ in range(3)]

    assert [bool(token) for token in tokens] == [True, False, False]
    remaining_ms = client.pttl(lease_key(HASH))
    assert isinstance(remaining_ms, int)
    assert 0 < remaining_ms <= LEASE_S * 1000


def test_of_a_hundred_readers_at_once_one_brings_the_guest(objects: RedisObjects) -> None:
    reads, stored = threading.Barrier(_READERS), []

    def read(number: int) -> None:
        reads.wait(LIMIT_S)
        entry, token = objects.read_guest(HASH, at_us=number, leases=True)
        reads.wait(LIMIT_S)  # nobody waits for the one that loads
        if token:
            assert entry is None
            stored.append(objects.store_guest(HASH, NEW, token))

    with ThreadPoolExecutor(_READERS) as threads:
        list(threads.map(read, range(_READERS)))

    assert stored == [True]


def test_a_miss_by_a_reader_that_loads_nothing_takes_no_lease(objects: RedisObjects) -> None:
    assert objects.read_guest(HASH, at_us=1, leases=False) == (None, "")

    assert token_of_a_miss(objects)


def test_a_read_of_what_a_boot_left_out_counts_as_a_hit_until_it_is_stored(objects: RedisObjects) -> None:
    objects.leave_out({HASH: 7, **{f"{number:032}": 1 for number in range(1, 2_000)}})

    token = token_of_a_miss(objects)
    token_of_a_miss(objects, OTHER)

    assert objects.hits() == [Hit(1, 7)]
    assert objects.store_guest(HASH, NEW, token)
    objects.drop([HASH])
    token_of_a_miss(objects)
    assert objects.hits() == [Hit(1, 7)]


def test_a_guest_is_brought_anew_after_a_day(objects: RedisObjects, client: redis.Redis) -> None:
    objects.store_guest(HASH, NEW, token_of_a_miss(objects))

    remaining_s = client.ttl(object_key(HASH))
    assert isinstance(remaining_s, int)
    assert 0 < remaining_s <= GUEST_S


def test_a_lease_is_given_back_with_the_object(objects: RedisObjects, client: redis.Redis) -> None:
    objects.store_guest(HASH, NEW, token_of_a_miss(objects))

    assert not client.exists(lease_key(HASH))


@pytest.mark.parametrize("overtaken", ["by a write", "by another loader", "by a restart"])
def test_a_loader_that_was_overtaken_stores_nothing(objects: RedisObjects, client: redis.Redis, overtaken: str) -> None:
    token = token_of_a_miss(objects)
    if overtaken == "by a write":
        objects.drop([HASH])
    elif overtaken == "by a restart":
        client.flushall()
    else:
        client.delete(lease_key(HASH))  # it has run out
        objects.store_guest(HASH, NEW, token_of_a_miss(objects))

    assert not objects.store_guest(HASH, OLD, token)

    assert objects.read_guest(HASH, at_us=2, leases=False)[0] in (None, NEW)


def test_a_write_removes_guests_and_leaves_the_others(objects: RedisObjects) -> None:
    for hash_ in (HASH, OTHER, "2" * 32):
        objects.store_guest(hash_, OLD, token_of_a_miss(objects, hash_))

    for hash_ in (HASH, "2" * 32):
        objects.drop([hash_])

    found = [objects.read_guest(hash_, at_us=2, leases=False)[0] for hash_ in (HASH, OTHER, "2" * 32)]
    assert found == [None, OLD, None]


def test_hits_are_noted_with_time_and_size_and_misses_are_not(objects: RedisObjects) -> None:
    for hash_, entry in ((HASH, OLD), (OTHER, NEW)):
        objects.store_guest(hash_, entry, token_of_a_miss(objects, hash_))

    for hash_, at_us in ((HASH, 10), (OTHER, 20), (HASH, 30)):
        objects.read_guest(hash_, at_us=at_us, leases=True)
    objects.read_meta(HASH)

    assert objects.hits() == [Hit(30, 3), Hit(20, 6), Hit(10, 3)]


def test_only_the_newest_hits_are_kept(objects: RedisObjects) -> None:
    objects.store_guest(HASH, OLD, token_of_a_miss(objects))

    for at_us in range(MAX_HITS + 3):
        objects.read_guest(HASH, at_us=at_us, leases=True)

    assert [hit.at_us for hit in objects.hits()] == list(range(MAX_HITS + 2, 2, -1))


def test_many_leases_are_taken_at_once_but_not_for_what_is_there_or_being_loaded(objects: RedisObjects) -> None:
    objects.store_guest(HASH, OLD, token_of_a_miss(objects))
    token_of_a_miss(objects, OTHER)

    tokens = objects.lease([HASH, OTHER, "2" * 32])

    assert tokens.keys() == {"2" * 32}
    assert objects.store_guest("2" * 32, NEW, tokens["2" * 32])


def test_a_server_that_has_forgotten_the_scripts_is_taught_them_anew(
    objects: RedisObjects, client: redis.Redis
) -> None:
    token = token_of_a_miss(objects)
    client.script_flush()
    objects.store_guest(HASH, NEW, token)
    client.script_flush()

    assert objects.read_guest(HASH, at_us=2, leases=True) == (NEW, "")
    assert objects.hits() == [Hit(2, 6)]


def test_a_node_knows_what_its_entries_may_take(server: RedisServer) -> None:
    with redis.Redis(port=server.port) as client:
        client.config_set("maxmemory", "100mb")
    objects = RedisObjects(
        RedisNode("node-1", "i-1", "127.0.0.1", server.port), NO_SECRETS, RedisAccess(), timeout_s=LIMIT_S
    )

    assert objects.memory_bytes() == 100 << 20


def test_what_is_no_entry_at_all_is_a_failure_of_the_node(objects: RedisObjects, client: redis.Redis) -> None:
    client.set(object_key(HASH), "no hash")

    with pytest.raises(RedisDownError):
        objects.read_guest(HASH, at_us=1, leases=True)


def test_a_full_server_tells_its_evictions() -> None:
    with RedisServer(options=("--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru")) as server:
        objects = RedisObjects(
            RedisNode("node-1", "i-1", "127.0.0.1", server.port), NO_SECRETS, RedisAccess(), timeout_s=LIMIT_S
        )
        empty = objects.memory_sample()
        for number in range(40):  # 20 MB
            objects.put(str(number), entry_of(bytes(500_000)), objects.take_lease(str(number)))
        full = objects.memory_sample()
        objects.close()

    assert empty is not None
    assert full is not None
    assert (empty.limit_bytes, empty.evicted) == (12 << 20, 0)
    assert empty.used_bytes < full.used_bytes <= 13 << 20
    assert 15 < full.evicted < 90  # objects, and leases of those that are gone
