"""Batches of S3's events, as the queue brings them: followed in one go, whatever the keys' states are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.redis_objects import object_key
from burstcache.core.errors import FunctionFailedError
from burstcache.core.keys import key_hash
from support.world import World, event_of_write


def _follow(world: World, keys: Sequence[str], *, waited_s: float = 0.0) -> None:
    """Deliver one event of S3 for each key, in one batch whose oldest event has waited for so long."""
    sent_ms = str(world.clock.now_us() // 1000 - round(waited_s * 1000))
    bodies = [json.dumps(event_of_write(key)) for key in keys]
    records = [{"body": body, "attributes": {"SentTimestamp": sent_ms}} for body in bodies]
    world.invoke("origin", {"Records": records})


def test_a_batch_reaches_the_copies_of_all_keys_in_one_call_and_one_announcement(world: World) -> None:
    world.running("in redis")
    world.started("in lambda")
    world.serve("in lambda")
    world.until(lambda: world.row("in lambda").tier == "lambda")
    keys = ["in redis", "in lambda", "cold", "cold"]
    for key in keys:
        world.put_object(key, b"new")
    calls: list[Any] = []
    control = world.origin_changes.redis_control

    def noted(payload: Any) -> object:
        calls.append(payload)
        return control(payload)

    world.origin_changes = replace(world.origin_changes, redis_control=noted)

    _follow(world, keys)

    assert [sorted(call["keys"]) for call in calls] == [["in lambda", "in redis"]]
    assert bytes(world.redis.client.hget(object_key(key_hash("in redis")), "body")) == b"new"  # type: ignore[arg-type]
    world.until(lambda: world.body_in_lambda_tier("in lambda") == b"new", within_s=1, acts=True)
    assert sorted(world.digest.read().changes) == sorted(key_hash(key)[:12] for key in {*keys})


def test_a_batch_that_fails_is_announced_and_ends_no_backlog(world: World) -> None:
    def fail(payload: object) -> None:
        raise FunctionFailedError("redis control is away")

    world.running("k")
    world.put_object("k", b"new")
    _follow(world, [f"key-{at}" for at in range(5)], waited_s=1.5)
    world.origin_changes = replace(world.origin_changes, redis_control=fail)

    with pytest.raises(FunctionFailedError):
        _follow(world, ["k", "other"])

    seen = world.digest.read()
    assert len(seen.changes) == 7
    assert seen.backlog_s(world.clock.now_us()) >= 1.5  # it ends no backlog


def test_no_old_copy_is_read_after_a_batch_of_which_redis_does_not_hear(world: World) -> None:
    world.running("k")
    for key in ("k", "other"):
        world.put_object(key, b"new")
    world.redis.kill()

    _follow(world, ["k", "other"])

    assert world.read("k") == "s3"


@pytest.mark.parametrize(
    ("events", "waited_s", "is_behind"),
    [(10, 0.6, True), (5, 0.6, True), (4, 0.6, False), (10, 0.4, False)],
    ids=["many, late", "just many", "few, late", "many, in time"],
)
def test_the_digest_says_how_long_events_wait(world: World, events: int, waited_s: float, is_behind: bool) -> None:
    _follow(world, [f"key-{at}" for at in range(events)], waited_s=waited_s)

    age_s = world.digest.read().backlog_s(world.clock.now_us())

    assert (age_s >= waited_s) == is_behind
    _follow(world, ["the last one"])
    assert world.digest.read().backlog_s(world.clock.now_us()) == 0


def test_a_few_late_events_end_no_backlog(world: World) -> None:
    """A poll may leave a batch small while many events wait."""
    _follow(world, [f"key-{at}" for at in range(10)], waited_s=3)

    _follow(world, ["one more"], waited_s=3)

    assert world.digest.read().backlog_s(world.clock.now_us()) >= 3


def test_readers_learn_of_events_behind_a_batch_that_waits_for_a_node(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")
    world.redis.kill()
    begun_us = world.clock.now_us()

    batch = world.clock.start(_follow, world, ["k"])

    world.until(lambda: world.digest.read().backlog is not None, within_s=1, acts=True)
    assert not batch.done()
    assert world.digest.read().backlog_s(begun_us + 2_000_000) == pytest.approx(2, abs=0.001)
    world.clock.wait_for(batch)
    assert world.digest.read().backlog_s(begun_us + 9_000_000) >= 9  # others have waited as long as the batch took
    _follow(world, ["another"])
    assert world.digest.read().backlog_s(world.clock.now_us()) == 0


def test_a_write_of_a_writer_says_nothing_about_events(world: World) -> None:
    world.running("k")
    world.put_object("k", b"new")
    _follow(world, [f"key-{at}" for at in range(10)], waited_s=3)
    world.redis.kill()

    world.invoke("origin", {"op": "follow_write", "key": "k"})

    assert world.digest.read().backlog_s(world.clock.now_us()) >= 3
