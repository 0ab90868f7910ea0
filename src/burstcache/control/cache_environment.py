"""What outlives an invocation of the cache function: the connection to the relay and warm copies of objects."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from cachetools import LRUCache

from burstcache.adapters.calls import passing_failures_named
from burstcache.control.cache_life import KeyCache
from burstcache.control.cache_tools import CacheTask, CacheTools, End, Relay
from burstcache.core.errors import (
    BurstcacheError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    ServiceError,
    ServiceTransientError,
    SupersededError,
)
from burstcache.core.messages.answers import CACHE_FUNCTION, LambdaOver
from burstcache.core.rows import KeyRow
from burstcache.logs import logger
from burstcache.web.entry import Entry

_PAUSES_S = (1, 2, 4, 8)  # below the heartbeat's 60 s, also if each attempt takes its time
_AHEAD_S = 3  # of the ten seconds that Lambda gives INIT
_LEAVE_BEFORE_US = 10_000_000  # of the invocation's end: for the last writes and the drain


def warm_copies(max_bytes: int) -> LRUCache[str, Entry]:
    """Return a store of entries that forgets the least recently used ones beyond `max_bytes`."""
    return LRUCache(maxsize=max_bytes, getsizeof=lambda entry: len(entry.body) + 1)


@dataclass(slots=True)
class CacheEnvironment:
    """One execution environment; it runs one life after the other."""

    tools: CacheTools
    relay: Relay
    warm: LRUCache[str, Entry]
    _loop: asyncio.AbstractEventLoop = field(init=False)

    def __post_init__(self) -> None:
        self._loop = self.tools.clock.new_event_loop()

    def connect_ahead(self) -> None:
        """Be connected to the relay before the first life needs it; a failure is left to that life."""
        with suppress(Exception):
            self._loop.run_until_complete(asyncio.wait_for(self.relay.open(), _AHEAD_S))

    def run(self, task: CacheTask, *, remaining_ms: int) -> End:
        """Hold the key of `task` until the life is over; report to its token whatever happens."""
        end: End = "failed"
        began_us = self.tools.clock.now_us()
        try:
            end = self._loop.run_until_complete(self.live(task, remaining_ms=remaining_ms))
            return end
        finally:
            self.tools.meter.cache_ran(end, self.tools.clock.now_us() - began_us)

    def close(self) -> None:
        """Leave the relay."""
        self._loop.run_until_complete(self.relay.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def live(self, task: CacheTask, *, remaining_ms: int) -> End:
        """Run a life on the running loop."""
        began_us = self.tools.clock.now_us()
        end_by_us = began_us + remaining_ms * 1000 - _LEAVE_BEFORE_US
        try:
            with passing_failures_named():
                if await self._may_not_follow(task):
                    await self._complete(task, _without_a_request("idle"))
                    return "idle"
                await self.relay.open()
                cache = KeyCache(task, self.tools, partial(self._load, task.key), began_us, end_by_us)
                end = await cache.serve(self.relay)
        except Exception as error:
            return await asyncio.to_thread(self._end_badly, task, error)
        if end == "idle" or end == "gone":
            await self._complete(task, cache.over(end))
        elif end == "superseded":
            await asyncio.to_thread(self._leave, task)
        return end

    async def _may_not_follow(self, task: CacheTask) -> bool:
        """Whether the stack is paused, so that no cache function takes the place of another."""
        return bool(task.attempt and task.token) and await asyncio.to_thread(self.tools.pauses.read) is not None

    async def _complete(self, task: CacheTask, over: LambdaOver) -> None:
        """Complete the task, also after a spell in which Step Functions does not answer."""
        for pause_s in _PAUSES_S:
            try:
                await asyncio.to_thread(self.tools.executions.succeed, task.token, over)
                return
            except ServiceTransientError:
                logger().warning("the end of the life cannot be reported yet", exc_info=True)
                await asyncio.sleep(pause_s)
        await asyncio.to_thread(self.tools.executions.succeed, task.token, over)

    def _load(self, key: str, known: Entry | None) -> Entry:
        """Return the object: the one that is known, or a warm copy, if S3 confirms it, or a new one."""
        copy, objects, max_bytes = known or self.warm.get(key), self.tools.objects, self.tools.max_object_bytes
        if copy is None:
            entry = objects.fetch(key, max_bytes=max_bytes)
        else:
            entry = objects.fetch_if_newer(key, copy, max_bytes=max_bytes) or copy
        self.warm[key] = entry
        return entry

    def _end_badly(self, task: CacheTask, error: Exception) -> End:
        """Fail the task, unless another invocation has its token, too; without its object the life is just over."""
        row = self._row(task)
        if row is not None and row.holder not in ("", task.holder) and _is_same_attempt(row, task):
            return "failed"
        if isinstance(error, (ObjectNotFoundError, ObjectTooLargeError)):
            self.tools.executions.succeed(task.token, _without_a_request("gone"))
            return "gone"
        self.tools.executions.fail(task.token, error)
        if isinstance(error, BurstcacheError):
            return "failed"
        raise error

    def _leave(self, task: CacheTask) -> None:
        """Fail the task at once if another life or attempt holds the key: nobody else has its token."""
        row = self._row(task)
        if row is not None and not _is_same_attempt(row, task):
            error = SupersededError(f"{task.key!r} belongs to attempt {row.attempt} of the life {row.epoch}")
            self.tools.executions.fail(task.token, error)

    def _row(self, task: CacheTask) -> KeyRow | None:
        """Return the key's row; None if there is none, or DynamoDB does not give it."""
        try:
            return self.tools.keys.read(task.hash)
        except ServiceError:
            logger().warning("the key's row cannot be read", exc_info=True)
            return None


def _is_same_attempt(row: KeyRow, task: CacheTask) -> bool:
    """Whether the row's holder and this task have one token."""
    return (row.epoch, row.attempt) == (task.epoch, task.attempt)


def _without_a_request(outcome: Literal["idle", "gone"]) -> LambdaOver:
    """Return the end of a life whose object is not held."""
    return LambdaOver(
        outcome=outcome,
        served=0,
        first_request="",
        last_request="",
        estimated_usd=0.0,
        estimate_covers=CACHE_FUNCTION,
    )
