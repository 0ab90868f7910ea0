"""The queue of S3's events and its event source mapping, on a virtual clock, with the template's limits.

As in SQS's standard queues, messages come roughly in order, some of them late, and some again after they were deleted.
"""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from burstcache.core.parameters import US_PER_S
from support.project import template
from support.virtual_time import VirtualClock

DEAD = "dead messages"  # in the dead-letter queue, by the queue's counts
_HIDDEN_SHARE, _HIDDEN_S = 0.1, 0.8  # of the messages, on servers of the queue that a poll does not reach
_AGAIN_SHARE, _AGAIN_S = 0.05, 5.0  # of the deleted messages
_UNTIL_INVOKED_S = (0.01, 0.2)  # a poll's answer and the function's start
_SMALLER_SHARE = 0.3  # of the batches, which a poll of few servers leaves smaller


@dataclass(slots=True, eq=False)
class _Message:
    body: str
    sent_us: int
    visible_us: int
    receives: int = 0
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def record(self) -> dict[str, Any]:
        """Return the message as Lambda passes it on."""
        attributes = {"SentTimestamp": str(self.sent_us // 1_000), "ApproximateReceiveCount": str(self.receives)}
        return {"messageId": self.id, "body": self.body, "attributes": attributes, "eventSource": "aws:sqs"}


class EventQueue:
    """Queue whose messages a function takes in batches, as many at once as the mapping allows."""

    def __init__(
        self,
        clock: VirtualClock,
        draw: random.Random,
        *,
        start: Callable[..., None],
        invoke: Callable[[dict[str, Any]], object],
    ) -> None:
        """Start empty.

        Args:
            clock: Time of all waits.
            draw: Random choices.
            start: Runs work in the background.
            invoke: Invokes the function with a batch. If it raises, the batch returns to the queue.
        """
        resources = template()["Resources"]
        mapping, queue = (resources[name]["Properties"] for name in ("OriginEventsMapping", "OriginEventsQueue"))
        self._batch_size, self._slots = mapping["BatchSize"], mapping["ScalingConfig"]["MaximumConcurrency"]
        self._hidden_us = queue["VisibilityTimeout"] * US_PER_S
        self._most_receives = queue["RedrivePolicy"]["maxReceiveCount"]
        self._clock, self._draw, self._start, self._invoke = clock, draw, start, invoke
        self._messages, self._lock = list[_Message](), threading.Lock()
        self.counts: Counter[str] = Counter()  # batches, messages in them, and what befell them

    def send(self, event: dict[str, Any]) -> None:
        """Send an event to the queue."""
        now_us = self._clock.now_us()
        is_hidden = self._draw.random() < _HIDDEN_SHARE
        message = _Message(json.dumps(event), now_us, self._after(_HIDDEN_S) if is_hidden else now_us)
        with self._lock:
            self._messages.append(message)
        self._start(self._serve_from, message.visible_us)

    def oldest_s(self) -> float:
        """Return the age of the oldest message that is not deleted [s], 0 if there is none."""
        with self._lock:
            sent_us = min((each.sent_us for each in self._messages), default=self._clock.now_us())
        return (self._clock.now_us() - sent_us) / US_PER_S

    def _serve_from(self, at_us: int) -> None:
        """Take batches while there are messages, unless as many executions as the mapping allows do so."""
        self._clock.sleep_until(at_us)
        with self._lock:
            if not self._slots:
                return
            self._slots -= 1
        while batch := self._receive():
            self._clock.sleep(self._draw.uniform(*_UNTIL_INVOKED_S))
            self._follow(batch)

    def _receive(self) -> Sequence[_Message]:
        """Take the messages that were visible first; if there are none, give the execution back."""
        now_us, is_smaller = self._clock.now_us(), self._draw.random() < _SMALLER_SHARE
        with self._lock:
            visible = [each for each in self._messages if each.visible_us <= now_us]
            visible.sort(key=lambda each: each.visible_us)
            batch = visible[: self._draw.randint(1, self._batch_size) if is_smaller else self._batch_size]
            for message in batch:
                message.receives += 1
                message.visible_us = now_us + self._hidden_us
            self._slots += not batch
        return batch

    def _follow(self, batch: Sequence[_Message]) -> None:
        """Invoke the function. Its messages return if it fails, and some even if it succeeds."""
        self.counts.update({"batches": 1, "messages": len(batch)})
        try:
            self._invoke({"Records": [message.record() for message in batch]})
        except Exception:
            self.counts["failed batches"] += 1
            returned = [message for message in batch if message.receives < self._most_receives]
            self.counts[DEAD] += len(batch) - len(returned)
        else:
            returned = [message for message in batch if self._draw.random() < _AGAIN_SHARE]
            self.counts["messages again"] += len(returned)
            for message in returned:
                message.visible_us = self._after(_AGAIN_S)
        with self._lock:
            for message in batch:
                if message not in returned:
                    self._messages.remove(message)
        for message in returned:
            self._start(self._serve_from, message.visible_us)

    def _after(self, most_s: float) -> int:
        return self._clock.now_us() + round(most_s * self._draw.random() * US_PER_S)
