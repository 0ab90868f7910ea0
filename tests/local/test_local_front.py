"""The front door's HTTP server: clients that stop sending, send nothing, or do not speak HTTP."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from burstcache_local.front.http_events import HttpRequest
from burstcache_local.front.http_server import Server
from burstcache_local.loop import LoopThread
from support.waiting import LIMIT_S

MAX_BODY_BYTES = 1000


async def echo(request: HttpRequest) -> web.Response:
    if request.raw_path == "/large":
        return web.Response(body=b"x" * 5_000_000)
    seen = {"method": request.method, "path": request.raw_path, "query": request.raw_query, "bytes": len(request.body)}
    return web.json_response(seen)


@pytest.fixture
def limit_s() -> float:
    """Time limit for a head and for a body. Only tests of the limits shorten it."""
    return LIMIT_S


@pytest.fixture
def address(limit_s: float) -> Iterator[tuple[str, int]]:
    loop = LoopThread()
    try:
        url = urlsplit(
            loop.serve(
                lambda: web.ServerRunner(
                    Server(echo, max_body_bytes=MAX_BODY_BYTES, body_limit_s=limit_s, head_limit_s=limit_s),
                    shutdown_timeout=0.5,
                )
            )
        )
        assert url.hostname
        assert url.port
        yield url.hostname, url.port
    finally:
        loop.stop()


def talk(address: tuple[str, int], sent: bytes, *, half_close: bool = False) -> bytes:
    """Return all that comes back until the server closes the connection."""
    with socket.create_connection(address, LIMIT_S) as connection:
        connection.sendall(sent)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        received = bytearray()
        while chunk := connection.recv(1 << 16):
            received += chunk
        return bytes(received)


def answers(received: bytes) -> list[tuple[int, Any]]:
    """Return status and JSON of every answer."""
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        (length,) = re.findall(rb"(?i)content-length: (\d+)", head)
        assert head.startswith(b"HTTP/1.1 ")
        found.append((int(head.split()[1]), json.loads(rest[: int(length)])))
        received = rest[int(length) :]
    return found


def request(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode("latin-1")


def test_a_client_that_has_stopped_sending_gets_all_its_answers(address: tuple[str, int]) -> None:
    received = talk(address, request("GET /a") + request("GET /b?c=d"), half_close=True)

    assert [(status, seen["path"], seen["query"]) for status, seen in answers(received)] == [
        (200, "/a", ""),
        (200, "/b", "c=d"),
    ]


def test_a_client_that_has_stopped_sending_gets_a_large_answer(address: tuple[str, int]) -> None:
    received = talk(address, request("GET /large"), half_close=True)

    assert received.count(b"x") >= 5_000_000


def test_a_client_that_sends_nothing_and_stops_is_let_go(address: tuple[str, int]) -> None:
    assert talk(address, b"", half_close=True) == b""


@pytest.mark.parametrize("limit_s", [0.2])
def test_a_body_that_does_not_come_is_waited_for_a_limited_time(address: tuple[str, int]) -> None:
    received = talk(address, request("PUT /a", "Transfer-Encoding: chunked"))

    assert answers(received) == [(408, {"message": "Request Timeout"})]


@pytest.mark.parametrize("limit_s", [0.2])
@pytest.mark.parametrize("sent", [b"G", b"GET /a HTTP/1.1\r\n", b"GET /a HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_headers_that_do_not_end_are_waited_for_a_limited_time(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address, LIMIT_S) as client:
        client.sendall(request("GET /before"))
        (before,) = answers(client.recv(65_536))
        client.sendall(sent)

        assert (before[0], answers(client.recv(65_536))) == (200, [(408, {"message": "Request Timeout"})])
        assert client.recv(1) == b""


@pytest.mark.parametrize("limit_s", [0.2])
def test_headers_that_trickle_are_waited_for_no_longer(address: tuple[str, int]) -> None:
    with socket.create_connection(address, LIMIT_S) as client:
        client.sendall(b"GET /a HTTP/1.1\r\n")
        client.settimeout(0.02)
        received = b""
        for _ in range(100_000):
            try:
                received = client.recv(65_536)
                break
            except TimeoutError:
                client.sendall(b"X: y\r\n")

    assert answers(received) == [(408, {"message": "Request Timeout"})]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.1.2.3:80", 200),
        ("LOCALHOST:8080", 200),
        ("localhost.", 200),
        ("bucket.localhost:4566", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8080", 403),
        ("evillocalhost", 403),
        ("10.0.0.1", 403),
        ("evil@127.0.0.1", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_only_names_of_this_machine_are_answered(address: tuple[str, int], host: str, status: int) -> None:
    received = talk(address, request("GET /a", "Connection: close").replace(b"localhost", host.encode(), 1))

    assert [answered for answered, _ in answers(received)] == [status]


@pytest.mark.parametrize("header", ["Transfer-Encoding: chunked", "Content-Length: 3"])
def test_a_body_that_cannot_come_any_more_is_not_waited_for(address: tuple[str, int], header: str) -> None:
    received = talk(address, request("PUT /a", header), half_close=True)

    assert answers(received) == [(400, {"message": "Bad Request"})]


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (request("GET /a", "X-Long: " + "x" * 10_241), 431, "Request Header Fields Too Large"),
        (request("CONNECT example.com:443"), 400, "Bad Request"),
        (request("OPTIONS *"), 400, "Bad Request"),
        (b"no HTTP at all\r\n\r\n", 400, "Bad Request"),
        (request("PUT /a", "Transfer-Encoding: chunked") + b"no size\r\n", 400, "Bad Request"),
        (request("PUT /a", "Content-Length: 1001") + b"x" * 1001, 413, "Request Entity Too Large"),
    ],
    ids=["oversized header", "CONNECT", "OPTIONS *", "not HTTP", "not a chunk", "oversized body"],
)
def test_a_request_that_cannot_be_served_is_refused_in_json(
    address: tuple[str, int], sent: bytes, status: int, message: str
) -> None:
    assert answers(talk(address, sent)) == [(status, {"message": message})]


@pytest.mark.parametrize("expected", ["\xff", "something", ""])
def test_an_expectation_that_is_not_understood_is_ignored(address: tuple[str, int], expected: str) -> None:
    received = talk(address, request("GET /a", f"Expect: {expected}", "Connection: close"))

    assert answers(received)[0][0] == 200


def test_a_client_that_asks_before_it_sends_its_body_gets_a_go_ahead(address: tuple[str, int]) -> None:
    with socket.create_connection(address, LIMIT_S) as connection:
        connection.sendall(request("PUT /a", "Content-Length: 3", "Expect: 100-continue", "Connection: close"))
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        received = bytearray()
        while chunk := connection.recv(1 << 16):
            received += chunk

    assert answers(bytes(received)) == [(200, {"method": "PUT", "path": "/a", "query": "", "bytes": 3})]


def test_a_target_that_names_the_host_is_served(address: tuple[str, int]) -> None:
    received = talk(address, request("GET http://x/a/b?c", "Connection: close"))

    assert answers(received) == [(200, {"method": "GET", "path": "/a/b", "query": "c", "bytes": 0})]
