"""Own paths of a gateway, which S3 does not have: `/-/healthz` and `/-/metrics`. No bucket's name begins with `-`.

`/healthz` and `/metrics` could be buckets. Without a signature and without a query they are the gateway's own, unless
it answers unsigned requests. Health is for anybody. Metrics are for this machine alone, by a name of the gateway or an
address in the Host header, so that a web page whose name resolves to this machine (DNS rebinding) reads none. A
listener of their own has both for everybody who reaches it, and nothing else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from email.utils import formatdate

from burstcache.gateway.http_connection import Application, HttpConnection
from burstcache.gateway.http_messages import HttpRequest, error_answer, response_head
from burstcache.gateway.prometheus import CONTENT_TYPE
from burstcache.gateway.registration import HEALTH_PATH, METRICS_PATH
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import host_name

HEALTH, METRICS = HEALTH_PATH.encode(), METRICS_PATH.encode()
_SHORT = {b"/healthz": HEALTH, b"/metrics": METRICS}
_PATHS = frozenset({HEALTH, METRICS, *_SHORT})
_READS = (b"GET", b"HEAD")
_FORWARDED = (b"forwarded", b"x-forwarded-for")


class OwnPaths:
    """Answers requests for the gateway's own paths.

    Attributes:
        is_draining: Whether the process is about to end.
    """

    def __init__(self, text: Callable[[], str], names: Collection[str], *, accepts_unsigned: bool) -> None:
        """Create the answers.

        Args:
            text: Returns the metrics.
            names: Names of the gateway.
            accepts_unsigned: Whether unsigned requests for buckets are answered.
        """
        self.is_draining = False
        self._text = text
        self._names = frozenset({"localhost", *names})
        self._accepts_unsigned = accepts_unsigned

    def answer(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer a request on a port for S3's requests. Return False if it is one of those."""
        path: bytes | None = request.target
        if path in _SHORT:
            is_ours = not self._accepts_unsigned and request.header(b"authorization") is None
            path = _SHORT[path] if is_ours and self._is_own_name(request) else None
        if path is None or path not in _PATHS or request.method not in _READS:
            return False
        if path == METRICS and not self._is_of_this_machine(request, connection):
            request.is_recorded = True
            refusal = "Metrics are for this machine. Use --metrics-port for others."
            connection.send(*error_answer(S3Error("AccessDenied", refusal), request))
            return True
        self._send(path, request, connection)
        return True

    def answer_anybody(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request on the listener for these paths alone."""
        path = _SHORT.get(request.target, request.target)
        request.is_recorded = True
        if path in _PATHS and request.method in _READS:
            self._send(path, request, connection)
        else:
            text = b"The gateway's /metrics and /healthz are here.\n"
            connection.send(404, _head(404, "text/plain", text), b"" if request.method == b"HEAD" else text)

    def _send(self, path: bytes, request: HttpRequest, connection: HttpConnection) -> None:
        request.is_recorded = True
        status = 200
        if path == METRICS:
            kind, body = CONTENT_TYPE, self._text().encode()
        else:
            kind, body = "text/plain", b"draining\n" if self.is_draining else b"ok\n"
            status = 503 if self.is_draining else 200
        connection.send(status, _head(status, kind, body), b"" if request.method == b"HEAD" else body)

    def _is_of_this_machine(self, request: HttpRequest, connection: HttpConnection) -> bool:
        if any(name in _FORWARDED for name, _ in request.headers):  # by a proxy on this machine, for somebody else
            return False
        is_local = not connection.peer or ipaddress.ip_address(connection.peer.partition("%")[0]).is_loopback
        return is_local and self._is_own_name(request)

    def _is_own_name(self, request: HttpRequest) -> bool:
        name = host_name(request.header(b"host") or b"")
        return not name or name in self._names or _is_address(name.strip("[]"))


class ObservedApplication:
    """An application, and the gateway's own paths beside it."""

    def __init__(self, application: Application, own_paths: OwnPaths) -> None:
        """Answer what `own_paths` does not by `application`."""
        self._application = application
        self._own_paths = own_paths

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer without blocking. Return False if that is impossible."""
        if request.target in _PATHS and self._own_paths.answer(request, connection):
            return True
        return self._application.respond_now(request, connection)

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request that may have to wait."""
        await self._application.respond(request, connection)


class OwnPathsApplication:
    """The application of a listener for the gateway's own paths alone."""

    def __init__(self, own_paths: OwnPaths) -> None:
        """Answer by `own_paths`."""
        self._own_paths = own_paths

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer any request."""
        self._own_paths.answer_anybody(request, connection)
        return True

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request with a body, which is not read."""
        self._own_paths.answer_anybody(request, connection)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _head(status: int, kind: str, body: bytes) -> bytes:
    headers = (
        ("content-type", kind),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("date", formatdate(usegmt=True)),
    )
    return response_head(status, headers)
