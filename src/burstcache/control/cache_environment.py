"""The environment of a cache function: its relay connection and warm copies, which outlive an invocation."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from cachetools import LRUCache

from burstcache.adapters.calls import translated_transient_errors
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

_PAUSES_S = (1, 2, 4, 8)  # even slow attempts stay below the heartbeat timeout of 60 s
_AHEAD_S = 3  # connect timeout, within the 10 s of Lambda's INIT phase
_LEAVE_BEFORE_US = 10_000_000  # reserved at the invocation's end for the last writes and the drain


def warm_copies(max_bytes: int) -> LRUCache[str, Entry]:
    """Return an LRU cache of entries with a capacity of `max_bytes`."""
    return LRUCache(maxsize=max_bytes, getsizeof=lambda entry: len(entry.body) + 1)


@dataclass(slots=True)
class CacheEnvironment:
    """One execution environment, which runs one life after another."""

    tools: CacheTools
    relay: Relay
    warm: LRUCache[str, Entry]
    _loop: asyncio.AbstractEventLoop = field(init=False)

    def __post_init__(self) -> None:
        self._loop = self.tools.clock.new_event_loop()

    def connect_ahead(self) -> None:
        """Connect to the relay before the first life needs it. Ignore failures, since each life connects if needed."""
        with suppress(Exception):
            self._loop.run_until_complete(asyncio.wait_for(self.relay.open(), _AHEAD_S))

    def run(self, task: CacheTask, *, remaining_ms: int) -> End:
        """Serve the key of `task` until its life is over, and report the end to Step Functions."""
        end: End = "failed"
        began_us = self.tools.clock.now_us()
        try:
            end = self._loop.run_until_complete(self.live(task, remaining_ms=remaining_ms))
            return end
        finally:
            self.tools.meter.cache_ran(end, self.tools.clock.now_us() - began_us)

    def close(self) -> None:
        """Close the relay connection and the event loop."""
        self._loop.run_until_complete(self.relay.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def live(self, task: CacheTask, *, remaining_ms: int) -> End:
        """Run a life on the current event loop."""
        began_us = self.tools.clock.now_us()
        end_by_us = began_us + remaining_ms * 1000 - _LEAVE_BEFORE_US
        try:
            with translated_transient_errors():
                if await self._is_barred(task):
                    await self._complete(task, _unserved("idle"))
                    return "idle"
                await self.relay.open()
                cache = KeyCache(task, self.tools, partial(self._load, task.key), began_us, end_by_us)
                end = await cache.serve(self.relay)
        except Exception as error:
            return await asyncio.to_thread(self._report_failure, task, error)
        if end == "idle" or end == "gone":
            await self._complete(task, cache.over(end))
        elif end == "superseded":
            await asyncio.to_thread(self._fail_if_superseded, task)
        return end

    async def _is_barred(self, task: CacheTask) -> bool:
        """Return whether this invocation would replace an earlier invocation while the stack is paused."""
        return bool(task.attempt and task.token) and await asyncio.to_thread(self.tools.pauses.read) is not None

    async def _complete(self, task: CacheTask, over: LambdaOver) -> None:
        """Complete the task. Retry while Step Functions is unreachable."""
        for pause_s in _PAUSES_S:
            try:
                await asyncio.to_thread(self.tools.executions.succeed, task.token, over)
                return
            except ServiceTransientError:
                logger().warning("cannot report the end of the life yet", exc_info=True)
                await asyncio.sleep(pause_s)
        await asyncio.to_thread(self.tools.executions.succeed, task.token, over)

    def _load(self, key: str, last: Entry | None) -> Entry:
        """Return the current object. Reuse the last or the warm copy if S3 confirms that this copy is current."""
        copy, objects, max_bytes = last or self.warm.get(key), self.tools.objects, self.tools.max_object_bytes
        if copy is None:
            entry = objects.fetch(key, max_bytes=max_bytes)
        else:
            entry = objects.fetch_if_newer(key, copy, max_bytes=max_bytes) or copy
        self.warm[key] = entry
        return entry

    def _report_failure(self, task: CacheTask, error: Exception) -> End:
        """Fail the task unless another invocation of the same attempt holds the key.

        A missing or too large object ends the life normally.
        """
        row = self._row(task)
        if row is not None and row.holder not in ("", task.holder) and _is_same_attempt(row, task):
            return "failed"
        if isinstance(error, (ObjectNotFoundError, ObjectTooLargeError)):
            self.tools.executions.succeed(task.token, _unserved("gone"))
            return "gone"
        self.tools.executions.fail(task.token, error)
        if isinstance(error, BurstcacheError):
            return "failed"
        raise error

    def _fail_if_superseded(self, task: CacheTask) -> None:
        """Fail the task if another life or attempt holds the key. No other invocation would complete the task."""
        row = self._row(task)
        if row is not None and not _is_same_attempt(row, task):
            error = SupersededError(f"{task.key!r} belongs to attempt {row.attempt} of the life {row.epoch}")
            self.tools.executions.fail(task.token, error)

    def _row(self, task: CacheTask) -> KeyRow | None:
        """Return the key's row, or None if it is missing or DynamoDB fails."""
        try:
            return self.tools.keys.read(task.hash)
        except ServiceError:
            logger().warning("the key's row cannot be read", exc_info=True)
            return None


def _is_same_attempt(row: KeyRow, task: CacheTask) -> bool:
    """Return whether the row has this task's life and attempt, so that the row's holder has the same token."""
    return (row.epoch, row.attempt) == (task.epoch, task.attempt)


def _unserved(outcome: Literal["idle", "gone"]) -> LambdaOver:
    """Return the result of a life that has served no request."""
    return LambdaOver(
        outcome=outcome,
        served=0,
        first_request="",
        last_request="",
        estimated_usd=0.0,
        estimate_covers=CACHE_FUNCTION,
    )
