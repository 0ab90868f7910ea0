"""A stand-in for S3 with objects of any size whose bytes are computed: ranged GETs and HEADs over HTTP, no more.

moto keeps objects in memory and takes longer for a range than this machine's network, so not five gigabytes of them.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ETAG = '"generated"'
_BLOCK = random.Random(1).randbytes(64 * 1024)
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


def generated(start: int, end: int) -> Iterator[bytes]:
    """Yield the object's bytes from `start` to before `end`: each block begins with its number."""
    while start < end:
        number, offset = divmod(start, len(_BLOCK))
        block = number.to_bytes(8, "big") + _BLOCK[8:]
        yield block[offset : offset + end - start]
        start += len(_BLOCK) - offset


def serve_generated(port: int, size_bytes: int | None = None) -> None:
    """Serve an object under any key, until the process ends; without a size, keys end with a slash and theirs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._head(200, self._size_bytes)

        def do_GET(self) -> None:
            size_bytes = self._size_bytes
            match = _RANGE.fullmatch(self.headers.get("Range", ""))
            if self.headers.get("If-Match", ETAG) != ETAG:
                return self._head(412, 0)
            start, end = (int(match[1]), min(int(match[2]) + 1, size_bytes)) if match else (0, size_bytes)
            self._head(206 if match else 200, end - start, f"bytes {start}-{end - 1}/{size_bytes}" if match else "")
            with contextlib.suppress(ConnectionError):  # a reader that wants no more
                self.wfile.writelines(generated(start, end))

        @property
        def _size_bytes(self) -> int:
            return int(self.path.rpartition("/")[2]) if size_bytes is None else size_bytes

        def _head(self, status: int, length: int, content_range: str = "") -> None:
            self.send_response(status)
            self.send_header("ETag", ETAG)
            self.send_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
            self.send_header("Content-Length", str(length))
            if content_range:
                self.send_header("Content-Range", content_range)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
