"""No answer of a reader is older than one before it, whatever overlaps."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from burstcache.adapters.clock import Instant, instant
from burstcache.serve.monotonic_reads import ABSENT, MonotonicReads
from support.clock import ManualClock
from support.searches import search


def test_a_copy_is_answered_again_and_one_of_another_version_is_not() -> None:
    answered = MonotonicReads(ManualClock(0.0))

    assert [answered.may_follow("k", version) for version in ("1", "1", "2", ABSENT, "1")] == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_what_s3_says_decides_from_then_on() -> None:
    clock = ManualClock(0.0)
    answered = MonotonicReads(clock)
    answered.may_follow("k", "old")
    clock.now_s += 1

    answered.record("k", "new", instant(clock))

    assert [answered.may_follow("k", version) for version in ("old", "new")] == [False, True]


def test_of_two_answers_of_s3_that_overlapped_none_decides() -> None:
    clock = ManualClock(0.0)
    answered = MonotonicReads(clock)
    asked = instant(clock)
    clock.now_s += 1
    answered.record("k", "2", instant(clock))

    answered.record("k", "1", asked)

    assert not answered.may_follow("k", "1")
    assert not answered.may_follow("k", "2")


def test_reads_of_s3_that_never_stop_overlapping_settle_what_was_in_doubt() -> None:
    clock = ManualClock(0.0)
    answered = MonotonicReads(clock)
    asked = [instant(clock)] * 2
    is_answered = []

    for version in ("old", "new", "old", "new", "new", "new"):
        clock.now_s += 1
        asked.append(instant(clock))  # before the two that are under way are answered
        clock.now_s += 1
        answered.record("k", version, asked.pop(0))
        is_answered.append(answered.may_follow("k", version))

    assert is_answered == [True, False, False, False, False, False]
    answered.record("k", "new", asked.pop(0))
    assert [answered.may_follow("k", version) for version in ("new", "old")] == [True, False]


class Readings(RuleBasedStateMachine):
    """One reader of many threads, S3, and copies that are as old as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(0.0)
        self.answered = MonotonicReads(self.clock)
        self.version = 0
        self.newest_answered = 0  # of the answers that have been given
        self.under_way: list[tuple[int, int, Instant, bool]] = []  # floor, version, asked, whether S3 was asked

    def _begin(self, version: int, *, is_of_s3: bool) -> None:
        self.clock.now_s += 1
        self.under_way.append((self.newest_answered, version, instant(self.clock), is_of_s3))

    @rule()
    def write(self) -> None:
        self.version += 1

    @rule()
    def ask_s3(self) -> None:
        self._begin(self.version, is_of_s3=True)

    @rule()
    def ask_s3_around_a_write(self) -> None:
        self.ask_s3()
        self.write()
        self.ask_s3()

    @rule(age=st.integers(0, 3))
    def ask_a_copy(self, age: int) -> None:
        self._begin(max(0, self.version - age), is_of_s3=False)

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 9))
    def answer(self, which: int) -> None:
        floor, version, asked, is_of_s3 = self.under_way.pop(which % len(self.under_way))
        self.clock.now_s += 1
        if is_of_s3:
            self.answered.record("k", str(version), asked)
        elif not self.answered.may_follow("k", str(version)):
            return
        assert version >= floor, (version, floor)
        self.newest_answered = max(self.newest_answered, version)


TestReadings = Readings.TestCase
TestReadings.settings = settings(search(200), stateful_step_count=30)
