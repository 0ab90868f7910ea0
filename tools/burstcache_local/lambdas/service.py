"""The Lambda service: synchronous invocations with a concurrency limit, and asynchronous invocations with retries."""

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
from burstcache_local.lambdas.runtime import Environment
from burstcache_local.traces import TraceDaemon

_TENANT_MISSING = (
    "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again."
)
_TENANT_SUPERFLUOUS = (
    "The invoked function is not enabled with tenancy configuration. Remove the tenant ID from your request and try"
    " again."
)

Resolver = Callable[[str], Awaitable[tuple[FunctionSpec, EventInvokeConfig]]]
Destination = Callable[[str, str, str], Awaitable[None]]  # arguments: function, ARN of a queue or bus, message


class Lambdas:
    """All functions of the local cloud. Not thread-safe: call all methods in one event loop."""

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
        """Start with an empty cache of functions.

        Args:
            resolve: Returns a function by name.
            send: Sends the invocation record of a failed event to its destination.
            logs: Folder of the functions' logs.
            limits: Concurrency, environments and delays.
            traces: Receives invocation segments, or None to discard them.
            clock_ahead_s: Returns the clock offset of the next environment [s].
        """
        self._resolve, self._send, self._limits, self._traces = resolve, send, limits, traces
        self._known: dict[str, tuple[FunctionSpec, EventInvokeConfig]] = {}
        self._background = Background()
        self._running = 0
        self.environments = Environments(logs, limits, self._background, clock_ahead_s)
        self.concurrency = limits.concurrency  # may change while functions run
        self.refused: frozenset[str] = frozenset()  # functions with a reserved concurrency of 0; may also change
        self.refusals = 0  # invocations throttled by a concurrency limit

    async def start(self) -> None:
        """Start the zygote before the first cold start needs it."""
        self.environments.start()

    async def function(self, name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        """Return a function by name or ARN, or raise FunctionNotFoundError."""
        short = name.rpartition(":function:")[2].partition(":")[0]
        if short not in self._known:
            self._known[short] = await self._resolve(short)
        return self._known[short]

    async def function_for(self, name: str, tenant_id: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        """Return a function if it accepts the tenant id (empty for none).

        Raises:
            FunctionNotFoundError: There is no such function.
            TenantError: The function requires a tenant id and the call has none, or vice versa.
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
        """Run one synchronous invocation.

        Errors, timeouts and lost environments are outcomes, not exceptions.

        Raises:
            FunctionNotFoundError: There is no such function.
            TenantError: The function requires a tenant id and the call has none, or vice versa.
            ThrottledError: The account's concurrency is exhausted, or no environment became free within the function's
                timeout.
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
            running = asyncio.ensure_future(
                run() if self._traces is None else self._traced(self._traces, spec, trace, run)
            )
            try:
                outcome = await asyncio.shield(running)
            except asyncio.CancelledError:  # of the caller: as on AWS, its invocation goes on
                self._background.begin(self._finish(spec, tenant_id, environment, running))
                raise
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
        """Number of running invocations plus pending events and other background tasks."""
        return self._running + len(self._background)

    async def at_rest(self) -> None:
        """Wait until no event is pending and all environments have finished background work."""
        await self._background.at_rest()

    async def close(self) -> None:
        """End all environments, including busy environments."""
        self._background.cancel()
        await self.environments.close()

    async def _finish(
        self, spec: FunctionSpec, tenant_id: str, environment: Environment, running: Awaitable[Outcome]
    ) -> None:
        """Return an environment to its pool after an invocation whose caller was cancelled."""
        self._running += 1
        try:
            outcome = await running
        finally:
            self._running -= 1
        self.environments.give_back(spec, tenant_id, environment, outcome)

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
        """Invoke the function, with retries up to the maximum number of retries and the event's maximum age.

        After the last failed attempt, send a record to the function's failure destination.
        """
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
    """Build the invocation record of a failed event.

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
