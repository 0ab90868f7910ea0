"""The Lambda service: invocations, throttled by concurrency, and asynchronous ones with their retries."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from burstcache_local.errors import StartLostError, TenantError, ThrottledError
from burstcache_local.functions import EventInvokeConfig, FunctionSpec, Outcome, failed
from burstcache_local.lambdas.background import Background
from burstcache_local.lambdas.environments import Environments
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.traces import TraceDaemon

_TENANT_MISSING = (
    "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again."
)
_TENANT_SUPERFLUOUS = (
    "The invoked function is not enabled with tenancy configuration. Remove the tenant ID from your request and try"
    " again."
)

Resolver = Callable[[str], Awaitable[tuple[FunctionSpec, EventInvokeConfig]]]
Destination = Callable[[str, str, str], Awaitable[None]]  # function, ARN of a queue or bus, message


class Lambdas:
    """All functions of the local cloud. All methods belong to one event loop."""

    def __init__(
        self,
        *,
        resolve: Resolver,
        send: Destination,
        logs: Path,
        limits: LambdaLimits,
        traces: TraceDaemon | None = None,
        clock_ahead_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Know no function yet.

        Args:
            resolve: Returns a function by its name.
            send: Sends what is left of an event that nobody could handle.
            logs: Folder of the functions' logs.
            limits: Concurrency, environments and delays.
            traces: Takes the segments of invocations; None: nobody does.
            clock_ahead_s: How far the clock of the next environment is ahead [s].
        """
        self._resolve, self._send, self._limits, self._traces = resolve, send, limits, traces
        self._known: dict[str, tuple[FunctionSpec, EventInvokeConfig]] = {}
        self._background = Background()
        self._running = 0
        self.environments = Environments(logs, limits, self._background, clock_ahead_s)
        self.concurrency = limits.concurrency  # may change while functions run
        self.refused: frozenset[str] = frozenset()  # names of functions without concurrency; so may these
        self.refusals = 0  # invocations for lack of concurrency

    async def start(self) -> None:
        """Prepare for the first cold start."""
        self.environments.start()

    async def function(self, name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        """Return a function by name or ARN, or raise FunctionNotFoundError."""
        short = name.rpartition(":function:")[2].partition(":")[0]
        if short not in self._known:
            self._known[short] = await self._resolve(short)
        return self._known[short]

    async def function_for(self, name: str, tenant_id: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        """Return a function that a tenant, or nobody in particular, invokes.

        Raises:
            FunctionNotFoundError: There is no such function.
            TenantError: It takes a tenant and none is given, or the other way round.
        """
        spec, config = await self.function(name)
        if spec.is_tenant_isolated and not tenant_id:
            raise TenantError(_TENANT_MISSING)
        if tenant_id and not spec.is_tenant_isolated:
            raise TenantError(_TENANT_SUPERFLUOUS)
        return spec, config

    async def invoke(
        self,
        name: str,
        payload: bytes,
        *,
        request_id: str = "",
        tenant_id: str = "",
        client_context: str = "",
        trace: str = "",
    ) -> Outcome:
        """Run one invocation in the environment that was used last, in a new one, or in the first that becomes free.

        An error, a time-out and a lost environment are outcomes.

        Raises:
            FunctionNotFoundError: There is no such function.
            TenantError: It takes a tenant and none is given, or the other way round.
            ThrottledError: The account's concurrency is used up, or no environment became free within the function's
                time limit.
        """
        spec, _ = await self.function_for(name, tenant_id)
        if self._running >= self.concurrency or spec.name in self.refused:
            self.refusals += 1
            raise ThrottledError(f"Rate Exceeded: {self._running} invocations run")
        self._running += 1
        try:
            environment = await self.environments.take(spec, tenant_id)
            run = partial(
                environment.invoke,
                request_id or str(uuid.uuid4()),
                payload,
                tenant_id=tenant_id,
                client_context=client_context,
            )
            outcome = await (run() if self._traces is None else self._traced(self._traces, spec, trace, run))
        except StartLostError as error:
            return failed("Runtime.ExitError", str(error))
        finally:
            self._running -= 1
        self.environments.give_back(spec, tenant_id, environment, outcome)
        return outcome

    async def invoke_event(
        self, name: str, payload: bytes, *, request_id: str, tenant_id: str = "", trace: str = ""
    ) -> None:
        """Accept an asynchronous invocation, or raise FunctionNotFoundError or TenantError."""
        spec, config = await self.function_for(name, tenant_id)
        self._background.begin(self._deliver(spec, config, payload, request_id, tenant_id, trace))

    @property
    def under_way(self) -> int:
        """How many invocations run, and events are on their way or wait to be tried again."""
        return self._running + len(self._background)

    async def at_rest(self) -> None:
        """Return when no event is on its way and every environment that has answered waits for its next one."""
        await self._background.at_rest()

    async def close(self) -> None:
        """End all environments, running ones too."""
        self._background.cancel()
        await self.environments.close()

    @staticmethod
    async def _traced(
        traces: TraceDaemon, spec: FunctionSpec, caller: str, run: Callable[..., Awaitable[Outcome]]
    ) -> Outcome:
        with traces.invocation(spec.name, caller) as invocation:
            outcome = await run(trace=invocation.header)
            invocation.is_failed = bool(outcome.error)
            return outcome

    async def _deliver(
        self,
        spec: FunctionSpec,
        config: EventInvokeConfig,
        payload: bytes,
        request_id: str,
        tenant_id: str,
        trace: str,
    ) -> None:
        """Invoke until it succeeds, retries are used up or the event is too old; then report the failure."""
        accepted_s, attempts = time.monotonic(), 0
        throttle_delay_s = self._limits.throttle_delay_s
        while True:
            try:
                outcome = await self.invoke(spec.name, payload, request_id=request_id, tenant_id=tenant_id, trace=trace)
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
            record = _failure_record(spec, request_id, attempts, exhausted, payload, outcome)
            await self._send(spec.name, config.on_failure_arn, record)


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
