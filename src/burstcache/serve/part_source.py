"""Part source: parts of large objects, from the pool, or from S3 by range requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.object_store import ObjectStore, Progress
from burstcache.adapters.single_flight import Flight, SingleFlight, always
from burstcache.core.errors import ObjectNotFoundError, OriginUnavailableError, PreconditionFailedError
from burstcache.core.slices import Version

_THREADS = 32
_PAUSES_S = (0.0, 0.5, None)  # before each retry of a part: S3 throttles a reader of many parts

Fetch = Callable[[int, memoryview], None]  # reads a part from S3, given its start and destination


class Pool(Protocol):
    """The pool, as all threads of a process use it."""

    def read(self, version: Version, start: int, into: memoryview, fetch: Fetch, threads: Executor) -> Future[bool]:
        """Start reading a part of one slice. The future resolves to False if `fetch` has read it in `threads`."""

    def close(self) -> None:
        """Leave the pool."""


class PartSource:
    """A reader of parts of object versions. Threads may share it."""

    def __init__(self, store: ObjectStore, pool: Pool | None, forget: Callable[[str], None], clock: Clock) -> None:
        """Create a source.

        Args:
            store: S3.
            pool: The pool. None: read from S3 alone.
            forget: Called with a key's hash when S3 has another version of the object, or none.
            clock: Clock for pauses before retries.
        """
        self._store = store
        self._pool = pool
        self._forget = forget
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="burstcache-parts")
        self._is_closed = False
        self._pid = os.getpid()
        self._flights: SingleFlight[bytes | None, bool] = SingleFlight(clock, lambda: True, next_after_s=0)

    @property
    def tier(self) -> str:
        """The tier that is read first."""
        return "s3" if self._pool is None else "pool"

    def check_usable(self, version: Version) -> None:
        """Raise ValueError if the client was closed, or if the process has forked since."""
        if self._is_closed:
            raise ValueError(f"read of {version.key!r}, whose client was closed")
        if self._pid != os.getpid():
            raise ValueError(f"read of {version.key!r}, which was opened before a fork; open it again")

    def begin(self, version: Version, start: int, into: memoryview) -> Future[str]:
        """Begin to read a part of one slice of the pool. The future resolves to the tier that had the part.

        Args:
            version: The version of the object.
            start: Offset of the part in the object [bytes].
            into: Destination of the part's length, not empty.

        Raises:
            BurstcacheError: Raised by the future, as `ObjectStore.read_part` does.
            ValueError: As `check_usable` does.
        """
        self.check_usable(version)
        fetch = partial(self._fetch_shared, version)
        if self._pool is None:
            return self._threads.submit(_fetched_from_s3, fetch, start, into)
        return _named(self._pool.read(version, start, into, fetch, self._threads))

    def read(
        self,
        version: Version,
        start: int,
        into: memoryview,
        stops: Sequence[int],
        reached: Callable[[int, str], object],
    ) -> None:
        """Read a part of one slice of the pool in the caller's thread.

        Args:
            version: The version of the object.
            start: Offset of the part in the object [bytes].
            into: Destination, of the part's length, not empty.
            stops: Offsets in the part, in order and up to its length [bytes].
            reached: Called with each of them once the bytes before it have arrived, and with the tier that had them.

        Raises:
            BurstcacheError: As for `ObjectStore.read_part`.
        """
        if self._pool is None:
            return self._fetch(version, start, into, Progress(stops, lambda stop: reached(stop, "s3")))
        is_pooled = self._pool.read(version, start, into, partial(self._fetch, version), self._threads).result()
        for stop in stops:
            reached(stop, "pool" if is_pooled else "s3")

    def close(self) -> None:
        """Close the pool, and end the threads after their current reads."""
        self._is_closed = True
        self._threads.shutdown(wait=False)
        if self._pool is not None:
            self._pool.close()

    def _fetch_shared(self, version: Version, start: int, into: memoryview) -> None:
        """Read a part from S3, or copy it from a concurrent read of the same part: versions never change."""
        fetch, key = partial(self._fetch, version, start, into), (version, start, len(into))

        def lead(flight: Flight[bytes | None, bool]) -> bytes | None:
            fetch()
            return None if self._flights.leave(key, flight) else bytes(into)

        data, _ = self._flights.fly(key, lead, fetch, may_follow=always)
        if data is not None:
            into[:] = data

    def _fetch(self, version: Version, start: int, into: memoryview, progress: Progress | None = None) -> None:
        """Read a part from S3. One failed or truncated answer does not fail a long stream."""
        remaining = _Remaining(progress or Progress((len(into),), lambda _: None))
        for pause_s in _PAUSES_S:
            rest, done = remaining.rest(), remaining.done
            try:
                return self._store.read_part(version.key, version.etag, start + done, into[done:], rest)
            except OriginUnavailableError as error:
                if error.status or pause_s is None:  # S3 answered, and boto3 has already retried
                    raise
                self._clock.sleep(pause_s)
            except (PreconditionFailedError, ObjectNotFoundError):
                self._forget(version.key_hash)
                raise


class _Remaining:
    """The rest of a part after some of its answers broke off. `done` bytes have arrived."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.done = self._began = 0

    def reached(self, stop: int) -> None:
        self.done = self._began + stop
        self.progress.reached(self.done)

    def rest(self) -> Progress:
        """Return the progress of a request for the rest."""
        self._began = self.done
        return Progress([stop - self.done for stop in self.progress.stops if stop > self.done], self.reached)


def _fetched_from_s3(fetch: Fetch, start: int, into: memoryview) -> str:
    fetch(start, into)
    return "s3"


def _named(pooled: Future[bool]) -> Future[str]:
    """Return a future of the name of the tier that had a part. Cancelling it cancels the read."""
    named: Future[str] = Future()

    def finish(done: Future[bool]) -> None:
        if done.cancelled() or not named.set_running_or_notify_cancel():
            named.cancel()
        elif (error := done.exception()) is not None:
            named.set_exception(error)
        else:
            named.set_result("pool" if done.result() else "s3")

    named.add_done_callback(lambda done: done.cancelled() and pooled.cancel())
    pooled.add_done_callback(finish)
    return named
