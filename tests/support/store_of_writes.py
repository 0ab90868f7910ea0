"""Store of writes: an S3 on loopback whose writes are atomic, which a test asks for nothing but objects."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Stored:
    """An object."""

    body: bytes
    etag: str
    modified: str


@dataclass
class Store:
    """The store: its URL, its objects by path, and the headers of the request that it answered last."""

    url: str = ""
    last_headers: Mapping[str, str] = field(default_factory=dict)
    objects: dict[str, Stored] = field(default_factory=dict)
    connections: set[socket.socket] = field(default_factory=set)

    def put(self, path: str, body: bytes) -> Stored:
        """Write an object, by `/bucket/key`."""
        stored = Stored(body, f'"{hashlib.md5(body).hexdigest()}"', formatdate(usegmt=True))
        self.objects[path] = stored
        return stored

    def hang_up(self) -> None:
        """Close all connections, as S3 does with those that are idle for long."""
        for each in list(self.connections):
            with suppress(OSError):  # the client was quicker
                each.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: Store

    def setup(self) -> None:
        super().setup()
        self.store.connections.add(self.connection)

    def finish(self) -> None:
        self.store.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self._send(200, {"ETag": self.store.put(self.path, body).etag}, b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        stored = self.store.objects.get(self.path.partition("?")[0])
        if stored is None:
            self._send(404, {"Content-Type": "application/xml"}, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        if self.headers.get("if-match", stored.etag) != stored.etag:
            self._send(412, {}, b"")
            return
        if self.headers.get("if-none-match") == stored.etag:
            self._send(304, {"ETag": stored.etag, "Last-Modified": stored.modified}, b"")
            return
        headers = {"ETag": stored.etag, "Last-Modified": stored.modified, "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked is None:
            self._send(200, headers, stored.body)
            return
        first, size_bytes = int(asked[1]), len(stored.body)
        last = min(int(asked[2] or size_bytes), size_bytes - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{size_bytes}"
        self._send(206, headers, stored.body[first : last + 1])

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.store.last_headers = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up."""


@contextmanager
def store_of_writes() -> Iterator[Store]:
    """Run a store in threads of this process."""
    store = Store()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": store}))
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
