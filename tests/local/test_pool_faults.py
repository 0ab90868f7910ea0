"""Faults of pool members in the local run: killed under load, frozen, or without the environment they replicated."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from burstcache.adapters.members import wake_by_name
from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import CodedSlice, PooledObject, Redundancy
from burstcache.pool.certificate import hub_tls
from burstcache.pool.hub import Hub
from burstcache.pool.reader import PoolReader
from burstcache.pool.replica_schedule import ReplicaSchedule
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.pool import TOKEN
from support.processes import process_connected
from support.waiting import LIMIT_S, eventually, until

_MEMBERS = [f"pool-{number}" for number in range(16)]
_CODE = Redundancy(10, 2)
_SIZES = (1_000, 255_000, 300_001, 1_000_000, 9_000_000)


@pytest.fixture(scope="module", params=["yes", "no"])
def cloud(request: pytest.FixtureRequest) -> Iterator[LocalCloud]:
    parameters = {
        "PoolMembers": str(len(_MEMBERS)),
        "PoolMemoryMb": "512",
        "PoolTls": request.param,
        "HitValueUsdPerMillion": "1000",  # members stay for seconds: on a busy machine they return too late else
        "Relay": "none",
        "RedisNodeCount": "0",
    }
    with LocalCloud(LocalOptions(parameters=parameters)) as running:
        yield running


@dataclass
class _Reader:
    hub: Hub
    reader: PoolReader
    known: KnownHub

    async def write(self, bodies: dict[PooledObject, bytes]) -> None:
        """Write all objects, each with all its chunks: members that begin at the same time may take too long."""
        for member in _MEMBERS:
            await self._wake(member)
        for object_, body in bodies.items():
            assert await self.reader.write(object_, memoryview(body)) == []

    async def read(self, bodies: dict[PooledObject, bytes]) -> set[bytes]:
        """Read all objects; return the names of slices that are lost, all others being right."""
        lost = set()
        for object_, body in bodies.items():
            into = memoryview(bytearray(object_.size_bytes))
            missing = [slice_.name for slice_ in await self.reader.read(object_, into)]
            lost.update(missing)
            for slice_ in object_.slices():
                part = slice(slice_.start, slice_.start + slice_.size_bytes)
                assert slice_.name in missing or into[part].tobytes() == body[part]
        return lost

    async def process_of(self, member: str) -> int:
        """Wake a member, and return the process that serves for it."""
        await self._wake(member)
        link = await eventually(lambda: self.hub.members.get(member))
        return process_connected(*map(link.transport.get_extra_info, ("peername", "sockname")))

    async def _wake(self, member: str) -> None:
        alone = PoolReader(self.hub, [member], LIMIT_S)
        await alone.read(PooledObject("wake", member, 1, Redundancy(1, 0)), memoryview(bytearray(1)))


@contextlib.asynccontextmanager
async def _reading(cloud: LocalCloud) -> AsyncIterator[_Reader]:
    """Run a hub as a program of the stack does."""
    is_encrypted = cloud.function_variables("PoolMemberFunction")["POOL_TLS"] == "yes"
    tls, certificate = hub_tls(datetime.now(UTC)) if is_encrypted else (None, "")
    wake = wake_by_name(cloud.client("lambda"), cloud.physical_ids["PoolMemberFunction"])
    hub = Hub(TOKEN, invoke=wake)
    port = await hub.start("127.0.0.1", tls=tls, certificate=certificate)
    known = KnownHub(id=hub.id, host="127.0.0.1", port=port, token=TOKEN.hex(), certificate=certificate)
    reader = PoolReader(hub, _MEMBERS, LIMIT_S)
    try:
        yield _Reader(hub, reader, known)
    finally:
        await reader.settle()
        await hub.stop()


def _bodies(version: str) -> dict[PooledObject, bytes]:
    return {
        PooledObject(f"key-{size}-{copy}", version, size, _CODE): random.Random(size + copy).randbytes(size)
        for size in _SIZES
        for copy in range(2)
    }


def _invocations(cloud: LocalCloud) -> tuple[int, int]:
    """Return the numbers of started and of ended invocations of members."""
    text = (cloud.run_dir / f"{cloud.physical_ids['PoolMemberFunction']}.log").read_text()
    return text.count("START RequestId"), text.count("END RequestId")


def _all_end(cloud: LocalCloud) -> bool:
    begun, ended = _invocations(cloud)
    return begun == ended


@pytest.mark.parametrize("count", [1, 2, 3])
def test_members_killed_under_load_cost_only_slices_with_too_few_chunks_left(cloud: LocalCloud, count: int) -> None:
    bodies = _bodies(f"killed {count}")
    killed = random.Random(count).sample(_MEMBERS, count)

    async def scenario() -> set[bytes]:
        async with _reading(cloud) as reading:
            await reading.write(bodies)
            victims = [await reading.process_of(member) for member in killed]
            load = asyncio.create_task(reading.read(bodies))
            await asyncio.sleep(0)
            for process in victims:
                os.kill(process, signal.SIGKILL)
            return await load | await reading.read(bodies)

    too_few = {
        slice_.name
        for slice_ in _slices(bodies)
        if len({*holders(slice_.name, _MEMBERS, slice_.redundancy.chunks)} & {*killed}) > _CODE.parity
    }

    assert asyncio.run(scenario()) <= too_few
    until(lambda: _all_end(cloud))


def test_frozen_members_cost_their_chunks_alone_and_are_replaced(cloud: LocalCloud) -> None:
    bodies = _bodies("frozen")

    async def scenario() -> set[bytes]:
        async with _reading(cloud) as reading:
            await reading.write(bodies)
            frozen = [await reading.process_of(member) for member in _MEMBERS[:2]]
            for process in frozen:
                os.kill(process, signal.SIGSTOP)
            try:
                return await reading.read(bodies)
            finally:
                for process in frozen:
                    os.kill(process, signal.SIGCONT)

    assert asyncio.run(scenario()) == set()
    until(lambda: _all_end(cloud))


def test_the_copy_serves_when_the_environment_that_was_copied_is_killed(cloud: LocalCloud) -> None:
    bodies = _bodies("copied")

    async def scenario() -> set[bytes]:
        async with _reading(cloud) as reading:
            await reading.write(bodies)
            backups = ReplicaSchedule(reading.hub)
            while reading.hub.written:
                await backups.replicate_all()
            written = {name for slice_ in _slices(bodies) for name in holders(slice_.name, _MEMBERS, 12)}
            for member in written:
                os.kill(await reading.process_of(member), signal.SIGKILL)
            await eventually(lambda: not reading.hub.members)
            return await reading.read(bodies)

    assert asyncio.run(scenario()) == set()
    until(lambda: _all_end(cloud))


def test_two_hubs_share_the_environments_of_members(cloud: LocalCloud) -> None:
    bodies = _bodies("shared")

    async def scenario() -> set[bytes]:
        async with _reading(cloud) as one:
            async with _reading(cloud) as two:
                assert one.hub.peers
                assert two.hub.peers
                one.hub.peers.apply_plan([two.known])
                two.hub.peers.apply_plan([one.known])
                await one.write(bodies)
                lost = await two.read(bodies)
            return lost | await one.read(bodies)

    assert asyncio.run(scenario()) == set()
    until(lambda: _all_end(cloud))


def _slices(bodies: dict[PooledObject, bytes]) -> Iterator[CodedSlice]:
    for object_ in bodies:
        yield from object_.slices()
