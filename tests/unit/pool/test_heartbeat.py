"""A hub's reports, and what becomes of the plan when pool control fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from burstcache.core.errors import ServiceTransientError
from burstcache.core.messages.pool_control import Coded, KnownHub, PoolPlan
from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.core.pool.slices import Redundancy
from burstcache.pool.frames import Header, Kind
from burstcache.pool.heartbeat import Heartbeat, HubCounters, take_used_members
from support.pool import running_pool
from support.waiting import LIMIT_S

_HUB = KnownHub(id="hub-1", host="10.0.0.5", port=4_000, token="ab" * 32, certificate="")


class Control:
    """Pool control: it remembers its payloads, and fails as often as it is asked to."""

    def __init__(self, *, report_s: int = 60) -> None:
        self.told: list[Mapping[str, Any]] = []
        self.fails = 0
        self.error: Exception = ServiceTransientError("throttled", code="TooManyRequestsException")
        self.is_round_due = False
        self.was_told = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._report_s = report_s

    def __call__(self, payload: Mapping[str, object]) -> object:
        self.told.append(payload)
        self._loop.call_soon_threadsafe(self.was_told.set)
        if self.fails:
            self.fails -= 1
            raise self.error
        return PoolPlan(
            members=["pool-0", "pool-1"],
            redundancy=Coded(data=10, parity=2),
            former=[Coded(data=10, parity=1)],
            warm_s=60,
            backup_s=0,
            report_s=self._report_s,
            is_round_due=self.is_round_due,
            hubs=[],
        )


def test_plan_says_how_slices_are_written_and_how_they_were() -> None:
    async def work() -> tuple[Redundancy, ...]:
        heartbeat = Heartbeat(Control(), _HUB, HubCounters())
        await heartbeat.report()
        return heartbeat.redundancies

    assert asyncio.run(work()) == (Redundancy(10, 2), Redundancy(10, 1))


def test_plan_is_handed_on() -> None:
    async def work() -> list[PoolPlan]:
        followed: list[PoolPlan] = []
        heartbeat = Heartbeat(Control(), _HUB, HubCounters())
        heartbeat.subscribe(followed.append)
        await heartbeat.report()
        return followed

    assert [plan["members"] for plan in asyncio.run(work())] == [["pool-0", "pool-1"]]


def test_members_are_reported_once_and_those_that_stay_connected_each_time() -> None:
    async def work() -> list[Any]:
        control, seen = Control(), HubCounters(requests=3, served_ms=1.6, used={"pool-0": "a"})
        heartbeat = Heartbeat(control, _HUB, seen, connected=lambda: {"pool-1": ""})
        await heartbeat.report()
        await heartbeat.report()
        return [(told["used"], told["totals"]["served_ms"]) for told in control.told]

    assert asyncio.run(work()) == [({"pool-0": "a", "pool-1": ""}, 2), ({"pool-1": ""}, 2)]


def test_what_a_failed_report_would_have_said_is_in_the_next_one() -> None:
    async def work() -> list[Any]:
        control, seen = Control(), HubCounters(used={"pool-0": "a"})
        heartbeat = Heartbeat(control, _HUB, seen)
        control.fails = 1
        with pytest.raises(ServiceTransientError):
            await heartbeat.report()
        seen.used["pool-1"] = "b"
        await heartbeat.report()
        return [told["used"] for told in control.told]

    assert asyncio.run(work()) == [{"pool-0": "a"}, {"pool-0": "a", "pool-1": "b"}]


@pytest.mark.parametrize("error", [ServiceTransientError("throttled"), OSError("a mistake")], ids=repr)
def test_plan_holds_while_pool_control_fails(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.heartbeat._PAUSE_S", 0)

    async def work() -> tuple[int, list[str]]:
        control = Control(report_s=0)
        control.error = error
        heartbeat = Heartbeat(control, _HUB, HubCounters())
        await heartbeat.report()
        control.fails = 2
        running = asyncio.create_task(heartbeat.run())
        while len(control.told) < 4:
            control.was_told.clear()
            await asyncio.wait_for(control.was_told.wait(), LIMIT_S)
        running.cancel()
        return control.fails, heartbeat.plan["members"]

    assert asyncio.run(work()) == (0, ["pool-0", "pool-1"])


def test_round_is_asked_for_when_it_is_due() -> None:
    async def work() -> list[Any]:
        control = Control(report_s=0)
        control.is_round_due = True
        heartbeat = Heartbeat(control, _HUB, HubCounters())
        await heartbeat.report()
        control.is_round_due = False
        running = asyncio.create_task(heartbeat.run())
        while len(control.told) < 4:
            control.was_told.clear()
            await control.was_told.wait()
        running.cancel()
        return [told["op"] for told in control.told[:4]]

    assert asyncio.run(work()) == ["hub", "round", "hub", "hub"]


def test_hub_knows_its_members_since_the_last_report() -> None:
    async def work() -> list[Any]:
        seen = HubCounters()
        async with running_pool(2) as pool:
            await pool.stop("pool-0")
            reports = [take_used_members(pool.hub, seen), take_used_members(pool.hub, seen)]
        return [*reports, take_used_members(pool.hub, seen)]

    assert asyncio.run(work()) == [{"pool-0": "", "pool-1": ""}, {"pool-1": ""}, {"pool-1": ""}]


def test_a_member_that_returns_is_reported_once_with_its_environment() -> None:
    async def work() -> list[Any]:
        seen = HubCounters()
        async with running_pool(1) as pool:
            channel = pool.hub.members["pool-0"]
            channel.handle(Header(Kind.BYE, 0, name_bytes=5), b"env-1", None)
            first = take_used_members(pool.hub, seen)
            await channel.ended
            return [first, take_used_members(pool.hub, seen)]

    assert asyncio.run(work()) == [{"pool-0": "env-1"}, {}]


def test_a_member_that_is_connected_only_between_two_reports_is_reported() -> None:
    async def work() -> list[Any]:
        seen = HubCounters()
        async with running_pool(0) as pool:
            pool.stores["pool-0"] = ChunkStore(1 << 20)
            reports = [take_used_members(pool.hub, seen)]
            await pool.start("pool-0")
            await pool.stop("pool-0")
            return [*reports, take_used_members(pool.hub, seen)]

    assert asyncio.run(work()) == [{}, {"pool-0": ""}]


def test_hub_leaves_after_its_last_report() -> None:
    may_answer, told = threading.Event(), list[Any]()

    async def work() -> None:
        loop, has_begun = asyncio.get_running_loop(), asyncio.Event()

        def control(payload: Mapping[str, Any]) -> object:
            if payload["op"] == "hub":
                loop.call_soon_threadsafe(has_begun.set)
                assert may_answer.wait(LIMIT_S)
            told.append(payload["op"])
            return {}

        heartbeat = Heartbeat(control, _HUB, HubCounters())
        reporting = asyncio.create_task(heartbeat.report())
        await asyncio.wait_for(has_begun.wait(), LIMIT_S)
        reporting.cancel()
        leaving = asyncio.create_task(heartbeat.leave())
        await asyncio.wait((leaving,), timeout=0.05)
        may_answer.set()
        await leaving

    asyncio.run(work())

    assert told == ["hub", "leave"]


@pytest.mark.parametrize("fails", [0, 1], ids=["said", "unsaid"])
def test_hub_leaves_whether_pool_control_hears_it_or_not(fails: int) -> None:
    async def work() -> list[Any]:
        control = Control()
        control.fails = fails
        await Heartbeat(control, _HUB, HubCounters(hits=2)).leave()
        return [(told["op"], told["id"], told["totals"]["hits"]) for told in control.told]

    assert asyncio.run(work()) == [("leave", "hub-1", 2)]
