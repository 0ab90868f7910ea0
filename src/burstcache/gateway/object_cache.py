"""Object cache of a gateway's process: the client's reader, as an event loop uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from cachetools import TTLCache

from burstcache.client.client import Client
from burstcache.core.errors import BurstcacheError, RefusedRequestError
from burstcache.core.keys import key_hash
from burstcache.gateway.checksums import is_intact
from burstcache.gateway.generations import GenerationCheck, Generations
from burstcache.gateway.s3_requests import ObjectRead, Target
from burstcache.logs import logger
from burstcache.serve.large_objects import Part, with_tier
from burstcache.serve.memory_tier import CachedEntry
from burstcache.serve.reader import Miss
from burstcache.web.entry import Entry, entry_from_s3
from burstcache.web.headers import is_identified, object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response, object_response

RECALLED_BYTES = 1 << 20  # the longest part of a large object that is copied from memory at once
_JOINED_BYTES = 1 << 17  # the longest part that is read from disk into memory of its own: longer ones recycle memory
_ANSWERED = (200, 206, 304)  # for other statuses, S3's response has more details
_SENT = (200, 206)
_NOT_FOUND, _NOT_MODIFIED = 404, 304
_PERMITTED_BYTES = 64 << 20  # of a large object, read before S3 is asked whether the caller may have it
_WRITTEN_FOR_S = 60.0  # S3's event of a write normally invalidates every copy within a second
_MOST_WRITTEN = 65_536
_LOOKUP_THREADS = 1024  # lookups at once: each may wait for S3 to confirm a copy, so fewer would delay the others

Body = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Stored:
    """A copy whose age is not known: S3 has to confirm it."""

    entry: Entry
    part: bytes | None  # the requested part of a large object. None: the entry has the whole body

    def answer(self, request: Request) -> tuple[Response, Body]:
        """Return the response and its body."""
        response = object_response(request, self.entry.meta, self.entry.body)
        return response.served_by("memory", is_hit=True), response.body if self.part is None else self.part


class ObjectCache:
    """The cache of one bucket. Only methods that say so may be called outside the event loop."""

    def __init__(
        self, client: Client, generations: Generations, process: int, note_failed_invalidation: Callable[[], None]
    ) -> None:
        """Create the cache.

        Args:
            client: Reads the bucket. It stays open.
            generations: What the gateway's processes have written.
            process: The index of this process.
            note_failed_invalidation: Called after a write if the stack's copies of a key could not be dropped.
        """
        self._note_failed_invalidation = note_failed_invalidation
        self.bucket = client.bucket_name
        self.client = client
        # The client's properties check on each use that the process has not been forked since.
        self._reader, self._large, self._requests = client.reader, client.large, client.requests
        self._generations = GenerationCheck(generations, process, client.reader.forget)
        self._written: TTLCache[str, None] = TTLCache(_MOST_WRITTEN, _WRITTEN_FOR_S)
        # The client's threads read the disk. They must not wait for a slow S3.
        self._lookups = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="burstcache-lookups")

    def close(self) -> None:
        """Accept no more lookups. Those under way go on."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    def request(self, method: str, target: Target, read: ObjectRead) -> Request | None:
        """Return the request for the reader, after dropping copies that other processes know to be old.

        None: only S3 can answer it, or it has to, since the stack's copies may be old.
        """
        if target.bucket != self.bucket or target.hash in self._written:
            return None
        if not self._reader.may_read(target.key):
            return None
        try:
            request = self._requests.read(method, target.key, read.conditions, range=read.range)
        except RefusedRequestError:  # S3 may accept it
            return None
        self._generations.refresh(request.hash)
        return request

    def recall(self, request: Request) -> tuple[Response, Body] | None:
        """Return the response and its body if this machine's memory has both, and they are fresh. Never blocks."""
        response, large = self._reader.recall(request), self._large
        if response is None or (response.status not in _ANSWERED and not self._is_cached_absence(response)):
            return None
        if not large.is_left(request, response):
            large.count(request, response)
            return response, response.body
        part = large.part(request, response)
        if part.end - part.start > RECALLED_BYTES:
            return None
        if part.end - part.start > _JOINED_BYTES:
            body, tier = large.slices.recall(part.version, part.start, part.end), "memory"
        elif (found := large.slices.read_cached(part.version, part.start, part.end, waits=False)) is not None:
            body, tier = found
        else:
            return None
        return None if body is None else (with_tier(response, tier, is_hit=True), body)

    def recall_part(self, request: Request) -> tuple[Response, Part] | None:
        """Return the response, and the part that is its body, if a file in the system's memory has it. Never blocks."""
        if (found := self._reader.recall_part(request)) is not None:
            self._large.counter.count("disk", found[1].end - found[1].start)
        return found

    def recall_entry(self, request: Request) -> tuple[CachedEntry, int] | None:
        """Return the entry that answers a plain GET and its bound [ms], if it is in memory and fresh. Never blocks."""
        found = self._reader.local_cache.recall_entry(request)
        if found is not None:
            self._large.counter.count("memory", len(found[0].entry.body))
        return found

    async def find(self, request: Request) -> Response | Miss:
        """Return the response of the first tier above S3, which lacks the body of a large object, or a miss."""
        reader = self._reader
        if reader.needs_s3(request):  # a thread would find nothing
            return reader.miss()
        try:
            found = await asyncio.wrap_future(self._lookups.submit(reader.find, request))
        except BurstcacheError as error:
            logger().warning("the cache failed, S3 serves", reason=repr(error), key=request.key)
            return reader.miss()
        if not isinstance(found, Response):
            return found
        if found.status not in _ANSWERED and not self._is_cached_absence(found):
            return reader.miss()
        if not self._large.is_left(request, found):
            self._large.count(request, found)
        return found

    def part(self, request: Request, response: Response) -> Part | None:
        """Return the part of a large object that a response lacks. None: it is complete."""
        return self._large.part(request, response) if self._large.is_left(request, response) else None

    def miss(self) -> Miss:
        """Return a miss for a read that goes to S3 now."""
        return self._reader.miss()

    async def stored(self, request: Request) -> Stored | None:
        """Return a copy in this machine's memory or on its disk, of any age, that has all that a read asks for."""
        return await asyncio.wrap_future(self.client.submit(self._stored, request))

    def _stored(self, request: Request) -> Stored | None:
        reader, large = self._reader, self._large
        entry = reader.local_cache.stored(request) or large.stored_head(request.key)
        if entry is None:
            return None
        if not large.is_large(entry.meta):
            return Stored(entry, None) if len(entry.body) == entry.size_bytes else None
        response = object_response(request, entry.meta, b"")
        if not large.is_left(request, response):
            return Stored(entry, b"") if response.status in _ANSWERED else None
        part = large.part(request, response)
        if part.end - part.start > _PERMITTED_BYTES:
            return None
        found = large.slices.read_cached(part.version, part.start, part.end)
        return None if found is None else Stored(entry, found[0])

    def confirm(self, request: Request, entry: Entry, miss: Miss) -> None:
        """Note that S3 has confirmed a copy."""
        self._reader.local_cache.confirm(request, entry, miss.ticket)

    def note_head(self, request: Request, headers: Mapping[str, str], miss: Miss) -> None:
        """Note the headers of a large object."""
        if is_identified(headers):
            self._reader.local_cache.note_head(request, headers, miss.ticket)

    def note_answer(self, request: Request, status: int, headers: Mapping[str, str], miss: Miss) -> None:
        """Note S3's response to a read, and report it. Header names are in lower case."""
        reader = self._reader
        reader.local_cache.note_answer(request, status, headers, miss.ticket)
        if request.method == "GET" and status in _ANSWERED:
            size_bytes = 0 if status == _NOT_MODIFIED else object_size_bytes(headers)
            reader.report(request, etag=headers.get("etag", ""), size_bytes=size_bytes)

    def count_sent(self, request: Request, status: int, headers: Mapping[str, str]) -> None:
        """Count a read whose whole response S3 sends, and warn if no cache accepts the object."""
        if request.method == "GET" and status in _SENT:
            self._large.counter.count("s3", int(headers.get("content-length", 0)))
            self._large.note_bypass(request.key, headers, is_keepable=is_identified(headers))

    def note_absence(self, request: Request, miss: Miss) -> None:
        """Note that S3 has no such object."""
        self._reader.local_cache.note_absence(request, miss.ticket)

    def take_over(self, request: Request, status: int, headers: Mapping[str, str], miss: Miss) -> Response | None:
        """Return the response of a large object that S3 has begun to send, for its slices. None: S3 sends all of it."""
        if status not in _SENT or not is_identified(headers):
            return None
        head = self._reader.local_cache.note_head(request, headers, miss.ticket)
        is_long = request.method == "GET" and head is not None and head.size_bytes > self._large.most_body_bytes
        if head is None or status != 200 or not is_long:
            return None
        response = object_response(request, head.meta, b"").served_by("s3", is_hit=False)
        return response if response.status in _SENT else None

    def keeps(self, request: Request, status: int, headers: Mapping[str, str], miss: Miss) -> bool:
        """Return True if the cache keeps the body that S3 sends: a small object, or slices."""
        if request.method != "GET" or status not in _SENT or not is_identified(headers):
            return False
        length_bytes = int(headers["content-length"])
        is_small = status == 200 and self._reader.keeps(length_bytes, miss)
        return is_small or 0 < length_bytes <= self._large.most_body_bytes

    def keep(self, request: Request, status: int, headers: Mapping[str, str], body: bytes, miss: Miss) -> None:
        """Keep a body for which `keeps` was True, unless S3's checksum or a write of this process contradicts it."""
        if request.hash in self._written or (status == 200 and not is_intact(headers, body)):
            return
        reader = self._reader
        if status != 200 or not reader.keeps(len(body), miss):
            reader.keep_part(request, status, headers, body, miss)
            return
        entry = entry_from_s3(headers, body).confirmed(request.at_us)
        if miss.fills or self._large.slices.has_disk:  # these block
            self.client.submit(partial(reader.keep, request, entry), miss)
        else:
            reader.keep(request, entry, miss)

    def begin_write(self, keys: list[str]) -> None:
        """Drop this gateway's copies of keys before S3 gets a write."""
        for key in keys:
            self._generations.invalidate(key_hash(key))

    async def finish_write(self, keys: list[str]) -> None:
        """Drop all copies of keys after S3's response to a write."""
        if self.client.has_shared_copies:
            await asyncio.gather(*map(self._purge, keys))
        for key in keys:
            self._generations.invalidate(key_hash(key))

    async def _purge(self, key: str) -> None:
        """Drop the stack's copies of a key. This process reads from S3 for a while if that fails."""
        try:
            await asyncio.wrap_future(self.client.submit(self.client.purge, key))
        except BurstcacheError as error:
            self._written[key_hash(key)] = None
            self._note_failed_invalidation()
            logger().warning("copies not dropped after a write", reason=str(error), key=key)

    def note_bypass(self, key: str) -> None:
        """Count a read that only S3 can answer."""
        self._large.counter.bypass(key, "a parameter of the request needs S3")

    def _is_cached_absence(self, response: Response) -> bool:
        return response.status == _NOT_FOUND and response.headers.get("x-cache-tier") == "memory"
