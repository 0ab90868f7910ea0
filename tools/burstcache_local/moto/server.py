"""moto, repaired, behind a server that keeps connections."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from cheroot.wsgi import Server
from flask import got_request_exception

from burstcache_local.errors import PortTakenError
from burstcache_local.moto import endpoints
from burstcache_local.moto import registry as moto_repairs

_KEEP_ALIVE_S = 3600  # a client that is cached for the life of a function must not find its connection closed
_THREADS = 20


class MotoServer:
    """All AWS services but Lambda's invocations on one port of 127.0.0.1, in threads of this process.

    Args:
        port: Where to listen; 0 for any free port.
        region: The region whose state the clients of this process see.
        before: Wraps moto's WSGI application with one that answers for a service itself.
    """

    def __init__(
        self,
        port: int = 0,
        region: str = endpoints.REGION,
        *,
        before: Callable[[WSGIApplication], WSGIApplication] = lambda application: application,
    ) -> None:
        self._port, self._region, self._before_moto = port, region, before

    def start(self) -> str:
        """Listen, with a fresh state if no other one runs in this process, and return the URL.

        Raises:
            PortTakenError: The port is in use.
        """
        application = _with_raw_paths(self._before_moto(_application()))
        self._server = Server(("127.0.0.1", self._port), application, numthreads=_THREADS, request_queue_size=1024)
        self._server.timeout = _KEEP_ALIVE_S
        self._server.keep_alive_conn_limit = 100_000
        try:
            self._server.prepare()
        except OSError:
            raise PortTakenError(
                f"port {self._port} is in use: choose another one, or stop what listens there"
            ) from None
        self._thread = threading.Thread(target=self._server.serve, name="moto", daemon=True)
        self._thread.start()
        url = f"http://127.0.0.1:{self._server.bind_addr[1]}"
        self._before = endpoints.enter(url, self._region)
        return url

    def stop(self) -> None:
        """Stop listening; connections are dropped."""
        endpoints.leave(self._before)
        self._server.stop()
        self._thread.join(10)


def _with_raw_paths(application: WSGIApplication) -> WSGIApplication:
    """Give moto the path as it arrived: cheroot names it otherwise, and a decoded one ends at an encoded `?`."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["RAW_URI"] = environ["REQUEST_URI"]
        return application(environ, start_response)

    return serve


def _application() -> WSGIApplication:
    os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "1"
    os.environ["TZ"] = "UTC"  # moto mixes local and universal time
    time.tzset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.core.base_backend import BackendDict
        from moto.core.config import default_user_config as config
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    if not endpoints.here.cloud_url:
        for accounts in list(BackendDict._instances):
            for account in accounts.values():
                account.reset()
    got_request_exception.connect(_keep_error)
    config["lambda"]["use_docker"] = False
    config["iam"]["load_aws_managed_policies"] = True
    moto_repairs.apply()
    return DomainDispatcherApplication(create_backend_app)  # type: ignore[no-any-return]


errors: deque[BaseException] = deque(maxlen=1)  # the last one that moto did not expect; its client sees a bare 500


def _keep_error(sender: object, exception: BaseException, **_: object) -> None:
    errors.append(exception)


@contextlib.contextmanager
def moto_server(port: int = 0) -> Iterator[str]:
    """Run a repaired moto without the template for the duration of a `with`, and yield its URL."""
    server = MotoServer(port)
    url = server.start()
    try:
        yield url
    finally:
        server.stop()
