"""Event source mappings, which take messages from a queue and invoke a function with a batch of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burstcache_local.errors import ThrottledError
from burstcache_local.functions import ACCOUNT
from burstcache_local.iam.guard import Guard
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.moto.services import Services

_LOOK_EVERY_S = 1.0  # for messages that a failed batch returns to the queue
_THROTTLED_S = 0.1


@dataclass(frozen=True, slots=True)
class Mapped:
    """An event source mapping: a queue's URL and ARN, the function's name, and the limits of batches."""

    queue_url: str
    queue_arn: str
    function: str
    batch_size: int
    concurrency: int


class EventSource:
    """A running event source mapping. Not thread-safe: call all methods in one event loop.

    Args:
        mapped: The mapping.
        lambdas: The functions.
        services: Has the queue.
        guard: Authorizes the function's role.
    """

    def __init__(self, mapped: Mapped, lambdas: Lambdas, services: Services, guard: Guard) -> None:
        self._mapped, self._lambdas, self._services, self._guard = mapped, lambdas, services, guard
        self._has_messages = asyncio.Event()
        self._slots = asyncio.Semaphore(mapped.concurrency)
        self._batches: set[asyncio.Task[None]] = set()

    def wake(self, queue_arn: str) -> None:
        """Look for messages now if this is the mapping's queue."""
        if queue_arn == self._mapped.queue_arn:
            self._has_messages.set()

    @property
    def under_way(self) -> int:
        """Number of messages in the queue, including those that a function has."""
        from moto.sqs.models import sqs_backends

        queue = sqs_backends[ACCOUNT][self._services.region].queues[self._mapped.queue_arn.rpartition(":")[2]]
        return int(queue.approximate_number_of_messages + queue.approximate_number_of_messages_not_visible)

    async def run(self) -> None:
        """Take batches forever."""
        while True:
            await self._slots.acquire()
            while not (messages := await self._receive()):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._has_messages.wait(), _LOOK_EVERY_S)
            batch = asyncio.ensure_future(self._invoke(messages))
            self._batches.add(batch)
            batch.add_done_callback(self._end)

    def _end(self, batch: asyncio.Task[None]) -> None:
        self._batches.discard(batch)
        self._slots.release()

    async def _receive(self) -> Sequence[Mapping[str, Any]]:
        self._has_messages.clear()
        if self._guard.source_problem(self._mapped.function, self._mapped.queue_arn):
            return []
        answer = await self._call(
            "receive_message",
            QueueUrl=self._mapped.queue_url,
            MaxNumberOfMessages=self._mapped.batch_size,
            AttributeNames=["All"],
            WaitTimeSeconds=0,
        )
        return answer.get("Messages", ())  # type: ignore[no-any-return]

    async def _invoke(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Invoke the function, and delete the messages if it succeeds. Else they return to the queue by themselves."""
        payload = json.dumps({"Records": [self._record(message) for message in messages]}).encode()
        while True:
            try:
                outcome = await self._lambdas.invoke(self._mapped.function, payload)
                break
            except ThrottledError:
                await asyncio.sleep(_THROTTLED_S)
        if outcome.error:
            return
        entries = [{"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate(messages)]
        await self._call("delete_message_batch", QueueUrl=self._mapped.queue_url, Entries=entries)

    def _record(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as Lambda passes it on (AWS Lambda Developer Guide, "Using Lambda with Amazon SQS")."""
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": self._mapped.queue_arn,
            "awsRegion": self._services.region,
        }

    async def _call(self, operation: str, **arguments: Any) -> Any:
        call = getattr(self._services.client("sqs"), operation)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: call(**arguments))
