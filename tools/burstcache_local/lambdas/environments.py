"""Execution environments, kept warm per function and tenant.

Each function has a limited number of environments, which AWS's does not: here they share a few cores, and ninety cold
starts at once would keep every request waiting longer than its client does. Further invocations wait for a free one, in
turn and for at most the function's own time limit; then they are throttled as on AWS. A function with Lambda's longest
time limit is exempt: its invocations run for as long as they are needed, so that none would get its turn. As many
environments start at a time as there are cores: an invocation that would start another takes the first that is free.
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
_START_S = 1.0  # an init phase that takes longer waits for something, and not for a processor
_LONGEST_TIMEOUT_S = 900


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


class Environments:
    """The execution environments of all functions. All methods belong to one event loop."""

    def __init__(
        self, logs: Path, limits: LambdaLimits, background: Background, clock_ahead_s: Callable[[], float]
    ) -> None:
        """Have none.

        Args:
            logs: Folder of the functions' logs.
            limits: How many a function may have, and how long one may be idle.
            background: Does what invocations need not wait for.
            clock_ahead_s: How far the clock of the next one is ahead [s].
        """
        self._logs, self._limits, self._background = logs, limits, background
        self._clock_ahead_s = clock_ahead_s
        self._forks = Forks(logs / "zygote.log")
        self._pools: dict[tuple[str, str], _Pool] = defaultdict(_Pool)
        self._reapers: dict[Environment, asyncio.TimerHandle] = {}
        self._environments: set[Environment] = set()
        self._starting = asyncio.Semaphore(max(2, os.cpu_count() or 1))

    def start(self) -> None:
        """Prepare for the first cold start."""
        self._forks.start()

    @property
    def all(self) -> frozenset[Environment]:
        """Those included whose process has ended since their last event."""
        return frozenset(self._environments)

    async def take(self, spec: FunctionSpec, tenant_id: str) -> Environment:
        """Return the free environment that was used last, a new one, or the first that becomes free.

        Raises:
            ThrottledError: None became free within the function's time limit.
        """
        pool = self._pools[spec.name, tenant_id]
        while pool.free:
            environment = pool.free.pop()
            self._reapers.pop(environment).cancel()
            if not environment.is_lost:
                return environment
            pool.count -= 1
            self._background.begin(self._discard(environment))
        if tenant_id and pool.settling > len(pool.turns):  # whose memory is wanted, and has been answered for
            return await self._wait_for_turn(spec, pool) or await self._start(spec, pool)
        if pool.count < self._limits.environments or spec.timeout_s >= _LONGEST_TIMEOUT_S:
            pool.count += 1
            return await self._first_free(pool) or await self._start(spec, pool)
        if (waited_for := await self._wait_for_turn(spec, pool)) is None:
            await self._starting.acquire()
        return waited_for or await self._start(spec, pool)

    def give_back(self, spec: FunctionSpec, tenant_id: str, environment: Environment, outcome: Outcome) -> None:
        """Keep an environment for the next invocation when it has settled, or end it."""
        self._pools[spec.name, tenant_id].settling += 1
        self._background.begin(self._release(spec, tenant_id, environment, outcome))

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

    async def provision(self, spec: FunctionSpec, count: int) -> None:
        """Start environments, one after the other, until this number are free, as provisioned concurrency does."""
        pool = self._pools[spec.name, ""]
        while len(pool.free) < count:
            pool.count += 1
            await self._starting.acquire()
            environment = await self._start(spec, pool)
            await environment.ready()
            self._keep(pool, environment)

    def end_free(self, names: Container[str] | None = None) -> None:
        """End environments that wait for an invocation: the next ones find new ones.

        Args:
            names: Of the functions whose environments end; None: all.
        """
        for (name, _), pool in self._pools.items():
            if names is None or name in names:
                for environment in list(pool.free):
                    self._reap(pool, environment)

    @property
    def of_tenants(self) -> int:
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

    async def close(self) -> None:
        """End all, busy ones too."""
        if closings := [asyncio.ensure_future(environment.close()) for environment in self._environments]:
            await asyncio.wait(closings, timeout=_CLOSE_LIMIT_S)
        self._forks.stop()  # and with it everything that did not end in time
        await asyncio.gather(*closings, return_exceptions=True)

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
        self._background.begin(self._started(environment))
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
        self._keep(pool, environment)

    def _keep(self, pool: _Pool, environment: Environment) -> None:
        """Give a free environment to the next invocation, now or when there is one."""
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
        self._environments.discard(environment)  # not earlier: the end of the service must find it
