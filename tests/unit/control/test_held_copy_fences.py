"""The copy of a cache function: what it is while writes, loads and losses of the relay come in any order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from burstcache.control.held_copy import HeldCopy
from burstcache.web.entry import Entry
from support.virtual_time import VirtualClock

Fetch = Callable[[Entry | None], Awaitable[Entry]]


def entry(version: int) -> Entry:
    return Entry({"etag": f'"{version}"', "content-length": "1"}, b"%d" % version)


def giving(version: int, meanwhile: Callable[[], None] = lambda: None) -> Fetch:
    """Return an S3 that answers with a version, and then lets something happen before the answer is there."""

    async def fetch(known: Entry | None) -> Entry:
        meanwhile()
        return entry(version)

    return fetch


async def held(copy: HeldCopy) -> bytes | None:
    found = await copy.get(within_s=1.0)
    return None if found is None else found.body


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def run(clock: VirtualClock, work: Callable[[HeldCopy], Awaitable[None]]) -> None:
    loop = clock.new_event_loop()

    async def with_copy() -> None:
        await work(HeldCopy(clock))

    def on_loop() -> None:
        try:
            loop.run_until_complete(with_copy())
        finally:
            loop.close()

    clock.wait_for(clock.start(on_loop))


def test_a_copy_is_here_from_its_load_to_the_next_write(clock: VirtualClock) -> None:
    async def work(copy: HeldCopy) -> None:
        await copy.load(giving(1))
        assert await held(copy) == b"1"
        copy.drop()
        assert copy.is_due.is_set()
        assert await held(copy) is None

    run(clock, work)


def test_a_load_that_a_write_overtakes_is_not_accepted(clock: VirtualClock) -> None:
    async def work(copy: HeldCopy) -> None:
        await copy.load(giving(1, copy.drop))
        assert await held(copy) is None
        await copy.load(giving(2))
        assert await held(copy) == b"2"

    run(clock, work)


def test_nothing_is_here_while_orders_may_be_missed(clock: VirtualClock) -> None:
    async def work(copy: HeldCopy) -> None:
        await copy.load(giving(1))
        copy.set_connected(False)
        assert not copy.is_due.is_set()
        assert await held(copy) is None
        await copy.load(giving(2))  # which began before the loss was noticed
        assert await held(copy) is None
        copy.set_connected(True)
        assert copy.is_due.is_set()
        await copy.load(giving(3))
        assert await held(copy) == b"3"

    run(clock, work)


def test_a_load_during_which_the_relay_came_back_is_not_accepted(clock: VirtualClock) -> None:
    async def work(copy: HeldCopy) -> None:
        copy.set_connected(False)
        await copy.load(giving(1, lambda: copy.set_connected(True)))
        assert await held(copy) is None
        assert copy.last == entry(1)

    run(clock, work)
