"""S3 tier: the origin, and the fallback of every other tier.

A GET is reported on the bus if S3 returns the object, a part of it, or a 304. Such reads make a key hot. HEADs (a cache
would not make them faster), errors and objects too large to cache are not reported.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.object_store import ObjectResponse, ObjectStore, origin_error
from burstcache.core.errors import OriginError, UnexpectedPartError
from burstcache.core.messages.events import KeyServed, ObjectRequested, RequestsServed, requests_served
from burstcache.logs import logger
from burstcache.serve.hit_counter import Served
from burstcache.serve.tier import RETRY_WITHIN_S
from burstcache.web.conditions import failed_condition, passed_on, range_applies
from burstcache.web.entry import Entry
from burstcache.web.headers import not_modified_headers, object_headers
from burstcache.web.ranges import is_part_sent
from burstcache.web.request import Request
from burstcache.web.response import (
    Response,
    error_response,
    no_such_key,
    object_response,
    origin_unavailable,
    precondition_failed,
    range_not_satisfiable,
    redirect,
)

_PRESIGNED_S = 60  # clients follow a redirect immediately, and a leaked URL soon expires
_RETRY_PAUSE_S = (0.05, 0.15)  # jitter, so that readers do not retry in lockstep
_BODY_WITHIN_S = 25.0  # since the request: a late body may stall only until the front door times out
# The response to a read of an object too large to cache: a redirect (behind a front door), the body, or the headers
# alone (for a caller that reads the object in parts).
Larger = Literal["redirect", "send", "leave"]

# Conditions that take precedence over the range (RFC 9110, section 13.2.2), and that S3 may not have received.
_BEFORE_RANGE = frozenset({"if-match", "if-none-match", "if-range"})
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 405: "MethodNotAllowed"}
_CLEAR_WITHOUT_CODE = frozenset({304, 404, 412, 416})
_OK, _PARTIAL = 200, 206
_CLIENT_ERRORS = frozenset({403, 404, 405})
_BAD_KEY_CODES = frozenset({"KeyTooLongError", "InvalidURI", "InvalidArgument"})


class ReportPublisher(Protocol):
    """A publisher of read reports."""

    def start(self, event: ObjectRequested | RequestsServed) -> Any:
        """Start publishing a report, and return a handle for `finish`."""

    def finish(self, report: Any) -> None:
        """Wait for a report if the publisher requires it. Errors are logged, never raised."""

    def close(self) -> None:
        """Send the remaining reports."""


class S3Tier:
    """S3 as a tier. Its errors are returned as responses."""

    def __init__(
        self,
        store: ObjectStore,
        publisher: ReportPublisher | None,
        clock: Clock,
        *,
        max_object_bytes: int,
        larger: Larger = "redirect",
        most_body_bytes: int = 0,
    ) -> None:
        """Create the tier.

        Args:
            store: S3.
            publisher: Publishes reports of reads. None: reads are not reported.
            clock: Clock for retries.
            max_object_bytes: Maximum size of a cacheable object [bytes]. Reads of larger ones are not reported.
            larger: The response to reads of larger objects.
            most_body_bytes: With `leave`, the longest body to send nevertheless [bytes].
        """
        self._store = store
        self._larger = larger
        self._most_body_bytes = sys.maxsize if larger == "send" else max(max_object_bytes, most_body_bytes)
        self._publisher = publisher
        self._clock = clock
        self._max_object_bytes = max_object_bytes

    def read(self, request: Request) -> Response:
        """Return S3's response to a GET or HEAD: the object, a redirect to it, or an error as JSON."""
        try:
            return self._head(request) if request.method == "HEAD" else self._get(request)
        except OriginError as error:
            logger().error("S3 did not answer", reason=str(error), tier="s3", key=request.key, key_hash=request.hash)
            return replace(origin_unavailable(request.method), cause=error)

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        """Return the current object, or None if `known` is still current.

        Raises:
            ObjectNotFoundError, ObjectTooLargeError, OriginError: As for `ObjectStore.fetch`.
        """
        newer = self._store.fetch_if_newer(request.key, known, max_bytes=self._max_object_bytes)
        if request.method == "GET":
            current = newer or known
            self.publish_report(request, etag=current.etag, size_bytes=newer.size_bytes if newer else 0)
        return newer

    def is_current(self, key: str, known: Entry) -> bool:
        """Return True if `known` is still the current version. Raises OriginError."""
        headers = self._store.head(key).headers
        return (headers.get("etag"), headers.get("last-modified")) == (known.etag, known.last_modified)

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Report a GET that S3 served, unless the object is too large to cache. Does not wait for the report."""
        self._start_report(request, etag=etag, size_bytes=size_bytes)

    def count(self, batch: Sequence[Served]) -> None:
        """Report memory hits in a few events, each with many GETs."""
        if self._publisher is not None:
            for event in requests_served(map(_key_served, batch)):
                self._publisher.finish(self._publisher.start(event))

    def close(self) -> None:
        """Send the remaining reports."""
        if self._publisher is not None:
            self._publisher.close()

    def _head(self, request: Request) -> Response:
        answer = self._ask(request)
        if answer.is_success:
            return Response(answer.status, _headers(answer), is_keepable=answer.is_identified)
        if self._larger != "redirect" and answer.status not in _CLEAR_WITHOUT_CODE:
            # A response to HEAD has no error code, and some stores reject HEAD but not GET.
            whole = _apply_conditions(request, self._store.get(request.key))
            whole.discard()
            if whole.is_success:
                return Response(whole.status, _headers(whole), is_keepable=whole.is_identified)
            if whole.status in _CLEAR_WITHOUT_CODE:
                return _without_object(request, whole)
            answer = replace(answer, code=whole.code)
        return _without_object(request, answer)

    def _get(self, request: Request) -> Response:
        started_s = self._clock.monotonic_s()
        answer = self._ask(request)
        report = self._report(request, answer)
        try:
            return self._deliver(request, answer, started_s)
        except OriginError:
            if self._clock.monotonic_s() - started_s > RETRY_WITHIN_S:
                raise
            return self._deliver(request, self._ask(request), started_s)
        finally:
            if self._publisher is not None and report is not None:
                self._publisher.finish(report)

    def _deliver(self, request: Request, answer: ObjectResponse, started_s: float) -> Response:
        if not answer.is_success:
            return _without_object(request, answer)
        sent = answer.headers.get("content-range", "")
        if answer.status == _PARTIAL and not is_part_sent(request.range, sent):
            answer.discard()
            wanted = request.range or "the whole object"
            raise UnexpectedPartError(
                f"the store sends {sent or 'a part'} of {request.key!r} where {wanted} was asked for"
            )
        # The caller cannot read an object in parts if S3 does not identify its version.
        if answer.length_bytes > self._most_body_bytes and (self._larger != "leave" or answer.is_identified):
            answer.discard()
            if self._larger == "leave":
                return Response(answer.status, _headers(answer), is_keepable=True)
            return redirect(self._store.presign(request.key, valid_s=_PRESIGNED_S), etag=answer.headers.get("etag", ""))
        waited_s = self._clock.monotonic_s() - started_s
        if waited_s > RETRY_WITHIN_S and self._larger == "redirect":  # before the front door times out
            answer.hurry(max(_BODY_WITHIN_S - waited_s, 1.0))
        body = answer.read()
        length = {"content-length": str(len(body))}
        headers = length | _headers(answer)
        if request.range is not None and answer.status == _OK and self._larger != "redirect":  # the store ignores Range
            part = object_response(replace(request, headers={}), {"etag": ""} | headers, body)
            return replace(part, is_keepable=answer.is_identified)
        return Response(answer.status, headers, body, is_keepable=answer.is_identified)

    def _ask(self, request: Request) -> ObjectResponse:
        """Return S3's response. Behind a front door, retry once after a quick failure.

        S3 returns 503 SlowDown while it splits a prefix, which happens during bursts. boto3 in a program has its own
        retries.
        """
        started_s = self._clock.monotonic_s()
        answer = self._ask_once(request)
        if self._larger != "redirect" or not answer.is_transient:
            return answer
        if self._clock.monotonic_s() - started_s > RETRY_WITHIN_S:
            return answer
        answer.discard()
        self._clock.sleep(random.uniform(*_RETRY_PAUSE_S))
        return self._ask_once(request)

    def _ask_once(self, request: Request, *, is_repeated: bool = False) -> ObjectResponse:
        ask = partial(self._store.head if request.method == "HEAD" else self._store.get, request.key)
        conditions = passed_on(request.headers, at_us=request.at_us)
        if request.range is None:
            return _apply_conditions(request, ask(**conditions))
        part = _apply_conditions(request, ask(**conditions, range_=str(request.range)))
        # S3 ignores If-Range, so the response's ETag decides whether the range applies.
        if part.is_success and not _is_range_wanted(request, part):
            part.discard()
            return _apply_conditions(request, ask(**conditions))
        if part.status != 416 or (request.method == "GET" and _BEFORE_RANGE.isdisjoint(request.headers)):
            return part
        # A 416 has no ETag, and for a HEAD no size either. The response for the whole object has both.
        whole = _apply_conditions(request, ask(**conditions))
        if not (whole.is_success and _is_range_wanted(request, whole)):
            return whole
        whole.discard()
        if not is_repeated and request.range.within(whole.object_size_bytes) is not None:  # overwritten in between
            return self._ask_once(request, is_repeated=True)
        headers = {**part.headers, "etag": whole.headers.get("etag", "")}
        return replace(part, headers=headers, actual_size_bytes=whole.object_size_bytes)

    def _report(self, request: Request, answer: ObjectResponse) -> Any:
        """Start reporting a response. Return the handle for `finish`, or None if it is not reported."""
        if not (answer.is_success or answer.status == 304):
            return None
        size_bytes = 0 if answer.status == 304 else answer.object_size_bytes
        return self._start_report(request, etag=answer.headers.get("etag", ""), size_bytes=size_bytes)

    def _start_report(self, request: Request, *, etag: str, size_bytes: int) -> Any:
        if self._publisher is None or size_bytes > self._max_object_bytes:
            return None
        event = ObjectRequested(
            key=request.key, at_us=request.at_us, request_id=request.request_id, size_bytes=size_bytes, etag=etag
        )
        return self._publisher.start(event)


def _key_served(served: Served) -> KeyServed:
    return KeyServed(
        key=served.key,
        requests=[read.encode() for read in served.reads],
        size_bytes=served.size_bytes,
        etag=served.etag,
    )


def _apply_conditions(request: Request, answer: ObjectResponse) -> ObjectResponse:
    """Return S3's response. A failed condition that was not sent to S3 replaces its status."""
    etag, last_modified = answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
    status = failed_condition(request.headers, etag=etag, last_modified=last_modified, at_us=request.at_us)
    if status is None or not answer.is_success:
        return answer
    answer.discard()
    return replace(answer, status=status)


def _is_range_wanted(request: Request, answer: ObjectResponse) -> bool:
    headers = answer.headers
    return range_applies(request.headers, etag=headers.get("etag", ""), last_modified=headers.get("last-modified", ""))


def _headers(answer: ObjectResponse) -> dict[str, str]:
    headers = object_headers(answer.headers) | {"accept-ranges": "bytes"}
    if answer.status == 206 and (content_range := answer.headers.get("content-range")):
        headers["content-range"] = content_range
    return headers


def _without_object(request: Request, answer: ObjectResponse) -> Response:
    """Return the response if S3 did not send the object. Errors keep S3's code."""
    status, method, etag = answer.status, request.method, answer.headers.get("etag", "")
    if status == 304:
        return Response(304, not_modified_headers(object_headers(answer.headers)))
    if status == 412:
        return precondition_failed(method, etag=etag)
    if status == 416:
        return range_not_satisfiable(method, answer.actual_size_bytes, etag=etag)
    code = answer.code if answer.code and not answer.code.isdigit() else _CODES.get(status, "OriginError")
    if code == "NoSuchKey":
        return no_such_key(request)
    if code in _BAD_KEY_CODES:
        return error_response(status, code, f"S3 answered {status} {code}", method=method)
    cause = origin_error(request.key, replace(answer, code=code))
    if status in _CLIENT_ERRORS or status >= 500:
        response = error_response(status, code, f"S3 answered {status} {code}", method=method)
        return replace(response, cause=cause)
    logger().error("S3 refused a read", status=status, code=code, tier="s3", key=request.key, key_hash=request.hash)
    return replace(error_response(502, code, f"S3 answered {status} {code}", method=method), cause=cause)
