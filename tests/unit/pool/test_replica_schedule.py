"""Members that were written to are copied by their hub, and either environment has everything afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.pool import MemberState, ServeChunks
from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.hub import Hub
from burstcache.pool.reader import PoolReader
from burstcache.pool.replica_schedule import ReplicaResult, ReplicaSchedule
from support.pool import TOKEN
from support.pool_environments import Members
from support.waiting import LIMIT_S, eventually

_NAMES = [f"pool-{number}" for number in range(6)]
_OBJECT = PooledObject("hash", "v1", 300_000, Redundancy(4, 2))
_BODY = memoryview(random.Random(1).randbytes(300_000))


@dataclass
class _Pool:
    members: Members
    hub: Hub
    reader: PoolReader
    backups: ReplicaSchedule

    async def read(self) -> bytes | None:
        """Read the object; None if it is lost."""
        room = memoryview(bytearray(_OBJECT.size_bytes))
        return None if await self.reader.read(_OBJECT, room) else bytes(room)


@contextlib.asynccontextmanager
async def _pool(stay_ms: float = LIMIT_S * 1000) -> AsyncIterator[_Pool]:
    members = Members(stay_ms=stay_ms)
    hub = Hub(TOKEN, invoke=members.invoke)
    await hub.start("127.0.0.1")
    try:
        async with asyncio.timeout(LIMIT_S):
            yield _Pool(members, hub, PoolReader(hub, _NAMES, LIMIT_S), ReplicaSchedule(hub))
    finally:
        await hub.stop()
        await members.settle()


def _chunks(store: ChunkStore) -> dict[bytes, bytes]:
    return {name: bytes(chunk.payload) for name in store.newest_first() if (chunk := store.peek(name))}


def test_after_a_backup_both_environments_have_the_chunks_and_one_has_returned() -> None:
    async def scenario() -> None:
        async with _pool() as pool:
            await pool.reader.write(_OBJECT, _BODY)

            made = await pool.backups.replicate_all()

            assert set(made) == set(_NAMES)
            assert all(result.is_complete and result.took_s > 0 for result in made.values())
            for name in _NAMES:
                first, second = pool.members.environments[name]
                assert _chunks(first.store) == _chunks(second.store) != {}
                await first.finished()
            assert await pool.read() == _BODY

    asyncio.run(scenario())


def test_a_member_that_leaves_as_it_is_to_be_copied_is_tried_again_and_keeps_its_chunks() -> None:
    async def scenario() -> None:
        async with _pool(stay_ms=1.0) as pool:
            await pool.reader.write(_OBJECT, _BODY)

            made: dict[str, ReplicaResult] = {}
            while pool.hub.written:
                made |= await pool.backups.replicate_all()

            assert set(made) == set(_NAMES)
            for name in _NAMES:  # a second environment that came too late may have become the first, without them
                assert any(_chunks(each.store) for each in pool.members.environments[name])

    asyncio.run(scenario())


def test_whichever_environment_is_lost_the_other_one_serves() -> None:
    async def scenario(lost: int) -> bytes | None:
        async with _pool() as pool:
            await pool.reader.write(_OBJECT, _BODY)
            await pool.backups.replicate_all()
            for name in _NAMES:
                pool.hub.members[name].end()
                await pool.members.asleep(name)
                del pool.members.environments[name][lost]
            return await pool.read()

    assert [asyncio.run(scenario(lost)) for lost in (0, 1)] == [_BODY, _BODY]


def test_only_members_that_were_written_to_are_copied_again() -> None:
    async def scenario() -> list[set[str]]:
        async with _pool() as pool:
            await pool.reader.write(_OBJECT, _BODY)
            copied = [set(await pool.backups.replicate_all()), set(await pool.backups.replicate_all())]
            await pool.read()
            copied.append(set(await pool.backups.replicate_all()))
            return copied

    assert asyncio.run(scenario()) == [set(_NAMES), set(), set()]


def test_a_member_that_sleeps_is_woken_to_be_copied() -> None:
    async def scenario() -> None:
        async with _pool() as pool:
            await pool.reader.write(_OBJECT, _BODY)
            pool.hub.members["pool-0"].end()
            await pool.members.asleep("pool-0")

            assert (await pool.backups.replicate("pool-0")).is_complete

            first, second = pool.members.environments["pool-0"]
            assert _chunks(first.store) == _chunks(second.store) != {}

    asyncio.run(scenario())


def test_a_copy_that_cannot_be_invoked_or_never_comes_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.replicas._ARRIVES_WITHIN_S", 0.05)
    monkeypatch.setattr("burstcache.pool.invocations._RETURNS_WITHIN_S", 0.05)
    monkeypatch.setattr("burstcache.pool.invocations._LAST_ANSWERS_S", 0.05)

    async def scenario() -> None:
        async with _pool() as pool:

            async def refuse(member: str, event: ServeChunks) -> MemberState:
                if event["peer"]:
                    raise FunctionFailedError("no")
                return await pool.members.invoke(member, event)

            async def fail(member: str, event: ServeChunks) -> MemberState:
                if event["peer"]:
                    raise RuntimeError("can't start new thread")
                return await pool.members.invoke(member, event)

            async def forget(member: str, event: ServeChunks) -> MemberState:
                return await (asyncio.Future() if event["peer"] else pool.members.invoke(member, event))

            await pool.reader.write(_OBJECT, _BODY)
            assert pool.hub.invocations
            for invoke in (refuse, fail, forget):
                with monkeypatch.context() as while_none_comes:
                    while_none_comes.setattr(pool.hub.invocations, "_invoke", invoke)
                    made = await pool.backups.replicate_all()
                assert not any(result.is_complete for result in made.values())
                assert await pool.read() == _BODY
            monkeypatch.setattr("burstcache.pool.replicas._ARRIVES_WITHIN_S", LIMIT_S)  # this time one comes
            made = await pool.backups.replicate_all()
            assert all(result.is_complete for result in made.values())

    asyncio.run(scenario())


def test_a_copy_that_stops_gives_the_member_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.replicas._PROGRESSES_WITHIN_S", 0.05)

    async def scenario() -> None:
        async with _pool() as pool:
            await pool.reader.write(_OBJECT, _BODY)
            first = pool.hub.members["pool-0"]
            first.transport.pause_reading()  # so its copy learns nothing
            copying = asyncio.create_task(pool.backups._copy("pool-0"))

            assert not await copying
            assert pool.hub.members["pool-0"] is first
            first.transport.resume_reading()
            assert await pool.read() == _BODY

    asyncio.run(scenario())


def test_backups_are_made_again_and_again_and_not_at_all_if_they_do_not_pay() -> None:
    async def scenario() -> None:
        async with _pool() as pool:
            await pool.reader.write(_OBJECT, _BODY)
            task = asyncio.create_task(pool.backups.run(lambda: 0.01))
            await eventually(lambda: not pool.hub.written)
            await pool.reader.write(_OBJECT, _BODY)
            await eventually(lambda: not pool.hub.written)
            task.cancel()

    asyncio.run(scenario())


def test_backups_go_on_after_a_round_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with _pool() as pool:
            errors, replicate_all = [OSError("a mistake")], pool.backups.replicate_all

            async def fail_first() -> dict[str, ReplicaResult]:
                if errors:
                    raise errors.pop()
                return await replicate_all()

            monkeypatch.setattr(pool.backups, "replicate_all", fail_first)
            await pool.reader.write(_OBJECT, _BODY)
            task = asyncio.create_task(pool.backups.run(lambda: 0.01))
            await eventually(lambda: not pool.hub.written)
            task.cancel()

    asyncio.run(scenario())


class _Silent:
    """A member that never answers."""

    def __init__(self) -> None:
        self.cancelled: list[int] = []

    def send_request(self, *_: object, **__: object) -> int:
        return 7

    def cancel_request(self, request: int) -> None:
        self.cancelled.append(request)


def test_a_member_that_does_not_answer_is_not_waited_for_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.replica_schedule._RUNS_WITHIN_S", 0.01)

    async def scenario() -> None:
        async with _pool() as pool:
            silent = _Silent()
            monkeypatch.setattr(pool.hub, "find_channel", lambda _: silent)

            assert not (await pool.backups.replicate("pool-0")).is_complete

            assert silent.cancelled == [7]
            assert pool.hub.written == {"pool-0"}

    asyncio.run(scenario())
