"""The pool in a reader's process: its hub runs on its own event loop, in a thread that starts on first use."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from burstcache.adapters.circuit_breaker import CircuitBreakers
from burstcache.adapters.clock import Clock
from burstcache.core.slices import Version
from burstcache.logs import logger

if TYPE_CHECKING:
    import asyncio

    from burstcache.pool.open_pool import OpenPool
    from burstcache.pool.read_through import Fetch, ReadThrough

_POOL = "pool"
_OPEN_LIMIT_S = 2.0  # how long the first read waits for the pool to open
_SETTLE_LIMIT_S = 5.0  # how long a closing client waits for pending writes to the pool


PoolOpener = Callable[[], AbstractAsyncContextManager["OpenPool"]]


class PoolThread:
    """A pool for all threads of a process. If it cannot be opened, S3 serves reads, and a later read tries again.

    Args:
        opener: Opens the pool on the event loop that calls it.
        clock: Clock for admission and the circuit breaker.
    """

    def __init__(self, opener: PoolOpener, clock: Clock) -> None:
        self._opener = opener
        self._clock = clock
        self._breakers = CircuitBreakers(clock)
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._is_closed = False

    def read(self, version: Version, start: int, into: memoryview, fetch: Fetch, threads: Executor) -> Future[bool]:
        """Start reading a part of one slice. See `ReadThrough.read` for arguments, result and errors."""
        running, wait_s = self._started(threads)
        if running is not None:
            wait((running.opened,), wait_s)  # without the lock: other reads and `close` go on
            with self._lock:  # `close` cancels earlier reads, and no read starts after it
                if (through := self._opened(running)) is not None:
                    import asyncio  # lazy import: most programs have no pool

                    return asyncio.run_coroutine_threadsafe(through.read(version, start, into, fetch), running.loop)
        return threads.submit(fetched, fetch, start, into)

    def close(self) -> None:
        """Wait up to 5 s for pending writes to the pool, then end the thread."""
        with self._lock:
            running, self._running = self._running, None
            self._is_closed = True
        if running is not None:
            running.end()

    def _started(self, threads: Executor) -> tuple[_Running | None, float]:
        """Return the running thread, if any, and how long to wait for the pool to open: only the first read waits."""
        with self._lock:
            if self._running is not None:
                return self._running, 0.0
            if self._is_closed or self._breakers.is_open(_POOL):
                return None, 0.0
            try:
                self._running = _Running(partial(self._open, threads))
                _close_at_exit(self)
            except Exception as error:  # no thread or event loop could be created
                self._record_failure(error)
            return self._running, _OPEN_LIMIT_S

    def _opened(self, running: _Running) -> ReadThrough | None:
        """Return the pool. None: it is not open, or no longer in use."""
        opened = running.opened
        if running is not self._running or not opened.done():
            return None
        if (failure := opened.exception()) is None:
            self._breakers.record_success(_POOL)
            return opened.result()
        self._running = None
        self._record_failure(failure)
        return None

    def _record_failure(self, error: BaseException) -> None:
        self._breakers.record_failure(_POOL)
        logger().warning("the pool cannot be opened, S3 serves", reason=repr(error))

    async def _open(self, threads: Executor, exits: AsyncExitStack) -> ReadThrough:
        # Lazy imports (prices, erasure codes, checksums): few processes need them.
        from burstcache.core.pool.admission import SliceAdmission
        from burstcache.pool.read_through import ReadThrough

        pool = await exits.enter_async_context(self._opener())
        admission = SliceAdmission(pays_within_s=pool.pays_within_s)
        through = ReadThrough(pool.reader, pool.redundancies, admission, threads, self._clock, pool.counters)
        exits.push_async_callback(_settle, through)
        return through


def _close_at_exit(pool: PoolThread) -> None:
    """Close a pool at interpreter exit, unless the program has closed it, while threads can still send its last report.

    `atexit` runs after all executors have ended. The private hook of CPython's own executors runs earlier, in LIFO
    order.
    """
    if (register := getattr(threading, "_register_atexit", None)) is None:
        return
    reference = weakref.ref(pool)

    def close() -> None:
        if (unclosed := reference()) is not None:
            unclosed.close()

    with suppress(RuntimeError):  # the interpreter is already exiting
        register(close)


async def _settle(through: ReadThrough) -> None:
    import asyncio

    with suppress(TimeoutError):
        await asyncio.wait_for(through.settle(), _SETTLE_LIMIT_S)


class _Running:
    """The running thread. `opened` resolves to the pool, or to the exception raised while opening it.

    Raises:
        Exception: No thread or no event loop could be created.
    """

    def __init__(self, open_: Callable[[AsyncExitStack], Awaitable[ReadThrough]]) -> None:
        import asyncio

        self.opened: Future[ReadThrough] = Future()
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def live() -> None:
            end = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), end))
            async with AsyncExitStack() as exits:
                self.opened.set_result(await open_(exits))
                await end.wait()

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(live())
            except Exception as error:
                if not started.done():
                    started.set_exception(error)
                elif not self.opened.done():
                    self.opened.set_exception(error)
                else:
                    logger().warning("the pool was not left in order", reason=repr(error))

        self._thread = threading.Thread(target=run, name="burstcache-pool", daemon=True)
        self._thread.start()
        self.loop, self._end = started.result()

    def end(self) -> None:
        """Close the pool, after waiting for it to open, and join the thread."""
        with suppress(RuntimeError):  # the pool could not be opened, so the loop is closed
            self.loop.call_soon_threadsafe(self._end.set)
        if threading.current_thread() is not self._thread:  # else this thread dropped the client's last reference
            self._thread.join()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def fetched(fetch: Fetch, start: int, into: memoryview) -> bool:
    """Read a part from S3. Return False, since it did not come from the pool."""
    fetch(start, into)
    return False
