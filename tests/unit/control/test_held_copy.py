"""The copy of a cache function: how long a GET waits for the one that is being loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from burstcache.control.held_copy import HeldCopy
from burstcache.web.entry import Entry
from support.virtual_time import VirtualClock

ENTRY = Entry({"etag": '"1"', "content-length": "1"}, b"1")


async def fetched(_: Entry | None) -> Entry:
    return ENTRY


def run(work: Callable[[HeldCopy, VirtualClock], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def main() -> None:
        copy = HeldCopy(clock)
        await copy.load(fetched)
        await work(copy, clock)

    loop = clock.new_event_loop()
    clock.wait_for(clock.start(lambda: loop.run_until_complete(main())))
    loop.close()


def test_a_get_waits_for_a_load_as_long_as_its_reader_does() -> None:
    async def work(copy: HeldCopy, clock: VirtualClock) -> None:
        copy.drop()
        began_s = clock.monotonic_s()

        assert await copy.get(within_s=0.1) is None

        assert clock.monotonic_s() - began_s == 0.1

    run(work)


def test_a_get_is_given_what_arrives_meanwhile() -> None:
    async def work(copy: HeldCopy, clock: VirtualClock) -> None:
        copy.drop()
        waiting = asyncio.ensure_future(copy.get(within_s=0.1))
        await asyncio.sleep(0.05)

        await copy.load(fetched)

        assert await waiting == ENTRY

    run(work)


def test_gets_do_not_wait_for_each_of_many_writes() -> None:
    async def work(copy: HeldCopy, clock: VirtualClock) -> None:
        began_s = clock.monotonic_s()
        for _ in range(20):  # one every 50 ms, and no load in time
            copy.drop()
            await copy.get(within_s=0.05)

        waited_s = clock.monotonic_s() - began_s
        copy.drop()
        await copy.get(within_s=0.05)

        assert clock.monotonic_s() - began_s == waited_s
        assert waited_s <= 0.26

    run(work)
