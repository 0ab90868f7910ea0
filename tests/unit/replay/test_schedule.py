"""Requests are sent when they are due, whatever the answers do, and times count from then."""

from __future__ import annotations

import asyncio
import time

import pytest

from burstcache_replay.schedule import Answer, Outcome, replay
from support.waiting import LIMIT_S

_OK = Answer(200, "s3", 1)


def test_requests_are_sent_while_no_answer_has_come() -> None:
    async def main() -> list[int]:
        sent: list[int] = []
        all_sent = asyncio.Event()

        async def send(number: int) -> Answer:
            sent.append(number)
            if len(sent) == 50:
                all_sent.set()
            await all_sent.wait()
            return _OK

        outcomes: list[Outcome] = []
        await replay([number / 1e5 for number in range(50)], send, outcomes.append)
        assert len(outcomes) == 50
        return sent

    assert asyncio.run(main()) == list(range(50))


def test_a_stall_shows_in_the_latency_of_each_request_that_it_delays() -> None:
    outcomes: list[Outcome] = []
    stalled_s = 0.0

    async def send(number: int) -> Answer:
        nonlocal stalled_s
        stalled_s = 1000.0
        return _OK

    asyncio.run(replay([0.0, 0.01, 0.02], send, outcomes.append, lambda: time.monotonic() + stalled_s))

    stalled, second, third = sorted(outcomes, key=lambda outcome: outcome.number)
    assert stalled.late_s < LIMIT_S < 1000 <= stalled.latency_s
    assert 900 < third.late_s <= second.late_s
    assert second.latency_s >= second.late_s
    assert second.service_s == pytest.approx(second.latency_s - second.late_s)


def test_a_replay_whose_outcomes_cannot_be_written_ends_with_the_error_and_sends_no_more() -> None:
    sent: list[int] = []

    async def send(number: int) -> Answer:
        sent.append(number)
        return _OK

    def record(outcome: Outcome) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        asyncio.run(replay([0.0, 0.01, *[0.02] * 100], send, record))
    assert len(sent) < 50


def test_a_replay_that_is_cancelled_ends_when_what_is_under_way_is_answered() -> None:
    async def main() -> list[int]:
        is_sent, may_answer = asyncio.Event(), asyncio.Event()
        outcomes: list[Outcome] = []

        async def send(number: int) -> Answer:
            is_sent.set()
            await may_answer.wait()
            return _OK

        task = asyncio.create_task(replay([0.0, 3600.0], send, outcomes.append))
        await is_sent.wait()
        task.cancel()
        may_answer.set()
        assert await task > 0
        return [outcome.number for outcome in outcomes]

    assert asyncio.run(main()) == [0]


def test_a_replay_that_is_cancelled_twice_leaves_what_is_under_way_and_says_when_it_began() -> None:
    async def main() -> list[int]:
        is_sent, never = asyncio.Event(), asyncio.Event()
        outcomes: list[Outcome] = []

        async def send(number: int) -> Answer:
            if number == 1:
                is_sent.set()
                await never.wait()
            return _OK

        task = asyncio.create_task(replay([0.0, 0.0, 3600.0], send, outcomes.append))
        await is_sent.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        assert await task > 0
        return [outcome.number for outcome in outcomes]

    assert asyncio.run(main()) == [0]
