"""Any range of any object, by any interface, whatever happens meanwhile: one version, within the bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import settings

from support.any_range import BUCKET, SLICE, AnyRange, Settings
from support.searches import search

_SLICE = f"bytes=0-{SLICE - 1}"

TestAnyRange = AnyRange.TestCase
TestAnyRange.settings = settings(search(100), stateful_step_count=30)


@contextmanager
def _world(freshness: str, *, size_bytes: int) -> Iterator[AnyRange]:
    """Provide two processes that share a disk, and an object."""
    world, each = AnyRange(), Settings(freshness, 0, has_disk=True)
    try:
        world.begin(first=each, second=each, sleeps=True, sizes=(size_bytes, 0))
        yield world
    finally:
        world.teardown()


def test_the_age_of_a_head_from_disk_is_the_time_since_s3_sent_it() -> None:
    with _world("immutable", size_bytes=20 * SLICE) as world:
        first, second = world.processes
        first.client.get("a", range=_SLICE)
        world.time_passes(passes_s=90, steps_s=0)

        found = second.client.get("a", range=_SLICE)

    assert (found.tier, found.age_s) == ("disk", 90)


def test_a_read_with_a_limit_of_its_age_is_not_served_by_an_older_head_from_disk() -> None:
    with _world("immutable", size_bytes=20 * SLICE) as world:
        first, second = world.processes
        first.client.get("a", range=_SLICE)
        world.time_passes(passes_s=90, steps_s=0)
        second.client.get("a", range=_SLICE)
        requests = world.s3.requests

        ages_s = [second.client.get("a", range=_SLICE, max_age_s=limit_s).age_s for limit_s in (100, 10, 0)]

    assert ages_s == [90, 0, 0]
    assert world.s3.requests == requests + 2


def test_an_object_that_is_written_while_it_is_opened_is_not_empty() -> None:
    with _world("bounded", size_bytes=20 * SLICE) as world:
        client, s3 = world.processes[0].client, world.s3
        s3.write("a", None, 0)
        s3.between.append((s3.requests + 2, lambda: s3.write("a", 7, 20 * SLICE)))  # after the HEAD

        with client.open("a") as file:
            assert file.read() == s3.newest("a").body


def test_a_late_answer_replaces_no_head_of_a_newer_version() -> None:
    with _world("bounded", size_bytes=20 * SLICE) as world:
        client, s3 = world.processes[0].client, world.s3
        world.processes[1].client.get("a", range=_SLICE)  # puts the old version on disk
        etags = []

        def overtake() -> None:
            world.time_passes(passes_s=0.1, steps_s=0)
            s3.write("a", 7, 20 * SLICE)
            etags.append(client.get("a", range=_SLICE).etag)

        s3.under_way.append(overtake)
        client.head("a")
        etags.append(client.get("a", range=_SLICE).etag)

    assert etags == [s3.newest("a").etag] * 2


def test_a_client_is_not_behind_a_read_of_the_wrapped_client_after_its_write() -> None:
    with _world("bounded", size_bytes=20 * SLICE) as world:
        process = world.processes[0]
        world.write_by_the_reader(which=0, key="a", size_bytes=20 * SLICE, by_wrap=True, deletes=1)
        process.client.get("a")
        world.write(key="a", kind="same size", size_bytes=0)

        etags = [process.wrapped.head_object(Bucket=BUCKET, Key="a")["ETag"], process.client.get("a").etag]

    assert etags == [world.s3.newest("a").etag] * 2


def test_a_large_object_without_a_strong_etag_is_read_whole() -> None:
    with _world("bounded", size_bytes=20 * SLICE) as world:
        client, world.s3.has_weak_etags = world.processes[0].client, True
        body = world.s3.newest("a").body

        assert client.get("a").body == body
        assert client.get("a", range="bytes=3-12").body == body[3:13]
        with client.open("a") as file:
            assert file.read() == body


def test_the_age_of_a_small_object_from_disk_is_the_time_since_the_wrapped_client_read_it() -> None:
    with _world("immutable", size_bytes=100) as world:
        first, second = world.processes
        first.wrapped.get_object(Bucket=BUCKET, Key="a")["Body"].read()
        world.time_passes(passes_s=90, steps_s=0)

        found = second.client.get("a")

    assert (found.tier, found.age_s) == ("disk", 90)
