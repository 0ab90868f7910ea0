"""Members that are killed while objects are read: real processes, on loopback, 10 + 2 chunks on 16 members."""

from __future__ import annotations

import asyncio
import random

import pytest

from benchmarks.support.pool_processes import processes, run_member
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import CodedSlice, PooledObject, Redundancy
from burstcache.pool.hub import Hub
from burstcache.pool.reader import PoolReader
from support.pool import TOKEN
from support.waiting import LIMIT_S, eventually

_MEMBERS = [f"pool-{number}" for number in range(16)]
_CODE = Redundancy(10, 2)
_SIZES = (1_000, 255_000, 300_001, 1_000_000, 9_000_000)
_ROUNDS = 3

_BODIES = {
    PooledObject(f"key-{size}-{copy}", "etag", size, _CODE): random.Random(size + copy).randbytes(size)
    for size in _SIZES
    for copy in range(4)
}


async def _read_all(reader: PoolReader) -> set[bytes]:
    """Read every object several times; return the names of slices that were lost, all others being right."""
    lost: set[bytes] = set()

    async def one(object_: PooledObject, body: bytes) -> None:
        into = memoryview(bytearray(object_.size_bytes))
        for _ in range(_ROUNDS):
            missing = [slice_.name for slice_ in await reader.read(object_, into)]
            lost.update(missing)
            for slice_ in object_.slices():
                part = slice(slice_.start, slice_.start + slice_.size_bytes)
                assert slice_.name in missing or into[part].tobytes() == body[part]

    async with asyncio.TaskGroup() as group:
        for object_, body in _BODIES.items():
            group.create_task(one(object_, body))
    return lost


def _holders_among(slice_: CodedSlice, killed: list[str]) -> int:
    return len(set(holders(slice_.name, _MEMBERS, slice_.redundancy.chunks)) & set(killed))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_byte_is_wrong_and_only_what_has_too_few_chunks_left_is_lost(count: int) -> None:
    killed = random.Random(count).sample(_MEMBERS, count)

    async def scenario() -> set[bytes]:
        hub = Hub(TOKEN)
        port = await hub.start("127.0.0.1")
        with processes(run_member, [(port, name, TOKEN) for name in _MEMBERS]) as members:
            await eventually(lambda: len(hub.members) == len(_MEMBERS))
            reader = PoolReader(hub, _MEMBERS, LIMIT_S)
            for object_, body in _BODIES.items():
                assert await reader.write(object_, memoryview(body)) == []

            load = asyncio.create_task(_read_all(reader))
            await asyncio.sleep(0)
            for name in killed:
                members[_MEMBERS.index(name)].kill()
            during = await load
            await eventually(lambda: len(hub.members) == len(_MEMBERS) - count)
            after = await _read_all(reader)
            await hub.stop()
        assert during <= after
        return after

    slices = [slice_ for object_ in _BODIES for slice_ in object_.slices()]
    too_few = {slice_.name for slice_ in slices if _holders_among(slice_, killed) > _CODE.parity}

    assert asyncio.run(scenario()) <= too_few  # what was read between two losses has moved to other members
    assert bool(too_few) is (count == 3)
