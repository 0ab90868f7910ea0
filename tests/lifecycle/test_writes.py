"""What is written through Burstcache is what everybody reads when the write has been answered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import moto.s3.models
import pytest

from burstcache.core.errors import (
    AccessDeniedError,
    CopiesNotDroppedError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from burstcache.serve.writer import Writer
from support.functions import MAX_OBJECT_BYTES
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


def test_a_write_of_which_a_tier_does_not_hear_is_an_error_that_says_so(world: World, writer: Writer) -> None:
    in_lambda_tier(world)
    world.relay.is_down = True

    with pytest.raises(CopiesNotDroppedError, match="S3 has 'k' as it was written, but copies"):
        writer.put("k", b"new")

    assert world.objects.fetch("k", max_bytes=MAX_OBJECT_BYTES).body == b"new"
    world.relay.is_down = False
    writer.purge("k")
    assert world.answer("k")["body"] == "bmV3"


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
