"""Frames as they arrive, without a network."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from burstcache.pool.channel import ConnectionChannel, request_numbers
from burstcache.pool.frames import Header, Kind
from support.waiting import LIMIT_S


async def _room() -> memoryview:
    """Return the buffer for a payload part that has no place of its own, on this event loop."""
    connection, header = ConnectionChannel(request_numbers()), Header(Kind.FOUND, 1, payload_bytes=8).pack()
    connection.get_buffer(-1)[:] = header
    connection.buffer_updated(len(header))
    return connection.get_buffer(-1)


def test_parts_of_payloads_arrive_in_other_memory_on_another_event_loop() -> None:
    one = asyncio.run(_room())
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(asyncio.run, _room()).result(LIMIT_S)

    one[:], other[:] = b"one's 8B", b"other's "

    assert one == b"one's 8B"
