"""Event deliveries to functions, and deliveries of undeliverable or failed events to queues and buses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError

from burstcache_local.errors import FunctionNotFoundError
from burstcache_local.event_sources import EventSource
from burstcache_local.faults import Faults
from burstcache_local.iam.guard import Guard
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.moto.services import Services


class Destinations:
    """The queues and buses that receive failed events.

    At shutdown, these services stop before the functions, so errors during shutdown are ignored.

    Args:
        services: Provides the queues and buses.
        guard: Authorizes the deliveries.
        is_ending: Returns whether the cloud is shutting down.
    """

    def __init__(self, services: Services, guard: Guard, is_ending: Callable[[], bool]) -> None:
        self._services = services
        self._guard = guard
        self._is_ending = is_ending

    async def send_failure(self, function: str, destination_arn: str, record: str) -> None:
        """Send a failed event's record to the function's queue or bus, with the function's permissions."""
        if not self._guard.failure_problem(function, destination_arn):
            await self._send(destination_arn, record)

    async def send_event(self, queue_arn: str, event: str, rule: str) -> bool:
        """Send an event to a queue with the rule's permissions. Return False if the queue denies that."""
        if self._guard.queue_problem(queue_arn, rule):
            return False
        await self._send(queue_arn, event)
        return True

    async def _send(self, destination_arn: str, message: str) -> None:
        send = self._put_event if ":event-bus/" in destination_arn else self._send_message
        try:
            await asyncio.get_running_loop().run_in_executor(None, send, destination_arn, message)
        except BotoCoreError:
            if not self._is_ending():
                raise

    def _send_message(self, queue_arn: str, message: str) -> None:
        sqs = self._services.client("sqs")
        url = sqs.get_queue_url(QueueName=queue_arn.rpartition(":")[2])["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=message)

    def _put_event(self, bus_arn: str, record: str) -> None:
        entry = {
            "EventBusName": bus_arn.rpartition("/")[2],
            "Source": "lambda",
            "DetailType": "Lambda Function Invocation Result - Failure",
            "Detail": record,
        }
        self._services.client("events").put_events(Entries=[entry])


class Deliveries:
    """Event deliveries to functions.

    Args:
        lambdas: The functions.
        destinations: Receives events for queues, and undeliverable ones.
        guard: Authorizes invocations by rules.
        faults: Injects lost, late and duplicate deliveries.
        loop: The event loop of the functions.
    """

    def __init__(
        self,
        lambdas: Lambdas,
        destinations: Destinations,
        guard: Guard,
        faults: Faults,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.late = 0  # events that a fault delays
        self.sources: list[EventSource] = []  # functions that take events from queues
        self._lambdas = lambdas
        self._destinations = destinations
        self._guard = guard
        self._faults = faults
        self._loop = loop

    def begin(self, target: Mapping[str, Any], payload: bytes, rule: str, trace: str) -> None:
        """Start an event delivery. Thread-safe. A fault may lose, delay or duplicate the event."""
        for after_s in self._faults.deliveries():
            work = self._deliver_late(target, payload, rule, trace, after_s)
            asyncio.run_coroutine_threadsafe(work, self._loop)

    async def deliver(self, target: Mapping[str, Any], payload: bytes, rule: str, trace: str = "") -> None:
        """Deliver an event to a function or a queue, or to the target's dead-letter queue.

        The dead-letter queue gets the event if the function does not exist, or the rule may not use the target.
        """
        try:
            if ":sqs:" in target["Arn"]:
                if await self._destinations.send_event(target["Arn"], payload.decode(), rule):
                    for source in self.sources:
                        source.wake(target["Arn"])
                    return
            elif not self._guard.delivery_problem(target, rule):
                await self._lambdas.invoke_event(target["Arn"], payload, request_id=str(uuid.uuid4()), trace=trace)
                return
        except FunctionNotFoundError:
            pass
        if queue := target.get("DeadLetterConfig", {}).get("Arn"):
            await self._destinations.send_event(queue, payload.decode(), rule)

    async def _deliver_late(
        self, target: Mapping[str, Any], payload: bytes, rule: str, trace: str, after_s: float
    ) -> None:
        if after_s:
            self.late += 1
            try:
                await asyncio.sleep(after_s)
            finally:
                self.late -= 1
        await self.deliver(target, payload, rule, trace)
