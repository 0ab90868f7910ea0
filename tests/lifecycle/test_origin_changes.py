"""A write straight to S3 reaches every copy of the object, in whatever state its key is."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.redis_objects import object_key
from burstcache.core.errors import FunctionFailedError
from burstcache.core.keys import key_hash
from burstcache.core.table import KeyColumns
from support.aws import put_row
from support.functions import MAX_OBJECT_BYTES, NODE
from support.interruptions import after
from support.world import World


def _body_in_redis(world: World, key: str) -> bytes | None:
    body: Any = world.redis.client.hget(object_key(key_hash(key)), "body")
    return None if body is None else bytes(body)


def test_write_while_redis_serves_replaces_the_entry(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")

    assert world.written("k")["refreshed"] == "redis"

    assert _body_in_redis(world, "k") == b"new"


@pytest.mark.parametrize("body", [None, b"x" * (MAX_OBJECT_BYTES + 1)], ids=["deleted", "grown too large"])
def test_object_that_redis_may_no_longer_hold_is_removed_without_an_error(world: World, body: bytes | None) -> None:
    world.running("k")
    if body is None:
        world.delete_object("k")
    else:
        world.put_object("k", body)

    assert world.written("k")["refreshed"] == "redis"

    assert _body_in_redis(world, "k") is None


def test_write_that_redis_did_not_take_has_nobody_ask_its_node(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")
    world.redis.kill()

    world.written("k")

    shown = world.digest.read()
    assert not shown.nodes[NODE].is_running
    assert shown.route(key_hash("k"), now_us=world.clock.now_us()) is None


@pytest.mark.parametrize("phase", ["lambda", "redis_bootup"])
def test_write_of_which_the_cache_function_was_not_told_raises_the_fence(world: World, phase: str) -> None:
    row = world.started("k")
    columns = KeyColumns(tier="lambda", phase="redis_bootup") if phase == "redis_bootup" else KeyColumns(tier="lambda")
    world.keys.update(row.hash, epoch=row.epoch, set_=columns)
    world.put_object("k", b"new")
    world.relay.is_down = True

    at_us = world.clock.now_us()

    world.written("k")

    assert world.digest.read().fence_us >= at_us
    assert _body_in_redis(world, "k") is None


def test_delete_while_the_node_boots_reaches_the_cache_function(world: World) -> None:
    world.started("k")
    life = world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")
    world.redis.kill()
    world.join("k")
    world.delete_object("k")

    assert world.written("k")["refreshed"] == "lambda"

    assert life.join() == "gone"
    assert world.body_in_lambda_tier("k") is None
    assert world.node().phase == "booting"


def test_write_between_load_and_announce_is_seen(world: World) -> None:
    def overtake() -> None:
        world.put_object("k", b"new")
        assert world.written("k")["refreshed"] == ""

    world.started("k")
    world.cache_tools = replace(world.cache_tools, objects=after(world.objects, "fetch", overtake))

    life = world.serve("k")

    world.until(lambda: world.row("k").tier == "lambda")
    world.until(lambda: world.body_in_lambda_tier("k") == b"new", within_s=1, acts=True)
    assert life.join() == "idle"


def in_lambda_tier(world: World) -> None:
    world.started("k")
    world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")


@pytest.mark.parametrize("bring", [in_lambda_tier, lambda world: world.running("k")], ids=["lambda", "redis"])
def test_an_event_that_comes_twice_or_late_changes_nothing_for_readers(world: World, bring: Any) -> None:
    bring(world)
    tier = world.read("k")
    for body in (b"older", b"new"):
        world.put_object("k", body)
        world.written("k")
    world.clock.sleep(0.1)
    assert world.read("k") == "s3"  # which decides of two versions which one is the newer

    for _ in ("of the older write, late", "of the new one, again"):
        world.written("k")
        world.clock.sleep(0.1)

        answer = world.answer("k")
        assert (answer["body"], answer["headers"]["x-cache-tier"]) == (b64encode(b"new").decode(), tier)


def test_a_late_event_brings_no_deleted_object_back(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")
    world.delete_object("k")
    world.written("k")

    world.written("k")  # of the write that came first

    assert _body_in_redis(world, "k") is None
    assert world.answer("k")["statusCode"] == 404


@pytest.fixture
def calls(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are invoked."""
    invoke, called = world.invoke, []

    def record(function: str, payload: dict[str, Any], **more: Any) -> Any:
        called.append(function)
        return invoke(function, payload, **more)

    monkeypatch.setattr(world, "invoke", record)
    return called


def test_write_to_an_object_without_a_copy_wakes_nothing_in_the_network(world: World, calls: list[str]) -> None:
    world.put_object("k")
    world.read("k")  # which leaves a row
    calls.clear()

    assert world.written("k")["refreshed"] == ""

    assert calls == ["origin"]
    assert len(world.digest.read().changes) == 1


def test_write_to_an_object_in_a_tier_has_redis_control_look(world: World, calls: list[str]) -> None:
    world.started("k")
    calls.clear()

    world.written("k")

    assert calls == ["origin", "redis_control"]


@pytest.mark.parametrize(
    ("phase", "is_asked"), [("stopped", False), ("booting", True), ("running", True), ("stopping", True)]
)
def test_write_is_followed_on_a_home_node_that_is_not_off(
    world: World, calls: list[str], phase: str, is_asked: bool
) -> None:
    deadline = world.clock.now_us() + 600_000_000
    put_row(f"NODE#{NODE}", "NODE", {"phase": phase, "generation": 1, "deadline_at_us": deadline, "peers": [NODE]})

    world.written("k")

    assert calls == ["origin", "redis_control"] if is_asked else ["origin"]


def test_failure_in_the_network_is_one_of_the_event_and_readers_hear_of_the_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(payload: object) -> None:
        raise FunctionFailedError("redis control is away")

    world.running("k")
    world.origin_changes = replace(world.origin_changes, redis_control=fail)

    with pytest.raises(FunctionFailedError):
        world.written("k")

    assert len(world.digest.read().changes) == 1
