"""Keys at a point in time, from their rows."""

from __future__ import annotations

import pytest

from burstcache.core.deadlines import RUNNING_S
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow
from burstcache.queries.history import Step
from burstcache.queries.keys import key_view

NOW_US = 1_785_542_400_000_000
HASH = "0123456789abcdef0123456789abcdef"


def hot(**changes: object) -> KeyRow:
    fields = {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "req-1", "deadline_at_us": NOW_US + 1}
    return KeyRow(HASH, "cars.json", **(fields | changes))  # type: ignore[arg-type]


def test_requests_may_have_been_forgotten_once_the_window_is_as_long_as_the_queue() -> None:
    four, five = (
        key_view(KeyRow(HASH, "k", window=tuple(RecordedRequest(i, f"id-{i}") for i in range(length))), NOW_US)
        for length in (4, 5)
    )

    assert (four.noted_requests, four.is_window_full) == (4, False)
    assert (five.noted_requests, five.is_window_full) == (5, True)


def test_expired_row_counts_as_one_of_s3() -> None:
    view = key_view(hot(tier="redis", node="node-2", deadline_at_us=NOW_US), NOW_US)

    assert (view.state, view.is_expired, view.tier, view.node) == ("Lambda", True, "s3", "")


def test_state_is_dated_by_the_execution_and_by_the_row_until_the_execution_has_entered_it() -> None:
    row = hot(phase="redis_running", changed_at_us=5, deadline_at_us=5 + RUNNING_S * US_PER_S)
    steps = [Step(10, "RedisBootup"), Step(20, "SeedRedis")]

    assert key_view(row, 6, steps).since_us == 5
    assert key_view(row, 6, [*steps, Step(30, "RedisRunning")]).since_us == 30


@pytest.mark.parametrize(
    ("phase", "since_us"),
    [("lambda", 5), ("restricted_lambda", 5), ("redis_bootup", 20), ("redis_running", 30), ("redis_shutdown", 30)],
)
def test_state_without_its_execution_is_dated_by_what_was_written_with_it(phase: str, since_us: int) -> None:
    deadline_at_us = NOW_US if phase == "redis_bootup" else 30 + RUNNING_S * US_PER_S
    row = hot(phase=phase, changed_at_us=5, joined_at_us=20, deadline_at_us=deadline_at_us)

    assert key_view(row, 31).since_us == since_us


def test_key_that_failed_may_start_again_when_its_cool_down_is_over() -> None:
    failed = KeyRow(HASH, "k", failures=1, not_before_us=NOW_US + 1)

    assert key_view(failed, NOW_US).not_before_us == NOW_US + 1
    assert key_view(failed, NOW_US + 1).not_before_us == 0


def test_key_of_s3_does_not_expire() -> None:
    assert not key_view(KeyRow(HASH, "k", deadline_at_us=1), NOW_US).is_expired


def test_key_whose_cache_function_is_not_ready_is_served_by_s3() -> None:
    assert key_view(hot(tier="", holder=""), NOW_US).tier == "s3"
