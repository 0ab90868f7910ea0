"""The Lambda service: environments kept warm per function, throttling, asynchronous invocations with their retries.

Each function has a limited number of environments, which AWS's does not: here they share a few cores, and ninety cold
starts at once would keep every request waiting longer than its client does. Further invocations wait for a free one, in
turn and for at most the function's own time limit; then they are throttled as on AWS. A function with Lambda's longest
time limit is exempt: its invocations run for as long as they are needed, so that none would get its turn. As many
environments start at a time as there are cores: an invocation that would start another takes the first that is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random, sample
from typing import Any, cast

from burstcache_local.errors import LocalCloudError
from burstcache_local.functions import EventInvokeConfig, FunctionSpec, Outcome
from burstcache_local.lambdas.forks import Forks
from burstcache_local.lambdas.runtime import Environment
from burstcache_local.lambdas.traces import TraceDaemon

_CLOSE_LIMIT_S = 5.0
_START_S = 1.0  # an init phase that takes longer waits for something, and not for a processor
_LONGEST_TIMEOUT_S = 900
_ENVIRONMENTS_PER_CORE = 8
_ENVIRONMENT_BYTES = 40 << 20  # measured: its share of the pages that it has in common with the others included
_TENANT_MISSING = (
    "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again."
)
_TENANT_SUPERFLUOUS = (
    "The invoked function is not enabled with tenancy configuration. Remove the tenant ID from your request and try"
    " again."
)
_CROWDED_FUNCTIONS = 4  # as many of the template's functions may be as busy as they can at once


class FunctionNotFoundError(LocalCloudError):
    """No function has this name."""


class TenantError(LocalCloudError):
    """A function with tenant isolation is invoked without a tenant, or another one with a tenant."""


class ThrottledError(LocalCloudError):
    """The account's concurrency is used up, or no environment became free in time."""


def _environments_by_machine() -> int:
    """Return how many environments of one function this machine can serve at once."""
    (available_kb,) = re.findall(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    by_memory = int(available_kb) * 1024 // (_CROWDED_FUNCTIONS * _ENVIRONMENT_BYTES)
    return max(4, min(_ENVIRONMENTS_PER_CORE * (os.cpu_count() or 1), by_memory))


@dataclass(frozen=True, slots=True)
class LambdaLimits:
    """Limits that differ between accounts, and delays that a demonstration should not wait for."""

    concurrency: int = 1000  # a new AWS account has 10
    environments: int = field(default_factory=_environments_by_machine)  # of one function; AWS has no such limit
    idle_s: float = 300.0  # AWS does not say; minutes
    retry_delays_s: tuple[float, ...] = (1.0, 2.0)  # AWS waits 60 and 120
    throttle_delay_s: float = 1.0  # doubles up to five minutes, as on AWS


Resolver = Callable[[str], Awaitable[tuple[FunctionSpec, EventInvokeConfig]]]
Destination = Callable[[str, str, str], Awaitable[None]]  # function, ARN of a queue or bus, message


@dataclass(slots=True)
class _Pool:
    """The environments of one function and tenant, and the invocations that wait for one."""

    free: list[Environment] = field(default_factory=list)  # the one used last is the last
    count: int = 0  # free and busy ones
    doomed: int = 0  # busy ones that end as soon as they are free
    settling: int = 0  # busy ones that have answered, and are free in a moment
    turns: deque[asyncio.Future[Environment | None]] = field(default_factory=deque)  # None: start one of your own

    def pass_on(self, environment: Environment | None) -> bool:
        """Give a free environment, or the room of one that is gone, to the next invocation; False if none waits."""
        while self.turns:
            if not (turn := self.turns.popleft()).done():
                turn.set_result(environment)
                return True
        return False


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
        self._resolve, self._send, self._logs, self._limits, self._traces = resolve, send, logs, limits, traces
        self._clock_ahead_s = clock_ahead_s  # of the next environment
        self._forks = Forks(logs / "zygote.log")
        self._known: dict[str, tuple[FunctionSpec, EventInvokeConfig]] = {}
        self._pools: dict[tuple[str, str], _Pool] = defaultdict(_Pool)
        self._reapers: dict[Environment, asyncio.TimerHandle] = {}
        self._environments: set[Environment] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._starting = asyncio.Semaphore(max(2, os.cpu_count() or 1))
        self.concurrency = limits.concurrency  # may change while functions run
        self.refused: frozenset[str] = frozenset()  # names of functions without concurrency; so may these

    @property
    def environments(self) -> frozenset[Environment]:
        """All execution environments, those included whose process has ended since their last event."""
        return frozenset(self._environments)

    async def start(self) -> None:
        """Prepare for the first cold start."""
        self._forks.start()

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

        Raises:
            FunctionNotFoundError: There is no such function.
            TenantError: It takes a tenant and none is given, or the other way round.
            ThrottledError: The account's concurrency is used up, or no environment became free within the function's
                time limit.
        """
        spec, _ = await self.function_for(name, tenant_id)
        if self._running >= self.concurrency or spec.name in self.refused:
            raise ThrottledError(f"Rate Exceeded: {self._running} invocations run")
        self._running += 1
        try:
            environment = await self._acquire(spec, tenant_id)
            run = partial(
                environment.invoke,
                request_id or str(uuid.uuid4()),
                payload,
                tenant_id=tenant_id,
                client_context=client_context,
            )
            outcome = await (run() if self._traces is None else self._traced(self._traces, spec, trace, run))
        finally:
            self._running -= 1
        self._pools[spec.name, tenant_id].settling += 1
        self._background(self._release(spec, tenant_id, environment, outcome))
        return outcome

    async def invoke_event(
        self, name: str, payload: bytes, *, request_id: str, tenant_id: str = "", trace: str = ""
    ) -> None:
        """Accept an asynchronous invocation, or raise FunctionNotFoundError or TenantError."""
        spec, config = await self.function_for(name, tenant_id)
        self._background(self._deliver(spec, config, payload, request_id, tenant_id, trace))

    def kill(self, name: str, count: int | None = None) -> int:
        """Let environments of a function die as if their memory had run out; return how many did.

        Args:
            name: The function's.
            count: How many at most, at random; None: all.
        """
        dying = [each for each in self._environments if each.function == name and not each.is_lost]
        if count is not None:
            dying = sample(dying, min(count, len(dying)))
        for environment in dying:
            environment.kill()
        return len(dying)

    def end_free(self) -> None:
        """End all environments that wait for an invocation: the next ones find new ones."""
        for pool in self._pools.values():
            for environment in list(pool.free):
                self._reap(pool, environment)

    @property
    def under_way(self) -> int:
        """How many invocations run, and events are on their way or wait to be tried again."""
        return self._running + len(self._tasks)

    @property
    def tenant_environments(self) -> int:
        """How many environments serve tenants, and are not about to end."""
        return sum(pool.count - pool.doomed for (_, tenant_id), pool in self._pools.items() if tenant_id)

    def reclaim(self, count: int, chance: Random) -> list[str]:
        """End environments of tenants, as Lambda does when it needs their room: busy ones after their invocation.

        Args:
            count: How many; all, if there are not as many.
            chance: Which ones.

        Returns:
            The tenants, each as often as it loses an environment.
        """
        candidates: list[tuple[str, _Pool, Environment | None]] = []
        for (_, tenant_id), pool in self._pools.items():
            if tenant_id:
                busy = pool.count - len(pool.free) - pool.doomed
                candidates += [(tenant_id, pool, environment) for environment in (*pool.free, *[None] * busy)]
        reclaimed = chance.sample(candidates, min(count, len(candidates)))
        for _, pool, environment in reclaimed:
            if environment is None:
                pool.doomed += 1
            else:
                self._reap(pool, environment)
        return [tenant_id for tenant_id, _, _ in reclaimed]

    async def at_rest(self) -> None:
        """Return when no event is on its way and every environment that has answered waits for its next one."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """End all environments, running ones too."""
        for task in self._tasks:
            task.cancel()
        if closings := [asyncio.ensure_future(environment.close()) for environment in self._environments]:
            await asyncio.wait(closings, timeout=_CLOSE_LIMIT_S)
        self._forks.stop()  # and with it everything that did not end in time
        await asyncio.gather(*closings, return_exceptions=True)

    @staticmethod
    async def _traced(
        traces: TraceDaemon, spec: FunctionSpec, caller: str, run: Callable[..., Awaitable[Outcome]]
    ) -> Outcome:
        with traces.invocation(spec.name, caller) as invocation:
            outcome = await run(trace=invocation.header)
            invocation.is_failed = bool(outcome.error)
            return outcome

    def _background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _acquire(self, spec: FunctionSpec, tenant_id: str) -> Environment:
        pool = self._pools[spec.name, tenant_id]
        while pool.free:
            environment = pool.free.pop()
            self._reapers.pop(environment).cancel()
            if not environment.is_lost:
                return environment
            pool.count -= 1
            self._background(self._discard(environment))
        if tenant_id and pool.settling > len(pool.turns):  # whose memory is wanted, and has been answered for
            return await self._wait_for_turn(spec, pool) or await self._start(spec, pool)
        if pool.count < self._limits.environments or spec.timeout_s >= _LONGEST_TIMEOUT_S:
            pool.count += 1
            return await self._first_free(pool) or await self._start(spec, pool)
        if (waited_for := await self._wait_for_turn(spec, pool)) is None:
            await self._starting.acquire()
        return waited_for or await self._start(spec, pool)

    async def _first_free(self, pool: _Pool) -> Environment | None:
        """Return an environment that becomes free before another may start; None when it may, which is then counted.

        Environments that start together keep each other waiting, and requests that come meanwhile would start more.
        """
        if not self._starting.locked():
            await self._starting.acquire()
            return None
        turn: asyncio.Future[Environment | None] = asyncio.get_running_loop().create_future()
        pool.turns.append(turn)
        may_start = asyncio.ensure_future(self._starting.acquire())
        try:
            await asyncio.wait([cast("asyncio.Future[Any]", turn), may_start], return_when=asyncio.FIRST_COMPLETED)
        finally:
            turn.cancel()  # does nothing to one that has come
        if turn.cancelled():
            return None
        pool.count -= 1  # this one's room, or that of one that is gone, is not needed
        environment = turn.result()
        if environment is None:
            await may_start
        elif not may_start.cancel():
            self._starting.release()
        return environment

    async def _started(self, environment: Environment) -> None:
        """Let another environment start when this one has begun its work, or does not use the processor for it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(environment.ready(), _START_S)
        self._starting.release()

    async def _start(self, spec: FunctionSpec, pool: _Pool) -> Environment:
        """Return an environment that begins its init phase; the caller has seen that it may."""
        environment = Environment(spec, self._forks, self._logs / f"{spec.name}.log")
        try:
            await environment.start(self._clock_ahead_s())
        except BaseException:
            self._make_room(pool)
            self._starting.release()
            raise
        self._environments.add(environment)
        self._background(self._started(environment))
        return environment

    async def _wait_for_turn(self, spec: FunctionSpec, pool: _Pool) -> Environment | None:
        turn: asyncio.Future[Environment | None] = asyncio.get_running_loop().create_future()
        pool.turns.append(turn)
        try:
            await asyncio.wait([turn], timeout=spec.timeout_s)
        finally:
            turn.cancel()  # does nothing to one that has come
        if turn.cancelled():
            raise ThrottledError(f"Rate Exceeded: {pool.count} environments of {spec.name} are busy")
        return turn.result()

    @staticmethod
    def _make_room(pool: _Pool) -> None:
        """Note that an environment is gone: the next invocation may start another."""
        if not pool.pass_on(None):
            pool.count -= 1

    async def _release(self, spec: FunctionSpec, tenant_id: str, environment: Environment, outcome: Outcome) -> None:
        pool = self._pools[spec.name, tenant_id]
        is_left = outcome.reusable and await environment.settle()
        pool.settling -= 1
        if not is_left or pool.doomed:
            pool.doomed -= pool.doomed > 0
            self._make_room(pool)
            await self._discard(environment)
            return
        if pool.pass_on(environment):
            return
        pool.free.append(environment)
        reap = asyncio.get_running_loop().call_later(self._limits.idle_s, self._reap, pool, environment)
        self._reapers[environment] = reap

    def _reap(self, pool: _Pool, environment: Environment) -> None:
        """End a free environment."""
        pool.free.remove(environment)
        pool.count -= 1
        self._reapers.pop(environment).cancel()
        self._background(self._discard(environment))

    async def _discard(self, environment: Environment) -> None:
        await environment.close()
        self._environments.discard(environment)  # not earlier: the end of the service must find it

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
