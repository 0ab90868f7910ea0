"""Recorder of a gateway's process: counts each request when it is over, and hands it to the access log."""

from __future__ import annotations

import time
from typing import Protocol

from burstcache.gateway.forward_proxy import proxied_target
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.prometheus import FAMILIES, OPERATIONS, OUTCOMES, REFUSAL_CODES, TIERS, Values, observe
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_operations import GET_OBJECT, HEAD_OBJECT, UNKNOWN, operation_of
from burstcache.gateway.s3_requests import Target, Targets

_TIER = b"\r\nx-cache-tier: "  # no header's value has a line ending, so this begins a header
_GET, _HEAD, _WRITE, _OTHER = range(len(OPERATIONS))
_OK, _CLIENT_ERROR, _SERVER_ERROR, _ABORTED = range(len(OUTCOMES))
_TIERS = {name.encode(): number for number, name in enumerate(TIERS)}
_S3, _NONE = TIERS.index("s3"), TIERS.index("none")
_REQUESTS, _SENT = FAMILIES["requests_total"].first, FAMILIES["sent_bytes_total"].first
_SECONDS, _SECONDS_WIDTH = FAMILIES["request_seconds"].first, FAMILIES["request_seconds"].width
_CONNECTIONS, _REFUSED = FAMILIES["connections"].first, FAMILIES["refused_requests_total"].first
_PER_OPERATION, _PER_TIER = len(TIERS) * len(OUTCOMES), len(OUTCOMES)
_READS = frozenset({"SELECT", "OBJECT_ATTRIBUTES"})  # operations of objects by POST that change nothing
_NO_TARGET = Target("", "", "", ())


class RequestLog(Protocol):
    """An access log."""

    def append(self, request: HttpRequest, peer: str, ended_ns: int) -> None:
        """Add a request that is over. Never blocks."""


class Recorder:
    """Counts the requests of one process. For its event loop."""

    def __init__(self, values: Values, targets: Targets, log: RequestLog | None = None) -> None:
        """Create the recorder.

        Args:
            values: The metrics of this process.
            targets: Parses request targets.
            log: The access log. None: there is none.
        """
        self._values = values
        self._targets = targets
        self._log = log

    def open_connection(self) -> None:
        """Count a client's connection."""
        self._values[_CONNECTIONS] += 1

    def close_connection(self) -> None:
        """Count a client's connection no more."""
        self._values[_CONNECTIONS] -= 1

    def end_request(self, request: HttpRequest, peer: str, *, is_complete: bool) -> None:
        """Count a request whose response has been sent, or has broken off. Count it once, however often it is called.

        A request for a path of the gateway's own is not counted.
        """
        if request.is_recorded:
            return
        request.is_recorded = True
        ended_ns = time.monotonic_ns()
        head, status = request.head, request.status
        start = head.find(_TIER)
        if start >= 0:
            start += len(_TIER)
            tier = _TIERS.get(head[start : head.find(b"\r", start)], _S3)
            operation = _GET if request.method == b"GET" else _HEAD
        else:
            tier, operation = self._classify(request)
        if not is_complete:
            outcome = _ABORTED
        elif status < 400:
            outcome = _OK
        else:
            outcome = _CLIENT_ERROR if status < 500 else _SERVER_ERROR
        values = self._values
        values[_REQUESTS + operation * _PER_OPERATION + tier * _PER_TIER + outcome] += 1
        values[_SENT + tier] += request.sent_bytes
        observe(values, _SECONDS + tier * _SECONDS_WIDTH, ended_ns - request.received_ns)
        if self._log is not None:
            self._log.append(request, peer, ended_ns)

    def _classify(self, request: HttpRequest) -> tuple[int, int]:
        """Return the numbers of tier and operation of a request that the cache has not answered."""
        if request.error_code and request.status < 500:
            code = request.error_code if request.error_code in REFUSAL_CODES else "other"
            if not request.is_authorised or code != "other":
                self._values[_REFUSED + REFUSAL_CODES.index(code)] += 1
        _, operation = described(request, self._targets)
        resource = operation.rpartition(".")[2]
        if operation == GET_OBJECT:
            number = _GET
        elif operation == HEAD_OBJECT:
            number = _HEAD
        elif request.method in (b"PUT", b"POST", b"DELETE") and operation != UNKNOWN and resource not in _READS:
            number = _WRITE
        else:
            number = _OTHER
        return (_S3 if request.status and not request.error_code else _NONE), number


def described(request: HttpRequest, targets: Targets) -> tuple[Target, str]:
    """Return the target of a request, and S3's name of its operation. Thread-safe."""
    try:
        target = targets.find(request) if request.target.startswith(b"/") else proxied_target(request.target)
    except S3Error:
        return _NO_TARGET, UNKNOWN
    return target, operation_of(request, target)


class Unrecorded:
    """Counts nothing: the recorder of connections that read the metrics themselves."""

    def open_connection(self) -> None:
        """Ignore a connection."""

    def close_connection(self) -> None:
        """Ignore the end of a connection."""

    def end_request(self, request: HttpRequest, peer: str, *, is_complete: bool) -> None:
        """Ignore a request."""
