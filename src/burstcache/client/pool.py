"""The pool in a reader's process: a hub on an event loop of its own, in a thread that starts at the first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock
from burstcache.core.pool.slices import Version
from burstcache.logs import logger

if TYPE_CHECKING:
    from burstcache.pool.open_pool import OpenPool
    from burstcache.pool.read_through import Fetch, ReadThrough

_POOL = "pool"
_SETTLE_LIMIT_S = 5.0  # of waiting for what is on its way into the pool when a client closes


PoolOpener = Callable[[], AbstractAsyncContextManager["OpenPool"]]


class PoolThread:
    """Reads through a pool from any thread. If the pool cannot be opened, S3 serves, and it is tried again later.

    Args:
        opener: Opens the pool on the event loop that calls it.
        clock: What heat goes by.
    """

    def __init__(self, opener: PoolOpener, clock: Clock) -> None:
        self._opener = opener
        self._clock = clock
        self._breakers = Breakers(clock)
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def read(self, version: Version, start: int, into: memoryview, fetch: Fetch, threads: Executor) -> Future[bool]:
        """Begin to read a part of one slice; arguments, result and errors are those of `ReadThrough.read`."""
        running = self._started(threads)
        if running is None:
            return threads.submit(fetched, fetch, start, into)
        return asyncio.run_coroutine_threadsafe(running.through.read(version, start, into, fetch), running.loop)

    def close(self) -> None:
        """End the thread, when what is on its way into the pool is there, or after some seconds."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.end()

    def _started(self, threads: Executor) -> _Running | None:
        if self._running is None and not self._breakers.is_open(_POOL):
            with self._lock:
                if self._running is None:
                    self._running = self._start(threads)
        return self._running

    def _start(self, threads: Executor) -> _Running | None:
        # With prices, codes and checksums, which few processes need.
        from burstcache.core.pool.heat import SliceHeat
        from burstcache.pool.read_through import ReadThrough

        async def open_(ends: AsyncExitStack) -> ReadThrough:
            pool = await ends.enter_async_context(self._opener())
            heat = SliceHeat(pays_within_s=pool.pays_within_s)
            through = ReadThrough(pool.reader, pool.redundancies, heat, threads, self._clock, pool.seen)
            ends.push_async_callback(asyncio.wait_for, through.settle(), _SETTLE_LIMIT_S)
            return through

        try:
            return _Running(open_)
        except Exception as error:  # whatever it is, S3 has the objects
            self._breakers.fail(_POOL)
            logger().warning("the pool cannot be opened, S3 serves", reason=repr(error))
            return None


class _Running:
    """The thread while it runs."""

    def __init__(self, open_: Callable[[AsyncExitStack], Awaitable[ReadThrough]]) -> None:
        """Start it, and return when the pool is open; raise what opening it raises."""
        opened: Future[tuple[ReadThrough, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def live() -> None:
            end = asyncio.Event()
            async with AsyncExitStack() as ends:
                opened.set_result((await open_(ends), asyncio.get_running_loop(), end))
                await end.wait()

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(live())
            except Exception as error:
                if not opened.done():
                    opened.set_exception(error)
                else:
                    logger().warning("the pool was not left in order", reason=repr(error))

        self._thread = threading.Thread(target=run, name="burstcache-pool", daemon=True)
        self._thread.start()
        self.through, self.loop, self._end = opened.result()

    def end(self) -> None:
        """Leave the pool."""
        self.loop.call_soon_threadsafe(self._end.set)
        if threading.current_thread() is not self._thread:  # it had the last reference to the client
            self._thread.join()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def fetched(fetch: Fetch, start: int, into: memoryview) -> bool:
    """Read a part from S3, and return that it did not come from the pool."""
    fetch(start, into)
    return False
