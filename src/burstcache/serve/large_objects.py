"""Large objects: the body of a response is read in slices, once the object's cached head has decided the rest of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from cachetools import LRUCache

from burstcache.core.errors import ObjectNotFoundError, OriginError, PreconditionFailedError
from burstcache.core.slices import Version, aligned
from burstcache.forks import Lock
from burstcache.logs import logger
from burstcache.serve.read_stats import ReadCounter
from burstcache.serve.slices import Slices
from burstcache.web.entry import Entry, decode_parts, encode, head_from_s3
from burstcache.web.headers import object_size_bytes
from burstcache.web.ranges import ByteRange
from burstcache.web.request import Request
from burstcache.web.response import Response, origin_unavailable

_SENT = (200, 206)
_MOST_KEYS = 4096  # of versions whose heads are known to be on disk


@dataclass(frozen=True, slots=True)
class Part:
    """A part of one version of an object, from `start` up to `end`, exclusive [bytes].

    Attributes:
        begin: The bytes before the body in the file that has the whole object. Empty: slices have it.
    """

    version: Version
    start: int
    end: int
    begin: bytes = b""


class LargeObjects:
    """A thread-safe reader of the bodies of large objects.

    Attributes:
        slices: Reads parts of large objects.
        above_bytes: Objects above this size are large [bytes].
        most_body_bytes: Up to this length, an object's slices are kept from S3's response to a plain GET [bytes].
        counter: Counts reads.
    """

    def __init__(
        self, slices: Slices, above_bytes: int, *, most_body_bytes: int = 0, counter: ReadCounter | None = None
    ) -> None:
        """Create the reader. See the attributes for the arguments."""
        self.slices = slices
        self.above_bytes = above_bytes
        self.most_body_bytes = most_body_bytes
        self.counter = counter or ReadCounter()
        self._lock = Lock()
        self._known: LRUCache[str, Version] = LRUCache(_MOST_KEYS)  # whose heads this process has stored on disk

    def complete(self, request: Request, response: Response) -> Response:
        """Return a response with its body, which comes from slices if the object is large. Count a GET.

        Raises:
            PreconditionFailedError, ObjectNotFoundError: The object has been overwritten or deleted since.
        """
        if (extent := response.extent) is not None:
            version = self._version(request, response.headers, extent.object_bytes)
            start, end = extent.start, extent.end
        elif self.is_left(request, response):
            part = self._part(request, response.headers)
            version, start, end = part.version, part.start, part.end
        else:
            self.count(request, response)
            return response
        try:
            body, tier = self.slices.read(version, start, end)
        except (PreconditionFailedError, ObjectNotFoundError):
            raise
        except OriginError as error:
            logger().error("S3 did not answer", reason=str(error), tier="s3", key=request.key)
            return replace(origin_unavailable(request.method), cause=error)
        return Response(response.status, with_tier(response, tier, is_hit=tier != "s3").headers, body)

    def is_left(self, request: Request, response: Response) -> bool:
        """Return True if a response to a GET lacks its body, which slices have."""
        return request.method == "GET" and response.status in _SENT and not response.is_whole

    def is_large(self, headers: Mapping[str, str]) -> bool:
        """Return True if an object with these headers is large."""
        return object_size_bytes(headers) > self.above_bytes

    def part(self, request: Request, response: Response) -> Part:
        """Return the part of the object that belongs into a response."""
        if (extent := response.extent) is None:
            return self._part(request, response.headers)
        return Part(self._version(request, response.headers, extent.object_bytes), extent.start, extent.end)

    def stored_head(self, key: str, *, waits: bool = True) -> Entry | None:
        """Return the head, or the small object, that some process has stored on disk. It may have changed since.

        Args:
            key: The object's key.
            waits: Whether to wait for the disk. If False, None may also mean that it would be necessary.
        """
        if (stored := self.slices.stored_head(key, waits=waits)) is None:
            return None
        try:
            return decode_parts(*stored)
        except ValueError:  # a file of another program
            return None

    def stored_begin(self, key: str) -> tuple[Entry, bytes] | None:
        """Return the head of a small object on disk, and its encoded form, if that needs no wait for the disk."""
        if (begin := self.slices.stored_begin(key)) is None:
            return None
        try:
            head = decode_parts(begin, b"")
        except ValueError:
            return None
        return None if self.is_large(head.meta) else (head, begin)

    def part_of_stored(self, request: Request, response: Response, begin: bytes) -> Part:
        """Return the part of a small object on disk that belongs into a response."""
        size_bytes = object_size_bytes(response.headers)
        version = Version(request.key, request.hash, response.headers["etag"], size_bytes)
        start, end = (0, size_bytes) if (extent := response.extent) is None else (extent.start, extent.end)
        return Part(version, start, end, begin)

    def store_whole(self, request: Request, entry: Entry) -> None:
        """Store a small object on disk, if there is one, for the next process. Do not wait for that."""
        if self.slices.has_disk and entry.size_bytes <= self.above_bytes:
            with self._lock:
                self._known.pop(request.hash, None)
            self.slices.store_whole(request.key, entry.size_bytes, partial(encode, entry))

    def in_whole_slices(self, request: Request) -> Request | None:
        """Return a GET of the whole slices that a range touches, or None if the range is better read as it is.

        A large object then costs no second GET for the same slice.
        """
        if request.range is None or request.method != "GET" or "cache-control" in request.headers:
            return None
        first, last = request.range.first, request.range.last
        if first is None or last is None or not self.slices.has_caches:
            return None
        start, end = aligned(first, last + 1)
        wider = ByteRange(start, end - 1)
        is_long = end - start > self.most_body_bytes
        return None if is_long or wider == request.range else replace(request, range=wider)

    def keep(self, request: Request, headers: Mapping[str, str], body: bytes) -> None:
        """Keep the slices of a large object that a response of S3 contains.

        Args:
            request: The GET.
            headers: S3's headers, which identify the version. Names in lower case.
            body: The whole body of the response.
        """
        part = self._part(request, headers)
        if part.end - part.start == len(body):
            self.slices.keep(part.version, part.start, memoryview(body))

    def count(self, request: Request, response: Response) -> None:
        """Count the response to a GET, unless slices have served it, and warn if no tier can cache the object."""
        if request.method != "GET" or response.status not in _SENT:
            return
        tier = response.headers["x-cache-tier"]
        self.counter.count(tier, len(response.body))
        if tier == "s3":
            self.note_bypass(request.key, response.headers, is_keepable=response.is_keepable)

    def note_bypass(self, key: str, headers: Mapping[str, str], *, is_keepable: bool) -> None:
        """Warn once per key if no cache accepts an object that S3 has sent."""
        if not is_keepable:
            self.counter.bypass(key, "S3 does not identify its version, since it has no strong ETag")
        elif not self.slices.has_caches and self.is_large(headers):
            self.counter.bypass(
                key,
                f"it has more than {self.above_bytes >> 20} MiB; accepted: memory_bytes of at least 8 MiB, or disk",
            )

    def _part(self, request: Request, headers: Mapping[str, str]) -> Part:
        """Return the part of an object that headers describe."""
        size_bytes = object_size_bytes(headers)
        version = self._version(request, headers, size_bytes)
        if not (sent := headers.get("content-range")):
            return Part(version, 0, size_bytes)
        first, _, last = sent.removeprefix("bytes ").partition("/")[0].partition("-")
        return Part(version, int(first), int(last) + 1)

    def _version(self, request: Request, headers: Mapping[str, str], size_bytes: int) -> Version:
        """Return the version of an object that headers describe. Store its head on disk for the next process."""
        known = self._known.get(request.hash)
        if known is not None and known.etag == headers["etag"] and known.size_bytes == size_bytes:
            return known
        version = Version(request.key, request.hash, headers["etag"], size_bytes)
        with self._lock:
            self._known[request.hash] = version
        confirmed_us = request.at_us - 1_000_000 * int(headers.get("age", 0))
        self.slices.note_head(request.key, encode(head_from_s3(headers).confirmed(confirmed_us)))
        return version


def with_tier(response: Response, tier: str, *, is_hit: bool) -> Response:
    """Return a response whose headers name the slowest tier that its body needs."""
    hit = "hit" if is_hit else "miss"
    if (response.headers["x-cache-tier"], response.headers["x-cache"]) == (tier, hit):
        return response
    return replace(response, headers={**response.headers, "x-cache-tier": tier, "x-cache": hit})
