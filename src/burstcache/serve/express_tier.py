"""Express tier: copies in S3 Express, which a reader stores once its own read counts show that a copy pays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from cachetools import LRUCache

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout, BoundedCalls
from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.express_copies import ExpressCopies, ExpressHit, ignore_progress
from burstcache.core.express import CopyCounts, ExpressRule
from burstcache.core.slices import Slice
from burstcache.serve.hit_counter import Served
from burstcache.serve.tier import FetchedSlices, Fill
from burstcache.web.entry import Entry, decode, encode
from burstcache.web.request import Request

_MOST_BYTES = 1 << 26  # size limit of a copy: a PUT needs twice its size in memory
_THREADS = 32  # GETs of slices in flight
_MOST_KEYS = 1 << 15  # keys with read counts, about 10 MB
# S3 expires tombstones after a day, and an expired tombstone no longer rejects an old copy. So a copy is stored only
# within this time after the bucket was read. Copies, too, expire after a day at the earliest.
_PUT_WITHIN_S = 60.0


class ExpressTier:
    """A directory bucket with copies of objects. Thread-safe."""

    def __init__(
        self,
        copies: ExpressCopies,
        rule: ExpressRule,
        clock: Clock,
        *,
        max_object_bytes: int,
        adaptive_timeout: AdaptiveTimeout | None = None,
    ) -> None:
        """Create the tier without read counts.

        Args:
            copies: The bucket.
            rule: Decides whether a copy pays.
            clock: Clock for the time since the bucket was read.
            max_object_bytes: Maximum size of an object to copy [bytes].
            adaptive_timeout: Limits the wait for a copy. None: only the S3 client's timeout applies.
        """
        self._copies = copies
        self._counts: CopyCounts[str] = CopyCounts(rule, LRUCache(_MOST_KEYS))
        self._clock = clock
        self._bounded_calls = BoundedCalls(adaptive_timeout, clock) if adaptive_timeout is not None else None
        self._max_object_bytes = min(max_object_bytes, rule.most_bytes, _MOST_BYTES)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="burstcache-express")

    def fetch(self, request: Request) -> Entry | Fill | None:
        """Return the object, a lease to store a copy after the read of S3, or None for a HEAD without a copy.

        Raises:
            ServiceError: S3 Express is unreachable or fails.
            ValueError: The stored copy is not a valid entry.
        """
        is_head, asked = request.method == "HEAD", instant(self._clock)
        read = partial(self._copies.read, request.hash, only_meta=is_head)
        found = (
            read() if self._bounded_calls is None else self._bounded_calls.run(lambda received: read(received=received))
        )
        if found is None or found.data is None:
            replaces = found.etag if found is not None else ""
            put = partial(self._fill, request.hash, asked, replaces)
            return None if is_head else Fill(put, self._max_object_bytes)
        entry = decode(found.data)
        if is_head:
            body_bytes = found.size_bytes - (len(found.data) - len(entry.body))
            if entry.size_bytes != body_bytes:
                raise ValueError(f"a body of {body_bytes} bytes, whose content-length is {entry.size_bytes}")
            return entry.without_body()
        with self._lock:
            self._counts.read_copy(request.hash, entry.size_bytes)
        return entry

    def fetch_slices(self, slices: Sequence[Slice]) -> FetchedSlices:
        """Return copies of slices, and accept those whose copies may pay. Raises ServiceError."""
        paying = [each for each in slices if self._counts.rule.copy_at(each.size_bytes)]

        def read_all(received: Callable[[int], None]) -> list[ExpressHit | None]:
            return list(self._threads.map(lambda each: self._copies.read(each.name, received=received), paying))

        hits = read_all(ignore_progress) if self._bounded_calls is None else self._bounded_calls.run(read_all)
        bodies, missing = {}, {}
        for each, hit in zip(paying, hits, strict=True):
            if hit is None:
                missing[each.name] = ""
            elif hit.data is not None and len(hit.data) == each.size_bytes:
                bodies[each.name] = hit.data
                with self._lock:
                    self._counts.read_copy(each.name, each.size_bytes)
            elif hit.data is not None:  # damaged. A slice as short as a tombstone is not copied
                missing[each.name] = hit.etag
        return FetchedSlices(bodies, frozenset(missing), partial(self._store_slices, missing))

    def count(self, batch: Sequence[Served]) -> None:
        """Do nothing: memory hits do not justify a copy."""

    def close(self) -> None:
        """End the threads. The client owns the connections."""
        self._threads.shutdown(wait=False)

    def _store_slices(self, replaces: Mapping[str, str], bodies: Mapping[str, bytes]) -> None:
        for name, body in bodies.items():
            with self._lock:
                pays = self._counts.read_s3(name, len(body))
            if pays and self._copies.put(name, body, replaces=replaces[name]):
                with self._lock:
                    self._counts.note_put(name)

    def _fill(self, hash_: str, asked: Instant, replaces: str, entry: Entry) -> None:
        with self._lock:
            pays = self._counts.read_s3(hash_, entry.size_bytes)
        is_in_time = seconds_since(self._clock, asked) <= _PUT_WITHIN_S
        if pays and is_in_time and self._copies.put(hash_, encode(entry), replaces=replaces):
            with self._lock:
                self._counts.note_put(hash_)
