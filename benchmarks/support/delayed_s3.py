"""A delayed S3: a server of objects that answers as late and sends as slowly as S3, and counts its requests.

It answers GETs (whole, ranged, conditional), HEADs and ListObjectsV2, for path-style addresses of any bucket. A thread
serves each connection, and sleeps for most of the time.

    python -m benchmarks.support.delayed_s3 FOLDER [--port 0] [--delay-ms 25] [--mb-per-s 85]

The defaults are ClickHouse's figures of S3 (2026): 25 ms to the first byte, then 85 MB/s per connection.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit
from urllib.request import urlopen
from xml.sax.saxutils import escape

DELAY_MS, MB_PER_S = 25.0, 85.0
_CHUNK_BYTES = 256 * 1024  # sent at a time: 3 ms at the default bandwidth
_COUNTS_PATH = "/-/counts"  # no bucket has such a name
_QUIET_S = 0.3  # without a byte, before the counts are complete: a reader may leave an answer unread for good
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class StoredObject(Protocol):
    """An object of the store."""

    @property
    def size_bytes(self) -> int:
        """Length of the object [bytes]."""

    @property
    def etag(self) -> str:
        """ETag of the object, with its quotes."""

    @property
    def modified_s(self) -> float:
        """Time of the last write [s since the epoch]."""

    def send(self, connection: socket.socket, start: int, end: int) -> None:
        """Send the bytes from `start` up to `end`, exclusive."""


class Objects(Protocol):
    """The objects of the store, by key."""

    def find(self, key: str) -> StoredObject | None:
        """Return an object. None: there is none."""

    def keys(self) -> list[str]:
        """Return all keys."""


@dataclass(frozen=True, slots=True)
class FileObject:
    """A file as an object."""

    path: Path
    size_bytes: int
    etag: str
    modified_s: float

    def send(self, connection: socket.socket, start: int, end: int) -> None:
        """Send the bytes from `start` up to `end`, exclusive."""
        with self.path.open("rb") as file:
            while start < end:
                start += os.sendfile(connection.fileno(), file.fileno(), start, end - start)


class FileObjects:
    """The files below a folder. Their paths are the keys, and size and time of the last write the version."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def find(self, key: str) -> FileObject | None:
        """Return an object. None: there is no such file."""
        path = (self._folder / key).resolve()
        if not key or not path.is_file() or self._folder not in path.parents:
            return None
        status = path.stat()
        version = f"{key}\n{status.st_size}\n{status.st_mtime_ns}"
        etag = hashlib.md5(version.encode(), usedforsecurity=False).hexdigest()
        return FileObject(path, status.st_size, f'"{etag}"', status.st_mtime)

    def keys(self) -> list[str]:
        """Return the paths of all files."""
        return [str(path.relative_to(self._folder)) for path in self._folder.rglob("*") if path.is_file()]


@dataclass(slots=True)
class Counts:
    """Requests by method, by object, and bytes of bodies, as sent. Threads share it."""

    requests: Counter[str] = field(default_factory=Counter)
    by_object: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    _last_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, method: str, key: str) -> None:
        """Count a request."""
        with self._lock:
            self.requests[method] += 1
            self.by_object[f"{method} {key}"] += 1
            self._last_s = time.monotonic()

    def sent(self, count: int) -> None:
        """Count bytes of a body."""
        with self._lock:
            self.sent_bytes += count
            self._last_s = time.monotonic()

    def complete(self) -> dict[str, Any]:
        """Wait until nothing has been requested or sent for a while, and return the counts."""
        while time.monotonic() < self._last_s + _QUIET_S:
            time.sleep(_QUIET_S / 10)
        with self._lock:
            return {"requests": self.requests, "by_object": self.by_object, "sent_bytes": self.sent_bytes}


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    key: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]

    @classmethod
    def of(cls, head: bytes) -> _Request:
        """Parse the lines before the body."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        parts = urlsplit(target)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        key = unquote(parts.path).lstrip("/").partition("/")[2]
        return cls(method, key, parse_qs(parts.query, keep_blank_values=True), headers)

    def first(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter."""
        return self.query.get(name, [default])[0]


def serve(
    objects: Objects,
    *,
    port: int = 0,
    delay_ms: float = DELAY_MS,
    mb_per_s: float = MB_PER_S,
    listening: Callable[[int], object] = lambda _: None,
) -> None:
    """Serve objects on loopback until the process ends.

    Args:
        objects: The objects.
        port: The port. 0: a free one.
        delay_ms: Time to the first byte of each answer [ms].
        mb_per_s: Bandwidth of each connection [MB/s]. 0: unlimited.
        listening: Called with the port once connections are accepted.
    """
    counts = Counts()
    pace_s = 0.0 if mb_per_s == 0 else 1 / (mb_per_s * 1e6)  # a byte

    class Connection(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                while head := self._read_head():
                    self._answer(head)

        def _read_head(self) -> bytes:
            lines = []
            while line := self.rfile.readline().rstrip(b"\r\n"):
                lines.append(line)
            return b"\r\n".join(lines)

        def _answer(self, head: bytes) -> None:
            request = _Request.of(head)
            if head.split(b" ")[1].startswith(_COUNTS_PATH.encode()):
                return self._send(HTTPStatus.OK, body=json.dumps(counts.complete()).encode())
            is_listing = request.method == "GET" and not request.key
            counts.begin("LIST" if is_listing else request.method, request.key)
            time.sleep(delay_ms / 1000)
            if is_listing:
                self._send(HTTPStatus.OK, body=_listing(objects, request).encode(), is_paced=True)
            else:
                self._answer_object(request)

        def _answer_object(self, request: _Request) -> None:
            if request.method not in ("GET", "HEAD"):
                self._refuse(request, HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed")
                raise ConnectionError("a body may follow, and nobody reads it")
            if not request.key:  # HeadBucket
                return self._send(HTTPStatus.OK, {"x-amz-bucket-region": "us-east-1"})
            if (found := objects.find(request.key)) is None:
                return self._refuse(request, HTTPStatus.NOT_FOUND, "NoSuchKey")
            if request.headers.get("if-match", found.etag) not in (found.etag, "*"):
                return self._refuse(request, HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
            headers = {
                "ETag": found.etag,
                "Last-Modified": formatdate(found.modified_s, usegmt=True),
                "Accept-Ranges": "bytes",
                "Content-Type": "binary/octet-stream",
            }
            if request.headers.get("if-none-match") in (found.etag, "*"):
                return self._send(HTTPStatus.NOT_MODIFIED, headers, length=None)
            part = _part(request.headers.get("range", ""), found.size_bytes)
            if part is None:
                return self._refuse(request, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
            start, end, is_partial = part
            if is_partial:
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{found.size_bytes}"
            status = HTTPStatus.PARTIAL_CONTENT if is_partial else HTTPStatus.OK
            self._send(status, headers, length=end - start)
            if request.method == "GET":
                self._send_paced(found, start, end)

        def _send_paced(self, found: StoredObject, start: int, end: int) -> None:
            """Send a part of an object, each chunk when the last of its bytes is due."""
            began_s = time.monotonic()
            for first in range(start, end, _CHUNK_BYTES):
                last = min(first + _CHUNK_BYTES, end)
                time.sleep(max(0.0, began_s + (last - start) * pace_s - time.monotonic()) if pace_s else 0)
                found.send(self.connection, first, last)
                counts.sent(last - first)

        def _refuse(self, request: _Request, status: HTTPStatus, code: str) -> None:
            body = f"<Error><Code>{code}</Code><Message>{status.phrase}</Message></Error>".encode()
            self._send(status, length=len(body), body=b"" if request.method == "HEAD" else body)

        def _send(
            self,
            status: HTTPStatus,
            headers: Mapping[str, str] = MappingProxyType({}),
            *,
            body: bytes = b"",
            length: int | None = 0,
            is_paced: bool = False,
        ) -> None:
            """Send an answer. `length`: of a body that follows, or would follow a GET. None: never one."""
            lines = [f"HTTP/1.1 {status} {status.phrase}", "Server: AmazonS3", "x-amz-request-id: 1"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if length is not None:
                lines.append(f"Content-Length: {len(body) or length}")
            if is_paced:
                counts.sent(len(body))
                time.sleep(len(body) * pace_s)
            self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Report an error, unless the reader has gone away."""
            if not isinstance(sys.exception(), OSError):
                super().handle_error(request, client_address)

    with Server(("127.0.0.1", port), Connection) as server:
        listening(server.server_address[1])
        server.serve_forever()


def _part(range_: str, size_bytes: int) -> tuple[int, int, bool] | None:
    """Return start and end of a range, and whether it is one. None: no byte of it exists."""
    match = _RANGE.fullmatch(range_)
    if match is None or not any(match.groups()):
        return 0, size_bytes, False  # S3 ignores a malformed range
    first, last = match.groups()
    start = int(first) if first else max(size_bytes - int(last), 0)
    end = min(int(last) + 1, size_bytes) if first and last else size_bytes
    return (start, end, True) if start < end else None


def _listing(objects: Objects, request: _Request) -> str:
    """Return a page of a listing, version 2."""
    prefix, delimiter = request.first("prefix"), request.first("delimiter")
    after = request.first("continuation-token") or request.first("start-after")
    most = int(request.first("max-keys", "1000"))
    entries: dict[str, str] = {}  # XML by key or common prefix
    for key in sorted(objects.keys()):
        common, found, _ = key.removeprefix(prefix).partition(delimiter) if delimiter else (key, "", "")
        name = f"{prefix}{common}{delimiter}" if found else key
        if not key.startswith(prefix) or name <= after or name in entries:
            continue
        stored = None if found else objects.find(key)
        shown = escape(quote(name) if request.first("encoding-type") == "url" else name)
        entries[name] = (
            f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>"
            if stored is None
            else f"<Contents><Key>{shown}</Key><LastModified>{_iso(stored.modified_s)}</LastModified>"
            f"<ETag>{escape(stored.etag)}</ETag><Size>{stored.size_bytes}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )
    page = list(entries)[:most]
    is_truncated = len(entries) > most > 0
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>bucket</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><MaxKeys>{most}</MaxKeys>"
        + (f"<Delimiter>{escape(delimiter)}</Delimiter>" if delimiter else "")
        + ("<EncodingType>url</EncodingType>" if request.first("encoding-type") == "url" else "")
        + f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>"
        + (f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if is_truncated else "")
        + "".join(entries[name] for name in page)
        + "</ListBucketResult>"
    )


def _iso(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at_s))


@dataclass(frozen=True, slots=True)
class DelayedS3:
    """A server in a process of its own."""

    url: str

    def counts(self) -> dict[str, Any]:
        """Return the counts since the start, once nothing has been requested or sent for a while."""
        return read_counts(self.url)


def read_counts(url: str) -> dict[str, Any]:
    """Return a server's counts since its start, once nothing has been requested or sent for a while."""
    with urlopen(url + _COUNTS_PATH) as answer:
        counts: dict[str, Any] = json.load(answer)
    return counts


@contextlib.contextmanager
def delayed_s3(folder: Path, *, delay_ms: float = DELAY_MS, mb_per_s: float = MB_PER_S) -> Iterator[DelayedS3]:
    """Serve the files of a folder, in a process of its own, for the duration of a `with`."""
    command = [sys.executable, "-m", "benchmarks.support.delayed_s3", str(folder)]
    command += ["--delay-ms", str(delay_ms), "--mb-per-s", str(mb_per_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError("the delayed S3 did not start")
        yield DelayedS3(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def main() -> None:
    """Serve a folder."""
    parser = argparse.ArgumentParser("python -m benchmarks.support.delayed_s3", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--delay-ms", type=float, default=DELAY_MS, help="to the first byte (default: %(default)s)")
    parser.add_argument("--mb-per-s", type=float, default=MB_PER_S, help="per connection (default: %(default)s)")
    arguments = parser.parse_args()
    serve(
        FileObjects(arguments.folder),
        port=arguments.port,
        delay_ms=arguments.delay_ms,
        mb_per_s=arguments.mb_per_s,
        listening=partial(print, flush=True),
    )


if __name__ == "__main__":
    main()
