"""Parts of large objects: from the pool if there is one that has them, otherwise from S3 by range."""

from __future__ import annotations

import io
import mmap
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

from burstcache.adapters.clock import Clock
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.single_flight import Flight, SingleFlight
from burstcache.client.pool import PoolThread, fetched
from burstcache.core.errors import ObjectNotFoundError, OriginUnavailableError, PreconditionFailedError
from burstcache.core.pool.slices import Version, extents

AT_ONCE = 4  # slices of one read that are under way
_THREADS = 32
_PAUSES_S = (0.0, 0.5)  # before a part is asked for again: S3 slows down a reader of many at once
_LARGE_BYTES = 8 * 1024 * 1024  # from there on it pays to ask for large pages

Begin = Callable[[int, memoryview], "Future[bool]"]


class Slices:
    """Reads parts of versions of objects. Threads may share it."""

    def __init__(
        self, store: ObjectStore, pool: PoolThread | None, forget: Callable[[str], None], clock: Clock
    ) -> None:
        """Remember where to read.

        Args:
            store: S3.
            pool: The pool; None: there is none.
            forget: Is called with the hash of a key whose object is found to be another version, or deleted.
            clock: Waits before S3 is asked again.
        """
        self._store = store
        self._pool = pool
        self._forget = forget
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="burstcache-slices")
        self._is_closed = False
        self._pid = os.getpid()
        self._flights: SingleFlight[bytes | None, bool] = SingleFlight(clock, lambda: True, next_after_s=0)

    @property
    def tier(self) -> str:
        """Where parts are looked for first."""
        return "s3" if self._pool is None else "pool"

    def begin(self, version: Version, start: int, into: memoryview) -> Future[bool]:
        """Begin to read a part of one slice; the result is whether it came from the pool.

        Args:
            version: Of which object.
            start: Where the part begins in the object [bytes].
            into: Where it is written, as long as it is, not empty.

        Raises:
            BurstcacheError: The future does, as `ObjectStore.read_part`.
            ValueError: The client was closed.
        """
        if self._is_closed:
            raise ValueError(f"read of {version.key!r}, whose client was closed")
        if self._pid != os.getpid():
            raise ValueError(f"read of {version.key!r}, which was opened before a fork; open it again")
        fetch = partial(self._fetch, version)
        if self._pool is None:
            return self._threads.submit(fetched, fetch, start, into)
        return self._pool.read(version, start, into, fetch, self._threads)

    def read(self, version: Version, start: int, end: int) -> tuple[bytes, bool]:
        """Return the bytes from `start` to before `end`, and whether all of them came from the pool.

        Raises:
            BurstcacheError: As `ObjectStore.read_part`.
        """
        body = io.BytesIO(bytes(end - start))  # it hands out these very bytes at last: nothing is copied
        with body.getbuffer() as into:
            in_large_pages(into)
            is_pooled = read_parts(partial(self.begin, version), start, into)
        return body.getvalue(), is_pooled

    def close(self) -> None:
        """End the threads when they have done what they do."""
        self._is_closed = True
        self._threads.shutdown(wait=False)
        if self._pool is not None:
            self._pool.close()

    def _fetch(self, version: Version, start: int, into: memoryview) -> None:
        """Read a part from S3, or copy what another reader of the same part gets: a version never changes."""
        read, key = partial(self._read, version, start, into), (version, start, len(into))

        def lead(flight: Flight[bytes | None, bool]) -> bytes | None:
            read()
            return None if self._flights.leave(key, flight) else bytes(into)

        data, _ = self._flights.fly(key, lead, read, may_follow=lambda _: True)
        if data is not None:
            into[:] = data

    def _read(self, version: Version, start: int, into: memoryview) -> None:
        read = partial(self._store.read_part, version.key, version.etag, start, into)
        try:
            for pause_s in _PAUSES_S:  # a part that fails, or breaks off, is no reason to fail a long stream
                try:
                    return read()
                except OriginUnavailableError as error:
                    if error.status:  # S3's answer, which its client has asked for several times
                        raise
                    self._clock.sleep(pause_s)
            read()
        except (PreconditionFailedError, ObjectNotFoundError):
            self._forget(version.key_hash)
            raise


def in_large_pages(memory: memoryview) -> None:
    """Have the system give new memory by 2 MiB where it may: page by page it takes four times as long to touch.

    Source:
        madvise(2), MADV_HUGEPAGE; it is advice, which need not be taken.
    """
    if len(memory) < _LARGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    import ctypes  # few reads are that large

    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    length = ctypes.c_size_t(first + len(memory) - start)
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), length, mmap.MADV_HUGEPAGE)


def blank(size_bytes: int) -> memoryview:
    """Return memory to write to, which the system clears when it is first touched and nobody does before."""
    return io.BytesIO(bytes(size_bytes)).getbuffer()


def read_parts(begin: Begin, start: int, into: memoryview) -> bool:
    """Read any part of an object, slices in parallel, and return whether all of it came from the pool.

    Args:
        begin: Begins to read a part of one slice.
        start: Where the part begins in the object [bytes].
        into: Where it is written, as long as it is; when this has returned or raised, nothing more is.

    Raises:
        BurstcacheError: As the futures of `begin`.
    """
    under_way: deque[Future[bool]] = deque()
    is_pooled = True
    try:
        for first, end in extents(start, start + len(into)):
            if len(under_way) == AT_ONCE:
                is_pooled &= under_way.popleft().result()
            under_way.append(begin(first, into[first - start : end - start]))
        while under_way:
            is_pooled &= under_way.popleft().result()
    finally:
        wait(under_way)
    return is_pooled
