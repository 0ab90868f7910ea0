"""A write straight to S3 reaches every copy of the object, in whatever state its key is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import object_key
from burstcache.core.errors import RedisDownError, RelayDownError
from burstcache.core.keys import key_hash
from burstcache.core.table import KeyColumns
from burstcache.web.entry import Entry, decode
from support.world import MAX_OBJECT_BYTES, World, after


def _body_in_lambda_tier(world: World, key: str) -> bytes | None:
    answer = world.get(key)
    return None if answer is None else decode(answer).body


def _body_in_redis(world: World, key: str) -> bytes | None:
    body: Any = world.redis.client.hget(object_key(key_hash(key)), "body")
    return None if body is None else bytes(body)


def test_write_while_redis_serves_replaces_the_entry(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")

    assert world.written("k") == {"refreshed": "redis"}

    assert _body_in_redis(world, "k") == b"new"


@pytest.mark.parametrize("body", [None, b"x" * (MAX_OBJECT_BYTES + 1)], ids=["deleted", "grown too large"])
def test_object_that_redis_may_no_longer_hold_is_removed_without_an_error(world: World, body: bytes | None) -> None:
    world.running("k")
    if body is None:
        world.delete_object("k")
    else:
        world.put_object("k", body)

    assert world.written("k") == {"refreshed": "redis"}

    assert _body_in_redis(world, "k") is None


def test_write_that_redis_did_not_take_is_an_error_so_that_the_event_comes_again(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")
    world.redis.kill()

    with pytest.raises(RedisDownError):
        world.written("k")


@pytest.mark.parametrize("phase", ["lambda", "redis_bootup"])
def test_write_of_which_the_cache_function_was_not_told_is_an_error_too(world: World, phase: str) -> None:
    row = world.started("k")
    columns = KeyColumns(tier="lambda", phase="redis_bootup") if phase == "redis_bootup" else KeyColumns(tier="lambda")
    world.keys.update(row.hash, epoch=row.epoch, set_=columns)
    world.put_object("k", b"new")
    world.relay.is_down = True

    with pytest.raises(RelayDownError):
        world.written("k")

    assert _body_in_redis(world, "k") == (b"new" if phase == "redis_bootup" else None)


def test_delete_while_the_node_boots_reaches_the_cache_function(world: World) -> None:
    world.started("k")
    life = world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")
    world.redis.kill()
    world.join("k")
    world.delete_object("k")

    assert world.written("k") == {"refreshed": "lambda"}

    assert life.join() == "failed"
    assert _body_in_lambda_tier(world, "k") is None
    assert world.node().phase == "booting"


def test_write_between_load_and_announce_is_seen(world: World) -> None:
    def overtake() -> None:
        world.put_object("k", b"new")
        assert world.written("k") == {"refreshed": ""}

    world.started("k")
    world.cache_tools = replace(world.cache_tools, objects=after(world.objects, "fetch", overtake))

    life = world.serve("k")

    world.until(lambda: world.row("k").tier == "lambda")
    world.until(lambda: _body_in_lambda_tier(world, "k") == b"new", within_s=1)
    assert life.join() == "idle"


def test_write_during_an_earlier_life_does_not_concern_this_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    fetch = ObjectStore.fetch

    def counted(store: ObjectStore, key: str, **options: Any) -> Entry:
        fetched.append(key)
        return fetch(store, key, **options)

    monkeypatch.setattr(ObjectStore, "fetch", counted)
    row = world.started("k")
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(written_in=row.epoch - 1))

    assert world.serve("k").join() == "idle"

    assert fetched == ["k"]
