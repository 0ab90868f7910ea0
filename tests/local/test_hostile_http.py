"""Hostile HTTP: each front door rejects or serves malformed requests at once, and continues."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from support.policies import THESIS
from support.waiting import LIMIT_S

_ALB = {"FrontDoor": "alb", "CertificateArn": "arn:aws:acm:eu-central-1:123456789012:certificate/1"}
_LATER = "Sun, 06 Nov 2095 08:49:37 GMT"


@pytest.fixture(scope="module", params=["http-api", "alb"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def address(door: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    parameters = THESIS | (_ALB if door == "alb" else {})
    options = LocalOptions(run_dir=tmp_path_factory.mktemp("logs"), parameters=parameters)
    with LocalCloud(options) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="a", Body=b"0123456789")
        url = urlsplit(cloud.front_url)
        assert url.hostname
        assert url.port
        yield url.hostname, url.port


def get(*lines: bytes, line: bytes = b"GET /objects/a HTTP/1.1", body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: localhost", b"Connection: close", *lines, b"", body])


def line(target: bytes, method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> bytes:
    return get(line=b"%s %s %s" % (method, target, version))


_SERVED = {
    "one of HTTP/1.0": (b"GET /objects/a HTTP/1.0\r\n\r\n", 200),
    "a target with scheme and host": (line(b"http://other/objects/a"), 200),
    "If-Match twice": (get(b'If-Match: "x"', b'If-Match: "y"'), 412),
    "a date to come": (get(b"If-Modified-Since: " + _LATER.encode()), 200),
    "a GET with a body": (get(b"Content-Length: 5", body=b"hello"), 200),
    "a GET with chunks": (get(b"Transfer-Encoding: chunked", body=b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"), 200),
    "a HEAD with a body": (get(b"Content-Length: 3", line=b"HEAD /objects/a HTTP/1.1", body=b"abc"), 200),
    "an upgrade to WebSocket": (get(b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"), 200),
    "an upgrade to HTTP/2": (get(b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"), 200),
    "an expectation": (get(b"Expect: 200-maybe"), 200),
    "UTF-8 in a header": (get("X-Y: \u00e9".encode()), 200),
    "a cookie of 5 KB": (get(b"Cookie: " + b"a=b; " * 1000), 200),
    "empty lines first": (b"\r\n\r\n" + get(), 200),
}
_REFUSED = {
    "a path that is not UTF-8": (line(b"/objects/%ff%fe"), 400),
    "an overlong slash": (line(b"/objects/%c0%af"), 400),
    "a surrogate": (line(b"/objects?key=%ed%a0%80"), 400),
    "a key of 9,000 bytes": (line(b"/objects/" + b"k" * 9000), 400),
    "a thousand parameters": (line(b"/objects?" + b"&".join(b"a%d=b" % i for i in range(1000))), 400),
    "a path with two slashes first": (line(b"//objects/a"), 404),
    "a NUL in a key": (line(b"/objects/%00"), 404),
    "another method": (line(b"/objects/a", b"M-SEARCH"), 405),
    "TRACE": (line(b"/objects/a", b"TRACE"), 405),
    "a preflight of CORS": (get(b"Origin: https://y", line=b"OPTIONS /objects/a HTTP/1.1"), 405),
    "a body that is no gzip": (
        get(b"Content-Encoding: gzip", b"Content-Length: 3", line=b"PATCH /objects/a HTTP/1.1", body=b"abc"),
        405,
    ),
    "bytes in a condition": (get(b'If-None-Match: "\xff\xfe"'), 400),
    "a digit that is none": (get(b"Range: bytes=\xb2-"), 400),
}
_NO_REQUESTS = {
    "bytes in a target": (line(b"/objects/\xe9"), 400),
    "no host": (b"GET /objects/a HTTP/1.1\r\n\r\n", 400),
    "two hosts": (get(b"Host: localhost"), 400),
    "a target without a path": (line(b"other:80"), 400),
    "another scheme": (line(b"ftp://other/objects/a"), 400),
    "a port that is none": (line(b"http://other:99999/objects/a"), 400),
    "HTTP/2 in plain": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a version of HTTP to come": (line(b"/objects/a", version=b"HTTP/2.0"), 400),
    "a method in lower case": (line(b"/objects/a", b"get"), 400),
    "a method that is no token": (line(b"/objects/a", b"G@T"), 400),
    "a NUL in a header": (get(b"X: a\0b"), 400),
    "a carriage return in a header": (get(b"X: a\rb"), 400),
    "a header in two lines": (get(b"X: a", b" b"), 400),
    "a space before the colon": (get(b"X : a"), 400),
    "a header without a name": (get(b": a"), 400),
    "lines that end with LF": (get().replace(b"\r\n", b"\n"), 400),
    "two lengths": (get(b"Content-Length: 5", b"Content-Length: 6", body=b"hello"), 400),
    "a length and chunks": (get(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
    "a negative length": (get(b"Content-Length: -5"), 400),
    "an endless length": (get(b"Content-Length: " + b"9" * 20), 400),
    "an endless chunk": (get(b"Transfer-Encoding: chunked", body=b"f" * 18 + b"\r\n"), 400),
    "a negative chunk": (get(b"Transfer-Encoding: chunked", body=b"-1\r\n\r\n"), 400),
    "another transfer coding": (get(b"Transfer-Encoding: xyz"), 400),
    "TLS": (bytes.fromhex("16030100c8010000c40303") + bytes(200) + b"\r\n\r\n", 400),
    "all bytes": (bytes(range(256)) + b"\r\n\r\n", 400),
    "a target of 20 KB": (line(b"/objects/" + b"k" * 20_000), 431),
    "headers of 11 KB": (get(*(b"X-%d: %s" % (i, b"y" * 110) for i in range(100))), 431),
}


@pytest.mark.parametrize(("sent", "status"), [*_SERVED.values()], ids=[*_SERVED])
def test_what_is_odd_but_a_request_is_served(address: tuple[str, int], sent: bytes, status: int) -> None:
    assert talk(address, sent)[0] == status


@pytest.mark.parametrize(("sent", "status"), [*_REFUSED.values()], ids=[*_REFUSED])
def test_what_no_object_can_answer_is_refused_with_the_reason(
    address: tuple[str, int], sent: bytes, status: int
) -> None:
    answered, body = talk(address, sent)

    assert (answered, json.loads(body)["error"].keys()) == (status, {"code", "message"})


@pytest.mark.parametrize(("sent", "status"), [*_NO_REQUESTS.values()], ids=[*_NO_REQUESTS])
def test_what_is_no_http_is_refused_by_the_door(address: tuple[str, int], sent: bytes, status: int) -> None:
    assert talk(address, sent)[0] == status


def test_a_header_that_comes_twice_is_a_list_behind_an_http_api_and_its_last_value_behind_an_alb(
    address: tuple[str, int], door: str
) -> None:
    sent = get(b"Range: bytes=0-0", b"Range: bytes=1-1")

    assert talk(address, sent) == ((200, b"0123456789") if door == "http-api" else (206, b"1"))


def test_requests_that_come_at_once_are_answered_in_order(address: tuple[str, int]) -> None:
    ranges = [b"GET /objects/a HTTP/1.1\r\nHost: localhost\r\nRange: bytes=%d-%d\r\n\r\n" % (i, i) for i in range(3)]

    received = received_from(address, b"".join(ranges) + get())

    assert [part[:1] for part in received.split(b"\r\n\r\n")[1:]] == [b"0", b"1", b"2", b"0"]


def talk(address: tuple[str, int], sent: bytes) -> tuple[int, bytes]:
    """Return the status and the body of the answer to what was sent; the connection must close after it."""
    head, _, body = received_from(address, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/")
    return int(head.split()[1]), body


def received_from(address: tuple[str, int], sent: bytes) -> bytes:
    """Return all that comes until the door closes the connection."""
    with socket.create_connection(address, LIMIT_S) as connection:
        connection.sendall(sent)
        received = bytearray()
        while chunk := connection.recv(1 << 16):
            received += chunk
        return bytes(received)
