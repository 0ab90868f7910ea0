"""A hostile S3 on loopback that deviates or fails. The first part of a key, `kind/name`, selects the fault.

Answers follow the known behaviour of stores and gateways: chunked bodies, compression in transit, missing headers,
errors of all kinds, broken connections, ignored ranges and conditions.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import threading
import urllib.parse
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_WRITTEN = "Wed, 21 Oct 2015 07:28:00 GMT"


def body_of(key: str) -> bytes:
    """Return the correct bytes of a key."""
    return f"right bytes of {key}\n".encode() * 20


def etag_of(body: bytes) -> str:
    """Return the ETag that S3 gives to these bytes."""
    return f'"{hashlib.md5(body).hexdigest()}"'


@dataclass
class Answer:
    """Answer to a request. `cut` is the number of body bytes after which the connection breaks; None sends all."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    cut: int | None = None
    is_chunked: bool = False
    has_length: bool = True


def _without(*names: str) -> Callable[[Answer], Answer]:
    return lambda good: replace(good, headers={name: good.headers[name] for name in good.headers if name not in names})


def _with(**headers: str) -> Callable[[Answer], Answer]:
    return lambda good: replace(
        good, headers=good.headers | {name.replace("_", "-"): headers[name] for name in headers}
    )


def error(status: int, code: str, **headers: str) -> Callable[[Answer], Answer]:
    """Return a function that replaces a good answer with an S3 error."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>m</Message></Error>'.encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer(status, {"Content-Type": "application/xml"} | named, body)


def _zipped(good: Answer) -> Answer:
    body = gzip.compress(good.body, mtime=0)
    return replace(good, body=body, headers=good.headers | {"Content-Encoding": "gzip", "ETag": etag_of(body)})


def _crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


# Answers that every reader reads as boto3 does.
READABLE: Mapping[str, Callable[[Answer], Answer]] = {
    "good": lambda good: good,
    "chunked": lambda good: replace(good, is_chunked=True),
    "closed": lambda good: replace(good, has_length=False),
    "no-etag": _without("ETag"),
    "no-last-modified": _without("Last-Modified"),
    "nothing": lambda good: replace(good, headers={}, has_length=False),
    "gzip": _zipped,
    "gzip-lie": _with(Content_Encoding="gzip"),
    "gzip-chunked": lambda good: replace(_zipped(good), is_chunked=True),
    "weak-etag": lambda good: replace(good, headers=good.headers | {"ETag": f"W/{good.headers['ETag']}"}),
    "unquoted-etag": lambda good: replace(good, headers=good.headers | {"ETag": good.headers["ETag"].strip('"')}),
    "multipart-etag": _with(ETag='"d41d8cd98f00b204e9800998ecf8427e-3"'),
    "empty-etag": _with(ETag=""),
    "no-date": _without("Date"),
    "bad-date": _with(Date="soon"),
    "future-date": _with(Date="Wed, 21 Oct 2093 07:28:00 GMT"),
    "empty": lambda good: replace(good, body=b"", headers=good.headers | {"ETag": etag_of(b"")}),
    "error-as-200": lambda _: replace(error(200, "InternalError")(_), status=200),
    "good-crc32": lambda good: replace(good, headers=good.headers | {"x-amz-checksum-crc32": _crc32(good.body)}),
    "composite-crc32": _with(x_amz_checksum_crc32="AAAAAQ==-3", x_amz_checksum_type="COMPOSITE"),
    "unknown-checksum": _with(x_amz_checksum_crc128="AAAAAQ=="),
    "version": _with(x_amz_version_id="v1"),
    "huge-metadata": _with(x_amz_meta_a="y" * 4000),
    "encoded-metadata": _with(x_amz_meta_a="=?UTF-8?B?DQpFdmlsOiAx?="),
    "no-range": lambda good: good,  # HEAD and GET are right, Range is ignored
    "no-head": lambda good: good,  # HEAD is refused with a 405
    "forbidden-head": lambda good: good,
}
# Unrequested or ambiguous parts, by the `Content-Range` they send. The body is the same part for all.
PARTS: Mapping[str, str] = {
    "part-of-whole": "bytes 0-9/20",
    "other-part": "bytes 4-10/200",
    "no-such-part": "bytes none",
    "part-of-any": "bytes 3-9/*",
    "part-of-thousand": "bytes 3-9/1000",
}
# Failures: the error raised to the program, and S3's status and code (0 and empty if S3 did not answer).
FAILING: Mapping[str, tuple[Callable[[Answer], Answer], str, int, str]] = {
    "301": (error(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1"), "OriginError", 301, "PermanentRedirect"),
    "307": (error(307, "TemporaryRedirect"), "OriginError", 307, "TemporaryRedirect"),
    "400": (error(400, "InvalidRequest"), "OriginError", 400, "InvalidRequest"),
    "expired": (error(400, "ExpiredToken"), "OriginError", 400, "ExpiredToken"),
    "403": (error(403, "AccessDenied"), "AccessDeniedError", 403, "AccessDenied"),
    "signature": (error(403, "SignatureDoesNotMatch"), "AccessDeniedError", 403, "SignatureDoesNotMatch"),
    "glacier": (error(403, "InvalidObjectState"), "OriginError", 403, "InvalidObjectState"),
    "404": (error(404, "NoSuchKey"), "ObjectNotFoundError", 0, ""),
    "marker": (error(404, "NoSuchKey", x_amz_delete_marker="true"), "ObjectNotFoundError", 0, ""),
    "no-bucket": (error(404, "NoSuchBucket"), "OriginError", 404, "NoSuchBucket"),
    "405": (error(405, "MethodNotAllowed"), "OriginError", 405, "MethodNotAllowed"),
    "500": (error(500, "InternalError"), "OriginUnavailableError", 500, "InternalError"),
    "503": (error(503, "SlowDown"), "OriginUnavailableError", 503, "SlowDown"),
    "cut": (lambda good: replace(good, cut=len(good.body) // 2), "OriginUnavailableError", 0, ""),
    "hung-up": (lambda good: replace(good, status=0), "OriginUnavailableError", 0, ""),
    "bad-last-modified": (_with(Last_Modified="yesterday"), "OriginError", 0, ""),
    "code-in-lines": (error(400, "Bad\nThing"), "OriginError", 400, "Bad Thing"),
    "code-without-end": (error(400, "a" * 100_000), "OriginError", 400, "a" * 1000),
    "bad-crc32": (_with(x_amz_checksum_crc32="AAAAAQ=="), "OriginUnavailableError", 0, ""),
}


@dataclass
class HostileS3:
    """Running store. `requests` counts by method and key. Each key's first `fails_first` requests get SlowDown.

    The bodies of its first `cuts_first` GETs break off half-way.
    """

    url: str
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    fails_first: int = 0
    cuts_first: int = 0
    objects: dict[str, bytes] = field(default_factory=dict)  # bodies other than `body_of`
    meanwhile: Callable[[str], None] = lambda _: None  # called with the key before an answer is sent
    lock: Any = field(default_factory=threading.Lock)

    def answer(self, method: str, key: str, headers: Any) -> Answer:
        """Return the answer to one request."""
        with self.lock:
            self.requests[method, key] += 1
            number = self.requests[method, key]
        self.meanwhile(key)
        if key == "/bucket":  # botocore looks up the region of a moved bucket
            return Answer(404, {})
        kind = key.partition("/")[0]
        if number <= self.fails_first:
            return error(503, "SlowDown")(Answer(200, {}))
        if method == "HEAD" and kind == "no-head":
            return error(405, "MethodNotAllowed")(Answer(200, {}))
        if method == "HEAD" and kind == "forbidden-head":
            return error(403, "AccessDenied")(Answer(200, {}))
        body = self.objects.get(key, body_of(key))
        good = Answer(200, {"ETag": etag_of(body), "Last-Modified": _WRITTEN, "Content-Type": "text/plain"}, body)
        if kind in PARTS:
            return replace(good, status=206, body=body[3:10], headers=good.headers | {"Content-Range": PARTS[kind]})
        if method == "GET" and number <= self.cuts_first:
            return replace(good, cut=len(body) // 2)
        make = FAILING[kind][0] if kind in FAILING else READABLE[kind]
        made = make(good)
        if made.status != 200 or kind == "no-range":
            return made
        etag = made.headers.get("ETag", "")
        if etag and headers.get("If-None-Match") == etag:
            return replace(made, status=304, body=b"")
        is_weak = etag.startswith("W/") and "If-Match" in headers  # If-Match compares strongly
        if etag and (is_weak or headers.get("If-Match", etag) != etag):
            return error(412, "PreconditionFailed")(good)
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("Range", "")):
            size = len(made.body)
            first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
            if first >= size:
                return error(416, "InvalidRange")(good)
            sent = made.headers | {"Content-Range": f"bytes {first}-{last}/{size}"}
            sent = {name: value for name, value in sent.items() if not name.startswith("x-amz-checksum")}
            return replace(made, status=206, body=made.body[first : last + 1], headers=sent)
        return made


@contextmanager
def hostile_s3() -> Iterator[HostileS3]:
    """Serve on loopback for the duration of a `with`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def do_HEAD(self) -> None:
            self._send()

        def do_GET(self) -> None:
            self._send()

        def _send(self) -> None:
            key = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).removeprefix("/bucket/")
            answer = store.answer(self.command, key, self.headers)
            if answer.status == 0:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.is_chunked:
                self.send_header("Transfer-Encoding", "chunked")
            elif answer.has_length and answer.status != 304:
                self.send_header("Content-Length", str(len(answer.body)))
            elif answer.status != 304:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            if self.command == "HEAD" or answer.status == 304:
                return
            if answer.is_chunked:
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(answer.body), answer.body))
                return
            self.wfile.write(answer.body[: answer.cut])
            if answer.cut is not None:
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 512

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that disconnect."""

    with Server(("127.0.0.1", 0), Handler) as server:
        store = HostileS3(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()
