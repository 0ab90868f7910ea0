"""Several hubs share the members of one pool: each member is invoked by one of them, and serves all that need it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from burstcache.core.messages.pool import HubAddress, MemberState, ServeChunks
from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.connection import FrameConnection
from burstcache.pool.environment import MemberEnvironment
from burstcache.pool.hub import Hub
from burstcache.pool.invocations import Invocations
from burstcache.pool.member import MemberConnection
from burstcache.pool.peers import Peers
from burstcache.pool.reader import PoolReader
from burstcache.pool.remote_hub import Address
from burstcache.pool.replica_schedule import ReplicaSchedule
from support.pool_environments import Members
from support.waiting import LIMIT_S, eventually

_NAMES = [f"pool-{number}" for number in range(6)]
_OBJECTS = [PooledObject("hash", f"v{number}", 300_000, Redundancy(4, 2)) for number in range(5)]
_BODIES = [memoryview(random.Random(number).randbytes(300_000)) for number in range(5)]


@dataclass
class _Hub:
    hub: Hub
    reader: PoolReader
    known: KnownHub

    async def read(self, number: int) -> bytes | None:
        """Read an object; None if it is lost."""
        room = memoryview(bytearray(_OBJECTS[number].size_bytes))
        return None if await self.reader.read(_OBJECTS[number], room) else bytes(room)


async def _started(members: Members, number: int) -> _Hub:
    token = bytes([number]) * 32
    hub = Hub(token, invoke=members.invoke)
    port = await hub.start("127.0.0.1")
    known = KnownHub(id=hub.id, host="127.0.0.1", port=port, token=token.hex(), certificate="")
    return _Hub(hub, PoolReader(hub, _NAMES, LIMIT_S), known)


@contextlib.asynccontextmanager
async def _hubs(count: int, stay_ms: float = LIMIT_S * 1000) -> AsyncIterator[tuple[Members, list[_Hub]]]:
    members = Members(stay_ms=stay_ms)
    hubs = [await _started(members, number) for number in range(count)]
    for each in hubs:
        assert each.hub.peers
        each.hub.peers.apply_plan([other.known for other in hubs])
    try:
        async with asyncio.timeout(LIMIT_S):
            yield members, hubs
    finally:
        for each in hubs:
            await each.hub.stop()
        await members.settle()


def test_what_one_hub_has_written_another_reads_from_the_same_environments() -> None:
    async def scenario() -> None:
        async with _hubs(3) as (members, hubs):
            await hubs[0].reader.write(_OBJECTS[0], _BODIES[0])

            found = await asyncio.gather(*(each.read(0) for each in hubs))

            assert found == [_BODIES[0]] * 3
            assert {name: len(members.environments[name]) for name in _NAMES} == dict.fromkeys(_NAMES, 1)

    asyncio.run(scenario())


def test_hubs_that_need_a_sleeping_member_at_the_same_time_invoke_it_once() -> None:
    async def scenario() -> None:
        async with _hubs(3) as (members, hubs):
            await asyncio.gather(*(each.reader.write(_OBJECTS[n], _BODIES[n]) for n, each in enumerate(hubs)))

            assert sorted(member for member, _ in members.invocations) == _NAMES
            ids = [each.hub.id for each in hubs]
            assert all(event["hub"]["id"] == holders(name.encode(), ids, 1)[0] for name, event in members.invocations)
            for each in hubs:
                assert [await each.read(number) for number in range(3)] == _BODIES[:3]

    asyncio.run(scenario())


def test_a_hub_that_begins_is_known_to_others_as_soon_as_it_asks_them() -> None:
    async def scenario() -> None:
        async with _hubs(2) as (members, hubs):
            earlier, _ = hubs
            assert earlier.hub.peers
            earlier.hub.peers.apply_plan([])  # its plan is older than the other hub

            await asyncio.gather(*(each.reader.write(_OBJECTS[n], _BODIES[n]) for n, each in enumerate(hubs)))

            assert sorted(member for member, _ in members.invocations) == _NAMES
            assert [await each.read(number) for each in hubs for number in (0, 1)] == _BODIES[:2] * 2

    asyncio.run(scenario())


def test_a_member_that_leaves_first_dials_the_hub_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Address.connect

    async def connect_slowly(address: Address, protocol: FrameConnection) -> None:
        if isinstance(protocol, MemberConnection):
            await asyncio.sleep(0.05)
        await connect(address, protocol)

    monkeypatch.setattr(Address, "connect", connect_slowly)

    async def scenario() -> None:
        async with _hubs(2, stay_ms=1.0) as (_, hubs):
            for _ in range(3):
                writes = (each.reader.write(_OBJECTS[n], _BODIES[n]) for n, each in enumerate(hubs))
                assert await asyncio.gather(*writes) == [[], []]
            assert [await each.read(number) for each in hubs for number in (0, 1)] == _BODIES[:2] * 2

    asyncio.run(scenario())


def test_members_are_invoked_when_the_hub_that_was_asked_for_them_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.invocations._LAST_ANSWERS_S", 0.05)

    async def scenario() -> None:
        async with _hubs(2) as (members, hubs):
            # Names of hubs are random: the one that dies is one that has a member to invoke.
            staying, dying = sorted(hubs, key=lambda each: bool(each.hub.peers and each.hub.peers.is_owner(_NAMES[0])))
            wanted = asyncio.Event()

            async def never(member: str, event: ServeChunks) -> MemberState:
                wanted.set()
                return await asyncio.Future()

            assert dying.hub.invocations
            dying.hub.invocations._invoke = never
            write = asyncio.create_task(staying.reader.write(_OBJECTS[0], _BODIES[0]))
            await wanted.wait()
            await dying.hub.stop()

            assert await write == []
            assert await staying.read(0) == _BODIES[0]
            assert {event["hub"]["id"] for _, event in members.invocations} == {staying.hub.id}

    asyncio.run(scenario())


def test_a_hub_that_is_gone_takes_nothing_with_it() -> None:
    async def scenario() -> None:
        async with _hubs(2) as (members, hubs):
            dying, staying = hubs
            for object_, body in zip(_OBJECTS, _BODIES, strict=True):
                await dying.reader.write(object_, body)

            async def load() -> None:
                for _ in range(20):
                    for number, body in enumerate(_BODIES):
                        assert await staying.read(number) in (body, None)

            reading = asyncio.create_task(load())
            await asyncio.sleep(0)
            await dying.hub.stop()
            await reading

            assert [await staying.read(number) for number in range(5)] == _BODIES
            assert all(len(members.environments[name]) == 1 for name in _NAMES)

    asyncio.run(scenario())


def test_members_of_a_hub_that_stops_are_not_invoked_before_they_have_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    say_bye = MemberEnvironment._say_bye

    async def say_bye_slowly(environment: MemberEnvironment) -> None:
        await say_bye(environment)
        await asyncio.sleep(0.1)

    async def scenario() -> None:
        async with _hubs(2) as (members, hubs):
            stopping, staying = hubs
            await stopping.reader.write(_OBJECTS[0], _BODIES[0])
            monkeypatch.setattr(MemberEnvironment, "_say_bye", say_bye_slowly)

            stop = asyncio.create_task(stopping.hub.stop())
            await eventually(lambda: not stopping.hub.members)

            assert await staying.read(0) in (_BODIES[0], None)  # None: they took longer to return than a reader waits
            await stop
            assert {name: len(members.environments[name]) for name in _NAMES} == dict.fromkeys(_NAMES, 1)

    asyncio.run(scenario())


def test_one_hub_copies_what_another_has_written() -> None:
    async def scenario() -> None:
        async with _hubs(2) as (members, hubs):
            for each, object_, body in zip(hubs, _OBJECTS, _BODIES, strict=False):
                await each.reader.write(object_, body)
            backups = [ReplicaSchedule(each.hub) for each in hubs]

            first = [await each.replicate_all() for each in backups]
            second = [await each.replicate_all() for each in backups]

            made = [*first, *second]
            assert all(result.is_complete for each in made for result in each.values())
            assert {name for each in made for name in each} == set(_NAMES)
            assert not set(first[0]) & set(first[1])
            assert [await each.read(number) for each in hubs for number in (0, 1)] == [*_BODIES[:2], *_BODIES[:2]]
            for name in _NAMES:
                one, other = ({*each.store.newest_first()} for each in members.environments[name])
                assert one == other

    asyncio.run(scenario())


def test_a_hub_that_does_not_answer_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.peers._LIMIT_S", 0.05)

    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario() -> bytes | None:
        async with await asyncio.start_server(listen_only, "127.0.0.1", 0) as silent, _hubs(1) as (_, hubs):
            port = silent.sockets[0].getsockname()[1]
            peers = hubs[0].hub.peers
            assert peers
            peers.apply_plan([KnownHub(id="silent", host="127.0.0.1", port=port, token="00" * 16, certificate="")])
            assert await hubs[0].reader.write(_OBJECTS[0], _BODIES[0]) == []
            return await hubs[0].read(0)

    assert asyncio.run(scenario()) == _BODIES[0]


def test_connections_to_hubs_that_have_left_end() -> None:
    async def scenario() -> None:
        async with _hubs(2) as (_, hubs):
            await hubs[0].reader.write(_OBJECTS[0], _BODIES[0])
            peers = hubs[0].hub.peers
            assert peers
            (link,) = peers._channels.values()
            peers.apply_plan([])
            await eventually(link.ended.done)

    asyncio.run(scenario())


def test_a_member_is_still_expected_when_an_earlier_environment_returns_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.invocations._RETURNS_WITHIN_S", 0)
    address = HubAddress(id="hub-1", host="127.0.0.1", port=1, token="ab" * 32, certificate="", wake=1)
    event = ServeChunks(op="serve", hub=address, peer=False)
    state = MemberState(environment="", born_us=0, chunks=0, stored_bytes=0, served=0, billed_ms=1)

    async def scenario() -> None:
        answers: list[asyncio.Future[MemberState]] = []

        async def invoke(member: str, event: ServeChunks) -> MemberState:
            answers.append(asyncio.get_running_loop().create_future())
            return await answers[-1]

        peers = Peers("hub-1", Invocations(invoke))
        former = asyncio.create_task(peers.start_member("pool-0", event))
        await eventually(lambda: len(answers) == 1)
        peers.on_arrival("pool-0")
        present = asyncio.create_task(peers.start_member("pool-0", event))
        await eventually(lambda: len(answers) == 2)

        answers[0].set_result(state)
        assert await former
        assert peers.is_invoked("pool-0")
        answers[1].set_result(state)
        assert await present
        assert not peers.is_invoked("pool-0")

    asyncio.run(scenario())
