"""A lease in its holder's hands: what it waits for, and when it holds no more."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.core.errors import DatabaseAsleepError, InvalidSettingError, LeaseLostError, ServiceTransientError
from burstcache.core.messages.state import DatabaseHeld
from burstcache.state.lease import LEASE_S, HeldLease
from support.clock import ManualClock
from support.waiting import LIMIT_S, until


class Function:
    """The state function of a database that runs; `clock` moves on by `takes_s` at each call that extends a lease."""

    database = "orders"

    def __init__(self) -> None:
        self.clock = ManualClock(1_000.0)
        self.asked: list[str] = []
        self.throttled = 0  # calls to come
        self.mistakes = 0
        self.takes_s = 0.0
        self.host = "10.0.0.1"

    def acquire(self, for_s: int) -> DatabaseHeld:
        self.asked.append("acquire")
        return DatabaseHeld(phase="running", held_until_us=for_s, host=self.host)

    def renew(self, for_s: int) -> DatabaseHeld:
        self.asked.append("keep")
        self.clock.sleep(self.takes_s)
        if self.mistakes:
            self.mistakes -= 1
            raise OSError("a mistake")
        if self.throttled:
            self.throttled -= 1
            raise ServiceTransientError("Rate Exceeded", code="TooManyRequestsException")
        return DatabaseHeld(phase="running", held_until_us=for_s, host=self.host)

    def release(self) -> DatabaseHeld:
        self.asked.append("release")
        return DatabaseHeld(phase="running", held_until_us=0)


@pytest.fixture
def function() -> Function:
    return Function()


@pytest.fixture
def lease(function: Function) -> HeldLease:
    stand_in: Any = function
    return HeldLease(stand_in, function.clock)


def test_a_lease_holds_until_it_is_given_back(lease: HeldLease, function: Function) -> None:
    lease.acquire(wait_s=0, answers=lambda _: True)
    lease.check()

    lease.release()

    with pytest.raises(LeaseLostError, match="'orders' was released"):
        lease.check()
    assert function.asked == ["acquire", "release"]


@pytest.mark.parametrize("wait_s", [float("nan"), -1, "120", None])
def test_a_time_that_is_none_is_refused_before_anything_starts(
    lease: HeldLease, function: Function, wait_s: Any
) -> None:
    with pytest.raises(InvalidSettingError, match=r"wait_s=.*; accepted: seconds, 0 or more"):
        lease.acquire(wait_s=wait_s, answers=lambda _: True)

    assert function.asked == []


def test_a_function_that_is_throttled_is_asked_again(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._POLL_S", 0.001)
    function.throttled = 2

    def answers(_: str) -> bool:
        if function.asked.count("keep") == 3:
            raise ServiceTransientError("Rate exceeded", code="ThrottlingException")
        return function.asked.count("keep") == 4

    lease.acquire(wait_s=LIMIT_S, answers=answers)

    lease.check()
    lease.release()


def test_a_mistake_of_one_beat_does_not_end_the_others(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._RENEW_S", 0.001)
    function.mistakes = 2

    lease.acquire(wait_s=0, answers=lambda _: True)

    until(lambda: function.asked.count("keep") > 3)
    lease.check()
    lease.release()


def test_what_nobody_waits_for_any_more_is_given_back(lease: HeldLease, function: Function) -> None:
    def answers(_: str) -> bool:
        lease.give_up()  # as a task does that is cancelled meanwhile
        return True

    with pytest.raises(DatabaseAsleepError, match="the wait for database 'orders' was cancelled"):
        lease.acquire(wait_s=5, answers=answers)

    assert function.asked == ["acquire", "release"]


def test_what_was_taken_in_the_moment_in_which_nobody_waits_any_more_is_given_back(
    lease: HeldLease, function: Function
) -> None:
    lease.acquire(wait_s=5, answers=lambda _: True)

    lease.give_up()  # as a task does that is cancelled before it learns of the end

    until(lambda: function.asked == ["acquire", "release"])


def test_a_database_that_does_not_wake_up_in_time_is_given_back(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._POLL_S", 0)
    function.takes_s = 10

    with pytest.raises(DatabaseAsleepError, match="'orders' is running after 30 s"):
        lease.acquire(wait_s=30, answers=lambda _: False)

    assert function.asked == ["acquire", "keep", "keep", "keep", "release"]


class Frozen(ManualClock):
    """The clock of a process whose monotonic time stands still while it is frozen."""

    def monotonic_s(self) -> float:
        return 0.0


@pytest.mark.parametrize("kind", [ManualClock, Frozen])
def test_a_holder_that_stood_still_for_longer_than_its_lease_holds_no_more(
    function: Function, kind: type[ManualClock]
) -> None:
    stand_in: Any = function
    clock = kind(1_000.0)
    lease = HeldLease(stand_in, clock)
    lease.acquire(wait_s=0, answers=lambda _: True)

    clock.sleep(LEASE_S)
    lease.check()
    clock.sleep(1)
    with pytest.raises(LeaseLostError, match="was suspended for longer than 60 s"):
        lease.check()

    lease.release()


def test_a_lease_holds_from_before_it_was_asked_for(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._POLL_S", 0)
    function.takes_s = LEASE_S + 1
    lease.acquire(wait_s=LIMIT_S, answers=lambda _: "keep" in function.asked)

    with pytest.raises(LeaseLostError):
        lease.check()

    lease.release()


def test_the_child_of_a_fork_leaves_the_lease_to_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    function = Function()
    lease = HeldLease(function, function.clock)  # type: ignore[arg-type]
    lease.acquire(wait_s=0, answers=lambda _: True)

    with monkeypatch.context() as child:
        child.setattr("os.getpid", lambda: 0)
        lease.release()
    assert "release" not in function.asked

    lease.release()
    assert function.asked[-1] == "release"


def test_a_database_that_runs_elsewhere_is_not_held_any_more(
    lease: HeldLease, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.state.lease._RENEW_S", 0.001)
    asked: list[str] = []

    def answers(host: str) -> bool:
        asked.append(host)
        return True

    assert lease.acquire(wait_s=0, answers=answers) == "10.0.0.1"
    function.host = "10.0.0.2"

    until(lambda: _loss(lease))
    lease.release()
    assert asked == ["10.0.0.1"]


def _loss(lease: HeldLease) -> bool:
    """Return whether a lease is lost because its database runs elsewhere."""
    try:
        lease.check()
    except LeaseLostError as error:
        return "started again elsewhere" in str(error)
    return False
