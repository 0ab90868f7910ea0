"""An HTTP server for the patched moto, with persistent connections."""

from __future__ import annotations

import contextlib
import io
import math
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, cast
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from cheroot.makefile import MakeFile
from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.wsgi import Server
from flask import got_request_exception

from burstcache_local.errors import PortTakenError
from burstcache_local.hosts import is_loopback
from burstcache_local.moto import registry as moto_repairs
from burstcache_local.moto.services import Services

_KEEP_ALIVE_S = 3600  # long, because functions keep clients that expect open connections
_THREADS = 20
_HEAD_LIMIT_S = 30.0  # equals the front door's limit
_MOST_HEAD_BYTES = 65_536
_MOMENT_S = 0.001


class MotoServer:
    """All AWS services on one port of 127.0.0.1, in threads of this process.

    Args:
        services: The cloud's services, whose clients use this server.
        port: Port to listen on, or 0 for any free port.
        before: WSGI middleware around moto. The middleware may serve some services itself.
    """

    def __init__(
        self,
        services: Services,
        port: int = 0,
        *,
        before: Callable[[WSGIApplication], WSGIApplication] = lambda application: application,
    ) -> None:
        self._services, self._port, self._before_moto = services, port, before
        self._threads, self._waiting, self._counting = _THREADS, 0, threading.Lock()

    def start(self) -> str:
        """Start listening, and return the URL. moto's state is reset unless another server runs in this process.

        Raises:
            PortTakenError: The port is in use.
        """
        inner = _with_whole_bodies(_application(self._services))
        application = _for_this_machine(_with_raw_paths(self._before_moto(inner)))
        address = ("127.0.0.1", self._port)
        self._server = _Server(address, application, numthreads=self._threads, request_queue_size=1024)
        self._server.timeout = _KEEP_ALIVE_S
        self._server.max_request_header_size = _MOST_HEAD_BYTES
        self._server.keep_alive_conn_limit = cast(Any, None)  # otherwise, each request would count all connections
        try:
            self._server.prepare()
        except OSError:
            raise PortTakenError(
                f"port {self._port} is in use: stop its listener, or choose another (`burstcache local up --help`)"
            ) from None
        self._thread = threading.Thread(target=self._server.serve, name="moto", daemon=True)
        self._thread.start()
        self._services.cloud_url = f"http://127.0.0.1:{self._server.bind_addr[1]}"
        return self._services.cloud_url

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the current thread as waiting for a call that may need another thread of this server.

        If more than half of the threads are waiting, double the number of threads.
        """
        with self._counting:
            self._waiting += 1
            missing = self._threads if 2 * self._waiting > self._threads else 0
            self._threads += missing
        self._server.requests.grow(missing)
        try:
            yield
        finally:
            with self._counting:
                self._waiting -= 1

    @contextlib.contextmanager
    def more_threads(self, count: int) -> Iterator[None]:
        """Add threads for the duration of a `with`."""
        self._server.requests.grow(count)
        try:
            yield
        finally:
            self._server.requests.shrink(count)

    def stop(self) -> None:
        """Stop listening and close all connections."""
        from moto.core.config import default_user_config

        self._server.stop()
        self._thread.join(10)
        # moto would reload AWS managed policies on each reset, which takes 0.1 s.
        default_user_config["iam"]["load_aws_managed_policies"] = False


class _Received:
    """A socket with a read deadline, which is set while a request's head is read."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.until_s = math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv_into(self, *arguments: Any) -> int:
        if self.until_s < math.inf:
            self._socket.settimeout(max(self.until_s - time.monotonic(), _MOMENT_S))
        return self._socket.recv_into(*arguments)


class _Request(HTTPRequest):
    """A request with a time limit for reading the head."""

    def parse_request(self) -> None:
        """Read a request's head, or raise TimeoutError."""
        received: _Received = self.conn.received
        received.until_s = time.monotonic() + self.server.head_limit_s
        try:
            super().parse_request()
        finally:
            received.until_s = math.inf
            received.settimeout(self.server.timeout)


class _Connection(HTTPConnection):
    """A connection with a time limit for reading each request's head."""

    RequestHandlerClass = _Request

    def __init__(self, server: Server, sock: socket.socket, *_: Any) -> None:
        self.received = _Received(sock)

        def make_file(_: socket.socket, mode: str, size_bytes: int) -> Any:
            return MakeFile(self.received if "r" in mode else sock, mode, size_bytes)

        super().__init__(server, sock, make_file)


class _Server(Server):
    ConnectionClass = _Connection
    head_limit_s = _HEAD_LIMIT_S

    def put_conn(self, conn: Any) -> None:
        """Wait for a connection's next request. If the server has just stopped, close the connection."""
        try:
            super().put_conn(conn)
        except ValueError:
            if self.ready:
                raise
            conn.close()


def _for_this_machine(application: WSGIApplication) -> WSGIApplication:
    """Reject requests with a foreign host name, even if it resolves to this machine, to prevent DNS rebinding."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "")
        if not host or is_loopback(host):
            return application(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [f"{host!r} does not name this machine; accepted: localhost, 127.0.0.1\n".encode()]

    return serve


def _with_whole_bodies(application: WSGIApplication) -> WSGIApplication:
    """Drop requests whose client leaves before the end of the body, because moto would store the part that came."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if length_bytes := int(environ.get("CONTENT_LENGTH") or 0):
            body = environ["wsgi.input"].read(length_bytes)
            if len(body) < length_bytes:
                raise ConnectionResetError
            environ["wsgi.input"] = io.BytesIO(body)
        return application(environ, start_response)

    return serve


def _with_raw_paths(application: WSGIApplication) -> WSGIApplication:
    """Pass the raw path to moto as the variable that it expects, because moto truncates decoded paths at a `?`."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["RAW_URI"] = environ["REQUEST_URI"]
        return application(environ, start_response)

    return serve


def _application(services: Services) -> WSGIApplication:
    os.environ["TZ"] = "UTC"  # moto mixes local time and UTC
    time.tzset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.core.base_backend import BackendDict, BaseBackend
        from moto.core.config import default_user_config as config
        from moto.moto_server import werkzeug_app

        from burstcache_local.moto import quicker
    if services.is_alone:
        for accounts in list(BackendDict._instances):
            for account in accounts.values():
                for backend in account.values():
                    if type(backend).reset is not BaseBackend.reset:  # this `reset` closes files or ends processes
                        backend.reset()
                account.clear()  # moto would immediately recreate a reset backend, even if unused
    config["iam"]["load_aws_managed_policies"] = True
    config["lambda"]["use_docker"] = False
    werkzeug_app.DISABLE_GLOBAL_CORS = True
    moto_repairs.apply()
    quicker.apply()

    def keep_error(_: object, exception: BaseException, **__: object) -> None:
        services.errors.append(exception)

    def create(service: str) -> Any:
        app = werkzeug_app.create_backend_app(service)
        app.debug = False  # debug mode replaces each request's form with a verbose variant
        app.config["PROPAGATE_EXCEPTIONS"] = True
        got_request_exception.connect(keep_error, app, weak=False)
        return app

    dispatcher = werkzeug_app.DomainDispatcherApplication(create)
    # Without the cache, each search for a request's service lists all services and tries 230 patterns.
    dispatcher.get_backend_for_host = cache(dispatcher.get_backend_for_host)
    return dispatcher  # type: ignore[no-any-return]


@contextlib.contextmanager
def moto_server(port: int = 0) -> Iterator[Services]:
    """Run a patched moto without the template for the duration of a `with`, and yield its services."""
    services = Services()
    server = MotoServer(services, port)
    try:
        server.start()
        try:
            yield services
        finally:
            server.stop()
    finally:
        services.close()
