"""The lease of a cache function on its key: one invocation acquires, renews, hands over and releases it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from burstcache.control.cache_requests import LifeRequests
from burstcache.control.cache_tools import CacheTask, CacheTools, End
from burstcache.core.cache_lives import CacheLife
from burstcache.core.deadlines import ANNOUNCED_S
from burstcache.core.errors import InvocationEndsTransientError, ServiceError
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import KeyRow
from burstcache.core.table import KeyColumns
from burstcache.logs import logger

_HEARTBEAT_S = 15  # the state's heartbeat times out after 60 s
_HAND_OVER_US = 60 * US_PER_S  # lead time: enough to start the next invocation twice if the first start fails
_HAND_OVER_POLL_S = 1


@dataclass(slots=True)
class CacheLease:
    """A lease on a key. The key's row names the holder, which is at most one invocation of a life."""

    task: CacheTask
    tools: CacheTools
    life: CacheLife
    requests: LifeRequests
    finish: Callable[[End], None]  # ends the invocation
    is_handed_over: bool = False  # the next invocation was requested, but may not be serving yet

    async def acquire(self) -> KeyRow | None:
        """Acquire the lease and return the key's row, or None if another invocation holds the lease.

        Lambda may invoke the function twice for one event, and only one invocation may serve.
        """
        now_us = self.tools.clock.now_us()
        claim = KeyColumns(
            tier="lambda",
            holder=self.task.holder,
            attempt=self.task.attempt,
            ready_at_us=now_us,
            deadline_at_us=now_us + ANNOUNCED_S * US_PER_S,
        )
        row = await asyncio.to_thread(
            self.tools.keys.update,
            self.task.hash,
            epoch=self.task.epoch,
            set_=claim,
            unless_held=True,
            while_tier="" if self.task.token else "lambda",  # Redis may have taken over meanwhile
        )
        return None if row is None or row.trigger is None else row

    async def renew(self) -> None:
        """Send heartbeats, and end the invocation once the lease is lost.

        If Step Functions is unreachable, check the row, because writes do not invalidate the copy of a cache function
        that has long outlived its life.
        """
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            try:
                # A promoted life's task is complete or about to be completed. A failed promotion is rolled back.
                if self.life.is_promoted or not await self._heartbeat():
                    await self.check()
            except (ServiceError, TimeoutError):
                logger().warning("heartbeat failed, the next one tries again", exc_info=True)
                with suppress(ServiceError):
                    await self._leave_if_lost()

    async def check(self) -> None:
        """End the invocation if the lease is lost. Otherwise serve until Redis or the next invocation takes over."""
        if not (await self._leave_if_lost() or self.life.is_promoted or self.is_handed_over):
            self.life.promote()

    async def _heartbeat(self) -> bool:
        heartbeat = asyncio.to_thread(self.tools.executions.heartbeat, self.task.token)
        return await asyncio.wait_for(heartbeat, _HEARTBEAT_S)

    async def _leave_if_lost(self) -> bool:
        """End the invocation and return True if the lease is lost."""
        row = await asyncio.to_thread(self.tools.keys.read, self.task.hash)
        if row is not None and self._is_holder(row) and row.tier == "lambda":
            return False
        self.finish("handed_over" if self.is_handed_over else "superseded")
        return True

    async def hand_over(self, end_by_us: int, outlives_invocation: Callable[[], bool]) -> None:
        """Start the next invocation a minute before this one ends if the life continues. Serve until the handover."""
        await asyncio.sleep((end_by_us - _HAND_OVER_US - self.tools.clock.now_us()) / US_PER_S)
        while True:
            try:
                if self.is_handed_over:
                    await self.check()
                elif outlives_invocation():
                    await self._start_next()
            except ServiceError:
                logger().warning("cannot hand the key over yet", exc_info=True)
            await asyncio.sleep(_HAND_OVER_POLL_S)

    def release(self) -> None:
        """Remove the route and save the last request times in the row. Call this before unsubscribing.

        Keep a route to Redis, since another step may be writing it concurrently.
        """
        row = self.tools.keys.read(self.task.hash)
        if row is None or not self._is_holder(row):
            return
        unsaved = [request for request in self.requests.newest() if request not in row.window]
        save = partial(
            self.tools.keys.update,
            self.task.hash,
            epoch=self.task.epoch,
            set_=self.life.columns(),
            append_window=unsaved,
            while_held_by=self.task.holder,
        )
        if row.tier != "lambda" or save(remove=["tier"], while_tier="lambda") is None:
            save()

    async def _start_next(self) -> None:
        """Save the life in the row, then fail the task so that its state retries and starts the next invocation."""
        if await asyncio.to_thread(self.tools.pauses.read) is not None:
            return
        window = [request.encode() for request in self.requests.newest()]
        columns = self.life.columns() | KeyColumns(window=window, served=self.requests.served)
        save = partial(self.tools.keys.update, epoch=self.task.epoch, set_=columns, while_held_by=self.task.holder)
        error = InvocationEndsTransientError(f"the invocation ends while {self.task.key!r} is in use")
        self.is_handed_over = True  # prevents promotions from now on
        try:
            if await asyncio.to_thread(save, self.task.hash) is not None:
                await asyncio.to_thread(self.tools.executions.fail, self.task.token, error)
        except ServiceError:
            self.is_handed_over = False
            raise

    def _is_holder(self, row: KeyRow) -> bool:
        """Return whether the row names this invocation as the holder."""
        return (row.epoch, row.holder) == (self.task.epoch, self.task.holder)
