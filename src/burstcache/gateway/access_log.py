"""Access log of a gateway: a line per request in the format of S3's server access logs, which `advise` reads.

Requests are collected in memory, and a thread writes whole lines by appending, so processes may share a file.

Source:
    Amazon S3 User Guide, "Amazon S3 server access log format".
"""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from urllib.parse import quote

from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_operations import GET_OBJECT, HEAD_OBJECT
from burstcache.gateway.s3_requests import Target
from burstcache.logs import logger

STANDARD_OUTPUT = "-"
_BATCH_S = 0.25  # how long lines are collected before a write
_MOST_PENDING = 65_536  # requests that wait for a slow disk; further ones are lost
_PIPE_BYTES = getattr(select, "PIPE_BUF", 512)  # a pipe mixes no shorter writes of two processes
_FILE_BYTES = 1 << 20
_NS_PER_MS, _NS_PER_S = 10**6, 10**9
_SECRETS = re.compile(r"(?i)([?&](?:signature|x-amz-signature|x-amz-security-token)=)[^& ]*")
_CREDENTIAL = re.compile(rb"Credential=([^/,\s]+)")
_UNSAFE = re.compile(r'["\x00-\x20\x7f]')  # in a target, which is one word
_UNSAFE_IN_QUOTES = re.compile(r'["\x00-\x1f\x7f]')
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed", 416: "InvalidRange"}  # a HEAD has no body
_SIZED = frozenset({GET_OBJECT, HEAD_OBJECT})
_WRITTEN = frozenset({"REST.PUT.OBJECT", "REST.PUT.PART"})

_Pending = tuple[HttpRequest, str, int]
Describe = Callable[[HttpRequest], tuple[Target, str]]


class AccessLog:
    """The access log of one process."""

    def __init__(self, path: str, describe: Describe, lose: Callable[[int], None]) -> None:
        """Open the file, and start the thread that writes.

        Args:
            path: The file. `-`: standard output.
            describe: Returns what a request addresses, and S3's name of its operation. The thread calls it.
            lose: Counts lines that cannot be written. Any thread may call it.

        Raises:
            OSError: The file cannot be opened.
        """
        self._path = path
        self._describe = describe
        self._lose = lose
        self._file = _open(path)
        self._pending: deque[_Pending] = deque()
        self._wake, self._closing = threading.Event(), threading.Event()
        self._is_reopening = self._is_torn = False
        self._thread = threading.Thread(target=self._run, name="access log", daemon=True)
        self._thread.start()

    def append(self, request: HttpRequest, peer: str, ended_ns: int) -> None:
        """Add a request that is over. Never blocks.

        Args:
            request: The request.
            peer: The client's address, empty for a Unix socket.
            ended_ns: When the response was over, by the monotonic clock [ns].
        """
        pending = self._pending
        if len(pending) >= _MOST_PENDING:
            self._lose(1)
            return
        pending.append((request, peer, ended_ns))
        if len(pending) == 1:
            self._wake.set()

    def reopen(self) -> None:
        """Open the file anew before the next line, since the former one has another name now."""
        self._is_reopening = True
        self._wake.set()

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._closing.set()
        self._wake.set()
        self._thread.join()
        if self._path != STANDARD_OUTPUT:
            os.close(self._file)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            is_last = self._closing.wait(_BATCH_S)
            self._wake.clear()
            if self._is_reopening:
                self._is_reopening = False
                self._reopen()
            now_ns, offset_ns = time.monotonic_ns(), time.time_ns() - time.monotonic_ns()
            self._write([line for pending in self._taken(now_ns) if (line := self._line(*pending, offset_ns))])
            if is_last and not self._pending:
                return

    def _line(self, request: HttpRequest, peer: str, ended_ns: int, offset_ns: int) -> bytes:
        try:
            return log_line(request, *self._describe(request), peer, ended_ns, offset_ns)
        except Exception as error:  # any error: the thread has to write the other lines
            logger().error("the access log loses a line", reason=repr(error), target=repr(request.target[:200]))
            self._lose(1)
            return b""

    def _taken(self, until_ns: int) -> Iterator[_Pending]:
        """Yield the pending requests that were over by a time: later ones would keep a busy thread from writing."""
        with suppress(IndexError):
            while self._pending[0][-1] <= until_ns or self._closing.is_set():
                yield self._pending.popleft()
            self._wake.set()

    def _reopen(self) -> None:
        if self._path == STANDARD_OUTPUT:
            return
        try:
            former, self._file = self._file, _open(self._path)
        except OSError as error:  # the former file still takes lines
            logger().error("the access log cannot be opened anew", reason=str(error))
        else:
            os.close(former)

    def _write(self, lines: list[bytes]) -> None:
        most_bytes = _PIPE_BYTES if self._path == STANDARD_OUTPUT else _FILE_BYTES
        for block, count in _blocks(lines, most_bytes):
            data = b"\n" + block if self._is_torn else block  # after part of a line
            try:
                while data:
                    written = os.write(self._file, data)
                    self._is_torn = written < len(data)
                    data = data[written:]
            except OSError as error:
                logger().error("the access log loses lines", reason=str(error))
                self._lose(count)


def check_log(path: str) -> None:
    """Check that a file can be opened for the access log. Raise OSError if it cannot."""
    if path != STANDARD_OUTPUT:
        os.close(_open(path))


def _open(path: str) -> int:
    if path == STANDARD_OUTPUT:
        return 1
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _blocks(lines: list[bytes], most_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines in blocks of a size, and the number of lines in each."""
    block, size_bytes = list[bytes](), 0
    for line in lines:
        if block and size_bytes + len(line) > most_bytes:
            yield b"".join(block), len(block)
            block, size_bytes = [], 0
        block.append(line)
        size_bytes += len(line)
    if block:
        yield b"".join(block), len(block)


def log_line(request: HttpRequest, target: Target, operation: str, peer: str, ended_ns: int, offset_ns: int) -> bytes:
    """Return the line of a request. See `AccessLog` for the arguments.

    `offset_ns` is what the monotonic clock lacks of the time since the epoch [ns]. The field of the host id, which only
    S3's responses have, names the tier of a response that the cache has sent.
    """
    headers = _headers(request.head)
    version = "1.0" if request.is_http_1_0 else "1.1"
    uri = _UNSAFE.sub(_escaped, _SECRETS.sub(r"\1REDACTED", request.target.decode("latin-1")))
    method = request.method.decode("latin-1")
    turn_around_ms = f"{(request.begun_ns - request.received_ns) // _NS_PER_MS}" if request.begun_ns else "-"
    code = "-"
    if request.status >= 400:
        code = request.error_code or request.s3_error_code or _CODES.get(request.status, "-")
    host_id = headers.get("x-amz-id-2") or headers.get("x-cache-tier") or "-"
    fields = (
        "-",  # the bucket's owner
        quote(target.bucket, safe="-_.") or "-",
        _time((request.received_ns + offset_ns) // _NS_PER_S),
        peer or "-",
        _word(_requester(request)),
        _word(headers.get("x-amz-request-id", "")),
        operation,
        _key(target.key),
        f'"{method} {uri} HTTP/{version}"',
        str(request.status or "-"),
        code,
        str(request.sent_bytes or "-"),
        _object_size(request, operation, headers),
        str((ended_ns - request.received_ns) // _NS_PER_MS),
        turn_around_ms,
        _quoted(request.header(b"referer")),
        _quoted(request.header(b"user-agent")),
        _word(headers.get("x-amz-version-id", "")),
        _word(host_id),
        request.signature.version if request.signature is not None else "-",
        "-",  # the cipher
        _auth_type(request),
        _word((request.header(b"host") or b"").decode("latin-1")),
        "-",  # the version of TLS
        "-",  # the access point
        "-",  # whether an ACL was required
        "-",  # the region of the requester
    )
    return (" ".join(fields) + "\n").encode("latin-1", "replace")


@lru_cache(16)
def _time(at_s: int) -> str:
    return time.strftime("[%d/%b/%Y:%H:%M:%S +0000]", time.gmtime(at_s))


@lru_cache(4096)
def _key(key: str) -> str:
    """Return a key as S3 logs it, encoded twice."""
    return quote(quote(key, safe="/-_.~"), safe="/-_.~") or "-"


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def _requester(request: HttpRequest) -> str:
    """Return the access key that has signed. S3 has verified it in a request to a forward proxy."""
    if request.signature is not None:
        return request.signature.access_key
    if not 200 <= request.status < 400:
        return ""
    found = _CREDENTIAL.search(request.header(b"authorization") or b"")
    return found[1].decode("latin-1") if found and not request.target.startswith(b"/") else ""


def _auth_type(request: HttpRequest) -> str:
    if request.signature is None:
        return "-"
    return "QueryString" if request.signature.is_presigned else "AuthHeader"


def _object_size(request: HttpRequest, operation: str, headers: dict[str, str]) -> str:
    size = ""
    if operation in _SIZED:
        if "content-range" in headers:
            size = headers["content-range"].rpartition("/")[2]
        elif request.status == 200:
            size = headers.get("content-length", "")
    elif operation in _WRITTEN:
        size = (request.header(b"x-amz-decoded-content-length") or request.header(b"content-length") or b"").decode(
            "latin-1"
        )
    return size if size.isdecimal() else "-"


def _word(text: str) -> str:
    return _UNSAFE.sub(_escaped, text) or "-"


def _quoted(text: bytes | None) -> str:
    return f'"{_UNSAFE_IN_QUOTES.sub(_escaped, text.decode("latin-1"))}"' if text else '"-"'


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
