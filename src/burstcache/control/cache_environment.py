"""What outlives an invocation of the cache function: the connection to the relay and warm copies of objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from cachetools import LRUCache
from nats.aio.client import Client

from burstcache.adapters import relay
from burstcache.adapters.clock import now_us
from burstcache.control.cache_life import CacheTask, CacheTools, End, KeyCache
from burstcache.core.errors import BurstcacheError
from burstcache.settings import Settings
from burstcache.web.entry import Entry

_LEAVE_BEFORE_US = 10_000_000  # of the invocation's end: for the last writes and the drain
_ALIVE_WITHIN_S = 0.3
_CONNECT_WITHIN_S = 5  # nobody waits for this life but its state, and many may connect at once


def warm_copies(max_bytes: int) -> LRUCache[str, Entry]:
    """Return a store of entries that forgets the least recently used ones beyond `max_bytes`."""
    return LRUCache(maxsize=max_bytes, getsizeof=lambda entry: len(entry.body) + 1)


@dataclass(slots=True)
class CacheEnvironment:
    """One execution environment; it runs one life after the other."""

    settings: Settings
    tools: CacheTools
    warm: LRUCache[str, Entry]
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _relay: Client | None = None

    def run(self, task: CacheTask, *, remaining_ms: int) -> End:
        """Hold the key of `task` until the life is over; report to its token whatever happens."""
        end_by_us = now_us() + remaining_ms * 1000 - _LEAVE_BEFORE_US
        try:
            end = self._loop.run_until_complete(self._live(task, end_by_us))
        except Exception as error:
            self._report_failure(task, error)
            if isinstance(error, BurstcacheError):
                return "failed"
            raise
        if end == "idle":
            self.tools.executions.succeed(task.token, {"outcome": "idle"})
        return end

    def close(self) -> None:
        """Leave the relay."""
        if self._relay is not None:
            self._loop.run_until_complete(self._relay.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _live(self, task: CacheTask, end_by_us: int) -> End:
        # Both come to an end before either's failure counts: a connection half made would outlive the life unseen.
        entry, client = await asyncio.gather(
            asyncio.to_thread(self._load, task.key), self._connected(), return_exceptions=True
        )
        if isinstance(entry, BaseException):
            raise entry
        if isinstance(client, BaseException):
            raise client
        return await KeyCache(task, self.tools, entry, end_by_us).serve(client)

    def _load(self, key: str) -> Entry:
        """Return the object: a warm copy that S3 confirms, or a new one."""
        copy = self.warm.get(key)
        newer = self.tools.objects.fetch(
            key, max_bytes=self.tools.max_object_bytes, if_none_match=copy.etag if copy else None
        )
        entry = newer or copy
        if entry is None:
            raise BurstcacheError(f"S3 answered 304 to an unconditional GET of {key!r}")
        self.warm[key] = entry
        return entry

    async def _connected(self) -> Client:
        """Return a connection that answers: the one of the last life may have died while the environment was frozen."""
        if self._relay is not None:
            try:
                await self._relay.flush(timeout=_ALIVE_WITHIN_S)  # type: ignore[arg-type]
                return self._relay
            except Exception:
                await self._relay.close()
        self._relay = await relay.connect(
            self.settings, timeout_s=_CONNECT_WITHIN_S, allow_reconnect=True, max_reconnect_attempts=-1
        )
        return self._relay

    def _report_failure(self, task: CacheTask, error: Exception) -> None:
        """Fail the task, unless another invocation holds the key: the token is its own then."""
        row = self.tools.keys.read(task.hash)
        if row is None or row.holder in ("", task.holder):
            self.tools.executions.fail(task.token, error)
