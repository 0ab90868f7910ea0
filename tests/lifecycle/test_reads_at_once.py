"""Many reads of a key at once by a reader of a stack that keeps nothing: what S3 and the stack see of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from burstcache.core.keys import key_hash
from burstcache.web.request import Request
from support.world import World

_READS = 30


@contextmanager
def slow_s3(world: World) -> Iterator[list[float]]:
    """Let each answer of S3 take 20 ms on its way back; gives when they were made."""
    made_s: list[float] = []

    def delay(**_: object) -> None:
        made_s.append(world.clock.monotonic_s())
        world.clock.sleep(0.02)

    events = world.clients.s3.meta.events
    events.register("after-call.s3.GetObject", delay, unique_id="slow S3")
    yield made_s
    events.unregister("after-call.s3.GetObject", unique_id="slow S3")


def read(world: World, number: int) -> bytes:
    request = Request("GET", "k", key_hash("k"), {}, None, f"r{number}", world.clock.now_us())
    return world.reader.read(request).body


def test_reads_of_a_cold_key_at_once_ask_s3_twice_and_each_counts(world: World) -> None:
    world.put_object("k", b"cold")
    world.reader.prefetch_digest()

    with slow_s3(world) as asked:
        reads = [world.clock.start(read, world, number) for number in range(_READS)]
        bodies = {world.clock.wait_for(each) for each in reads}

    assert (bodies, len(asked)) == ({b"cold"}, 2)
    world.deliver()
    assert world.row("k").phase != "s3"  # hot


def test_a_read_that_begins_after_a_write_does_not_share_one_that_began_before(world: World) -> None:
    world.put_object("k", b"old")
    world.reader.prefetch_digest()

    with slow_s3(world):
        before = world.clock.start(read, world, 1)
        world.clock.sleep(0.001)
        world.put_object("k", b"new")
        after = read(world, 2)

    assert (world.clock.wait_for(before), after) == (b"old", b"new")
