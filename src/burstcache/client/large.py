"""Objects of any size: what is known of a large one decides the answer, and its bytes come slice by slice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from burstcache.client.slices import Slices
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import ObjectNotFoundError, OriginError, OriginUnavailableError, PreconditionFailedError
from burstcache.core.pool.slices import SLICE_BYTES, Version
from burstcache.logs import logger
from burstcache.serve.reader import Reader
from burstcache.web.entry import Entry, head_from_s3
from burstcache.web.request import Request
from burstcache.web.response import Response, object_response, origin_unavailable

_MOST_VERSIONS = 3  # of an object that is overwritten again and again while it is read
_SENT = (200, 206)


class LargeObjects:
    """Answers with objects of any size. Threads may share it.

    Args:
        reader: Answers with small ones, and knows of large ones what S3 said.
        slices: Reads parts of large ones.
        above_bytes: The largest object that is no large one [bytes].
    """

    def __init__(self, reader: Reader, slices: Slices, above_bytes: int) -> None:
        self._reader = reader
        self._slices = slices
        self._above_bytes = above_bytes

    def read(self, request: Request) -> Response:
        """Return the answer to a GET or HEAD: of a large object the bytes of one version."""
        if request.method == "HEAD":
            return self._reader.read(request)
        head = self._reader.head(request)
        for _ in range(_MOST_VERSIONS):
            if head is None:
                response = self._reader.read(request)
                if not _is_left(response):
                    return response
                head = head_from_s3(response.headers)
            try:
                return self._read(request, head)
            except (PreconditionFailedError, ObjectNotFoundError):
                head = None  # and forgotten
            except OriginError as error:
                logger().error("S3 did not answer", reason=str(error), tier="s3", key=request.key)
                return replace(origin_unavailable(request.method), cause=error)
        cause = OriginUnavailableError(f"{request.key!r} was overwritten again and again while it was read; try again")
        return replace(origin_unavailable(request.method), cause=cause)

    def open(self, request: Request) -> tuple[Response, ObjectFile]:
        """Return the answer to a GET and its body as a file; of a large object nothing is read yet."""
        head = self._reader.head(request)
        if head is None:
            response = self._reader.read(replace(request, method="HEAD", headers={}, range=None))
            if response.status not in _SENT or not response.is_keepable:
                # A store that refuses HEAD, or says too little of the object for reads of its parts; or an error, of
                # which S3 says more in the body of a GET.
                if response.headers["x-cache-tier"] != "memory":
                    request = replace(request, headers={**request.headers, "cache-control": "max-age=0"})
                response = self._reader.read(request)
                return response, ObjectFile.of(response.body if response.status in _SENT else b"")
            head = head_from_s3(response.headers)
        if head.size_bytes <= min(self._above_bytes, SLICE_BYTES):
            response = self._reader.read(request)
            if not _is_left(response):
                return response, ObjectFile.of(response.body)
            head = head_from_s3(response.headers)
        return self.stream(request, head)

    def stream(self, request: Request, head: Entry) -> tuple[Response, ObjectFile]:
        """Return the answer to a GET without its body, and that as a file.

        Args:
            request: A GET.
            head: What is known of the object.
        """
        response = object_response(request, head.meta, b"")
        start, end = _part(request, response, head)
        # Whether all is there turns out as it is read.
        response = response.served_by(self._slices.tier, is_hit=False, bound_ms=self._reader.own.head_bound_ms(request))
        return response, ObjectFile(partial(self._slices.begin, _version(request, head)), start, end)

    def _read(self, request: Request, head: Entry) -> Response:
        response = object_response(request, head.meta, b"")
        start, end = _part(request, response, head)
        if start == end:
            return response.served_by("memory", is_hit=True, bound_ms=self._reader.own.head_bound_ms(request))
        body, is_pooled = self._slices.read(_version(request, head), start, end)
        return replace(response, body=body).served_by(
            "pool" if is_pooled else "s3", is_hit=is_pooled, bound_ms=self._reader.own.head_bound_ms(request)
        )


def _part(request: Request, response: Response, head: Entry) -> tuple[int, int]:
    """Return start and end of what an answer has of an object; the same if it has nothing."""
    if response.status == 206 and request.range is not None:
        return request.range.within(head.size_bytes) or (0, 0)
    return (0, head.size_bytes) if response.status == 200 else (0, 0)


def _version(request: Request, head: Entry) -> Version:
    return Version(request.key, request.hash, head.etag, head.size_bytes)


def _is_left(response: Response) -> bool:
    """Whether a GET's body was left to the caller."""
    return response.status in _SENT and not response.is_whole
