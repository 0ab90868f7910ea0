"""Readers that members cannot dial, on one event loop with hub and members, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import socket
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.frames import Kind
from burstcache.pool.hub import Hub
from burstcache.pool.member import serve
from burstcache.pool.reader import PoolReader
from burstcache.pool.remote_hub import Address, RemoteHub
from support.pool import READER_TOKEN, TOKEN, LocalPool, running_pool, tls_contexts
from support.waiting import LIMIT_S, eventually, free_port

_CODE = Redundancy(4, 2)


@dataclass
class _Remote:
    pool: LocalPool
    hub: RemoteHub
    reader: PoolReader

    async def read(self, object_: PooledObject) -> bytes | None:
        """Read an object; None if a slice is lost."""
        room = memoryview(bytearray(object_.size_bytes))
        return None if await self.reader.read(object_, room) else bytes(room)


@contextlib.asynccontextmanager
async def _remote(members: int = 6, token: bytes = READER_TOKEN) -> AsyncIterator[_Remote]:
    async with running_pool(members) as pool:
        hub = RemoteHub(Address("127.0.0.1", pool.port), token)
        reader = PoolReader(hub, list(pool.stores), LIMIT_S)
        try:
            yield _Remote(pool, hub, reader)
        finally:
            await reader.settle()
            await hub.stop()


def _object(size: int) -> tuple[PooledObject, memoryview]:
    return PooledObject("hash", "v1", size, _CODE), memoryview(random.Random(size).randbytes(size))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("size", [1, 1_000, 262_144, pytest.param(9_000_003, marks=pytest.mark.slow)])
def test_an_object_passes_a_hub_as_it_was_written(
    size: int, run: Callable[[Coroutine[Any, Any, bytes | None]], bytes | None]
) -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(size)
        async with _remote() as remote:
            assert await remote.reader.write(object_, body) == []
            return await remote.read(object_)

    assert run(scenario()) == _object(size)[1]


@pytest.mark.slow
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_an_object_passes_a_hub_by_tls(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, bytes | None]], bytes | None]
) -> None:
    server, client = tls_contexts(tmp_path)
    client.check_hostname = False  # the name of who is pinned says nothing

    async def scenario() -> bytes | None:
        object_, body = _object(9_000_003)
        hub = Hub(TOKEN, READER_TOKEN)
        port = await hub.start("127.0.0.1", tls=server)
        names = [f"pool-{number}" for number in range(6)]
        members = [
            asyncio.create_task(serve("127.0.0.1", port, name, TOKEN, ChunkStore(10_000_000), client)) for name in names
        ]
        await eventually(lambda: len(hub.members) == len(members))
        remote = RemoteHub(Address("127.0.0.1", port, client), READER_TOKEN)
        reader = PoolReader(remote, names, LIMIT_S)
        room = memoryview(bytearray(object_.size_bytes))
        assert await reader.write(object_, body) == []
        lost = await reader.read(object_, room)
        await reader.settle()
        await remote.stop()
        await hub.stop()
        await asyncio.gather(*members)
        return None if lost else bytes(room)

    assert run(scenario()) == _object(9_000_003)[1]


def test_what_members_have_lost_is_written_to_them_again_through_the_hub() -> None:
    async def scenario() -> None:
        object_, body = _object(300_000)
        slice_ = object_.slice_at(0)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            names = holders(slice_.name, list(remote.pool.stores), slice_.redundancy.chunks)
            for name in names[:2]:
                remote.pool.stores[name].delete(slice_.name)

            assert await remote.read(object_) == body
            await remote.reader.settle()

            assert all(remote.pool.stores[name].get(slice_.name) for name in names)

    asyncio.run(scenario())


def test_as_many_members_as_there_is_parity_may_be_gone_from_a_hub() -> None:
    async def scenario() -> list[bytes | None]:
        object_, body = _object(300_000)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            found = []
            for name in holders(object_.slice_at(0).name, list(remote.pool.stores), 6)[:3]:
                await remote.pool.stop(name)
                found.append(await remote.read(object_))
            return found

    body = _object(300_000)[1]
    assert asyncio.run(scenario()) == [body, body, None]


@pytest.mark.slow
def test_a_member_that_goes_while_its_chunk_passes_costs_that_chunk_alone() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(8_000_000)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            reading = asyncio.create_task(remote.read(object_))
            async with asyncio.timeout(LIMIT_S):
                while not (passing := [link for link in remote.pool.hub.members.values() if link._sink]):
                    await asyncio.sleep(0)
            passing[0].end()
            return await reading

    assert asyncio.run(scenario()) == _object(8_000_000)[1]


@pytest.mark.slow
def test_a_reader_that_goes_leaves_the_members_to_others() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(8_000_000)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            other = RemoteHub(Address("127.0.0.1", remote.pool.port), READER_TOKEN)
            reading = asyncio.create_task(
                PoolReader(other, list(remote.pool.stores), LIMIT_S).read(object_, memoryview(bytearray(8_000_000)))
            )
            async with asyncio.timeout(LIMIT_S):
                while not any(link._sink for link in remote.pool.hub.members.values()):
                    await asyncio.sleep(0)
            await other.stop()
            await reading
            return await remote.read(object_)

    assert asyncio.run(scenario()) == _object(8_000_000)[1]


@pytest.mark.slow
def test_a_reader_that_takes_nothing_keeps_others_waiting_for_nothing() -> None:
    async def scenario() -> int:
        object_, body = _object(8_000_000)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            slow = RemoteHub(Address("127.0.0.1", remote.pool.port), READER_TOKEN)
            links = [slow.find_channel(name) for name in remote.pool.stores]
            await eventually(lambda: all(link and link.is_trusted for link in links))

            class Asker:
                def place(self, request: int, header: object) -> None:
                    return None

                def on_answer(self, *answer: object) -> None:
                    """Take no note."""

                on_failure = on_answer

            for link in links:
                assert link
                link.transport.pause_reading()
                for _ in range(50):
                    link.send_request(Kind.GET, Asker(), object_.slice_at(0).name)

            for _ in range(3):
                assert await remote.read(object_) == body
            waiting = sum(each.transport.get_write_buffer_size() for each in remote.pool.hub._connections)
            await slow.stop()
            return waiting

    assert (
        asyncio.run(scenario()) // 2_000_000 <= 6 * 4
    )  # whole chunks, four of each member at most; frames have headers


def test_a_reader_that_asks_for_nothing_is_let_go_and_dials_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.proxied_connection._IDLE_LIMIT_S", 0.01)

    async def scenario() -> bytes | None:
        object_, body = _object(1_000)
        async with _remote() as remote:
            link = remote.hub.find_channel("pool-0")
            assert link
            async with asyncio.timeout(LIMIT_S):
                await link.ended
            assert link.is_trusted
            monkeypatch.setattr("burstcache.pool.proxied_connection._IDLE_LIMIT_S", LIMIT_S)
            await remote.reader.write(object_, body)
            return await remote.read(object_)

    assert asyncio.run(scenario()) == _object(1_000)[1]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_whose_other_end_is_gone_without_a_word_is_the_kernels_to_end(
    run: Callable[[Coroutine[Any, Any, list[int]]], list[int]],
) -> None:
    async def scenario() -> list[int]:
        async with running_pool(1) as pool:
            sock = pool.hub.members["pool-0"].transport.get_extra_info("socket")
            return [
                sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            ]

    assert run(scenario()) == [1, 60, 120_000]


@pytest.mark.slow
def test_a_connection_that_has_ended_takes_no_memory_until_garbage_is_collected(tmp_path: Path) -> None:
    server, client = tls_contexts(tmp_path)
    client.check_hostname = False

    async def scenario() -> None:
        hub = Hub(TOKEN, READER_TOKEN)
        remote = RemoteHub(Address("127.0.0.1", await hub.start("127.0.0.1", tls=server), client), READER_TOKEN)
        link = remote.find_channel("pool-0")
        assert link
        await eventually(lambda: link.is_trusted)
        connections = [weakref.ref(each) for each in hub._connections]
        await remote.stop()
        await eventually(lambda: not any(connection() for connection in connections))
        await hub.stop()

    gc.collect()
    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_a_deleted_object_leaves_nothing_behind_a_hub() -> None:
    async def scenario() -> int:
        object_, body = _object(300_000)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            await remote.reader.delete(object_)
            return sum(len(store) for store in remote.pool.stores.values())

    assert asyncio.run(scenario()) == 0


def test_a_reader_with_another_token_reads_nothing() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(1_000)
        async with _remote(token=b"the token of one invocation") as remote:
            await remote.pool.reader.write(object_, body)
            return await remote.read(object_)

    assert asyncio.run(scenario()) is None


def test_a_hub_without_a_token_for_readers_lets_none_in() -> None:
    async def scenario() -> int:
        hub = Hub(TOKEN)
        remote = RemoteHub(Address("127.0.0.1", await hub.start("127.0.0.1")), TOKEN)
        object_, body = _object(1_000)
        lost = await PoolReader(remote, ["pool-0"], LIMIT_S).write(object_, body)
        await remote.stop()
        await hub.stop()
        return len(lost)

    assert asyncio.run(scenario()) == 1


def test_a_hub_that_cannot_be_reached_has_no_members() -> None:
    async def scenario() -> None:
        remote = RemoteHub(Address("127.0.0.1", free_port()), READER_TOKEN)
        reader = PoolReader(remote, ["pool-0", "pool-1"], LIMIT_S)
        object_, body = _object(1_000)

        assert len(await reader.write(object_, body)) == 1
        assert remote.find_channel("pool-0") is None
        await remote.stop()

    asyncio.run(scenario())


def test_a_hub_that_is_back_is_read_from_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.remote_hub._RETRY_S", 0.0)

    async def scenario() -> list[bytes | None]:
        object_, body = _object(300_000)
        async with _remote() as remote:
            await remote.reader.write(object_, body)
            found = [await remote.read(object_)]
            await remote.pool.hub.stop()
            found.append(await remote.read(object_))
            await remote.pool.hub.start("127.0.0.1", remote.pool.port)
            for name in remote.pool.stores:
                await remote.pool.start(name)
            found.append(await remote.read(object_))
            return found

    body = _object(300_000)[1]
    assert asyncio.run(scenario()) == [body, None, body]


def test_a_short_token_for_readers_is_refused() -> None:
    async def scenario() -> None:
        Hub(TOKEN, b"short")

    with pytest.raises(InvalidSettingError, match="token of 5 bytes; at least 16"):
        asyncio.run(scenario())
