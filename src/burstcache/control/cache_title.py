"""The title of one invocation of the cache function to its key: claimed, kept, handed over, given up."""

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

_HEARTBEAT_S = 15  # the state allows 60 s
_HAND_OVER_US = 60 * US_PER_S  # before the invocation ends: two starts of the next one, should the first fail
_HAND_OVER_POLL_S = 1


@dataclass(slots=True)
class Title:
    """Whether an invocation holds its key: the row names it, and of the invocations of a life only one."""

    task: CacheTask
    tools: CacheTools
    life: CacheLife
    requests: LifeRequests
    finish: Callable[[End], None]  # ends the invocation
    is_handed_over: bool = False  # to the next invocation, which may not serve yet

    async def claim(self) -> KeyRow | None:
        """Claim the key, since Lambda may invoke twice and only one may serve; None: another one holds it."""
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

    async def keep(self) -> None:
        """Send heartbeats, and leave when the key is no longer held.

        Without Step Functions the row says so: nobody tells a cache function of writes that has long outlived its life.
        """
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            try:
                # Of a promoted life the task is complete, or about to be: a promotion that fails is taken back.
                if self.life.is_promoted or not await self._beats():
                    await self.check()
            except (ServiceError, TimeoutError):
                logger().warning("heartbeat failed; the next one may not", exc_info=True)
                with suppress(ServiceError):
                    await self._leaves()

    async def check(self) -> None:
        """Leave unless the row still leads here. If it does and the task is over, Redis is awaited, or the next one."""
        if not (await self._leaves() or self.life.is_promoted or self.is_handed_over):
            self.life.promote()

    async def _beats(self) -> bool:
        beating = asyncio.to_thread(self.tools.executions.heartbeat, self.task.token)
        return await asyncio.wait_for(beating, _HEARTBEAT_S)

    async def _leaves(self) -> bool:
        """Leave unless the row still leads here, and return whether it does not."""
        row = await asyncio.to_thread(self.tools.keys.read, self.task.hash)
        if row is not None and self._is_in(row) and row.tier == "lambda":
            return False
        self.finish("handed_over" if self.is_handed_over else "superseded")
        return True

    async def hand_over(self, end_by_us: int, goes_on: Callable[[], bool]) -> None:
        """Before the invocation ends, have the next one start if the life goes on; serve until that one does."""
        await asyncio.sleep((end_by_us - _HAND_OVER_US - self.tools.clock.now_us()) / US_PER_S)
        while True:
            try:
                if self.is_handed_over:
                    await self.check()
                elif goes_on():
                    await self._start_next()
            except ServiceError:
                logger().warning("the key cannot be handed over yet", exc_info=True)
            await asyncio.sleep(_HAND_OVER_POLL_S)

    def give_up(self) -> None:
        """Take the route off and leave the times of the last requests in the row, before the subscription ends.

        A route to Redis, which may be written at this moment, stays.
        """
        row = self.tools.keys.read(self.task.hash)
        if row is None or not self._is_in(row):
            return
        unknown = [request for request in self.requests.newest() if request not in row.window]
        leave = partial(
            self.tools.keys.update,
            self.task.hash,
            epoch=self.task.epoch,
            set_=self.life.columns(),
            append_window=unknown,
            while_held_by=self.task.holder,
        )
        if row.tier != "lambda" or leave(remove=["tier"], while_tier="lambda") is None:
            leave()

    async def _start_next(self) -> None:
        """Leave what the life knows in the row, and have the state start its function again."""
        if await asyncio.to_thread(self.tools.pauses.read) is not None:
            return
        window = [request.encode() for request in self.requests.newest()]
        left = self.life.columns() | KeyColumns(window=window, served=self.requests.served)
        leave = partial(self.tools.keys.update, epoch=self.task.epoch, set_=left, while_held_by=self.task.holder)
        error = InvocationEndsTransientError(f"the invocation ends, and {self.task.key!r} is still asked for")
        self.is_handed_over = True  # nothing is promoted from here on
        try:
            if await asyncio.to_thread(leave, self.task.hash) is not None:
                await asyncio.to_thread(self.tools.executions.fail, self.task.token, error)
        except ServiceError:
            self.is_handed_over = False
            raise

    def _is_in(self, row: KeyRow) -> bool:
        return (row.epoch, row.holder) == (self.task.epoch, self.task.holder)
