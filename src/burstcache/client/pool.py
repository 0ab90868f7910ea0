"""The pool in a reader's process: a hub on an event loop of its own, in a thread that starts at the first use."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock
from burstcache.core.pool.slices import Version
from burstcache.logs import logger

if TYPE_CHECKING:
    from burstcache.pool.open_pool import OpenPool
    from burstcache.pool.read_through import Fetch, ReadThrough

_POOL = "pool"
_OPEN_LIMIT_S = 2.0  # for which the first read waits until the pool is open
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
        self._is_closed = False

    def read(self, version: Version, start: int, into: memoryview, fetch: Fetch, threads: Executor) -> Future[bool]:
        """Begin to read a part of one slice; arguments, result and errors are those of `ReadThrough.read`."""
        with self._lock:  # what is begun before the end is cancelled by it, and nothing is begun after it
            if (through := self._opened(threads)) is not None and self._running is not None:
                return asyncio.run_coroutine_threadsafe(through.read(version, start, into, fetch), self._running.loop)
        return threads.submit(fetched, fetch, start, into)

    def close(self) -> None:
        """End the thread, when what is on its way into the pool is there, or after some seconds."""
        with self._lock:
            running, self._running = self._running, None
            self._is_closed = True
        if running is not None:
            running.end()

    def _opened(self, threads: Executor) -> ReadThrough | None:
        """Return the pool, for which the first read waits a little; None: not yet, or not at all."""
        wait_s = 0.0
        if self._running is None:
            if self._is_closed or self._breakers.is_open(_POOL):
                return None
            try:
                self._running, wait_s = _Running(partial(self._open, threads)), _OPEN_LIMIT_S
                _close_at_exit(self)
            except Exception as error:  # no thread to be had, or no file for its loop
                self._fail(error)
                return None
        opened = self._running.opened
        wait((opened,), wait_s)
        if not opened.done():
            return None
        if (failure := opened.exception()) is None:
            self._breakers.succeed(_POOL)
            return opened.result()
        self._running = None
        self._fail(failure)
        return None

    def _fail(self, error: BaseException) -> None:
        """Leave the pool alone for a while."""
        self._breakers.fail(_POOL)
        logger().warning("the pool cannot be opened, S3 serves", reason=repr(error))

    async def _open(self, threads: Executor, ends: AsyncExitStack) -> ReadThrough:
        # With prices, codes and checksums, which few processes need.
        from burstcache.core.pool.heat import SliceHeat
        from burstcache.pool.read_through import ReadThrough

        pool = await ends.enter_async_context(self._opener())
        heat = SliceHeat(pays_within_s=pool.pays_within_s)
        through = ReadThrough(pool.reader, pool.redundancies, heat, threads, self._clock, pool.seen)
        ends.push_async_callback(_settle, through)
        return through


def _close_at_exit(pool: PoolThread) -> None:
    """Leave a pool that the program does not close while threads can still be used: its last report needs one.

    `atexit` comes after the end of all executors. What CPython's own executors end by comes before, last in, first out.
    """
    if (register := getattr(threading, "_register_atexit", None)) is None:
        return
    reference = weakref.ref(pool)

    def close() -> None:
        if (left := reference()) is not None:
            left.close()

    with suppress(RuntimeError):  # the interpreter ends already
        register(close)


async def _settle(through: ReadThrough) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(through.settle(), _SETTLE_LIMIT_S)


class _Running:
    """The thread while it runs. `opened` is the pool, or what opening it has raised.

    Raises:
        Exception: There is no thread to be had, or no event loop.
    """

    def __init__(self, open_: Callable[[AsyncExitStack], Awaitable[ReadThrough]]) -> None:
        self.opened: Future[ReadThrough] = Future()
        begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def live() -> None:
            end = asyncio.Event()
            begun.set_result((asyncio.get_running_loop(), end))
            async with AsyncExitStack() as ends:
                self.opened.set_result(await open_(ends))
                await end.wait()

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(live())
            except Exception as error:
                if not begun.done():
                    begun.set_exception(error)
                elif not self.opened.done():
                    self.opened.set_exception(error)
                else:
                    logger().warning("the pool was not left in order", reason=repr(error))

        self._thread = threading.Thread(target=run, name="burstcache-pool", daemon=True)
        self._thread.start()
        self.loop, self._end = begun.result()

    def end(self) -> None:
        """Leave the pool, once it is open."""
        with suppress(RuntimeError):  # it could not be opened
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
