"""The S3 tier: the origin, and the fallback of every other tier.

A GET that S3 answers with the object, a part of it or a 304 is a read and is reported on the bus: such reads make a key
hot. HEADs (a cache would not make them faster), errors and objects too large to be cached are not reported.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.object_store import ObjectAnswer, ObjectStore, origin_error
from burstcache.core.errors import OriginError
from burstcache.core.messages.events import KeyServed, ObjectRequested, RequestsServed, requests_served
from burstcache.logs import logger
from burstcache.serve.tally import Served
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

_PRESIGNED_S = 60  # the client follows at once, and a leaked URL soon expires
_PAUSE_S = (0.05, 0.15)  # before S3 is asked once more: at random, so that readers do not come back together
_BODY_WITHIN_S = 25.0  # a body that began late may pause only for as long as the front door waits
# How an object that is too large to be cached is answered: with a redirect, as a front door needs it; with its body; or
# with its headers alone, for a caller that reads it in parts.
Larger = Literal["redirect", "send", "leave"]

# What comes before the range (RFC 9110, section 13.2.2), and S3 may not have been asked with.
_DECIDED_FIRST = frozenset({"if-match", "if-none-match", "if-range"})
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 405: "MethodNotAllowed"}
_KNOWN_TO_HEAD = frozenset({304, 404, 412, 416})
_OK, _PARTIAL = 200, 206
_CLIENT_S_OWN = frozenset({403, 404, 405})
_BAD_KEY_CODES = frozenset({"KeyTooLongError", "InvalidURI", "InvalidArgument"})


class Reports(Protocol):
    """Where reads are reported."""

    def start(self, event: ObjectRequested | RequestsServed) -> Any:
        """Begin to report reads, and return what `finish` takes."""

    def finish(self, report: Any) -> None:
        """Return when a read need no longer wait for its report; a failure is logged, never raised."""

    def close(self) -> None:
        """Send what is left to send."""


class S3Tier:
    """Answers from S3, errors included. Without a publisher nobody hears of the reads."""

    def __init__(
        self,
        store: ObjectStore,
        publisher: Reports | None,
        clock: Clock,
        *,
        max_object_bytes: int,
        larger: Larger = "redirect",
    ) -> None:
        """Remember what to ask.

        Args:
            store: The objects.
            publisher: Where reads are reported; None: nowhere.
            clock: What a second try of S3 is timed by.
            max_object_bytes: Size up to which an object may be cached; reads of larger ones are not reported.
            larger: How a larger object is answered.
        """
        self._store = store
        self._larger = larger
        self._publisher = publisher
        self._clock = clock
        self._max_object_bytes = max_object_bytes

    def read(self, request: Request) -> Response:
        """Return S3's answer to a GET or HEAD: the object, a redirect to it, or an error as JSON."""
        try:
            return self._head(request) if request.method == "HEAD" else self._get(request)
        except OriginError as error:
            logger().error("S3 did not answer", reason=str(error), tier="s3", key=request.key, key_hash=request.hash)
            return replace(origin_unavailable(request.method), cause=error)

    def confirm(self, request: Request, known: Entry) -> Entry | None:
        """Return the whole object, or None if it is still the one that is known.

        Raises:
            ObjectNotFoundError, ObjectTooLargeError, OriginError: As `ObjectStore.fetch`.
        """
        newer = self._store.fetch_if_newer(request.key, known, max_bytes=self._max_object_bytes)
        if request.method == "GET":
            now = newer or known
            self.report(request, etag=now.etag, size_bytes=newer.size_bytes if newer else 0)
        return newer

    def has(self, key: str, known: Entry) -> bool:
        """Whether the object is the one that is known now, or raise OriginError."""
        headers = self._store.head(key).headers
        return (headers.get("etag"), headers.get("last-modified")) == (known.etag, known.last_modified)

    def report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Report a GET that S3 served; nobody waits for it. One of an object too large to be cached is not reported."""
        self._start_report(request, etag=etag, size_bytes=size_bytes)

    def count(self, batch: Sequence[Served]) -> None:
        """Report what the reader's memory served: few events, each with many GETs."""
        if self._publisher is not None:
            for event in requests_served(map(_told, batch)):
                self._publisher.finish(self._publisher.start(event))

    def close(self) -> None:
        """Send what is left to send."""
        if self._publisher is not None:
            self._publisher.close()

    def _head(self, request: Request) -> Response:
        answer = self._ask(request)
        if answer.is_success:
            return Response(answer.status, _headers(answer), is_keepable=answer.is_identified)
        if self._larger != "redirect" and answer.status not in _KNOWN_TO_HEAD:
            # The answer to a HEAD has no code, and some stores refuse HEAD alone.
            whole = _decided(request, self._store.get(request.key))
            whole.discard()
            if whole.is_success:
                return Response(whole.status, _headers(whole), is_keepable=whole.is_identified)
            if whole.status in _KNOWN_TO_HEAD:
                return _other(request, whole)
            answer = replace(answer, code=whole.code)
        return _other(request, answer)

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

    def _deliver(self, request: Request, answer: ObjectAnswer, started_s: float) -> Response:
        if not answer.is_success:
            return _other(request, answer)
        sent = answer.headers.get("content-range", "")
        if answer.status == _PARTIAL and not is_part_sent(request.range, sent):
            answer.discard()
            wanted = request.range or "the whole object"
            raise OriginError(f"the store sends {sent or 'a part'} of {request.key!r} where {wanted} was asked for")
        if self._larger != "send" and answer.length_bytes > self._max_object_bytes:
            answer.discard()
            if self._larger == "leave":
                return Response(answer.status, _headers(answer), is_keepable=answer.is_identified)
            return redirect(self._store.presign(request.key, valid_s=_PRESIGNED_S), etag=answer.headers.get("etag", ""))
        waited_s = self._clock.monotonic_s() - started_s
        if waited_s > RETRY_WITHIN_S and self._larger == "redirect":  # behind a front door, which gives up
            answer.hurry(max(_BODY_WITHIN_S - waited_s, 1.0))
        body = answer.read()
        length = {"content-length": str(len(body))}
        headers = length | _headers(answer)
        if request.range is not None and answer.status == _OK and self._larger != "redirect":  # it does not know Range
            part = object_response(replace(request, headers={}), {"etag": ""} | headers, body)
            return replace(part, is_keepable=answer.is_identified)
        return Response(answer.status, headers, body, is_keepable=answer.is_identified)

    def _ask(self, request: Request) -> ObjectAnswer:
        """Return S3's answer; behind a front door one that fails early is asked for once more.

        S3 says 503 SlowDown while it grows a prefix, just when a burst comes. A program's client has its own retries.
        """
        started_s = self._clock.monotonic_s()
        answer = self._ask_once(request)
        if self._larger != "redirect" or not answer.is_passing:
            return answer
        if self._clock.monotonic_s() - started_s > RETRY_WITHIN_S:
            return answer
        answer.discard()
        self._clock.sleep(random.uniform(*_PAUSE_S))
        return self._ask_once(request)

    def _ask_once(self, request: Request) -> ObjectAnswer:
        ask = partial(self._store.head if request.method == "HEAD" else self._store.get, request.key)
        conditions = passed_on(request.headers, at_us=request.at_us)
        if request.range is None:
            return _decided(request, ask(**conditions))
        part = _decided(request, ask(**conditions, range_=str(request.range)))
        # S3 ignores If-Range: the answer's ETag decides if the part was wanted.
        if part.is_success and not _is_wanted(request, part):
            part.discard()
            return _decided(request, ask(**conditions))
        if part.status != 416 or (request.method == "GET" and _DECIDED_FIRST.isdisjoint(request.headers)):
            return part
        # A 416 has no ETag, and to a HEAD no size: the whole object has both.
        whole = _decided(request, ask(**conditions))
        if not (whole.is_success and _is_wanted(request, whole)):
            return whole
        whole.discard()
        headers = {**part.headers, "etag": whole.headers.get("etag", "")}
        return replace(part, headers=headers, actual_size_bytes=whole.object_size_bytes)

    def _report(self, request: Request, answer: ObjectAnswer) -> Any:
        """Begin to report an answer, and return what to finish; None if it is none to report."""
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


def _told(served: Served) -> KeyServed:
    return KeyServed(
        key=served.key,
        requests=[read.encode() for read in served.reads],
        size_bytes=served.size_bytes,
        etag=served.etag,
    )


def _decided(request: Request, answer: ObjectAnswer) -> ObjectAnswer:
    """Return S3's answer, or the one to which a condition leads that S3 was not asked with."""
    etag, last_modified = answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
    status = failed_condition(request.headers, etag=etag, last_modified=last_modified, at_us=request.at_us)
    if status is None or not answer.is_success:
        return answer
    answer.discard()
    return replace(answer, status=status)


def _is_wanted(request: Request, answer: ObjectAnswer) -> bool:
    headers = answer.headers
    return range_applies(request.headers, etag=headers.get("etag", ""), last_modified=headers.get("last-modified", ""))


def _headers(answer: ObjectAnswer) -> dict[str, str]:
    headers = object_headers(answer.headers) | {"accept-ranges": "bytes"}
    if answer.status == 206 and (content_range := answer.headers.get("content-range")):
        headers["content-range"] = content_range
    return headers


def _other(request: Request, answer: ObjectAnswer) -> Response:
    """Return an answer without the object: S3's errors are passed on with their status and code."""
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
    if status in _CLIENT_S_OWN or status >= 500:
        response = error_response(status, code, f"S3 answered {status} {code}", method=method)
        return replace(response, cause=cause)
    logger().error(
        "S3 refused a read of ours", status=status, code=code, tier="s3", key=request.key, key_hash=request.hash
    )
    return replace(error_response(502, code, f"S3 answered {status} {code}", method=method), cause=cause)
