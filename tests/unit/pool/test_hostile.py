"""Bytes that nobody should send, to each port of the pool and in each part: no more than a connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.pool import handshake
from burstcache.pool.frames import HEADER_BYTES, Header, Kind
from burstcache.pool.handshake import Introduction
from burstcache.pool.hub import Hub
from burstcache.pool.member import serve
from support.pool import READER_TOKEN, TOKEN, LocalPool, running_pool
from support.searches import search
from support.waiting import LIMIT_S, eventually

_NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))


@st.composite
def _frame(draw: st.DrawFn) -> bytes:
    """Draw a frame that is right in itself."""
    name = draw(st.one_of(st.just(b"hash/etag/0/4+2"), st.binary(max_size=40)))
    payload = draw(st.binary(max_size=300))
    kind = draw(st.sampled_from(Kind))
    return Header(kind, draw(_NUMBERS), draw(st.integers(0, 255)), len(name), len(payload), 7).pack() + name + payload


_BYTES = st.lists(st.one_of(_frame(), _frame(), st.binary(max_size=64)), max_size=12).map(b"".join)


@contextlib.asynccontextmanager
async def _nothing_unforeseen() -> AsyncIterator[None]:
    """Fail if the event loop caught what no code did."""
    caught: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))
    yield
    assert not caught


async def _let_in(port: int, kind: Kind) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Dial a hub and prove to come in a part."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    name = b"pool-0"
    introduction = Introduction(kind, name, READER_TOKEN if kind is Kind.READER else TOKEN)
    challenge = await reader.readexactly(HEADER_BYTES + handshake.NONCE_BYTES)
    answer = introduction.answer(Header(Kind.CHALLENGE, 0), challenge[HEADER_BYTES:])
    assert answer
    payload = answer[2]
    writer.write(Header(kind, 0, name_bytes=len(name), payload_bytes=len(payload)).pack() + name + payload)
    await reader.readexactly(HEADER_BYTES + handshake.PROOF_BYTES)
    return reader, writer


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send bytes and no more, and wait until the other end has had them all."""
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            while await reader.read(65_536):
                pass
    writer.close()


async def _is_alive(pool: LocalPool) -> bool:
    """Return whether an unaffected member still answers."""
    answered = asyncio.get_running_loop().create_future()

    class Asker:
        def place(self, request: int, header: Header) -> None:
            return None

        def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
            answered.set_result(header.kind is Kind.MISSING)

        def on_failure(self, request: int) -> None:
            answered.set_result(False)

    pool.hub.members["pool-1"].send_request(Kind.GET, Asker(), b"nowhere")
    async with asyncio.timeout(LIMIT_S):
        return bool(await answered)


@search(50)
@given(data=_BYTES)
def test_who_has_proved_nothing_ends_a_connection_at_most(data: bytes) -> None:
    async def scenario() -> bool:
        async with running_pool(2) as pool, _nothing_unforeseen():
            reader, writer = await asyncio.open_connection("127.0.0.1", pool.port)
            await _say(reader, writer, data)
            assert list(pool.hub.members) == ["pool-0", "pool-1"]
            return await _is_alive(pool)

    assert asyncio.run(scenario())


@search(50)
@given(kind=st.sampled_from([Kind.PROOF, Kind.READER, Kind.REPLICA]), data=_BYTES)
def test_who_is_let_in_ends_a_connection_at_most(kind: Kind, data: bytes) -> None:
    async def scenario() -> bool:
        async with running_pool(2) as pool, _nothing_unforeseen():
            reader, writer = await _let_in(pool.port, kind)
            await _say(reader, writer, data)
            return await _is_alive(pool)

    assert asyncio.run(scenario())


@search(50)
@given(data=_BYTES)
def test_a_member_ends_a_connection_at_most(data: bytes) -> None:
    async def hub(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = handshake.nonce()
        writer.write(Header(Kind.CHALLENGE, 0, payload_bytes=len(nonce)).pack() + nonce)
        name_bytes = len("pool-0")
        shown = await reader.readexactly(HEADER_BYTES + name_bytes + handshake.NONCE_BYTES + handshake.PROOF_BYTES)
        member_nonce = shown[HEADER_BYTES + name_bytes :][: handshake.NONCE_BYTES]
        own = handshake.prove(TOKEN, handshake.SIDES[Kind.WELCOME], b"pool-0", nonce, member_nonce)
        writer.write(Header(Kind.WELCOME, 0, payload_bytes=len(own)).pack() + own)
        await _say(reader, writer, data)

    async def scenario() -> None:
        async with _nothing_unforeseen(), await asyncio.start_server(hub, "127.0.0.1", 0) as server:
            async with asyncio.timeout(LIMIT_S):
                await serve("127.0.0.1", server.sockets[0].getsockname()[1], "pool-0", TOKEN, ChunkStore(10_000))

    asyncio.run(scenario())


def test_those_that_have_proved_nothing_cost_little_memory() -> None:
    async def scenario() -> float:
        hub = Hub(TOKEN)
        port = await hub.start("127.0.0.1")
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        for _, writer in connections:
            writer.write(Header(Kind.PROOF, 0, name_bytes=255, payload_bytes=64).pack() + bytes(254))
        await eventually(lambda: len(hub._connections) == len(connections))
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for _, writer in connections:
            writer.close()
        await hub.stop()
        return (after - before) / len(connections)

    assert asyncio.run(scenario()) < 30_000  # both ends, of which one is the test's


def test_no_more_wait_at_the_door_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.hub._MAX_UNPROVEN", 3)

    async def scenario() -> list[bool]:
        hub = Hub(TOKEN)
        port = await hub.start("127.0.0.1")
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        is_open = []
        for reader, writer in connections:
            async with asyncio.timeout(LIMIT_S):
                is_open.append(bool(await reader.read(1)))
            writer.close()
        await hub.stop()
        return is_open

    assert asyncio.run(scenario()) == [True, True, True, False]


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_accepted_as_the_hub_stops_is_closed_before_stop_returns(turns: int) -> None:
    async def scenario() -> None:
        hub = Hub(TOKEN)
        with socket.create_connection(("127.0.0.1", await hub.start("127.0.0.1"))) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await hub.stop()

            client.settimeout(LIMIT_S)
            with contextlib.suppress(ConnectionResetError):
                while client.recv(1024):
                    pass

    asyncio.run(scenario())
    gc.collect()  # reports a socket left open, as a ResourceWarning
