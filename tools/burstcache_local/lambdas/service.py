"""The Lambda service: environments kept warm per function, throttling, asynchronous invocations with their retries."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from burstcache_local.errors import LocalCloudError
from burstcache_local.functions import EventInvokeConfig, FunctionSpec, Outcome
from burstcache_local.lambdas.forks import Forks
from burstcache_local.lambdas.runtime import Environment

_CLOSE_LIMIT_S = 5.0


class FunctionNotFoundError(LocalCloudError):
    """No function has this name."""


class ThrottledError(LocalCloudError):
    """The account's limit of concurrent invocations is reached."""


@dataclass(frozen=True, slots=True)
class LambdaLimits:
    """Limits that differ between accounts, and delays that a demonstration should not wait for."""

    concurrency: int = 1000  # a new AWS account has 10
    idle_s: float = 300.0  # AWS does not say; minutes
    retry_delays_s: tuple[float, ...] = (1.0, 2.0)  # AWS waits 60 and 120
    throttle_delay_s: float = 1.0  # doubles up to five minutes, as on AWS


Resolver = Callable[[str], Awaitable[tuple[FunctionSpec, EventInvokeConfig]]]
Destination = Callable[[str, str], Awaitable[None]]  # queue ARN, message


class Lambdas:
    """All functions of the local cloud. All methods belong to one event loop."""

    def __init__(self, *, resolve: Resolver, send: Destination, logs: Path, limits: LambdaLimits) -> None:
        self._resolve, self._send, self._logs, self._limits = resolve, send, logs, limits
        self._forks = Forks(logs / "zygote.log")
        self._known: dict[str, tuple[FunctionSpec, EventInvokeConfig]] = {}
        self._free: dict[tuple[str, str], list[Environment]] = defaultdict(list)
        self._reapers: dict[Environment, asyncio.TimerHandle] = {}
        self._environments: set[Environment] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0

    async def start(self) -> None:
        """Prepare for the first cold start."""
        self._forks.start()

    async def function(self, name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        """Return a function by name or ARN, or raise FunctionNotFoundError."""
        short = name.rpartition(":function:")[2].partition(":")[0]
        if short not in self._known:
            self._known[short] = await self._resolve(short)
        return self._known[short]

    async def invoke(
        self, name: str, payload: bytes, *, request_id: str = "", tenant_id: str = "", client_context: str = ""
    ) -> Outcome:
        """Run one invocation in the environment that was used last, or in a new one.

        Raises:
            FunctionNotFoundError: There is no such function.
            ThrottledError: The account's concurrency is used up.
        """
        spec, _ = await self.function(name)
        if self._running >= self._limits.concurrency:
            raise ThrottledError(f"Rate Exceeded: {self._running} invocations run")
        self._running += 1
        try:
            environment = await self._acquire(spec, tenant_id)
            outcome = await environment.invoke(
                request_id or str(uuid.uuid4()), payload, tenant_id=tenant_id, client_context=client_context
            )
        finally:
            self._running -= 1
        self._background(self._release(spec, tenant_id, environment, outcome))
        return outcome

    async def invoke_event(self, name: str, payload: bytes, *, request_id: str, tenant_id: str = "") -> None:
        """Accept an asynchronous invocation, or raise FunctionNotFoundError."""
        spec, config = await self.function(name)
        self._background(self._deliver(spec, config, payload, request_id, tenant_id))

    async def close(self) -> None:
        """End all environments, running ones too."""
        for task in self._tasks:
            task.cancel()
        if closings := [asyncio.ensure_future(environment.close()) for environment in self._environments]:
            await asyncio.wait(closings, timeout=_CLOSE_LIMIT_S)
        self._forks.stop()  # and with it everything that did not end in time
        await asyncio.gather(*closings, return_exceptions=True)

    def _background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _acquire(self, spec: FunctionSpec, tenant_id: str) -> Environment:
        if free := self._free[spec.name, tenant_id]:
            environment = free.pop()
            self._reapers.pop(environment).cancel()
            return environment
        environment = Environment(spec, self._forks, self._logs / f"{spec.name}.log")
        await environment.start()
        self._environments.add(environment)
        return environment

    async def _release(self, spec: FunctionSpec, tenant_id: str, environment: Environment, outcome: Outcome) -> None:
        if not (outcome.reusable and await environment.settle()):
            await self._discard(environment)
            return
        free = self._free[spec.name, tenant_id]
        free.append(environment)

        def reap() -> None:
            free.remove(environment)
            del self._reapers[environment]
            self._background(self._discard(environment))

        self._reapers[environment] = asyncio.get_running_loop().call_later(self._limits.idle_s, reap)

    async def _discard(self, environment: Environment) -> None:
        self._environments.discard(environment)
        await environment.close()

    async def _deliver(
        self, spec: FunctionSpec, config: EventInvokeConfig, payload: bytes, request_id: str, tenant_id: str
    ) -> None:
        """Invoke until it succeeds, retries are used up or the event is too old; then report the failure."""
        accepted_s, attempts = time.monotonic(), 0
        throttle_delay_s = self._limits.throttle_delay_s
        while True:
            try:
                outcome = await self.invoke(spec.name, payload, request_id=request_id, tenant_id=tenant_id)
            except ThrottledError:
                delay_s, outcome = throttle_delay_s, Outcome(b"null", "Throttled")
                throttle_delay_s = min(2 * throttle_delay_s, 300.0)
            else:
                attempts += 1
                if not outcome.error:
                    return
                if attempts > config.max_retries:
                    break
                delay_s = self._limits.retry_delays_s[min(attempts, len(self._limits.retry_delays_s)) - 1]
            if time.monotonic() - accepted_s + delay_s > config.max_age_s:
                break
            await asyncio.sleep(delay_s)
        if config.on_failure_arn:
            exhausted = attempts > config.max_retries
            await self._send(
                config.on_failure_arn, _failure_record(spec, request_id, attempts, exhausted, payload, outcome)
            )


def _failure_record(
    spec: FunctionSpec, request_id: str, attempts: int, exhausted: bool, payload: bytes, outcome: Outcome
) -> str:
    """Return the invocation record.

    Source:
        AWS Lambda Developer Guide, "Capturing records of Lambda asynchronous invocations".
    """
    return json.dumps(
        {
            "version": "1.0",
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "requestContext": {
                "requestId": request_id,
                "functionArn": f"{spec.arn}:$LATEST",
                "condition": "RetriesExhausted" if exhausted else "EventAgeExceeded",
                "approximateInvokeCount": attempts,
            },
            "requestPayload": json.loads(payload),
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": outcome.error},
            "responsePayload": json.loads(outcome.body),
        }
    )
