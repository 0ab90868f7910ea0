"""Shared reads: concurrent identical reads share one walk through the tiers, or one request to S3 (single flight)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace

from burstcache.adapters.clock import Clock, seconds_since
from burstcache.adapters.single_flight import SingleFlight
from burstcache.serve.local_cache import LocalCache
from burstcache.serve.memory_tier import Ticket
from burstcache.serve.tier import Origin
from burstcache.web.entry import Entry
from burstcache.web.headers import object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response

Read = Callable[[Request], Response]

_OK, _NOT_MODIFIED, _NOT_FOUND = 200, 304, 404
_SENT = (200, 206)
_CONDITIONS = frozenset({"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"})


class SharedReads:
    """A thread-safe wrapper of reads that lets the callers of one response count and date it for themselves.

    Args:
        local_cache: Decides whether a caller may use another caller's response.
        origin: Takes the reports of shared reads of S3.
        clock: Clock for the age of responses.
        next_after_s: Maximum time that a read of S3 waits for an identical one in flight [s].
    """

    def __init__(self, local_cache: LocalCache, origin: Origin, clock: Clock, *, next_after_s: float) -> None:
        self._local_cache = local_cache
        self._origin = origin
        self._clock = clock
        ticket = local_cache.ticket
        # A read that cannot share the load in flight tries the tiers below memory immediately. Only reads of S3 wait.
        self._loads: SingleFlight[Response, Ticket] = SingleFlight(clock, ticket, next_after_s=0)
        self._s3_reads: SingleFlight[Response, Ticket] = SingleFlight(clock, ticket, next_after_s=next_after_s)

    def load(self, request: Request, load: Read) -> Response:
        """Load an object from the tiers below memory, or share another thread's load that is still fresh enough."""

        def lead() -> Response:
            return self._local_cache.recall(request) or load(request)  # another load may have just ended

        is_fresh = self._local_cache.fresh_tickets(request.hash)
        response, ticket = self._loads.run(request.hash, lead, may_follow=is_fresh)
        return response if ticket is None else self.follow(request, response, ticket) or load(request)

    def read_s3(self, request: Request, read: Read) -> Response:
        """Return S3's response, or the response to another caller's identical read that started after this one."""
        response, shared = self._s3_reads.run(flight_key(request), lambda: read(request))
        if shared is not None:
            self._count(request, response, is_from_memory=False)
        return response

    def follow(
        self, request: Request, response: Response, ticket: Ticket, *, since: Ticket | None = None
    ) -> Response | None:
        """Return and count the response to another caller's identical read, or None if this caller may not use it.

        Args:
            request: The caller's own request.
            response: The response to the other read.
            ticket: Taken before the other read began.
            since: Taken when the caller's read began. The response to a read that began later needs no age check.
        """
        if not self._local_cache.may_follow(request, response):
            return None
        is_from_memory = response.headers["x-cache-tier"] == "memory"
        is_read = response.status in _SENT and not is_from_memory
        is_later = since is not None and ticket.at >= since.at
        if is_later or not (is_read or response.status == _NOT_FOUND):
            self._count(request, response, is_from_memory=is_from_memory)
            return response
        response = replace(response, headers={**response.headers, "age": str(self._age_s(response, ticket))})
        if is_read and is_plain(request) and response.is_whole and response.is_keepable:
            entry = Entry(response.headers, response.body)
            if self._local_cache.accepts(entry.size_bytes):
                return self._local_cache.hit_response(request, entry, ticket)
        self._count(request, response, is_from_memory=is_from_memory)
        return response.served_by("memory", is_hit=True, bound_ms=self._local_cache.bound_ms(ticket))

    def forget(self, hash_: str) -> None:
        """Let no read that starts from now on share a load of an object that the caller has changed."""
        self._loads.forget(hash_)

    def _count(self, request: Request, response: Response, *, is_from_memory: bool) -> None:
        """Count a read that shares another caller's response, as a memory hit or a read of S3."""
        if request.method != "GET" or response.status not in (*_SENT, _NOT_MODIFIED):
            return
        etag = response.headers.get("etag", "")
        size_bytes = 0 if response.status == _NOT_MODIFIED else object_size_bytes(response.headers)
        if is_from_memory:
            self._local_cache.count_hit(request, Entry({"etag": etag, "content-length": str(size_bytes)}, b""))
        else:
            self._origin.publish_report(request, etag=etag, size_bytes=size_bytes)

    def _age_s(self, response: Response, ticket: Ticket) -> int:
        """Return the age of a shared response [s]. The shared read may have begun long before the caller's."""
        since_s = seconds_since(self._clock, ticket.at)
        is_copy = response.headers["x-cache"] == "hit"  # its age was rounded down
        return int(response.headers["age"]) + (math.ceil(since_s) if is_copy else int(since_s))


def flight_key(request: Request) -> Hashable:
    """Return the single-flight key of a read. Reads with equal keys get the same response from S3."""
    conditions = tuple((name, request.headers[name]) for name in sorted(_CONDITIONS & request.headers.keys()))
    return request.method, request.hash, str(request.range or ""), conditions


def is_plain(request: Request) -> bool:
    """Return True if the request is for the whole object, without conditions or its own age limit."""
    is_whole = request.method == "GET" and request.range is None and _CONDITIONS.isdisjoint(request.headers)
    return is_whole and "cache-control" not in request.headers
