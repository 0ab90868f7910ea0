"""A dashboard's server in this process, and requests to it."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path
from urllib.parse import urlsplit

from burstcache_dashboard.app import Server
from burstcache_dashboard.benchmarks import Benchmarks
from burstcache_dashboard.command import listening
from burstcache_dashboard.source import Source, local_source
from burstcache_dashboard.watching import Watching
from burstcache_local import state_file
from burstcache_local.cloud import LocalCloud
from burstcache_local.command import describe
from support.waiting import LIMIT_S, until


def serving(cloud: LocalCloud, folder: Path, benchmarks: Benchmarks | None = None) -> serving_source:
    """Return a context manager that serves a cloud's dashboard from this process."""
    state_file.write(describe(cloud), folder)
    return serving_source(local_source(folder), benchmarks)


class serving_source:
    """Context manager that serves any stack's dashboard from this process."""

    def __init__(self, source: Source, benchmarks: Benchmarks | None = None) -> None:
        self._server = Server(source, benchmarks)
        self._listener = listening(0)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})

    @property
    def watching(self) -> Watching:
        """The server's watcher of the stack."""
        return self._server.watching

    def __enter__(self) -> str:
        self._thread.start()
        until(lambda: self._server.started)
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/"

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


def fetch(url: str, path: str, *, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    """Send a request and return the answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT_S)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer
