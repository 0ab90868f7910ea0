"""Parts of a slice read from the pool, and which members are asked for what."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from burstcache.core.pool.chunk_store import Chunk
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.frames import Kind
from burstcache.pool.hedging import HedgeDelay
from burstcache.pool.member_channel import MemberChannel
from support.pool import LocalPool, running_pool
from support.waiting import LIMIT_S

_OBJECT = PooledObject("hash", "v1", 1_000_003, Redundancy(4, 2))
_SLICE = _OBJECT.slice_at(0)
_BODY = memoryview(random.Random(1).randbytes(_OBJECT.size_bytes))
_CHUNK_BYTES = _SLICE.chunk_bytes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the chunk requests to each member."""
    asked, ask = Counter[str](), MemberChannel.send_request

    def counted(link: MemberChannel, kind: Kind, *arguments: object, **more: object) -> int:
        if kind is Kind.GET:
            asked[link.name] += 1
        return ask(link, kind, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(MemberChannel, "send_request", counted)
    return asked


@pytest.fixture
def nobody_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has no member be asked because the machine is too busy for another's answer."""
    monkeypatch.setattr("burstcache.pool.hedging._INITIAL_S", LIMIT_S)


def _run(work: Callable[[LocalPool, list[str]], Awaitable[None]], *, limit_s: float = LIMIT_S) -> None:
    async def scenario() -> None:
        async with running_pool(6, limit_s=limit_s) as pool:
            assert await pool.reader.write(_OBJECT, _BODY) == []
            await work(pool, holders(_SLICE.name, list(pool.stores), _SLICE.redundancy.chunks))

    asyncio.run(scenario())


async def _part(pool: LocalPool, start: int, end: int) -> bytes | None:
    into = memoryview(bytearray(end - start))
    return bytes(into) if await pool.reader.read_part(_SLICE, start, into) else None


@pytest.mark.usefixtures("nobody_is_late")
@pytest.mark.parametrize(
    ("start", "end", "chunks"),
    [
        (0, 1, [0]),
        (_CHUNK_BYTES - 1, _CHUNK_BYTES + 1, [0, 1]),
        (2 * _CHUNK_BYTES, 3 * _CHUNK_BYTES, [2]),
        (_CHUNK_BYTES + 5, _OBJECT.size_bytes, [1, 2, 3]),
        (_OBJECT.size_bytes - 1, _OBJECT.size_bytes, [3]),
    ],
)
def test_a_part_takes_the_chunks_that_it_touches_and_no_others(
    asked: Counter[str], start: int, end: int, chunks: list[int]
) -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        assert await _part(pool, start, end) == _BODY[start:end]
        assert asked == Counter(kept_by[number] for number in chunks)

    _run(work)


@pytest.mark.usefixtures("nobody_is_late")
@pytest.mark.parametrize("is_wrong", [False, True], ids=["lost", "wrong"])
def test_a_part_whose_chunk_is_lost_or_wrong_is_computed_and_the_chunk_written_again(
    asked: Counter[str], is_wrong: bool
) -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        store, part = pool.stores[kept_by[1]], slice(_CHUNK_BYTES, _CHUNK_BYTES + 9)
        if is_wrong:
            chunk = store.peek(_SLICE.name)
            assert chunk
            store.put(_SLICE.name, Chunk(1, chunk.crc32c, bytes(_CHUNK_BYTES)))
        else:
            store.delete(_SLICE.name)
        assert await _part(pool, part.start, part.stop) == _BODY[part]
        await pool.reader.settle()

        asked.clear()
        assert await _part(pool, part.start, part.stop) == _BODY[part]
        assert asked == Counter([kept_by[1]])

    _run(work)


def test_a_part_whose_holder_is_gone_comes_from_where_its_chunk_has_moved(asked: Counter[str]) -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        await pool.stop(kept_by[0])
        assert await _part(pool, 0, 9) == _BODY[:9]

    _run(work)


def test_a_part_of_a_member_that_is_late_is_computed() -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        pool.hub.members[kept_by[2]].transport.pause_reading()
        start = 2 * _CHUNK_BYTES + 7
        assert await _part(pool, start, start + 100) == _BODY[start : start + 100]

    _run(work, limit_s=5)


def test_a_part_of_what_is_not_there_is_lost() -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        await pool.reader.delete(_OBJECT)
        assert await _part(pool, 0, 9) is None

    _run(work)


@pytest.mark.usefixtures("nobody_is_late")
def test_one_member_more_is_asked_than_has_to_answer_and_the_last_if_one_lacks_its_chunk(asked: Counter[str]) -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        into = memoryview(bytearray(_OBJECT.size_bytes))
        spared = set[str]()
        while len(spared) < _SLICE.redundancy.parity:  # either chunk of parity is left out at times
            asked.clear()
            assert await pool.reader.read_slice(_SLICE, into)
            assert asked.total() == _SLICE.redundancy.data + 1
            spared |= set(kept_by) - set(asked)
        assert spared == set(kept_by[_SLICE.redundancy.data :])

        asked.clear()
        pool.stores[kept_by[0]].delete(_SLICE.name)
        assert await pool.reader.read_slice(_SLICE, into)
        assert into == _BODY

    _run(work)


def test_the_last_member_is_asked_when_others_are_late(asked: Counter[str]) -> None:
    async def work(pool: LocalPool, kept_by: list[str]) -> None:
        for member in kept_by[:2]:
            pool.hub.members[member].transport.pause_reading()
        into = memoryview(bytearray(_OBJECT.size_bytes))
        assert await pool.reader.read_slice(_SLICE, into)
        assert into == _BODY
        assert asked == Counter(kept_by)

    _run(work, limit_s=5)


def test_what_is_late_follows_from_what_was_seen_and_leaves_the_others_half_of_the_time() -> None:
    hedge = HedgeDelay(2.0)
    assert hedge.delay_s == 0.2
    for took_s in [0.01] * 18 + [0.03] * 2:
        hedge.record(took_s)
    assert 0.01 < hedge.delay_s <= 0.03
    for _ in range(400):
        hedge.record(1.9)
    assert hedge.delay_s == 1.0
