"""Hub, members and reader on one event loop, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from pathlib import Path

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.fan_out import SliceRead
from burstcache.pool.frames import Header, Kind
from burstcache.pool.hub import Hub
from burstcache.pool.member import MemberConnection, serve
from burstcache.pool.reader import PoolReader
from support.pool import TOKEN, LocalPool, running_pool, tls_contexts
from support.waiting import LIMIT_S, eventually

_SIZES = (1, 1_000, 262_144, 1_000_003)
_CODE = Redundancy(4, 2)


def _object(size: int, version: str = "v1") -> tuple[PooledObject, memoryview]:
    return PooledObject("hash", version, size, _CODE), memoryview(random.Random(size).randbytes(size))


async def _read(pool: LocalPool, object_: PooledObject) -> bytes | None:
    room = memoryview(bytearray(object_.size_bytes))
    return None if await pool.reader.read(object_, room) else bytes(room)


def _holders(pool: LocalPool, object_: PooledObject) -> list[str]:
    slice_ = object_.slice_at(0)
    return holders(slice_.name, list(pool.stores), slice_.redundancy.chunks)


@pytest.mark.parametrize("size", _SIZES)
def test_an_object_is_read_as_it_was_written(size: int) -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(size)
        async with running_pool(6) as pool:
            assert await pool.reader.write(object_, body) == []
            return await _read(pool, object_)

    assert asyncio.run(scenario()) == _object(size)[1]


def test_an_object_of_several_slices_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.core.pool.slices.SLICE_BYTES", 300_000)

    async def scenario() -> bytes | None:
        object_, body = _object(1_000_003)
        async with running_pool(6) as pool:
            assert await pool.reader.write(object_, body) == []
            return await _read(pool, object_)

    assert asyncio.run(scenario()) == _object(1_000_003)[1]


@pytest.mark.parametrize("size", _SIZES)
def test_an_object_passes_tls_as_it_was_written(size: int, tmp_path: Path) -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(size)
        hub = Hub(TOKEN)
        server, client = tls_contexts(tmp_path)
        port = await hub.start("127.0.0.1", tls=server)
        members = [
            asyncio.create_task(serve("127.0.0.1", port, f"pool-{number}", TOKEN, ChunkStore(10_000_000), client))
            for number in range(6)
        ]
        await eventually(lambda: len(hub.members) == len(members))
        reader = PoolReader(hub, list(hub.members), LIMIT_S)
        room = memoryview(bytearray(size))
        assert await reader.write(object_, body) == []
        lost = await reader.read(object_, room)
        await reader.settle()
        await hub.stop()
        await asyncio.gather(*members)
        return None if lost else bytes(room)

    assert asyncio.run(scenario()) == _object(size)[1]


def test_a_member_sends_nothing_to_a_hub_with_another_certificate(tmp_path: Path) -> None:
    async def scenario() -> None:
        hub = Hub(TOKEN)
        port = await hub.start("127.0.0.1", tls=tls_contexts(tmp_path)[0])
        try:
            await serve("127.0.0.1", port, "pool-0", TOKEN, ChunkStore(1_000), ssl.create_default_context())
        finally:
            await hub.stop()

    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(scenario())


def test_what_was_not_written_is_lost_and_so_is_another_version() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(300_000)
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            return await _read(pool, _object(300_000, "v2")[0])

    assert asyncio.run(scenario()) is None


@pytest.mark.parametrize("gone", [1, 2, 3])
@pytest.mark.parametrize("size", _SIZES)
def test_as_many_members_as_there_is_parity_may_be_gone(size: int, gone: int) -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(size)
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            for name in _holders(pool, object_)[:gone]:
                await pool.stop(name)
            return await _read(pool, object_)

    assert asyncio.run(scenario()) == (_object(size)[1] if gone <= _CODE.parity else None)


@pytest.mark.parametrize("size", [1_000, 300_000])
def test_what_members_that_are_gone_had_moves_to_the_next_ones_and_is_found_there(size: int) -> None:
    async def scenario() -> list[bytes | None]:
        object_, body = _object(size)
        async with running_pool(9) as pool:
            await pool.reader.write(object_, body)
            gone = _holders(pool, object_)
            for name in gone[:2]:
                await pool.stop(name)
            found = [await _read(pool, object_)]
            await pool.reader.settle()
            for name in gone[2:3]:
                await pool.stop(name)
            pool.reader = PoolReader(pool.hub, list(pool.stores), LIMIT_S)  # which knows nothing of that
            found.append(await _read(pool, object_))
            return found

    body = _object(size)[1]
    assert asyncio.run(scenario()) == [body, body]


def test_what_has_moved_is_not_written_at_each_read() -> None:
    async def scenario() -> int:
        object_, body = _object(300_000)
        name = object_.slice_at(0).name
        async with running_pool(9) as pool:
            await pool.reader.write(object_, body)
            await pool.stop(_holders(pool, object_)[0])
            await _read(pool, object_)
            await pool.reader.settle()
            (moved_to,) = [
                store
                for member, store in pool.stores.items()
                if member not in _holders(pool, object_) and store.get(name)
            ]
            before = moved_to.get(name)
            for _ in range(3):
                assert await _read(pool, object_) == body
                await pool.reader.settle()
            assert moved_to.get(name) is before
            return sum(bool(store.get(name)) for store in pool.stores.values())

    assert asyncio.run(scenario()) == 7  # one of them is out of reach


def test_what_is_written_while_a_holder_is_gone_has_all_its_chunks() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(300_000)
        async with running_pool(9) as pool:
            gone = _holders(pool, object_)
            await pool.stop(gone[0])
            await pool.reader.write(object_, body)
            for name in gone[1:3]:
                await pool.stop(name)
            return await _read(pool, object_)

    assert asyncio.run(scenario()) == _object(300_000)[1]


def test_what_is_left_of_a_slice_that_members_have_dropped_is_deleted() -> None:
    async def scenario() -> None:
        small = 110_000  # room for one chunk of the first object, and one of the second
        async with running_pool(6, member_bytes=small) as pool:
            first, second = _object(300_000), _object(300_001, "v2")
            assert await pool.reader.write(*first) == []
            roomy = _holders(pool, first[0])[:3]
            for member in roomy:
                pool.stores[member].capacity_bytes = 10 * small
            assert await pool.reader.write(*second) == []
            await pool.reader.settle()

            assert await _read(pool, first[0]) is None
            assert [len(store) for store in pool.stores.values()] == [1] * 6
            assert await _read(pool, second[0]) == second[1]

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [1_000, 300_000])
def test_a_wrong_byte_is_a_lost_chunk_and_is_written_again(size: int) -> None:
    async def scenario() -> None:
        object_, body = _object(size)
        name = object_.slice_at(0).name
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            spoilt = pool.stores[_holders(pool, object_)[0]].get(name)
            assert spoilt
            payload = memoryview(bytearray(spoilt.payload))
            payload[len(payload) // 2] ^= 1
            spoilt.payload = payload

            assert await _read(pool, object_) == body
            await pool.reader.settle()
            mended = pool.stores[_holders(pool, object_)[0]].get(name)
            assert mended
            assert mended.payload != spoilt.payload

    asyncio.run(scenario())


def test_lost_chunks_are_written_to_their_members_again() -> None:
    async def scenario() -> None:
        object_, body = _object(300_000)
        slice_ = object_.slice_at(0)
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            stores = [pool.stores[_holders(pool, object_)[number]] for number in (1, 5)]
            for store in stores:
                store.delete(slice_.name)

            while not all(store.peek(slice_.name) for store in stores):  # one of parity is not asked each time
                assert await _read(pool, object_) == body
                await pool.reader.settle()

            for member in _holders(pool, object_)[:1] + _holders(pool, object_)[2:3]:
                await pool.stop(member)
            assert await _read(pool, object_) == body

    asyncio.run(scenario())


def test_a_member_more_leaves_what_was_written_readable() -> None:
    async def scenario() -> list[bytes | None]:
        objects = [_object(262_144 + number, f"v{number}") for number in range(20)]
        async with running_pool(8) as pool:
            all_stores = pool.stores
            fewer = {name: store for name, store in all_stores.items() if name != "pool-3"}
            pool.reader.members = tuple(fewer)
            for object_, body in objects:
                await pool.reader.write(object_, body)
            pool.reader.members = tuple(all_stores)
            return [await _read(pool, object_) for object_, _ in objects]

    assert asyncio.run(scenario()) == [_object(262_144 + number)[1] for number in range(20)]


def test_no_read_is_wrong_while_a_pool_of_8_members_has_16_and_then_8_again() -> None:
    async def scenario() -> None:
        objects = {_object(100_000 + number, f"v{number}") for number in range(4)}
        async with running_pool(16) as pool:
            everyone = list(pool.stores)
            for members in (everyone[:8], everyone, everyone[:8]):
                pool.reader.members = tuple(members)
                for object_, body in objects:
                    assert await _read(pool, object_) in (None, body)
                    assert await pool.reader.write(object_, body) == []
                    assert await _read(pool, object_) == body
            for name in everyone[8:]:
                await pool.stop(name)
            for object_, body in objects:
                assert await _read(pool, object_) == body

    asyncio.run(scenario())


def test_a_silent_member_costs_its_chunk_alone() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(300_000)
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            silent = pool.hub.members[_holders(pool, object_)[0]]
            silent.transport.pause_reading()  # what it answers never arrives
            return await _read(pool, object_)

    assert asyncio.run(scenario()) == _object(300_000)[1]


def test_an_answer_that_was_lost_half_way_has_its_place_when_it_comes_again() -> None:
    async def scenario() -> None:
        object_, _ = _object(1_000_003)
        slice_ = object_.slice_at(0)
        async with running_pool(6) as pool:
            read = SliceRead(slice_, memoryview(bytearray(slice_.size_bytes)), pool.hub, (), ())
            answer = Header(Kind.FOUND, 1, number=2, payload_bytes=slice_.length(2))

            places = [read.place(1, answer), read.place(2, answer), read.place(1, answer)]

            assert [place is not None for place in places] == [True, False, True]

    asyncio.run(scenario())


def test_too_many_silent_members_end_a_read_at_its_limit() -> None:
    async def scenario() -> bytes | None:
        object_, body = _object(300_000)
        async with running_pool(6, limit_s=0.05) as pool:
            await pool.reader.write(object_, body)
            for name in _holders(pool, object_)[:3]:
                pool.hub.members[name].transport.pause_reading()
            return await _read(pool, object_)

    assert asyncio.run(scenario()) is None


def test_a_cancelled_read_no_longer_writes_where_it_was_to() -> None:
    async def scenario() -> None:
        object_, body = _object(4_000_000)
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            room = memoryview(bytearray(object_.size_bytes))
            reading = asyncio.create_task(pool.reader.read(object_, room))
            async with asyncio.timeout(LIMIT_S):
                while not (arriving := [link for link in pool.hub.members.values() if link._payload]):
                    await asyncio.sleep(0)
            for link in arriving:  # a part of its chunk
                link.transport.pause_reading()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            before = bytes(room)
            for link in arriving:
                link.transport.resume_reading()
            assert await _read(pool, object_) == body  # on the same connections, so after what was under way
            assert room == before

    asyncio.run(scenario())


def test_a_member_refuses_what_is_larger_than_its_memory() -> None:
    async def scenario() -> int:
        object_, body = _object(300_000)
        async with running_pool(6, member_bytes=10_000) as pool:
            return len(await pool.reader.write(object_, body))

    assert asyncio.run(scenario()) == 1


def test_a_deleted_object_leaves_nothing_behind() -> None:
    async def scenario() -> int:
        object_, body = _object(300_000)
        async with running_pool(6) as pool:
            await pool.reader.write(object_, body)
            await pool.reader.delete(object_)
            return sum(len(store) for store in pool.stores.values())

    assert asyncio.run(scenario()) == 0


def test_room_of_another_length_is_refused() -> None:
    async def scenario() -> None:
        async with running_pool(1) as pool:
            await pool.reader.read(_object(300_000)[0], memoryview(bytearray(7)))

    with pytest.raises(InvalidSettingError, match="room for 7 bytes; the object has 300,000"):
        asyncio.run(scenario())


def test_a_short_token_is_refused() -> None:
    async def scenario() -> None:
        Hub(b"short")

    with pytest.raises(InvalidSettingError, match="token of 5 bytes; at least 16"):
        asyncio.run(scenario())


def test_a_member_with_another_token_is_not_let_in() -> None:
    async def scenario() -> list[str]:
        async with running_pool(1) as pool:
            await serve("127.0.0.1", pool.port, "pool-9", b"the token of another one", ChunkStore(1_000))
            return list(pool.hub.members)

    assert asyncio.run(scenario()) == ["pool-0"]


def test_a_member_serves_no_hub_that_does_not_know_the_token() -> None:
    async def scenario() -> bytes:
        asked = asyncio.get_running_loop().create_future()

        async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(Header(Kind.CHALLENGE, 0, payload_bytes=32).pack() + bytes(32))
            await reader.readexactly(20 + len("pool-0") + 64)
            writer.write(Header(Kind.WELCOME, 0, payload_bytes=32).pack() + bytes(32))
            writer.write(Header(Kind.GET, 1, name_bytes=4).pack() + b"name")
            with contextlib.suppress(ConnectionResetError):
                asked.set_result(await reader.read())
            if not asked.done():
                asked.set_result(b"")
            writer.close()

        async with await asyncio.start_server(impostor, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with asyncio.timeout(LIMIT_S):
                await serve("127.0.0.1", port, "pool-0", TOKEN, ChunkStore(1_000))
                return bytes(await asked)

    assert asyncio.run(scenario()) == b""


def test_a_hub_asks_nothing_of_who_sends_something_else_than_a_proof() -> None:
    async def scenario() -> bytes:
        hub = Hub(TOKEN)
        port = await hub.start("127.0.0.1")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readexactly(20 + 32)
        writer.write(Header(Kind.FOUND, 1, payload_bytes=4).pack() + b"data")
        rest = b""
        async with asyncio.timeout(LIMIT_S):
            with contextlib.suppress(ConnectionResetError):
                rest = await reader.read()
        writer.close()
        await hub.stop()
        return rest

    assert asyncio.run(scenario()) == b""


def test_neither_side_waits_long_for_a_silent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.connection.HANDSHAKE_LIMIT_S", 0.01)

    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()

    async def scenario() -> None:
        hub = Hub(TOKEN)
        reader, writer = await asyncio.open_connection("127.0.0.1", await hub.start("127.0.0.1"))
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        await hub.stop()

        async with await asyncio.start_server(listen_only, "127.0.0.1", 0) as server:
            await serve("127.0.0.1", server.sockets[0].getsockname()[1], "pool-0", TOKEN, ChunkStore(1_000))

    async def within_the_limit() -> None:
        async with asyncio.timeout(LIMIT_S):
            await scenario()

    asyncio.run(within_the_limit())


def test_the_newest_connection_of_a_member_counts() -> None:
    async def scenario() -> None:
        async with running_pool(1) as pool:
            former = pool.hub.members["pool-0"]
            task = pool.tasks["pool-0"]
            pool.tasks["again"] = asyncio.create_task(
                serve("127.0.0.1", pool.port, "pool-0", TOKEN, pool.stores["pool-0"])
            )
            await eventually(lambda: pool.hub.members.get("pool-0") not in (None, former))
            await task
            assert list(pool.hub.members) == ["pool-0"]

    asyncio.run(scenario())


def test_a_member_that_leaves_before_its_hub_has_answered_sends_nothing() -> None:
    async def scenario() -> bytes:
        received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def silent_hub(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.set_result(await reader.read())
            writer.close()

        async with await asyncio.start_server(silent_hub, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            made = MemberConnection("pool-0", TOKEN, ChunkStore(1_000))
            await asyncio.get_running_loop().create_connection(lambda: made, "127.0.0.1", port)
            made.leave("environment")
            return await asyncio.wait_for(received, LIMIT_S)

    assert asyncio.run(scenario()) == b""
