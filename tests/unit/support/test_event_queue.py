"""The queue of S3's events takes batches as the template's mapping does, and brings failed ones again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from support.event_queue import DEAD, EventQueue
from support.virtual_time import VirtualClock


class Receiver:
    """A function that takes batches, each for a second, and fails if it is told to."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.fails: Callable[[], bool] = lambda: False
        self.sizes: list[int] = []
        self.bodies: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.queue = EventQueue(self.clock, random.Random(1), start=self._start, invoke=self.invoke)

    def _start(self, work: Callable[..., object], *arguments: Any) -> None:
        self.clock.start(work, *arguments)

    def invoke(self, payload: dict[str, Any]) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.sizes.append(len(payload["Records"]))
        self.clock.sleep(1)
        self.at_once -= 1
        if self.fails():
            raise RuntimeError("the function fails")
        self.bodies.update(record["body"] for record in payload["Records"])


def test_all_events_come_in_batches_of_ten_at_most_and_two_at_once() -> None:
    receiver = Receiver()

    for number in range(200):
        receiver.queue.send({"number": number})
    receiver.clock.sleep(60)

    assert len(receiver.bodies) == 200
    assert 200 < receiver.bodies.total() < 240  # some come twice
    assert (max(receiver.sizes), receiver.most_at_once) == (10, 2)
    assert min(receiver.sizes) < 10
    assert receiver.queue.oldest_s() == 0


def test_a_batch_that_fails_comes_again_after_90_s() -> None:
    receiver = Receiver()
    receiver.fails = lambda: len(receiver.sizes) == 1

    receiver.queue.send({})
    receiver.clock.sleep(85)
    assert (receiver.sizes, receiver.bodies.total()) == ([1], 0)
    assert receiver.queue.oldest_s() == 85

    receiver.clock.sleep(10)
    assert (len(receiver.sizes), receiver.bodies.total()) == (2, 1)


def test_an_event_that_fails_ten_times_is_given_up() -> None:
    receiver = Receiver()
    receiver.fails = lambda: True

    receiver.queue.send({})
    receiver.clock.sleep(2_000)

    assert len(receiver.sizes) == 10
    assert receiver.queue.counts[DEAD] == 1
    assert receiver.queue.oldest_s() == 0
