"""Slow clients of a gateway: they neither slow down the filling of the cache nor lose their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from burstcache.gateway import http_connection
from burstcache.gateway.http_connection import ConnectionLostError, HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.responses import relay
from support.waiting import LIMIT_S

_CHUNKS = [bytes([number]) * 300_000 for number in range(5)]
_BODY = b"".join(_CHUNKS)
_GET = HttpRequest(b"GET", b"/bucket/key")


class _Response:
    """A response of S3 that comes in chunks."""

    status = 200

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.content, self._chunks = self, chunks

    async def iter_any(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class _Client:
    """A connection whose client reads nothing from its `slow_from`th chunk on, until the response is written to it."""

    def __init__(self, slow_from: int) -> None:
        self.written: list[bytes] = []
        self.events: list[str] = []
        self._slow_from = slow_from

    @property
    def is_slow(self) -> bool:
        return len(self.written) >= self._slow_from

    def begin(self, status: int, head: bytes) -> None:
        self.events.append(f"begin {status}")

    def write_soon(self, data: bytes) -> None:
        assert not self.is_slow or data == b"0\r\n\r\n"
        self.written.append(data)

    async def write(self, data: bytes) -> None:
        self.events.append("write")
        self.written.append(data)

    def end(self) -> None:
        self.events.append("end")


@pytest.mark.parametrize("slow_from", [0, 1, 3, 5])
@pytest.mark.parametrize("headers", [[("content-length", str(len(_BODY)))], []])
def test_a_slow_client_gets_its_response_after_the_cache_has_the_body(
    slow_from: int, headers: list[tuple[str, str]]
) -> None:
    client = _Client(slow_from)
    kept: list[bytes] = []
    connection: Any = client
    response: Any = _Response(_CHUNKS)

    def keep(body: bytes) -> None:
        client.events.append("keep")
        kept.append(body)

    asyncio.run(relay(connection, _GET, response, list(headers), keep))

    assert kept == [_BODY]
    assert client.events[:2] == ["begin 200", "keep"]
    assert client.events[-1] == "end"
    assert ("write" in client.events) is (slow_from < len(_CHUNKS))
    assert b"".join(client.written) == _BODY if headers else _dechunked(b"".join(client.written)) == _BODY


def _dechunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size, 16)
        body, data = body + rest[:length], rest[length + 2 :]
    return body


class _Transport:
    """A transport whose buffer a test empties."""

    def __init__(self) -> None:
        self.sizes = [3, 3]

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]

    def get_extra_info(self, _: str) -> None:
        return None

    def set_write_buffer_limits(self, **_: int) -> None:
        pass

    def write(self, _: object) -> None:
        pass


def test_a_client_that_reads_slowly_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "BODY_WITHIN_S", 0.01)

    async def work() -> int:
        connection, transport = _connect()
        transport.sizes = [9, 7, 7, 5, 5, 3, 3]  # before and after each wait
        waiting = asyncio.ensure_future(connection.write(b"x"))
        while len(transport.sizes) > 1:
            await asyncio.sleep(0)
        connection.resume_writing()
        await asyncio.wait_for(waiting, LIMIT_S)
        return len(transport.sizes)

    assert asyncio.run(work()) == 1


def test_a_client_that_reads_nothing_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "BODY_WITHIN_S", 0.01)

    async def work() -> None:
        connection, transport = _connect()
        transport.sizes = [9, 7, 7]
        await asyncio.wait_for(connection.write(b"x"), LIMIT_S)

    with pytest.raises(ConnectionLostError, match="does not read"):
        asyncio.run(work())


def _connect() -> tuple[HttpConnection, _Transport]:
    """Return a connection whose client does not read."""
    connection, transport = HttpConnection(Mock(), set(), Mock()), _Transport()
    for_connection: Any = transport
    connection.connection_made(for_connection)
    connection.pause_writing()
    return connection, transport
