"""Reader: asks this process's memory, its disk, the tier in the digest, the home node, S3 Express, and finally S3.

A failed tier never fails a read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_reader import DigestReader, Start, in_thread
from burstcache.adapters.single_flight import NEXT_AFTER_S
from burstcache.core.digest import Route
from burstcache.core.errors import (
    ObjectNotFoundError,
    OriginUnavailableError,
    PreconditionFailedError,
    UnexpectedPartError,
)
from burstcache.serve.hit_counter import HitCounter
from burstcache.serve.hit_reports import HitReports
from burstcache.serve.large_objects import LargeObjects, Part
from burstcache.serve.listed_tier import ListedTier
from burstcache.serve.local_cache import IMMUTABLE_S, MAX_STALE_S, STRONG_S, LocalCache
from burstcache.serve.memory_tier import HeadCache, MemoryTier, Ticket
from burstcache.serve.shared_reads import SharedReads, is_plain
from burstcache.serve.shared_slices import SharedSlices
from burstcache.serve.tier import Fill, Origin, Tier
from burstcache.serve.tiers import FellBack, Tiers
from burstcache.web.entry import Entry, entry_from_s3
from burstcache.web.freshness import max_age_s
from burstcache.web.headers import object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response, no_such_key, object_response, origin_unavailable, part_response

EXPRESS = Route("express")

_OK, _PARTIAL = _SENT = (200, 206)
_MOST_VERSIONS = 3  # attempts to read an object that is overwritten during the read


def ignore_fallback(error: Exception | None) -> None:
    """Ignore a failed tier."""


def _ignore_hit(_: Request, __: Entry) -> None:
    """Ignore a memory hit."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A miss: the ticket from before the read of S3, and leases to store the object in tiers."""

    ticket: Ticket
    fills: list[tuple[Route, Fill]] = field(default_factory=list)


_Ask = Callable[[Request, Miss], Response | None]  # a tier adds its lease, if it grants one, to the miss


class Reader:
    """A thread-safe reader of objects from this process's memory, the tiers, or S3.

    Attributes:
        local_cache: The cache in this process.
        shared: Shares reads with concurrent callers.
        large: The slices of large objects. None: no object is read in slices.
    """

    def __init__(
        self,
        digest: DigestReader | None,
        origin: Origin,
        make_tier: Callable[[Route], Tier],
        clock: Clock,
        *,
        memory: MemoryTier | None = None,
        heads: HeadCache | None = None,
        has_express: bool = False,
        counts_memory_hits: bool = True,
        max_stale_s: float = MAX_STALE_S,
        start: Start = in_thread,
        fell_back: FellBack = ignore_fallback,
        adaptive_timeout: AdaptiveTimeout | None = None,
        prefix: str = "",
        next_after_s: float = NEXT_AFTER_S,
    ) -> None:
        """Create the reader.

        Args:
            digest: Reads the stack's digest. None: no stack, so reads use only memory, S3 Express and S3.
            origin: S3.
            make_tier: Creates the tier of a route.
            clock: Clock for circuit breakers and the age of copies.
            memory: Cache of small objects in this process. None: objects are not cached.
            heads: Cache of HEAD responses for objects that are read in slices. None: they are not cached.
            has_express: Whether to try the tier `EXPRESS` before S3.
            counts_memory_hits: Whether memory hits are reported as demand. False if nodes have read-through entries:
                memory comes before any node, so a node would not have served these reads.
            max_stale_s: Maximum staleness of a response, not counting S3's time until an event is in the stack's queue
                [s]. 0: S3 confirms every read, and tiers are skipped. Infinite: objects never change.
            start: Runs a function in the background.
            fell_back: As for `Tiers`.
            adaptive_timeout: Limits a read's total wait for the digest and all tiers, based on S3's latency.
            prefix: Only keys with this prefix may be read. Reads of other keys return 404 without a lookup.
            next_after_s: Maximum time that a read of S3 waits for an identical one in flight [s].
        """
        self._digest = digest
        self._origin = origin
        self._adaptive_timeout = adaptive_timeout or AdaptiveTimeout(clock=clock)
        self._tiers = Tiers(make_tier, clock, fell_back, self._adaptive_timeout)
        self._clock = clock
        self._max_stale_s = max_stale_s
        self._prefix = prefix
        self._has_express = has_express
        self._hits: HitReports | None = None
        if digest is not None and (memory is not None or has_express):
            self._hits = HitReports(HitCounter(clock), digest.route, self._tiers, origin, start)
        self.local_cache = LocalCache(
            digest,
            origin,
            clock,
            memory=memory,
            heads=heads,
            max_stale_s=max_stale_s,
            start=start,
            hit=self._record_hit if counts_memory_hits else _ignore_hit,
            loaded=self._store_on_disk,
            next_after_s=next_after_s,
        )
        self._listed = None if digest is None else ListedTier(digest, self._tiers, self._adaptive_timeout)
        self._shares_loads = memory is not None and max_stale_s > STRONG_S
        self.shared = SharedReads(self.local_cache, origin, clock, next_after_s=next_after_s)
        self.large: LargeObjects | None = None
        # The order of the tiers. S3 is last. Each read asks its own tiers, and concurrent reads of an object share one
        # walk through the others.
        self._own_tiers: tuple[_Ask, ...] = (self._from_memory, self._from_disk, self._from_listed)
        self._shared_tiers: tuple[_Ask, ...] = (self._from_home_node, self._from_express, self._from_whole)
        if max_stale_s == STRONG_S:  # S3 confirms every read
            self._own_tiers, self._shared_tiers = self._own_tiers[:2], self._shared_tiers[2:]

    def may_read(self, key: str) -> bool:
        """Return True if the reader's prefix admits a key."""
        return key.startswith(self._prefix)

    def prefetch_digest(self) -> None:
        """Read the digest and create the tiers of its routes, so that the first request need not wait for them.

        Errors are ignored here. They recur in the requests that need the failed part.
        """
        if self._digest is None or self._max_stale_s == STRONG_S:
            return
        self._digest.is_within(self._max_stale_s)
        for route in self._digest.places():
            with suppress(Exception):
                self._tiers.find(route)

    def read(self, request: Request) -> Response:
        """Return the response to a GET or HEAD, no older than its `Cache-Control` allows.

        All bytes of a large object belong to one version.
        """
        if self.large is None:
            return self.respond(request)
        for _ in range(_MOST_VERSIONS):
            try:
                return self.large.complete(request, self.respond(request))
            except (PreconditionFailedError, ObjectNotFoundError):
                pass  # it was overwritten since, and its cached head is already invalidated
        cause = OriginUnavailableError(f"{request.key!r} was overwritten again and again while it was read; try again")
        return replace(origin_unavailable(request.method), cause=cause)

    def respond(self, request: Request) -> Response:
        """Return the response of the first tier that has the object, but leave a large body to its slices."""
        if (response := self._begin(request)) is not None:
            return response
        limit_s = max_age_s(request.headers)
        if limit_s != 0:
            found = self._first(request, self._own_tiers)
            if isinstance(found, Miss):
                is_shared = self._shares_loads and is_plain(request)
                found = self.shared.load(request, self._load) if is_shared else self._load(request)
            if limit_s is None or int(found.headers.get("age", 0)) <= limit_s:
                return found
        return self._from_s3(request, self.miss())

    def recall(self, request: Request) -> Response | None:
        """Return the response as `respond` does if this machine's memory has it, and S3 need not confirm it.

        That includes files that the system has in memory. Never blocks, so event loops may call it.
        """
        local_cache = self.local_cache
        return local_cache.recall(request) or local_cache.recall_head(request) or self._recall_from_disk(request)

    def find(self, request: Request) -> Response | Miss:
        """Return the response of the first tier above S3 as `respond` does, or a miss to pass to `keep`."""
        if (response := self._begin(request)) is not None:
            return response
        found = self._first(request, self._own_tiers)
        return found if isinstance(found, Response) else self._first(request, self._shared_tiers)

    def needs_s3(self, request: Request) -> bool:
        """Return True if only S3 can answer a read: memory has nothing, and there is no other tier. Never blocks."""
        if self._digest is not None or self._has_express or request.range is not None:
            return False
        has_disk = self.large is not None and self.large.slices.has_disk
        return not has_disk and self.local_cache.stored(request) is None

    def describe(self, request: Request) -> Response | None:
        """Return the response, without its body, to a read of an object that is known to be large."""
        return self._begin(request) or self._from_disk(request)

    def _begin(self, request: Request) -> Response | None:
        """Begin a read. Return the response if the key may not be read, or if memory has the head of a large object."""
        self._adaptive_timeout.begin()
        if not self.may_read(request.key):
            return no_such_key(request).served_by("s3", is_hit=False)
        return self.local_cache.describe(request)

    def _first(self, request: Request, tiers: tuple[_Ask, ...]) -> Response | Miss:
        """Return the response of the first tier that has the object, or a miss with the leases of the others."""
        miss = self.miss()  # before a newer digest can replace the one that selects the tiers
        for ask in tiers:
            response = ask(request, miss)
            if response is not None and self.local_cache.may_follow(request, response):
                return response
        return miss

    def _load(self, request: Request) -> Response:
        found = self._first(request, self._shared_tiers)
        return found if isinstance(found, Response) else self._from_s3(request, found)

    def _from_memory(self, request: Request, _: Miss) -> Response | None:
        return self.local_cache.respond(request)

    def recall_part(self, request: Request) -> tuple[Response, Part] | None:
        """Return the response, without its body, to a read of a small object that only the disk keeps.

        The caller reads the part in pieces, which takes less memory than all of it. It is for objects that S3 need not
        confirm. Never blocks. None: there is no such object, or it is not in the system's memory.
        """
        if self.large is None or not (self._stores_whole and self._trusts_disk(request)):
            return None
        if (stored := self.large.stored_begin(request.key)) is None:
            return None
        head, begin = stored
        if self.local_cache.accepts(head.size_bytes):
            return None
        response = self.local_cache.respond_stored(request, head, may_ask=False)
        if response is None or not self.local_cache.may_follow(request, response):
            return None
        if not self.large.is_left(request, response):
            return None
        return response, self.large.part_of_stored(request, response, begin)

    def _trusts_disk(self, request: Request) -> bool:
        """Return True if S3 need not confirm what is on disk."""
        is_final = self._max_stale_s == IMMUTABLE_S and max_age_s(request.headers) is None
        return is_final and self.may_read(request.key)

    def _recall_from_disk(self, request: Request) -> Response | None:
        """Return the response from the disk if that needs neither a wait nor a request to S3."""
        response = self._from_disk(request, waits=False) if self._trusts_disk(request) else None
        return response if response is not None and self.local_cache.may_follow(request, response) else None

    def _from_disk(self, request: Request, _: Miss | None = None, *, waits: bool = True) -> Response | None:
        """Return the response to a read of an object that is on disk, or whose head is.

        S3 confirms it. A large object's head is confirmed by a HEAD, since a GET would begin to send all of the object.
        Only immutable objects need no confirmation.
        """
        if self.large is None or (stored := self.large.stored_head(request.key, waits=waits)) is None:
            return None
        if not self.large.is_large(stored.meta):
            is_whole = self._stores_whole and len(stored.body) == stored.size_bytes
            return self.local_cache.respond_stored(request, stored, may_ask=waits) if is_whole else None
        if self._trusts_disk(request):
            return self.local_cache.adopt_head(request, stored)
        if not waits:
            return None
        response = self._from_s3(replace(request, method="HEAD", headers={}, range=None), self.miss())
        if response.status != _OK or not response.is_keepable or not self.large.is_large(response.headers):
            return None
        return object_response(request, response.headers, b"").served_by("memory", is_hit=True)

    def _from_listed(self, request: Request, _: Miss) -> Response | None:
        if self._listed is None or (found := self._listed.fetch(request)) is None:
            return None
        route, entry = found
        self.local_cache.adopt(request, entry)
        return self._from_tier(route, request, entry)

    def _from_home_node(self, request: Request, miss: Miss) -> Response | None:
        route = None if self._digest is None else self._digest.home(request.hash)
        return None if route is None else self._from_read_through(route, request, miss)

    def _from_express(self, request: Request, miss: Miss) -> Response | None:
        if not self._has_express or (self._digest is not None and self._digest.is_behind):
            return None
        return self._from_read_through(EXPRESS, request, miss)

    def _from_read_through(self, route: Route, request: Request, miss: Miss) -> Response | None:
        """Return the response of a tier that keeps what its readers load, or add its lease to the miss.

        Memory may cache such a tier's copy without asking S3: each write invalidates the tier before the write's last
        announcement. A copy of an older version was therefore read before that announcement, and its older ticket makes
        memory reject it. While events of S3 wait, the copy is as old as the oldest of them.
        """
        fetched = None if self._tiers.is_skipped(route, request) else self._tiers.fetch(route, request)
        if isinstance(fetched, Fill):
            miss.fills.append((route, fetched))
        if not isinstance(fetched, Entry):
            return None
        if request.method == "GET":
            self.keep(request, fetched, replace(miss, ticket=miss.ticket.aged(self._backlog_s)))
        if route == EXPRESS:
            self._record_hit(request, fetched)
        return self._from_tier(route, request, fetched)

    def _from_tier(self, route: Route, request: Request, entry: Entry) -> Response:
        """Return a tier's response. The tier has followed all writes whose events do not wait."""
        response = object_response(request, entry.meta, entry.body)
        return response.served_by(route.tier, is_hit=True, bound_ms=round(1000 * self._backlog_s))

    @property
    def _backlog_s(self) -> float:
        return 0.0 if self._digest is None else self._digest.backlog_s

    def _from_whole(self, request: Request, _: Miss) -> Response | None:
        """Return a range of a small object, which this second read of a range loads whole.

        The first read has loaded no more than its slices: it might have remained the only one.
        """
        if not self.local_cache.wants_whole(request):
            return None
        whole = self.respond(replace(request, headers={}, range=None))
        if whole.status != _OK or not whole.is_whole or not whole.is_keepable:
            return None
        return object_response(request, whole.headers, whole.body)

    def _from_s3(self, request: Request, miss: Miss) -> Response:
        """Return S3's response, from whole slices if a range of an unknown object is read."""
        if self.large is not None and (wider := self.large.in_whole_slices(request)) is not None:
            response = self._load_from_s3(wider, miss)
            if response.status == _PARTIAL:
                if (part := part_response(request, response)) is not None:
                    return part
            elif not isinstance(response.cause, UnexpectedPartError):  # which some stores send for any range
                return response
        return self._load_from_s3(request, miss)

    def _load_from_s3(self, request: Request, miss: Miss) -> Response:
        """Return S3's response, and cache the object, its headers, its slices or its absence."""
        response = self.shared.read_s3(request, self._read_s3)
        is_sent = response.status in _SENT and response.is_keepable
        if is_sent and request.method == "GET" and response.is_whole:
            is_all = response.status == _OK or len(response.body) == object_size_bytes(response.headers)
            if is_all and self.keeps(len(response.body), miss):
                self.keep(request, entry_from_s3(response.headers, response.body).confirmed(request.at_us), miss)
            else:
                self.keep_part(request, response.status, response.headers, response.body, miss)
        if is_sent:
            self.local_cache.note_head(request, response.headers, miss.ticket)
        elif response == no_such_key(request):
            self.local_cache.note_absence(request, miss.ticket)
        return response.served_by("s3", is_hit=False)

    def _read_s3(self, request: Request) -> Response:
        ticket = self.local_cache.ticket()
        response = self._origin.read(request)
        self._adaptive_timeout.record_s3_latency(self._clock.monotonic_s() - ticket.at.monotonic_s)
        self.local_cache.note_answer(request, response.status, response.headers, ticket)
        return response

    def miss(self) -> Miss:
        """Return a miss to pass to `keep`, for a read that goes directly to S3."""
        return Miss(self.local_cache.ticket())

    def keeps(self, size_bytes: int, miss: Miss) -> bool:
        """Return True if memory, the disk or a tier accepts an object of this size."""
        largest_bytes = max((fill.max_object_bytes for _, fill in miss.fills), default=-1)
        is_stored = self._stores_whole and self.large is not None and size_bytes <= self.large.above_bytes
        return is_stored or self.local_cache.accepts(size_bytes) or size_bytes <= largest_bytes

    def keep(self, request: Request, entry: Entry, miss: Miss) -> None:
        """Store a complete object in memory, on disk, and in the tiers that accept it.

        Args:
            request: The read, a GET.
            entry: The object.
            miss: The miss from before the read of S3.
        """
        self.local_cache.keep(request, entry, miss.ticket)
        for route, fill in miss.fills:
            if entry.size_bytes <= fill.max_object_bytes:
                self._tiers.fill(route, fill, request, entry)

    def keep_part(self, request: Request, status: int, headers: Mapping[str, str], body: bytes, miss: Miss) -> None:
        """Keep the slices of a large object that a response of S3 contains, or note a range of a small object.

        Args:
            request: The read, a GET.
            status: S3's status.
            headers: S3's headers, which identify the version. Names in lower case.
            body: The whole body of the response.
            miss: The miss from before the read of S3.
        """
        size_bytes = object_size_bytes(headers)
        if self.large is not None and size_bytes > self.large.above_bytes:
            self.large.keep(request, headers, body)
        elif status == _PARTIAL and self.keeps(size_bytes, miss):
            self.local_cache.note_range(request)

    def shared_slices(self, *, on_nodes: bool) -> SharedSlices | None:
        """Return a reader of the slices in the tiers, or None if no tier has slices.

        Args:
            on_nodes: Whether slices pay on the stack's Redis nodes.
        """
        digest = self._digest if on_nodes else None
        if self._max_stale_s == STRONG_S or (digest is None and not self._has_express):
            return None
        express = EXPRESS if self._has_express else None
        return SharedSlices(self._tiers, digest, express, self._adaptive_timeout)

    def forget(self, hash_: str) -> None:
        """Invalidate this process's copies of an object that the caller has changed."""
        self.shared.forget(hash_)
        self.local_cache.forget(hash_)

    def report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Report a GET that the caller itself sent to S3. `size_bytes` is the size of the whole object."""
        self._origin.publish_report(request, etag=etag, size_bytes=size_bytes)

    def publish_hits(self) -> None:
        """Report pending memory and Express hits to the keys' policies. On errors these hits are lost."""
        if self._hits is not None:
            self._hits.publish()

    def close(self) -> None:
        """Send the remaining hits and reports, and close the tiers."""
        self.publish_hits()
        self._tiers.close()
        self._origin.close()

    @property
    def _stores_whole(self) -> bool:
        """True if small objects are kept on disk. A stack's tiers need no request to S3, which the disk does."""
        return self._digest is None and self.large is not None and self.large.slices.has_disk

    def _store_on_disk(self, request: Request, entry: Entry) -> None:
        if self.large is not None and self._stores_whole:
            self.large.store_whole(request, entry)

    def _record_hit(self, request: Request, entry: Entry) -> None:
        if self._hits is not None:
            self._hits.record(request, entry)
