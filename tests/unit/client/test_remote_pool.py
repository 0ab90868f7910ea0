"""Reports of a remote pool's reader, which has no hub of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from burstcache.client.remote_pool import HubReports, _PlannedHub
from burstcache.core.errors import ServiceTransientError
from burstcache.core.messages.pool_control import Coded, PoolPlan
from burstcache.pool.heartbeat import HubCounters
from support.clock import ManualClock
from support.waiting import LIMIT_S, eventually

_HALF_A_DAY_S = 12 * 3600


def _plan(*, members: list[str], report_s: int) -> PoolPlan:
    return PoolPlan(
        members=members,
        redundancy=Coded(data=10, parity=2),
        former=[],
        warm_s=60,
        backup_s=0,
        report_s=report_s,
        is_round_due=False,
        hubs=[],
    )


class _Desk:
    """Pool control, as far as a reader sees it, and the time."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, Any]] = []
        self.fails = self.is_answer_lost = False
        self.clock = ManualClock(1_000.0)
        self.seen = HubCounters()
        self.reports = HubReports(self._control, self.seen, self.clock)

    def _control(self, payload: Mapping[str, Any]) -> object:
        if self.fails:
            raise ServiceTransientError("throttled", code="TooManyRequestsException")
        self.told.append(payload)
        if self.is_answer_lost:
            raise ServiceTransientError("the response is lost")
        return {}

    def report_after(self, seconds: float, *, hits: int) -> None:
        self.clock.sleep(seconds)
        self.seen.hits += hits
        self.reports.report()


@pytest.fixture
def desk() -> _Desk:
    """A reader that has reported nothing."""
    return _Desk()


def test_reports_are_totals_under_one_id(desk: _Desk) -> None:
    desk.report_after(0, hits=1)
    desk.report_after(60, hits=2)

    assert [told["totals"]["hits"] for told in desk.told] == [1, 3]
    assert len({told["id"] for told in desk.told}) == 1


def test_a_program_that_was_frozen_reports_only_what_is_new_as_another_reader(desk: _Desk) -> None:
    desk.report_after(0, hits=1)
    desk.report_after(_HALF_A_DAY_S + 1, hits=2)
    desk.report_after(60, hits=4)
    desk.reports.leave()

    assert [told["totals"]["hits"] for told in desk.told] == [1, 2, 6, 6]
    first, *others = [told["id"] for told in desk.told]
    assert len(set(others)) == 1
    assert first not in others


@pytest.mark.parametrize("frozen_s", [600, _HALF_A_DAY_S + 1])
def test_a_report_after_a_freeze_whose_answer_is_lost_is_repeated_under_its_id(desk: _Desk, frozen_s: float) -> None:
    desk.report_after(0, hits=1)
    desk.is_answer_lost = True
    for silent_s in (frozen_s, 300):
        with pytest.raises(ServiceTransientError):
            desk.report_after(silent_s, hits=2)
    desk.is_answer_lost = False
    desk.report_after(300, hits=4)

    newest = {told["id"]: told["totals"]["hits"] for told in desk.told}
    assert sum(newest.values()) == 9
    assert len({told["id"] for told in desk.told[1:]}) == 1


def test_a_program_that_was_frozen_for_minutes_keeps_its_id(desk: _Desk) -> None:
    desk.is_answer_lost = True
    with pytest.raises(ServiceTransientError):
        desk.report_after(0, hits=1)
    desk.is_answer_lost = False

    desk.report_after(600, hits=2)

    assert [told["totals"]["hits"] for told in desk.told] == [1, 3]
    assert len({told["id"] for told in desk.told}) == 1


def test_what_pool_control_did_not_take_is_reported_later(desk: _Desk) -> None:
    desk.report_after(0, hits=1)
    desk.fails = True
    with pytest.raises(ServiceTransientError):
        desk.report_after(100, hits=2)
    desk.fails = False

    desk.report_after(100, hits=4)

    assert [told["totals"]["hits"] for told in desk.told] == [1, 7]


def test_a_report_says_once_that_something_was_asked_for(desk: _Desk) -> None:
    desk.seen.has_demand = True
    desk.fails = True
    with pytest.raises(ServiceTransientError):
        desk.reports.report()
    desk.fails = False

    desk.report_after(1, hits=0)
    desk.report_after(60, hits=0)
    desk.seen.has_demand = True
    desk.report_after(60, hits=0)

    assert [told["is_reading"] for told in desk.told] == [True, False, True]


def test_a_read_that_finds_no_hub_is_reported_before_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_POLL_S", "_LOST_REPORT_S"):
        monkeypatch.setattr(f"burstcache.client.remote_pool.{limit}", 0)

    async def work() -> None:
        told: list[bool] = []

        def control(payload: Mapping[str, Any]) -> object:
            told.append(payload["is_reading"])
            return _plan(members=["pool-0"], report_s=86_400)

        seen = HubCounters()
        hub = _PlannedHub(HubReports(control, seen, ManualClock(1_000.0)))
        await hub.report()
        seen.has_demand = True
        following = asyncio.create_task(hub.run())
        await eventually(lambda: told == [False, True])
        following.cancel()

    asyncio.run(work())


@pytest.mark.parametrize("error", [ServiceTransientError("throttled"), OSError("a mistake")], ids=repr)
def test_a_reader_goes_on_with_its_reports_whatever_one_fails_of(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.client.remote_pool._POLL_S", 0)
    plan = _plan(members=[], report_s=0)

    async def work() -> None:
        loop, has_reported, answers = asyncio.get_running_loop(), asyncio.Event(), [plan, error, error, plan]

        def control(_: Mapping[str, Any]) -> object:
            answer = answers.pop(0) if answers else plan
            if not answers:
                loop.call_soon_threadsafe(has_reported.set)
            if isinstance(answer, Exception):
                raise answer
            return answer

        hub = _PlannedHub(HubReports(control, HubCounters(), ManualClock(1_000.0)))
        await hub.report()
        following = asyncio.create_task(hub.run())
        await asyncio.wait_for(has_reported.wait(), LIMIT_S)
        following.cancel()

    asyncio.run(work())
