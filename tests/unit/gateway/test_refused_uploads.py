"""Uploads that are answered before their end: by the gateway itself, and by S3."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.upload_payload import UploadPayload


class _Refusing:
    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        return False

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        raise S3Error("AccessDenied", "Access Denied")


def test_a_connection_is_read_on_after_a_refusal_whose_large_body_nobody_has_read() -> None:
    async def refuse() -> tuple[list[str], bytes]:
        calls: list[str] = []
        answered = asyncio.get_running_loop().create_future()
        transport = Mock()
        transport.get_extra_info.return_value = None
        transport.pause_reading.side_effect = lambda: calls.append("pause")
        transport.resume_reading.side_effect = lambda: calls.append("resume")
        transport.write.side_effect = answered.set_result
        connection = HttpConnection(_Refusing(), set(), Mock())
        connection.connection_made(transport)

        connection.data_received(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n" + bytes(300_000))
        answer = await asyncio.wait_for(answered, 60)
        await asyncio.sleep(0)
        connection.connection_lost(None)
        return calls, answer

    calls, answer = asyncio.run(refuse())

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"connection: close" not in answer
    assert calls == ["pause", "resume"]


class _Origin(asyncio.Protocol):
    def __init__(self, events: list[str]) -> None:
        self._events = events

    def data_received(self, data: bytes) -> None:
        self._events.append(data.decode())


class _Writer:
    def __init__(self, transport: asyncio.BaseTransport, events: list[str]) -> None:
        self.transport, self._events = transport, events

    async def write(self, data: bytes) -> None:
        self._events.append(data.decode())


def test_s3s_response_is_read_before_more_of_the_body_is_written() -> None:
    async def upload() -> list[str]:
        events: list[str] = []
        ours, theirs = socket.socketpair()
        with theirs:
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: _Origin(events), sock=ours)

            async def body() -> AsyncIterator[bytes]:
                yield b"first"
                theirs.sendall(b"refusal")
                yield b"second"

            writer: Any = _Writer(transport, events)
            await UploadPayload(body()).write_with_length(writer, None)
            transport.close()
        return events

    assert asyncio.run(upload()) == ["first", "refusal", "second"]
