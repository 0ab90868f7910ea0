"""A member's second environment takes over the chunks of the first, through their hub, while both are asked."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import ENTRY_BYTES, Chunk, ChunkStore
from burstcache.pool.channel import request_numbers
from burstcache.pool.frames import Header, Kind
from burstcache.pool.handshake import Introduction
from burstcache.pool.listing import PAGE_BYTES, entries, pages
from burstcache.pool.member import MemberConnection
from burstcache.pool.member_channel import MemberChannel
from burstcache.pool.remote_hub import Address, RemoteChannel
from burstcache.pool.replica_sync import ReplicaSync
from support.pool import TOKEN, LocalPool, running_pool
from support.searches import search
from support.waiting import LIMIT_S, eventually

_BYTES = 10_000_000


class _Answer:
    """Answer of a member to one request."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[Kind, bytes] | None] = asyncio.get_running_loop().create_future()

    def place(self, request: int, header: Header) -> memoryview:
        return memoryview(bytearray(header.payload_bytes))

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        self.answer.set_result((header.kind, bytes(payload or b"")))

    def on_failure(self, request: int) -> None:
        self.answer.set_result(None)


async def _ask(
    pool: LocalPool, kind: Kind, name: bytes, payload: bytes = b"", number: int = 0
) -> tuple[Kind, bytes] | None:
    answer = _Answer()
    pool.hub.members["pool-0"].send_request(kind, answer, name, payload, number=number, crc32c=_crc(payload))
    async with asyncio.timeout(LIMIT_S):
        return await answer.answer


def _crc(payload: bytes) -> int:
    return len(payload)  # nobody on the way looks into it


def _name(number: int) -> bytes:
    return f"hash/etag/{number}/4+2".encode()


def _payload(number: int, size: int = 2_000) -> bytes:
    return random.Random(number).randbytes(size)


def _fill(store: ChunkStore, numbers: Iterable[int], size: int = 2_000) -> None:
    for number in numbers:
        payload = _payload(number, size)
        store.put(_name(number), Chunk(number % 6, _crc(payload), payload))


def _contents(store: ChunkStore) -> dict[bytes, tuple[int, int, bytes]]:
    chunks = {name: store.peek(name) for name in store.newest_first()}
    return {name: (chunk.number, chunk.crc32c, bytes(chunk.payload)) for name, chunk in chunks.items() if chunk}


@dataclass
class _Copy:
    store: ChunkStore
    channel: RemoteChannel
    sync: ReplicaSync
    connection: MemberConnection

    async def end(self) -> bool:
        """Wait until the copy is made, and return whether it was."""
        async with asyncio.timeout(LIMIT_S):
            return await self.connection._sync_task

    async def is_under_way(self) -> None:
        """Wait until the copy has a few chunks. Looked at in each turn of the loop, it cannot have them all by then."""
        async with asyncio.timeout(LIMIT_S):
            while len(self.store) <= 5:
                await asyncio.sleep(0)


def _allocate(size_bytes: int) -> memoryview:
    return memoryview(bytearray(size_bytes))


async def _copy(pool: LocalPool, store: ChunkStore) -> _Copy:
    """Let a second environment of the member dial in."""
    address = Address("127.0.0.1", pool.port)
    channel = RemoteChannel(address, Introduction(Kind.REPLICA, b"pool-0", TOKEN), request_numbers())
    sync = ReplicaSync(store, channel, _allocate)
    connection = MemberConnection("pool-0", TOKEN, store, sync=sync)
    await address.connect(connection)
    await eventually(lambda: connection.is_trusted)
    return _Copy(store, channel, sync, connection)


@contextlib.asynccontextmanager
async def _pool(
    numbers: Iterable[int] = (), size: int = 2_000, capacity_bytes: int = _BYTES
) -> AsyncIterator[LocalPool]:
    """Run a hub with one member that has chunks."""
    async with running_pool(1, member_bytes=capacity_bytes) as pool:
        _fill(pool.stores["pool-0"], numbers, size)
        yield pool


def test_a_copy_has_everything_and_the_first_one_leaves() -> None:
    async def scenario() -> None:
        async with _pool(range(100)) as pool:
            first = pool.hub.members["pool-0"]
            copy = await _copy(pool, ChunkStore(_BYTES))

            assert await copy.end()
            await first.ended

            assert _contents(copy.store) == _contents(pool.stores["pool-0"])
            assert copy.store.newest_first() == pool.stores["pool-0"].newest_first()
            assert await _ask(pool, Kind.GET, _name(7)) == (Kind.FOUND, _payload(7))
            assert pool.hub.members["pool-0"] is not first

    asyncio.run(scenario())


def test_only_what_the_copy_lacks_is_sent() -> None:
    async def scenario() -> list[bytes]:
        async with _pool(range(20)) as pool:
            store = ChunkStore(_BYTES)
            _fill(store, range(15))
            other = _payload(3)
            store.put(_name(3), Chunk(5, _crc(other), other))  # another chunk of that slice
            fetched = []
            ask = MemberChannel.send_request

            def seen(
                self: MemberChannel, kind: Kind, caller: object, name: bytes, *rest: object, **more: object
            ) -> int:
                if kind is Kind.FETCH:
                    fetched.append(name)
                return ask(self, kind, caller, name, *rest, **more)  # type: ignore[arg-type]

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(MemberChannel, "send_request", seen)
                copy = await _copy(pool, store)
                assert await copy.end()
            assert _contents(store) == _contents(pool.stores["pool-0"])
            return fetched

    assert asyncio.run(scenario()) == [_name(number) for number in (19, 18, 17, 16, 15, 3)]


def test_what_was_wanted_is_copied_first_and_remembered_as_wanted() -> None:
    async def scenario() -> list[bytes]:
        async with _pool(range(5)) as pool:
            pool.stores["pool-0"].get(_name(1))
            copy = await _copy(pool, ChunkStore(_BYTES))
            assert await copy.end()
            chunk = copy.store.peek(_name(1))
            assert chunk
            assert chunk.is_referenced
            return copy.store.newest_first()

    assert asyncio.run(scenario()) == [_name(number) for number in (1, 4, 3, 2, 0)]


def test_chunks_that_only_the_copy_has_make_room_for_those_of_the_first_one() -> None:
    async def scenario() -> None:
        room = 10 * (2_000 + ENTRY_BYTES)
        async with _pool(range(8), capacity_bytes=room) as pool:
            store = ChunkStore(room)
            _fill(store, range(100, 110))
            copy = await _copy(pool, store)
            assert await copy.end()
            kept = _contents(store)
            assert kept.items() >= _contents(pool.stores["pool-0"]).items()
            assert len(kept) == 10  # the newest of its own are still there
            assert {_name(108), _name(109)} <= set(kept)

    asyncio.run(scenario())


def test_a_copy_answers_while_it_is_made_and_what_is_written_to_it_both_have(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_all = ReplicaSync._fetch_all

    async def scenario() -> None:
        has_asked = asyncio.Event()

        async def fetch_all_and_wait(sync: ReplicaSync) -> None:
            await fetch_all(sync)
            await has_asked.wait()  # on a quick machine it would be made by now

        monkeypatch.setattr(ReplicaSync, "_fetch_all", fetch_all_and_wait)
        async with _pool(range(200), size=20_000) as pool:
            copy = await _copy(pool, ChunkStore(_BYTES))
            assert pool.hub.members["pool-0"].is_replica

            oldest = await _ask(pool, Kind.GET, _name(0))
            nowhere = await _ask(pool, Kind.GET, b"nowhere")
            stored = await _ask(pool, Kind.PUT, _name(1_000), b"new")
            deleted = await _ask(pool, Kind.DELETE, _name(50))
            after = await _ask(pool, Kind.GET, _name(50))
            has_asked.set()

            assert oldest == (Kind.FOUND, _payload(0, 20_000))
            assert (nowhere, stored, deleted, after) == (
                (Kind.MISSING, b""),
                (Kind.STORED, b""),
                (Kind.MISSING, b""),
                (Kind.MISSING, b""),
            )
            assert await copy.end()
            await eventually(lambda: _contents(copy.store) == _contents(pool.stores["pool-0"]))
            assert _name(1_000) in _contents(copy.store)
            assert _name(50) not in _contents(copy.store)

    asyncio.run(scenario())


def test_what_arrives_after_it_was_deleted_or_written_anew_is_not_kept() -> None:
    async def scenario() -> None:
        async with _pool(range(3)) as pool:
            first = pool.hub.members["pool-0"]
            first.transport.pause_reading()
            copy = await _copy(pool, ChunkStore(_BYTES))
            asked = [asyncio.create_task(_ask(pool, Kind.GET, _name(number))) for number in (0, 1)]
            await eventually(lambda: len(copy.sync._fetches) == 2)

            await _ask(pool, Kind.DELETE, _name(0))
            await _ask(pool, Kind.PUT, _name(1), b"another chunk", number=4)
            first.transport.resume_reading()

            assert await asyncio.gather(*asked) == [(Kind.FOUND, _payload(0)), (Kind.FOUND, _payload(1))]
            assert await copy.end()
            await eventually(lambda: _contents(copy.store) == _contents(pool.stores["pool-0"]))
            assert set(_contents(copy.store)) == {_name(1), _name(2)}
            assert _contents(copy.store)[_name(1)] == (4, 13, b"another chunk")

    asyncio.run(scenario())


def test_a_copy_is_not_done_before_what_it_was_asked_for_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch_nothing(sync: ReplicaSync) -> None:
        await eventually(lambda: sync._fetches)

    monkeypatch.setattr(ReplicaSync, "_fetch_all", fetch_nothing)

    async def scenario() -> None:
        async with _pool([0]) as pool:
            first = pool.hub.members["pool-0"]
            copy = await _copy(pool, ChunkStore(_BYTES))
            await eventually(lambda: copy.sync._lacking)
            first.transport.pause_reading()
            asked = asyncio.create_task(_ask(pool, Kind.GET, _name(0)))
            await eventually(lambda: copy.sync._fetches)
            await asyncio.wait((copy.connection._sync_task,), timeout=0.05)
            first.transport.resume_reading()

            assert await asked == (Kind.FOUND, _payload(0))
            assert await copy.end()
            assert _contents(copy.store) == _contents(pool.stores["pool-0"]) != {}

    asyncio.run(scenario())


def test_a_copy_whose_first_environment_dies_serves_what_it_has() -> None:
    async def scenario() -> None:
        async with _pool(range(200), size=20_000) as pool:
            first = pool.hub.members["pool-0"]
            copy = await _copy(pool, ChunkStore(_BYTES))
            await copy.is_under_way()
            first.end()

            assert not await copy.end()
            assert 5 < len(copy.store) < 200
            assert await _ask(pool, Kind.GET, _name(0)) == (Kind.MISSING, b"")
            assert await _ask(pool, Kind.GET, copy.store.newest_first()[0]) != (Kind.MISSING, b"")

    asyncio.run(scenario())


def test_a_copy_that_dies_gives_the_member_back_to_the_first_environment() -> None:
    async def scenario() -> None:
        async with _pool(range(200), size=20_000) as pool:
            first = pool.hub.members["pool-0"]
            copy = await _copy(pool, ChunkStore(_BYTES))
            await copy.is_under_way()
            copy.connection.end()
            copy.channel.end()
            await eventually(lambda: pool.hub.members.get("pool-0") is first)

            assert await _ask(pool, Kind.GET, _name(0)) == (Kind.FOUND, _payload(0, 20_000))

    asyncio.run(scenario())


def test_a_copy_without_a_first_environment_is_a_member() -> None:
    async def scenario() -> None:
        async with running_pool(0) as pool:
            store = ChunkStore(_BYTES)
            _fill(store, range(3))
            copy = await _copy(pool, store)

            assert not await copy.end()
            assert await _ask(pool, Kind.GET, _name(1)) == (Kind.FOUND, _payload(1))

    asyncio.run(scenario())


@search(60)
@given(
    held=st.sets(st.integers(0, 30)),
    left=st.sets(st.integers(0, 60)),
    cut=st.integers(0, 80),
    end=st.sampled_from(["first", "copy", "connection", "hub"]),
)
def test_wherever_a_copy_is_interrupted_nothing_is_lost_or_half_stored(
    held: set[int], left: set[int], cut: int, end: str
) -> None:
    async def scenario() -> None:
        async with _pool(sorted(held)) as pool:
            first, source = pool.hub.members["pool-0"], pool.stores["pool-0"]
            store = ChunkStore(_BYTES)
            _fill(store, sorted(left))
            frames = 0
            send = MemberConnection.send

            def counted(self: MemberConnection, *args: object, **more: object) -> None:
                nonlocal frames
                frames += 1
                send(self, *args, **more)  # type: ignore[arg-type]
                if frames == cut:
                    asyncio.get_running_loop().call_soon(interrupt)

            def interrupt() -> None:
                if end == "first":
                    first.end()
                elif end == "copy":
                    copy.connection.end()
                    copy.channel.end()
                elif end == "connection":
                    copy.channel.end()
                else:
                    pool.hub._server.close()
                    for connection in list(pool.hub._connections):
                        connection.end()

            copy = await _copy(pool, store)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(MemberConnection, "send", counted)
                await copy.end()

            everything = {_name(number): (number % 6, 2_000, _payload(number)) for number in held | left}
            assert _contents(source) == {_name(number): everything[_name(number)] for number in held}
            assert _contents(store).items() <= everything.items()
            assert set(_contents(store)) >= {_name(number) for number in left}
            copy.connection.end()
            await copy.connection.ended

    asyncio.run(scenario())


def test_what_a_member_has_fills_pages_of_a_limited_length() -> None:
    store = ChunkStore(100_000_000)
    _fill(store, range(5_000), size=1)

    made = list(pages(store))

    assert len(made) > 1
    assert max(map(len, made)) <= PAGE_BYTES
    listed = [entry for page in made for entry in entries(memoryview(page))]
    assert [entry.name for entry in listed] == store.newest_first()
    assert all(entry.describes(store.peek(entry.name)) for entry in listed)


@given(st.binary(max_size=60))
def test_other_bytes_are_no_page_or_a_page_that_ends(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert sum(len(entry.name) for entry in entries(memoryview(data))) <= len(data)
