"""A lease in its holder's hands: what it waits for, and when it holds no more."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.core.errors import DatabaseAsleepError, InvalidSettingError, LeaseLostError, ServiceTransientError
from burstcache.core.messages.state import DatabaseHeld
from burstcache.state.lease import HeldLease
from support.waiting import LIMIT_S, until


class Function:
    """The state function of a database that runs."""

    database = "orders"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.throttled = 0  # calls to come
        self.mistakes = 0

    def acquire(self, for_s: int) -> DatabaseHeld:
        self.asked.append("acquire")
        return DatabaseHeld(phase="running", held_until_us=for_s)

    def keep(self, for_s: int) -> DatabaseHeld:
        self.asked.append("keep")
        if self.mistakes:
            self.mistakes -= 1
            raise OSError("a mistake")
        if self.throttled:
            self.throttled -= 1
            raise ServiceTransientError("Rate Exceeded", code="TooManyRequestsException")
        return DatabaseHeld(phase="running", held_until_us=for_s)

    def release(self) -> DatabaseHeld:
        self.asked.append("release")
        return DatabaseHeld(phase="running", held_until_us=0)


@pytest.fixture
def function() -> Function:
    return Function()


@pytest.fixture
def lease(function: Function) -> HeldLease:
    stand_in: Any = function
    return HeldLease(stand_in)


def test_a_lease_holds_until_it_is_given_back(lease: HeldLease, function: Function) -> None:
    lease.acquire(wait_s=0, answers=lambda: True)
    lease.check()

    lease.release()

    with pytest.raises(LeaseLostError, match="'orders' was given back"):
        lease.check()
    assert function.asked == ["acquire", "release"]


@pytest.mark.parametrize("wait_s", [float("nan"), -1, "120", None])
def test_a_time_that_is_none_is_refused_before_anything_starts(
    lease: HeldLease, function: Function, wait_s: Any
) -> None:
    with pytest.raises(InvalidSettingError, match=r"wait_s=.*; accepted: seconds, 0 or more"):
        lease.acquire(wait_s=wait_s, answers=lambda: True)

    assert function.asked == []


def test_a_function_that_is_throttled_is_asked_again(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._ASK_AGAIN_S", 0.001)
    function.throttled = 2

    def answers() -> bool:
        if function.asked.count("keep") == 3:
            raise ServiceTransientError("Rate exceeded", code="ThrottlingException")
        return function.asked.count("keep") == 4

    lease.acquire(wait_s=LIMIT_S, answers=answers)

    lease.check()
    lease.release()


def test_a_mistake_of_one_beat_does_not_end_the_others(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._BEAT_S", 0.001)
    function.mistakes = 2

    lease.acquire(wait_s=0, answers=lambda: True)

    until(lambda: function.asked.count("keep") > 3)
    lease.check()
    lease.release()


def test_what_nobody_waits_for_any_more_is_given_back(lease: HeldLease, function: Function) -> None:
    def answers() -> bool:
        lease.give_up()  # as a task does that is cancelled meanwhile
        return True

    with pytest.raises(DatabaseAsleepError, match="nobody waits for database 'orders'"):
        lease.acquire(wait_s=5, answers=answers)

    assert function.asked == ["acquire", "release"]
