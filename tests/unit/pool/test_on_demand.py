"""Members that are woken, serve for as long as it pays, say BYE and are woken again: in one process, over sockets."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.core.errors import InvalidSettingError, ServiceError
from burstcache.core.messages.pool import HubAddress, MemberState, ServeChunks
from burstcache.core.pool.chunk_store import Chunk, ChunkStore
from burstcache.core.pool.keep_alive import KeepAlive, KeepAlivePrices
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.certificate import hub_tls
from burstcache.pool.channel import Notification
from burstcache.pool.environment import MemberEnvironment
from burstcache.pool.frames import Kind
from burstcache.pool.hub import Hub
from burstcache.pool.member import MemberConnection
from burstcache.pool.member_channel import MemberChannel
from burstcache.pool.reader import PoolReader
from support.pool import TOKEN
from support.waiting import LIMIT_S, eventually

_NAMES = [f"pool-{number}" for number in range(6)]
_OBJECT = PooledObject("hash", "v1", 300_000, Redundancy(4, 2))
_BODY = random.Random(1).randbytes(_OBJECT.size_bytes)
_LONG = KeepAlivePrices(idle_usd_per_ms=1, wake_usd=3_600_000)
_SHORT = KeepAlivePrices(idle_usd_per_ms=1, wake_usd=5)
_MIDDLE = KeepAlivePrices(idle_usd_per_ms=1, wake_usd=300)
_CLOCK = SystemClock()


def environment(prices: KeepAlivePrices = _LONG, *, demands_tls: bool = False) -> MemberEnvironment:
    stay = KeepAlive.initial(prices)
    return MemberEnvironment(ChunkStore(10_000_000), stay, _CLOCK, demands_tls=demands_tls)


class Lambda:
    """Runs invocations in this process, with one environment for each member."""

    def __init__(self, prices: KeepAlivePrices = _LONG) -> None:
        self.environments = {name: environment(prices) for name in _NAMES}
        self.invoked = Counter[str]()
        self.begun: list[asyncio.Task[None]] = []
        self.refused = set[str]()
        self.silent = set[str]()  # they are invoked and never run
        self.limit_s = 60.0

    async def invoke(self, member: str, event: ServeChunks) -> MemberState:
        self.invoked[member] += 1
        if member in self.refused:
            raise ServiceError(f"{member} is throttled", code="TooManyRequestsException")
        began_s = _CLOCK.monotonic_s()
        if member in self.silent:
            await asyncio.Event().wait()
        await asyncio.shield(self.run(member, event["hub"]))
        return self.environments[member].state(began_s)

    def run(self, member: str, hub: HubAddress) -> asyncio.Task[None]:
        until_s = _CLOCK.monotonic_s() + self.limit_s
        task = asyncio.create_task(self.environments[member].serve(member, hub, until_s=until_s))
        self.begun.append(task)
        return task

    def assert_woken_twice(self) -> None:
        """Fail unless a write has woken all members, and a read those that it needs, perhaps with the spare one."""
        twice = [name for name in _NAMES if self.invoked[name] == 2]
        assert self.invoked == Counter(_NAMES) + Counter(twice)
        assert len(twice) > _OBJECT.redundancy.data

    @property
    def is_at_rest(self) -> bool:
        """Return whether no invocation runs."""
        return all(task.done() for task in self.begun)


@asynccontextmanager
async def pool(
    lambda_: Lambda, *, with_tls: bool = False, limit_s: float = LIMIT_S
) -> AsyncIterator[tuple[Hub, PoolReader]]:
    hub = Hub(TOKEN, invoke=lambda_.invoke)
    tls, certificate = hub_tls(datetime.now(UTC)) if with_tls else (None, "")
    await hub.start("127.0.0.1", tls=tls, certificate=certificate)
    reader = PoolReader(hub, _NAMES, LIMIT_S)
    try:
        yield hub, reader
    finally:
        await reader.settle()
        await hub.stop()
        await asyncio.gather(*lambda_.begun)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


async def write(reader: PoolReader) -> None:
    assert await reader.write(_OBJECT, memoryview(_BODY)) == []


async def read(reader: PoolReader) -> bytes | None:
    room = memoryview(bytearray(_OBJECT.size_bytes))
    return None if await reader.read(_OBJECT, room) else bytes(room)


@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
def test_members_are_woken_by_what_they_are_asked_and_only_once(with_tls: bool) -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_, with_tls=with_tls) as (_, reader):
            await write(reader)
            assert await read(reader) == _BODY

        assert lambda_.invoked == Counter(_NAMES)

    run(scenario)


def test_idle_members_return_and_are_woken_with_what_they_had() -> None:
    async def scenario() -> None:
        lambda_ = Lambda(_SHORT)
        async with pool(lambda_) as (hub, reader):
            await write(reader)
            await eventually(lambda: not hub.members and lambda_.is_at_rest)
            assert await read(reader) == _BODY

        lambda_.assert_woken_twice()

    run(scenario)


def test_what_a_bye_crosses_is_asked_again_and_answered() -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_) as (_, reader):
            await write(reader)
            for member in lambda_.environments.values():
                for connection in member._connections:
                    connection.transport.pause_reading()
            reading = asyncio.create_task(read(reader))
            await asyncio.sleep(0)
            for member in lambda_.environments.values():
                for connection in member._connections:
                    connection.leave()
            assert await reading == _BODY

        lambda_.assert_woken_twice()

    run(scenario)


def test_what_is_lost_twice_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_) as (hub, reader):
            object_ = PooledObject("hash", "v2", len(_BODY), Redundancy(5, 1))  # all of whose holders are asked at once
            assert await reader.write(object_, memoryview(_BODY)) == []
            monkeypatch.setattr(MemberConnection, "_answer", lambda _: None)
            reading = asyncio.create_task(reader.read(object_, memoryview(bytearray(len(_BODY)))))
            for _ in range(2):
                await eventually(lambda: len(hub.members) == len(_NAMES))
                await asyncio.gather(*(lose(link) for link in list(hub.members.values())))
            assert await reading == [object_.slice_at(0)]

        assert lambda_.invoked == Counter(_NAMES * 2)

    async def lose(link: MemberChannel) -> None:
        link.end()
        await link.ended

    run(scenario)


@pytest.mark.slow
def test_a_member_leaves_in_time_even_if_it_is_asked_all_the_time() -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        lambda_.limit_s = 1.0  # a busy machine writes within it
        async with pool(lambda_) as (_, reader):
            await write(reader)
            while lambda_.invoked.total() < 2 * len(_NAMES):
                assert await read(reader) == _BODY
                await asyncio.sleep(0)

    run(scenario)


def test_an_event_that_comes_twice_makes_no_second_member() -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        events: list[ServeChunks] = []

        async def invoke(member: str, event: ServeChunks) -> MemberState:
            events.append(event)
            return await lambda_.invoke(member, event)

        async with pool(lambda_) as (hub, reader):
            assert hub.invocations
            hub.invocations._invoke = invoke
            await write(reader)
            links = dict(hub.members)
            stranger = environment()
            await stranger.serve("pool-0", events[0]["hub"], until_s=_CLOCK.monotonic_s() + 60)

            assert hub.members == links
            assert await read(reader) == _BODY

    run(scenario)


def test_a_member_that_nobody_needs_any_more_does_not_wait_for_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.environment._AWAITED_LIMIT_MS", 2000.0 * LIMIT_S)

    async def scenario() -> None:
        lambda_ = Lambda(_SHORT)
        async with pool(lambda_) as (hub, _):
            link = hub.find_channel("pool-0")
            assert link
            link.cancel_request(link.send_request(Kind.GET, _NOBODY, b"name"))
            await eventually(lambda: bool(lambda_.begun))

            await asyncio.gather(*lambda_.begun)

    run(scenario)


def test_nobody_is_woken_to_delete_something() -> None:
    async def scenario() -> None:
        lambda_ = Lambda(_SHORT)
        async with pool(lambda_) as (hub, reader):
            await write(reader)
            await eventually(lambda: not hub.members)
            await reader.delete(_OBJECT)

        assert lambda_.invoked == Counter(_NAMES)

    run(scenario)


def test_a_member_that_cannot_be_invoked_is_an_erasure_and_rests() -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        lambda_.refused = {"pool-1", "pool-4"}
        async with pool(lambda_) as (_, reader):
            await write(reader)
            assert await read(reader) == _BODY

        assert lambda_.invoked == Counter(_NAMES)

    run(scenario)


def test_members_that_do_not_come_are_not_waited_for_when_the_others_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("burstcache.pool.invocations._LAST_ANSWERS_S", 0.01)

    async def scenario() -> None:
        lambda_ = Lambda(_SHORT)
        async with pool(lambda_) as (hub, reader):
            await write(reader)
            await eventually(lambda: not hub.members and lambda_.is_at_rest)
            lambda_.silent = {"pool-1", "pool-4"}
            assert await read(reader) == _BODY

    run(scenario)


def test_members_that_do_not_come_cost_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.on_demand.ARRIVES_WITHIN_S", 0.05)
    monkeypatch.setattr("burstcache.pool.invocations._LAST_ANSWERS_S", 0.01)

    async def scenario() -> None:
        lambda_ = Lambda()
        lambda_.silent = set(_NAMES)
        async with pool(lambda_) as (_, reader):
            assert await read(reader) is None
            assert await read(reader) is None

        assert lambda_.invoked == Counter(_NAMES)  # then they rest

    run(scenario)


def test_a_member_that_has_gone_without_a_word_is_found_out_by_a_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.on_demand._TRUSTED_S", 0.0)
    monkeypatch.setattr("burstcache.pool.on_demand._PONG_LIMIT_S", 0.05)

    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_) as (_, reader):
            await write(reader)
            frozen = [connection for member in lambda_.environments.values() for connection in member._connections]
            for connection in frozen:
                connection.transport.pause_reading()
            for member, task in zip(lambda_.environments.values(), lambda_.begun, strict=True):
                member._connections = set()
                task.cancel()
            lambda_.begun.clear()
            assert await read(reader) == _BODY
            for connection in frozen:
                connection.transport.abort()
            await asyncio.gather(*(connection.ended for connection in frozen))

        assert set((lambda_.invoked - Counter(_NAMES)).values()) == {1}

    run(scenario)


def test_a_member_whose_connection_is_lost_is_not_invoked_before_it_has_returned() -> None:
    class Watched(Lambda):
        async def invoke(self, member: str, event: ServeChunks) -> MemberState:
            assert not self.environments[member]._connections, "another environment would be made, without chunks"
            return await super().invoke(member, event)

    async def scenario() -> None:
        lambda_ = Watched()
        async with pool(lambda_) as (hub, reader):
            await write(reader)
            for link in list(hub.members.values()):
                link.end()
            assert await read(reader) == _BODY

        lambda_.assert_woken_twice()

    run(scenario)


def test_a_hub_that_takes_no_answer_any_more_does_not_keep_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.environment._STALLED_S", 0.1)

    async def scenario() -> None:
        lambda_ = Lambda(_MIDDLE)  # one that is idle when it looks sees within a third of a second that it is asked
        lambda_.limit_s = 2 * LIMIT_S
        async with pool(lambda_) as (hub, reader):
            await write(reader)
            for name, link in hub.members.items():
                store = lambda_.environments[name]._store
                store.put(b"large", Chunk(0, 0, memoryview(bytes(8_000_000))))
                link.transport.pause_reading()  # as a frozen hub does
                for _ in range(6):  # more than the system takes for a hub that does not read
                    link.send_request(Kind.GET, Notification(Kind.FOUND), b"large")

            await asyncio.gather(*lambda_.begun)

    run(scenario)


def test_a_hub_without_a_certificate_is_refused_where_one_is_demanded() -> None:
    async def scenario() -> None:
        address: HubAddress = {"id": "h", "host": "127.0.0.1", "port": 1, "token": "", "certificate": "", "wake": 1}
        await environment(demands_tls=True).serve("pool-0", address, until_s=1e12)

    with pytest.raises(InvalidSettingError, match="the hub h has no certificate, and PoolTls is yes"):
        run(scenario)


def test_a_member_believes_the_certificate_of_its_invocation_alone() -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_, with_tls=True) as (hub, _):
            address = hub.address_for("pool-0") | {"certificate": hub_tls(datetime.now(UTC))[1]}
            await environment().serve("pool-0", HubAddress(**address), until_s=_CLOCK.monotonic_s() + 60)

            assert hub.members == {}

    run(scenario)


def test_a_member_that_dials_in_for_the_wake_of_another_is_refused_and_the_other_one_is_not() -> None:
    async def scenario() -> None:
        async with pool(Lambda()) as (hub, _):
            address, until_s = hub.address_for("pool-0"), _CLOCK.monotonic_s() + 60
            await environment().serve("pool-1", address, until_s=until_s)
            refused = dict(hub.members)
            serving = asyncio.create_task(environment().serve("pool-0", address, until_s=until_s))
            await eventually(lambda: serving.done() or hub.members)
            assert refused == {}
            assert list(hub.members) == ["pool-0"]
        await serving

    run(scenario)


def test_a_hub_that_is_gone_ends_the_invocation() -> None:
    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_) as (hub, reader):
            await write(reader)
            address = hub.address_for("pool-0")
        assert lambda_.is_at_rest
        await environment().serve("pool-0", address, until_s=_CLOCK.monotonic_s() + 60)

    run(scenario)


def test_members_that_never_come_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.hub._MAX_WAKES", 3)

    async def scenario() -> None:
        lambda_ = Lambda()
        async with pool(lambda_) as (hub, _):
            for name in _NAMES:
                hub.address_for(name)

            assert list(hub._wakes.values()) == _NAMES[-3:]

    run(scenario)


class _Nobody:
    def place(self, request: int, header: Any) -> None:
        return None

    def on_answer(self, request: int, header: Any, payload: Any) -> None:
        raise AssertionError("a request that was cancelled is answered")

    def on_failure(self, request: int) -> None:
        raise AssertionError("a request that was cancelled fails")


_NOBODY = _Nobody()
