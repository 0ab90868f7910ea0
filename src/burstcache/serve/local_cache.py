"""Local cache of a reader's process: small objects, HEAD responses for large ones, and absent keys.

It never serves a copy beyond the staleness bound, nor a version older than the last one served.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from cachetools import LRUCache

from burstcache.adapters.circuit_breaker import CircuitBreakers
from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.digest_reader import DigestReader, Start, try_start
from burstcache.adapters.single_flight import NEXT_AFTER_S, SingleFlight, never
from burstcache.core.errors import (
    ObjectNotFoundError,
    ObjectTooLargeError,
    OriginError,
    OriginUnavailableError,
    UnidentifiedObjectError,
)
from burstcache.forks import Lock
from burstcache.logs import logger
from burstcache.serve.memory_tier import CachedEntry, HeadCache, MemoryTier, NegativeCache, Ticket
from burstcache.serve.monotonic_reads import ABSENT, MonotonicReads
from burstcache.serve.tier import RETRY_WITHIN_S, Origin
from burstcache.web.dates import timestamp_s
from burstcache.web.entry import Entry, head_from_s3
from burstcache.web.freshness import max_age_s
from burstcache.web.headers import object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response, hit_response, no_such_key, object_response, origin_unavailable

MAX_STALE_S = 2.0
STRONG_S, IMMUTABLE_S = 0.0, math.inf  # values of `max_stale_s`: S3 confirms every read, or none

Hit = Callable[[Request, Entry], None]
Loaded = Callable[[Request, Entry], None]

_SENT = (200, 206)
_REFUSED = (412, 416)
_NOT_FOUND = 404
_MOST_RANGED = 4096
_MOST_ADOPTING = 8  # concurrently: many hot keys must not start as many threads and HEADs


@dataclass(frozen=True, slots=True)
class _Confirmation:
    """The result of a revalidation: the current entry or an error. `is_hit`: the cached copy is current."""

    entry: Entry | None
    is_hit: bool = False
    error: OriginError | None = None  # the reason if there is no entry


class LocalCache:
    """A thread-safe cache of this process's reads.

    A copy is served if it is known to be at most `max_stale_s` stale: the digest is that recent and lists no change of
    the object, or the copy was loaded or confirmed within that time. Otherwise S3 revalidates it by its ETag.

    Attributes:
        memory: Caches small objects. None: no objects.
    """

    def __init__(
        self,
        digest: DigestReader | None,
        origin: Origin,
        clock: Clock,
        *,
        memory: MemoryTier | None,
        heads: HeadCache | None,
        max_stale_s: float,
        start: Start,
        hit: Hit,
        loaded: Loaded = lambda _, __: None,
        next_after_s: float = NEXT_AFTER_S,
    ) -> None:
        """Create an empty cache.

        Args:
            digest: Reads the stack's digest. None: there is no stack.
            origin: S3.
            clock: Clock for the age of copies.
            memory: Cache of small objects. None: objects are not cached.
            heads: Cache of HEAD responses for objects that the caller reads in parts. None: they are not cached.
            max_stale_s: As for `Reader` [s].
            start: Runs a function in the background.
            hit: Called with the request and the entry of each memory hit.
            loaded: Called with the request and the entry of each complete object that comes from S3 or a tier.
            next_after_s: Maximum time that a request to S3 waits for an identical one in flight [s].
        """
        self._origin = origin
        self._clock = clock
        self.memory = memory
        self._heads = heads
        self._absences = NegativeCache() if memory is not None and max_stale_s > STRONG_S else None
        self._served_last = MonotonicReads(clock)
        self._max_stale_s = max_stale_s
        self._start = start
        self._hit = hit
        self._loaded = loaded
        self._breakers = CircuitBreakers(clock)
        self._adopting: set[str] = set()
        self._ranged: LRUCache[str, bool] = LRUCache(_MOST_RANGED)  # small objects of which one range has been read
        self._lock = Lock()
        self._confirmations: SingleFlight[_Confirmation | None, Ticket] = SingleFlight(
            clock, self.ticket, next_after_s=next_after_s
        )
        self._head_requests: SingleFlight[Entry | None, Ticket] = SingleFlight(
            clock, self.ticket, next_after_s=next_after_s
        )
        # The digest invalidates copies. Without it, only recently confirmed copies are served.
        caches = [each for each in (memory, heads, self._absences) if each is not None]
        self._digest = digest if caches and STRONG_S < max_stale_s < IMMUTABLE_S else None
        if self._digest is not None:
            for each in caches:
                self._digest.subscribe(each.drop_changed)

    def ticket(self) -> Ticket:
        """Return a ticket for a load that starts now."""
        return Ticket(0 if self._digest is None else self._digest.sequence, instant(self._clock))

    def respond(self, request: Request) -> Response | None:
        """Return the response if the object, or its absence, is cached. May wait for S3 to revalidate it.

        The caller has to check `may_follow`.
        """
        if self.memory is None:
            return None
        is_current = self._digest is not None and self._digest.is_within(self._max_stale_s)
        return self._from_memory(self.memory, request, is_current, may_ask=True)

    def recall(self, request: Request) -> Response | None:
        """Return the cached response if it needs no revalidation. Never blocks, so event loops may call it."""
        if self.memory is None or max_age_s(request.headers) is not None:
            return None
        is_current = self._digest is not None and self._digest.is_known_within(self._max_stale_s)
        response = self._from_memory(self.memory, request, is_current, may_ask=False)
        return response if response is not None and self.may_follow(request, response) else None

    def stored(self, request: Request) -> Entry | None:
        """Return the cached entry or head of a key, of any age. The caller has S3 confirm it."""
        for each in (self.memory, self._heads):
            if each is not None and (cached := each.get(request.hash)) is not None:
                return cached.entry
        return None

    def confirm(self, request: Request, entry: Entry, ticket: Ticket) -> None:
        """Cache an entry or head that S3 has confirmed. `ticket` was taken before the request to S3."""
        self._served_last.record(request.hash, entry.etag, ticket.at)
        confirmed = entry.confirmed(request.at_us)
        for each in (self.memory, self._heads):
            if each is not None:
                each.put(request.hash, confirmed, ticket)

    def recall_entry(self, request: Request) -> tuple[CachedEntry, int] | None:
        """Return the entry that answers a read without conditions and range as `recall` does, and its bound [ms].

        Never blocks. None: the object is not cached, is too old, or is absent.
        """
        if self.memory is None:
            return None
        is_current = self._digest is not None and self._digest.is_known_within(self._max_stale_s)
        cached = self.memory.get(request.hash)
        if cached is None:
            return None
        age_s = seconds_since(self._clock, cached.ticket.at)
        if not (is_current or self._is_within(age_s)):
            return None
        if not self._served_last.may_follow(request.hash, cached.entry.etag):
            return None
        self._hit(request, cached.entry)
        return cached, self._bound_ms(age_s)

    def hit_response(self, request: Request, entry: Entry, ticket: Ticket, *, tier: str = "memory") -> Response:
        """Count a local hit, and return its response."""
        self._hit(request, entry)
        return hit_response(request, entry.meta, entry.body, tier, bound_ms=self.bound_ms(ticket))

    def count_hit(self, request: Request, entry: Entry) -> None:
        """Count a read that shares the response of another read's memory hit."""
        self._hit(request, entry)

    def bound_ms(self, ticket: Ticket) -> int:
        """Return the staleness bound of a copy with this ticket [ms]: the copy includes all writes announced before."""
        return self._bound_ms(seconds_since(self._clock, ticket.at))

    def fresh_tickets(self, hash_: str) -> Callable[[Ticket], bool]:
        """Return a predicate: whether an object loaded with the given ticket is fresh enough. Never blocks."""
        memory = self.memory
        if memory is None or self._max_stale_s == STRONG_S:
            return never
        is_current = self._digest is not None and self._digest.is_known_within(self._max_stale_s)

        def is_fresh(ticket: Ticket) -> bool:
            return (is_current or self._is_young(ticket)) and not memory.may_have_changed(hash_, ticket)

        return is_fresh

    def may_follow(self, request: Request, response: Response) -> bool:
        """Return True if a copy's response may be returned, but not a 412 or 416: S3 may have a newer version."""
        if response.status in _REFUSED:
            return False
        version = _version(response.status, response.headers)
        return version is None or self._served_last.may_follow(request.hash, version)

    def note_answer(self, request: Request, status: int, headers: Mapping[str, str], ticket: Ticket) -> None:
        """Record the version that S3 returned. No older copy is served afterwards.

        Args:
            request: The read.
            status: S3's status.
            headers: S3's headers, with names in lower case.
            ticket: Taken before the request to S3.
        """
        if (version := _version(status, headers)) is not None:
            self._served_last.record(request.hash, version, ticket.at)

    def accepts(self, size_bytes: int) -> bool:
        """Return True if memory accepts an object of this size."""
        return self.memory is not None and self.memory.accepts(size_bytes)

    def keep(self, request: Request, entry: Entry, ticket: Ticket) -> None:
        """Cache a complete object if it is small, and clear its negative entry. `ticket` was taken before its load."""
        if self.memory is not None:
            self.memory.put(request.hash, entry, ticket)
        if self._absences is not None:
            self._absences.drop(request.hash)
        self._loaded(request, entry)

    def note_absence(self, request: Request, ticket: Ticket) -> None:
        """Record that S3 has no such object. `ticket` was taken before the request to S3."""
        if self._absences is not None:
            self._absences.record(request.hash, ticket)

    def adopt(self, request: Request, entry: Entry) -> None:
        """Cache a tier's copy, in the background.

        A tier may still be replacing its copy when the digest already lists the change, so S3 has to confirm the copy.
        """
        if self.memory is None or request.method == "HEAD" or not self.memory.accepts(entry.size_bytes):
            return
        if self._max_stale_s == IMMUTABLE_S:
            self.memory.put(request.hash, entry, self.ticket())
        elif (
            len(self._adopting) < _MOST_ADOPTING  # a later hit retries
            and request.hash not in self._adopting
            and not self._breakers.is_open((request.hash, entry.etag))
        ):
            is_started = False
            try:
                self._adopting.add(request.hash)
                is_started = try_start(self._start, partial(self._adopt_confirmed, self.memory, request, entry))
            finally:
                if not is_started:  # no thread, or the caller's thread was interrupted
                    self._adopting.discard(request.hash)

    def forget(self, hash_: str) -> None:
        """Invalidate the copies of a key after the caller has changed the object."""
        for each in (self.memory, self._heads, self._absences):
            if each is not None:
                each.forget(hash_, instant(self._clock))

    def describe(self, request: Request) -> Response | None:
        """Return the response, without its body, to a read of a large object whose headers are cached.

        They are at most `max_stale_s` stale. If they fail a condition of the read, or are of another version than the
        last answer, S3 sends newer ones. None: the object is not known to be large.
        """
        if self._heads is None:
            return None
        is_current = self._digest is not None and self._digest.is_within(self._max_stale_s)
        if (response := self._fresh_head(self._heads, request, is_current)) is not None:
            return response
        if self._heads.get(request.hash) is None:
            return None
        head = self._requested_head(self._heads, request)
        cached = self._heads.get(request.hash)
        bound_ms = 0 if cached is None else self.bound_ms(cached.ticket)
        return None if head is None else self._described(request, head, bound_ms)

    def recall_head(self, request: Request) -> Response | None:
        """Return the response as `describe` does, if it needs no request to S3. Never blocks."""
        if self._heads is None:
            return None
        is_current = self._digest is not None and self._digest.is_known_within(self._max_stale_s)
        return self._fresh_head(self._heads, request, is_current)

    def _fresh_head(self, heads: HeadCache, request: Request, is_current: bool) -> Response | None:
        cached = heads.get(request.hash)  # after the digest, since its refresh may drop entries
        if cached is None:
            return None
        age_s, limit_s = seconds_since(self._clock, cached.ticket.at), max_age_s(request.headers)
        response = self._described(request, cached.entry, self._bound_ms(age_s))
        is_fresh = (is_current or self._is_within(age_s)) and (limit_s is None or age_s < limit_s)
        is_final = self._max_stale_s == IMMUTABLE_S or response.status not in _REFUSED
        may_follow = self._served_last.may_follow
        return response if is_fresh and is_final and may_follow(request.hash, cached.entry.etag) else None

    def note_range(self, request: Request) -> None:
        """Note that a range of a small object has been read."""
        with self._lock:
            self._ranged[request.hash] = True

    def wants_whole(self, request: Request) -> bool:
        """Return True for the second read of a range of a small object, which should load all of it."""
        if request.range is None or request.hash not in self._ranged:
            return False
        with self._lock:
            return self._ranged.pop(request.hash, False)

    def _described(self, request: Request, head: Entry, bound_ms: int) -> Response:
        return hit_response(request, head.meta, b"", "memory", bound_ms=bound_ms)

    def note_head(self, request: Request, headers: Mapping[str, str], ticket: Ticket) -> Entry | None:
        """Cache and return the headers of an object that is read in parts. Return None for other objects.

        Args:
            request: The read.
            headers: S3's headers for the object or a part of it, with names in lower case.
            ticket: Taken before the request to S3.
        """
        if self._heads is None:
            return None
        if not self._heads.accepts(object_size_bytes(headers)):
            self._heads.drop(request.hash)
            return None
        entry = head_from_s3(headers).confirmed(request.at_us)
        self._heads.put(request.hash, entry, ticket)
        return entry

    def adopt_head(self, request: Request, head: Entry) -> Response | None:
        """Cache the head of a large object that some process has stored before, and return its response as `describe`.

        The head is as old as its date.
        """
        if self._heads is None or not self._heads.accepts(head.size_bytes):
            return None
        ticket = self._ticket_of(head)
        self._heads.put(request.hash, head, ticket)
        return self._described(request, head, self.bound_ms(ticket))

    def respond_stored(self, request: Request, stored: Entry, *, may_ask: bool = True) -> Response | None:
        """Return the response from an object that some process has stored on disk, once S3 has confirmed it.

        An immutable object needs no confirmation, and is as old as its date. The caller has to check `may_follow`.
        If the entry lacks its body, so does the response. None: S3 has to serve a normal read, or to confirm the
        object although `may_ask` is False.
        """
        cached = CachedEntry(request.hash, stored, self._ticket_of(stored))
        has_changed = any(  # by this process
            each is not None and each.may_have_changed(request.hash, cached.ticket)
            for each in (self.memory, self._heads)
        )
        if self._max_stale_s == IMMUTABLE_S and max_age_s(request.headers) is None and not has_changed:
            if self.memory is not None and len(stored.body) == stored.size_bytes:
                self.memory.put(request.hash, stored, cached.ticket)
            return self.hit_response(request, stored, cached.ticket, tier="disk")
        return self._confirmed(request, cached, tier="disk") if may_ask else None

    def _ticket_of(self, stored: Entry) -> Ticket:
        """Return a ticket that is as old as the date of an entry that some process has stored."""
        ticket = self.ticket()
        at_us = round(1e6 * (timestamp_s(stored.meta.get("date", "")) or 0))
        age_s = max(0, ticket.at.at_us - at_us) / 1e6
        return Ticket(ticket.sequence, Instant(ticket.at.monotonic_s - age_s, at_us))

    def _from_memory(self, memory: MemoryTier, request: Request, is_current: bool, *, may_ask: bool) -> Response | None:
        cached = memory.get(request.hash)  # after the digest, since its refresh may drop entries
        if cached is None:
            return self._absence(request)
        age_s = seconds_since(self._clock, cached.ticket.at)
        if is_current or self._is_within(age_s):
            bound_ms = self._bound_ms(age_s)
            response = hit_response(request, cached.entry.meta, cached.entry.body, "memory", bound_ms=bound_ms)
            if response.status not in _REFUSED:  # else S3 serves the read
                self._hit(request, cached.entry)
            return response
        return self._confirmed(request, cached) if may_ask else None

    def _is_young(self, ticket: Ticket) -> bool:
        return self._is_within(seconds_since(self._clock, ticket.at))

    def _is_within(self, age_s: float) -> bool:
        return age_s <= self._max_stale_s != STRONG_S

    def _bound_ms(self, age_s: float) -> int:
        if self._max_stale_s == IMMUTABLE_S:
            return 0
        if self._digest is not None:
            age_s = min(age_s, max(self._digest.age_s, self._digest.backlog_s))
        return round(1000 * age_s)

    def _absence(self, request: Request) -> Response | None:
        """Return a 404 if S3 has recently returned one."""
        ticket = None if self._absences is None else self._absences.ticket(request.hash)
        requested_s = max_age_s(request.headers)
        limit_s = min(self._max_stale_s, MAX_STALE_S, MAX_STALE_S if requested_s is None else requested_s)
        if ticket is None or (age_s := seconds_since(self._clock, ticket.at)) > limit_s:
            return None
        bound_ms = self.bound_ms(ticket)
        return no_such_key(request).served_by("memory", is_hit=True, bound_ms=bound_ms, age_s=int(age_s))

    def _confirmed(self, request: Request, cached: CachedEntry, *, tier: str = "memory") -> Response | None:
        """Return the response after S3 has confirmed or replaced the entry, or None if S3 has to serve a normal read.

        Concurrent reads of an entry share its revalidation, even with different ranges or conditions. Each read builds
        its own response.
        """
        confirmation, shared = self._confirmations.run(
            (request.hash, cached.entry.etag, cached.entry.last_modified),
            partial(self._confirm, request, cached),
            may_follow=self.fresh_tickets(request.hash),
        )
        if confirmation is None:
            return None
        if confirmation.entry is None:
            return replace(origin_unavailable(request.method), cause=confirmation.error).served_by("s3", is_hit=False)
        entry, is_hit = confirmation.entry, confirmation.is_hit
        if shared is not None and request.method == "GET":
            self._origin.publish_report(request, etag=entry.etag, size_bytes=0 if is_hit else entry.size_bytes)
        response = object_response(request, entry.meta, entry.body)
        bound_ms = 0 if shared is None or self._max_stale_s == STRONG_S else self.bound_ms(shared)
        return response.served_by(tier if is_hit else "s3", is_hit=is_hit, bound_ms=bound_ms)

    def _confirm(self, request: Request, cached: CachedEntry) -> _Confirmation | None:
        """Revalidate an entry with S3, and cache the current one. Return None if S3 has to serve a normal read."""
        ticket = self.ticket()
        try:
            newer = self._origin.revalidate(request, cached.entry)
        except OriginError as error:
            is_gone = isinstance(error, (ObjectNotFoundError, ObjectTooLargeError, UnidentifiedObjectError))
            if is_gone and self.memory is not None:
                self.memory.drop(request.hash)
            is_late = seconds_since(self._clock, ticket.at) > RETRY_WITHIN_S
            if not (is_late and isinstance(error, OriginUnavailableError)):
                return None
            logger().error("S3 did not answer", reason=str(error), tier="s3", key=request.key, key_hash=request.hash)
            return _Confirmation(None, error=error)
        entry = (newer or cached.entry).confirmed(request.at_us)
        self._served_last.record(request.hash, entry.etag, ticket.at)
        if self.memory is not None:
            self.memory.put(request.hash, entry, ticket)
        if newer is not None:
            self._loaded(request, entry)
        return _Confirmation(entry, is_hit=newer is None)

    def _adopt_confirmed(self, memory: MemoryTier, request: Request, entry: Entry) -> None:
        try:
            ticket = self.ticket()
            is_kept = self._origin.is_current(request.key, entry) and memory.put(request.hash, entry, ticket)
            if is_kept:
                self._breakers.record_success((request.hash, entry.etag))
            else:
                self._breakers.record_failure((request.hash, entry.etag))
        except OriginError:
            self._breakers.record_failure((request.hash, entry.etag))
        finally:
            self._adopting.discard(request.hash)

    def _requested_head(self, heads: HeadCache, request: Request) -> Entry | None:
        request_head = partial(self._request_head, heads, request)
        is_fresh = self._fresh_head_tickets(heads, request)
        head, shared = self._head_requests.run(request.hash, request_head, may_follow=is_fresh)
        if shared is not None and head is not None and not self._served_last.may_follow(request.hash, head.etag):
            return request_head()  # the shared HEAD had begun before another answer
        return head

    def _fresh_head_tickets(self, heads: HeadCache, request: Request) -> Callable[[Ticket], bool]:
        """Return a predicate: whether a HEAD sent with the given ticket is fresh enough for the read."""
        limit_s = max_age_s(request.headers)

        def is_fresh(ticket: Ticket) -> bool:
            is_young = limit_s is None or seconds_since(self._clock, ticket.at) < limit_s
            return is_young and self._is_young(ticket) and not heads.may_have_changed(request.hash, ticket)

        return is_fresh

    def _request_head(self, heads: HeadCache, request: Request) -> Entry | None:
        ticket = self.ticket()
        response = self._origin.read(replace(request, method="HEAD", headers={}, range=None))
        self.note_answer(request, response.status, response.headers, ticket)
        if response.status in _SENT and response.is_keepable:
            return self.note_head(request, response.headers, ticket)
        if response.status == _NOT_FOUND:
            heads.drop(request.hash)
        return None


def _version(status: int, headers: Mapping[str, str]) -> str | None:
    """Return the object's version in a response, or None if it has none."""
    return ABSENT if status == _NOT_FOUND else headers.get("etag")
