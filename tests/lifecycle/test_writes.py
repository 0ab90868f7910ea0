"""Writes through Burstcache: once a write is answered, every reader sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import moto.s3.models
import pytest
from botocore.exceptions import EndpointConnectionError

from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.instances import Instances
from burstcache.adapters.object_store import ObjectStore
from burstcache.core.digest import FORGOTTEN_S, MAX_AGE_S
from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    CopiesNotDroppedError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RelayDownError,
    ServiceTransientError,
)
from burstcache.serve.writer import Writer
from support.functions import MAX_OBJECT_BYTES, NODE
from support.world import World


@pytest.fixture
def writer(world: World) -> Writer:
    return world.writer()


def in_lambda_tier(world: World) -> None:
    world.started("k")
    world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")
    assert world.read("k") == "lambda"


def in_redis(world: World) -> None:
    world.running("k")
    assert world.read("k") == "redis"


@pytest.mark.parametrize("bring", [in_lambda_tier, in_redis], ids=["lambda", "redis"])
def test_a_write_is_read_by_everybody_once_it_is_answered(world: World, writer: Writer, bring: Any) -> None:
    bring(world)
    other = world.new_reader()
    world.reader, mine = other, world.reader
    world.read("k")

    written = writer.put("k", b"new")

    assert world.objects.head("k").headers["etag"] == written.etag
    for reader in (mine, other, world.new_reader()):
        world.reader = reader
        assert world.answer("k")["body"] == "bmV3"


@pytest.mark.parametrize("bring", [in_lambda_tier, in_redis], ids=["lambda", "redis"])
def test_a_tier_serves_the_new_object_a_moment_after_it_was_written(world: World, writer: Writer, bring: Any) -> None:
    bring(world)
    tier = world.read("k")

    writer.put("k", b"new")
    world.clock.sleep(0.1)
    world.read("k")  # of a version that a reader has not answered yet S3 decides

    assert world.read("k") == tier
    assert world.answer("k")["body"] == "bmV3"


@pytest.mark.parametrize("bring", [in_lambda_tier, in_redis], ids=["lambda", "redis"])
def test_a_deleted_object_is_gone_for_everybody_once_that_is_answered(world: World, writer: Writer, bring: Any) -> None:
    bring(world)

    writer.delete("k")

    assert world.answer("k")["statusCode"] == 404


@pytest.fixture
def dynamodb_fails(world: World) -> Iterator[None]:
    """The digest cannot be written."""
    call = "before-call.dynamodb.UpdateItem"

    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://dynamodb")

    world.clients.dynamodb.meta.events.register(call, fail)
    yield
    world.clients.dynamodb.meta.events.unregister(call, fail)


@pytest.mark.usefixtures("dynamodb_fails")
def test_a_write_that_cannot_be_announced_is_an_error_that_says_so(world: World, writer: Writer) -> None:
    with pytest.raises(CopiesNotDroppedError, match="S3 has the new version of 'k', but old copies"):
        writer.put("k", b"new")

    assert world.objects.fetch("k", max_bytes=MAX_OBJECT_BYTES).body == b"new"


def took_s(world: World, work: Callable[[], object]) -> float:
    began_s = world.clock.monotonic_s()
    work()
    return world.clock.monotonic_s() - began_s


def test_a_write_of_which_the_cache_functions_do_not_hear_is_read_by_everybody(world: World, writer: Writer) -> None:
    in_lambda_tier(world)
    world.relay.is_down = True  # for who writes, and no cache function loses its connection

    assert FORGOTTEN_S < took_s(world, lambda: writer.put("k", b"new")) < FORGOTTEN_S + 3

    world.relay.is_down = False
    for reader in (world.reader, world.new_reader()):
        world.reader = reader
        assert world.answer("k")["body"] == "bmV3"


def test_a_cache_function_that_did_not_hear_of_a_write_serves_what_was_written(world: World, writer: Writer) -> None:
    in_lambda_tier(world)
    world.relay.is_down = True
    writer.put("k", b"new")
    world.relay.is_down = False
    world.read("k")  # tells the cache function, which loads the object
    world.clock.sleep(0.1)

    assert world.read("k") == "lambda"
    assert world.answer("k")["body"] == "bmV3"


def test_a_cache_function_that_starts_after_such_a_write_loads_its_object_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.digest.raise_fence(now_us=world.clock.now_us())
    world.clock.sleep(60)
    monkeypatch.delattr(ObjectStore, "fetch_if_newer")  # with which it would be loaded again

    in_lambda_tier(world)

    assert [world.read("k") for _ in range(3)] == ["lambda"] * 3


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "killed"])
def test_a_write_of_which_a_node_does_not_hear_is_read_by_everybody(
    world: World, writer: Writer, is_frozen: bool
) -> None:
    in_redis(world)
    world.redis.kill()

    assert FORGOTTEN_S < took_s(world, lambda: writer.put("k", b"new")) < FORGOTTEN_S + 3

    if is_frozen:
        world.redis.start()
    for reader in (world.reader, world.new_reader()):
        world.reader = reader
        assert world.answer("k")["body"] == "bmV3"


def test_a_node_that_does_not_hear_of_a_write_gives_its_keys_back_and_stops(world: World, writer: Writer) -> None:
    run = world.running("k")
    world.redis.kill()

    writer.put("k", b"new")

    assert world.node().phase == "stopping"
    assert world.node().lost_by == "its Redis did not answer a write"
    assert world.outcome(run) == {"outcome": "node_lost"}
    assert world.instances.has_stopped(world.nodes.read(NODE))


def test_writes_that_follow_do_not_wait_for_a_node_that_no_reader_asks(world: World, writer: Writer) -> None:
    in_redis(world)
    world.redis.kill()
    writer.put("k", b"new")

    assert took_s(world, lambda: writer.put("k", b"newer")) == 0


def test_a_node_that_stops_need_not_answer(world: World, writer: Writer) -> None:
    in_redis(world)
    stopping = world.nodes.change(world.node(), phase="stopping", deadline_at_us=world.clock.now_us() + 600_000_000)
    assert stopping is not None
    world.redis.kill()

    assert took_s(world, lambda: writer.put("k", b"new")) == FORGOTTEN_S

    world.redis.start()
    assert world.answer("k")["body"] == "bmV3"


def test_memories_do_not_wait_for_a_node_that_stops_to_let_go_of_what_was_written_straight_to_s3(world: World) -> None:
    in_redis(world)
    world.reader = world.new_reader(memory_bytes=1 << 20)
    assert [world.read("k"), world.read("k")] == ["redis", "memory"]
    world.nodes.change(world.node(), phase="stopping", deadline_at_us=world.clock.now_us() + 600_000_000)
    world.redis.kill()
    world.put_object("k", b"new")

    event = world.clock.start(world.written, "k")
    world.clock.sleep(MAX_AGE_S)

    assert not event.done()
    assert world.answer("k")["body"] == "bmV3"
    world.clock.sleep(FORGOTTEN_S)
    assert event.done()


def test_memories_do_not_wait_until_it_is_found_out_that_a_node_hangs(world: World) -> None:
    in_redis(world)
    world.reader = world.new_reader(memory_bytes=1 << 20)
    assert [world.read("k"), world.read("k")] == ["redis", "memory"]
    world.redis.kill()
    world.put_object("k", b"new")

    event = world.clock.start(world.written, "k")
    world.clock.sleep(0.9 * MAX_AGE_S)
    world.read("k")  # and then the digest

    assert world.answer("k")["body"] == "bmV3"
    assert world.node().phase == "running"
    world.clock.wait_for(event)


def test_readers_do_not_wait_until_it_is_found_out_that_cache_functions_do_not_hear_of_a_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RelayDownError("writers do not reach it")

    in_lambda_tier(world)
    monkeypatch.setattr(world.relay, "send_order", refuse)
    world.put_object("k", b"new")

    event = world.clock.start(world.written, "k")
    world.clock.sleep(0.3)
    world.reader = world.new_reader()

    assert world.answer("k")["body"] == "bmV3"
    assert world.digest.read().fence_us == 0
    world.clock.wait_for(event)


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_a_node_that_hangs_for_a_moment_gives_nobody_what_was_overwritten(world: World, memory_bytes: int) -> None:
    in_redis(world)
    world.redis.kill()
    world.put_object("k", b"new")

    event = world.clock.start(world.written, "k")
    world.clock.sleep(0.3)
    world.redis.start()  # it has its copies still
    world.reader = world.new_reader(memory_bytes=memory_bytes)
    bodies = [world.answer("k")["body"] for _ in range(2)]

    assert bodies == ["bmV3"] * 2
    world.clock.wait_for(event)
    world.reader = world.new_reader()
    assert world.read("k") == "redis"


def test_a_write_that_fails_has_readers_ask_s3_until_its_event_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ServiceTransientError("throttled")

    in_lambda_tier(world)
    world.relay.is_down = True
    monkeypatch.setattr(DigestTable, "raise_fence", refuse)
    world.put_object("k", b"new")

    with pytest.raises(BurstcacheError):
        world.written("k")

    world.relay.is_down = False
    world.reader = world.new_reader()
    assert world.answer("k")["body"] == "bmV3"


def test_a_write_waits_for_a_redis_that_starts_again(world: World, writer: Writer) -> None:
    in_redis(world)
    world.redis.kill()

    def start_again() -> None:
        world.clock.sleep(1.2)
        world.redis.start()

    world.clock.start(start_again)

    assert took_s(world, lambda: writer.put("k", b"new")) < FORGOTTEN_S

    assert world.node().phase == "running"
    assert world.answer("k")["body"] == "bmV3"


def test_a_node_that_cannot_be_stopped_fails_no_write(
    world: World, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise ServiceTransientError("EC2 is away")

    in_redis(world)
    monkeypatch.setattr(Instances, "stop", fail)
    world.redis.kill()

    writer.put("k", b"new")

    world.redis.start()
    assert world.answer("k")["body"] == "bmV3"
    assert world.node().phase == "stopping"


def test_a_write_waits_for_a_relay_that_starts_again(world: World, writer: Writer) -> None:
    in_lambda_tier(world)
    world.relay.is_down = True

    def start_again() -> None:
        world.clock.sleep(1.2)
        world.relay.is_down = False

    world.clock.start(start_again)

    writer.put("k", b"new")

    assert world.answer("k")["body"] == "bmV3"


def test_a_condition_that_does_not_hold_writes_nothing(world: World, writer: Writer) -> None:
    world.put_object("k", b"old")

    with pytest.raises(PreconditionFailedError):
        writer.put("k", b"new", if_none_match="*")
    with pytest.raises(PreconditionFailedError):
        writer.put("k", b"new", if_match='"another"')

    assert world.objects.fetch("k", max_bytes=MAX_OBJECT_BYTES).body == b"old"
    assert world.digest.read().changes == []


def test_conditions_that_hold_write(world: World, writer: Writer) -> None:
    first = writer.put("k", b"one", if_none_match="*")
    writer.put("k", b"two", if_match=first.etag)

    assert world.objects.fetch("k", max_bytes=MAX_OBJECT_BYTES).body == b"two"


def test_a_key_outside_of_the_origin_is_not_written(world: World, writer: Writer) -> None:
    with pytest.raises(AccessDeniedError, match="accepted: keys that begin with 'public/'"):
        replace(writer, prefix="public/").put("k", b"new")

    assert world.objects.head("k").status == 404


def test_a_process_reads_from_its_memory_nothing_that_it_has_overwritten(world: World) -> None:
    world.put_object("k", b"old")
    world.reader = world.new_reader(memory_bytes=1 << 20)
    assert [world.read("k"), world.read("k")] == ["s3", "memory"]

    world.writer().put("k", b"new")

    assert world.answer("k")["body"] == "bmV3"


def test_a_bucket_without_a_stack_is_written_all_the_same(world: World) -> None:
    writer = Writer(world.objects, "", None, world.reader.forget)

    writer.put("k", b"new")
    writer.delete("k")

    with pytest.raises(ObjectNotFoundError):
        world.objects.fetch("k", max_bytes=MAX_OBJECT_BYTES)


@pytest.mark.parametrize("bring", [in_lambda_tier, in_redis], ids=["lambda", "redis"])
def test_a_write_that_changes_the_type_alone_is_read_by_everybody(
    world: World, writer: Writer, bring: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(world)
    later = moto.s3.models.utcnow() + timedelta(seconds=2)
    monkeypatch.setattr(moto.s3.models, "utcnow", lambda: later)

    writer.put("k", b"body", content_type="text/html")
    world.clock.sleep(0.1)

    assert world.answer("k")["headers"]["content-type"] == "text/html"
