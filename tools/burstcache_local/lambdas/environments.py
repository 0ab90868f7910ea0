"""Execution environments, which stay warm per function and tenant.

The number of environments per function is limited. AWS has no such limit, but here all environments share a few cores,
and ninety concurrent cold starts would exceed the timeouts of all clients. At the limit, invocations queue for an idle
environment in FIFO order, and are throttled after the function's timeout. Functions with Lambda's maximum timeout are
exempt, because their invocations may run for as long as that, and queued invocations would starve.

Concurrent cold starts are limited to the number of cores. An invocation that waits for a cold start takes the first
environment that becomes idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import defaultdict, deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, sample
from typing import Any, cast

from burstcache_local.errors import ThrottledError
from burstcache_local.functions import FunctionSpec, Outcome
from burstcache_local.lambdas.background import Background
from burstcache_local.lambdas.forks import Forks
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.lambdas.runtime import Environment

_CLOSE_LIMIT_S = 5.0
_START_S = 1.0  # a longer init phase mostly waits for I/O, not for the CPU
_LONGEST_TIMEOUT_S = 900


@dataclass(slots=True)
class _Pool:
    """The environments and queued invocations of one function and tenant."""

    free: list[Environment] = field(default_factory=list)  # most recently used last
    count: int = 0  # free and busy environments
    doomed: int = 0  # busy environments that will end when released
    settling: int = 0  # busy environments that have responded, with extensions that are still running
    turns: deque[asyncio.Future[Environment | None]] = field(default_factory=deque)  # None starts an environment

    def pass_on(self, environment: Environment | None) -> bool:
        """Pass a free environment, or the slot of an ended environment (None), to the next queued invocation.

        Returns:
            False if no invocation is queued.
        """
        while self.turns:
            if not (turn := self.turns.popleft()).done():
                turn.set_result(environment)
                return True
        return False


class Environments:
    """The execution environments of all functions. Not thread-safe: call all methods in one event loop."""

    def __init__(
        self, logs: Path, limits: LambdaLimits, background: Background, clock_ahead_s: Callable[[], float]
    ) -> None:
        """Start without environments.

        Args:
            logs: Folder of the functions' logs.
            limits: Number of environments per function, and idle timeout.
            background: Runs tasks that invocations do not await.
            clock_ahead_s: Returns the clock offset of the next environment [s].
        """
        self._logs, self._limits, self._background = logs, limits, background
        self._clock_ahead_s = clock_ahead_s
        self._forks = Forks(logs / "zygote.log")
        self._pools: dict[tuple[str, str], _Pool] = defaultdict(_Pool)
        self._reapers: dict[Environment, asyncio.TimerHandle] = {}
        self._environments: set[Environment] = set()
        self._starting = asyncio.Semaphore(max(2, os.cpu_count() or 1))

    def start(self) -> None:
        """Start the zygote before the first cold start needs it."""
        self._forks.start()

    @property
    def all(self) -> frozenset[Environment]:
        """All environments, including any that have just lost their process."""
        return frozenset(self._environments)

    async def take(self, spec: FunctionSpec, tenant_id: str) -> Environment:
        """Take the most recently used free environment, a new environment, or the next environment that becomes free.

        Raises:
            ThrottledError: No environment became free within the function's timeout.
        """
        pool = self._pools[spec.name, tenant_id]
        while pool.free:
            environment = pool.free.pop()
            self._reapers.pop(environment).cancel()
            if not environment.is_lost:
                return environment
            pool.count -= 1
            self._background.begin(self._discard(environment))
        is_tenant_settling = bool(tenant_id) and pool.settling > len(pool.turns)  # wait for the tenant's memory
        has_room = pool.count < self._limits.environments or spec.timeout_s >= _LONGEST_TIMEOUT_S
        if is_tenant_settling or not has_room:
            if (released := await self._wait_for_turn(spec, pool)) is None:
                await self._acquire_start_slot(pool)
        else:
            pool.count += 1
            released = await self._first_free(pool)
        return released or await self._start(spec, pool)

    def give_back(self, spec: FunctionSpec, tenant_id: str, environment: Environment, outcome: Outcome) -> None:
        """Put an environment back into its pool after its extensions are done. End it if it is not reusable."""
        self._pools[spec.name, tenant_id].settling += 1
        self._background.begin(self._release(spec, tenant_id, environment, outcome))

    def kill(self, name: str, count: int | None = None) -> int:
        """Kill environments of a function, as an out-of-memory condition would. Return the number killed.

        Args:
            name: Name of the function.
            count: Maximum number of environments, picked at random, or None to kill all.
        """
        dying = [each for each in self._environments if each.function == name and not each.is_lost]
        if count is not None:
            dying = sample(dying, min(count, len(dying)))
        for environment in dying:
            environment.kill()
        return len(dying)

    async def provision(self, spec: FunctionSpec, count: int) -> None:
        """Start environments one by one until `count` are free, like provisioned concurrency."""
        pool = self._pools[spec.name, ""]
        while len(pool.free) < count:
            pool.count += 1
            await self._acquire_start_slot(pool)
            environment = await self._start(spec, pool)
            await environment.ready()
            self._keep(pool, environment)

    def end_free(self, names: Container[str] | None = None) -> None:
        """End free environments, so that the next invocations are cold starts.

        Args:
            names: Names of the functions, or None for all functions.
        """
        for (name, _), pool in self._pools.items():
            if names is None or name in names:
                for environment in list(pool.free):
                    self._reap(pool, environment)

    @property
    def of_tenants(self) -> int:
        """Number of tenants' environments, without environments that will end when released."""
        return sum(pool.count - pool.doomed for (_, tenant_id), pool in self._pools.items() if tenant_id)

    def reclaim(self, count: int, chance: Random) -> list[str]:
        """End tenants' environments, as Lambda does to reclaim capacity. Busy environments finish an invocation first.

        Args:
            count: Maximum number of environments to end.
            chance: Random generator that picks the environments.

        Returns:
            The tenant of each reclaimed environment.
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

    async def close(self) -> None:
        """End all environments, including busy environments."""
        if closings := [asyncio.ensure_future(environment.close()) for environment in self._environments]:
            await asyncio.wait(closings, timeout=_CLOSE_LIMIT_S)
        self._forks.stop()  # kills all processes that are still running
        await asyncio.gather(*closings, return_exceptions=True)

    async def _first_free(self, pool: _Pool) -> Environment | None:
        """Wait for a free environment or a start slot. Return the environment, or None if the start slot is acquired.

        Start slots limit concurrent cold starts, which would slow each other down and so cause further cold starts.
        The caller has reserved a slot in the pool. It is released unless a start slot was acquired.
        """
        if not self._starting.locked():
            await self._starting.acquire()
            return None
        turn: asyncio.Future[Environment | None] = asyncio.get_running_loop().create_future()
        pool.turns.append(turn)
        start_slot = asyncio.ensure_future(self._starting.acquire())
        try:
            await asyncio.wait([cast("asyncio.Future[Any]", turn), start_slot], return_when=asyncio.FIRST_COMPLETED)
            if turn.done() and turn.result() is None:  # the slot of an ended environment, next to the reserved one
                await asyncio.wait([start_slot])
        except asyncio.CancelledError:
            self._decline(pool, turn)
            self._cancel_start_slot(start_slot)
            self._make_room(pool)
            raise
        if turn.cancel():
            return None
        self._make_room(pool)  # the surplus slot: either the reserved one or that of an ended environment
        if (environment := turn.result()) is not None:
            self._cancel_start_slot(start_slot)
        return environment

    async def _acquire_start_slot(self, pool: _Pool) -> None:
        """Wait for a start slot. A cancelled caller's slot in the pool goes to the next invocation."""
        try:
            await self._starting.acquire()
        except asyncio.CancelledError:
            self._make_room(pool)
            raise

    def _cancel_start_slot(self, start_slot: asyncio.Future[Any]) -> None:
        """Cancel the acquisition of a start slot, or release the slot if it has been acquired."""
        if not start_slot.cancel():
            self._starting.release()

    async def _release_start_slot(self, environment: Environment) -> None:
        """Release the start slot when the environment is ready, or after `_START_S` at the latest."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(environment.ready(), _START_S)
        self._starting.release()

    async def _start(self, spec: FunctionSpec, pool: _Pool) -> Environment:
        """Start an environment, and return it during its init phase. The caller must have acquired a start slot."""
        environment = Environment(spec, self._forks, self._logs / f"{spec.name}.log")
        try:
            await environment.start(self._clock_ahead_s())
        except BaseException:
            self._make_room(pool)
            self._starting.release()
            raise
        self._environments.add(environment)
        self._background.begin(self._release_start_slot(environment))
        return environment

    async def _wait_for_turn(self, spec: FunctionSpec, pool: _Pool) -> Environment | None:
        turn: asyncio.Future[Environment | None] = asyncio.get_running_loop().create_future()
        pool.turns.append(turn)
        try:
            await asyncio.wait([turn], timeout=spec.timeout_s)
        except asyncio.CancelledError:
            self._decline(pool, turn)
            raise
        if turn.cancel():
            raise ThrottledError(f"Rate Exceeded: {pool.count} environments of {spec.name} are busy")
        return turn.result()

    def _decline(self, pool: _Pool, turn: asyncio.Future[Environment | None]) -> None:
        """Leave the queue, and pass on an environment or slot that the turn has already received."""
        if turn.cancel():
            return
        if (environment := turn.result()) is None:
            self._make_room(pool)
        else:
            self._keep(pool, environment)

    @staticmethod
    def _make_room(pool: _Pool) -> None:
        """Release an ended environment's slot, so that the next invocation can start a new environment."""
        if not pool.pass_on(None):
            pool.count -= 1

    async def _release(self, spec: FunctionSpec, tenant_id: str, environment: Environment, outcome: Outcome) -> None:
        pool = self._pools[spec.name, tenant_id]
        is_usable = outcome.reusable and await environment.settle()
        pool.settling -= 1
        if not is_usable or pool.doomed:
            pool.doomed -= pool.doomed > 0
            self._make_room(pool)
            await self._discard(environment)
            return
        self._keep(pool, environment)

    def _keep(self, pool: _Pool, environment: Environment) -> None:
        """Pass a free environment to a queued invocation, or keep the environment until the idle timeout."""
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
        self._background.begin(self._discard(environment))

    async def _discard(self, environment: Environment) -> None:
        await environment.close()
        self._environments.discard(environment)  # after closing, so that `close` also waits for it
