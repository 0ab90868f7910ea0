"""Idle connections of a gateway: closed when no request comes in time, and never while one is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from burstcache.gateway.http_connection import HEAD_WITHIN_S, IDLE_S, HttpConnection
from burstcache.gateway.http_messages import HttpRequest

_GET = b"GET /bucket/key HTTP/1.1\r\nHost: localhost\r\n\r\n"


class _Timer:
    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s, self.call, self.is_cancelled = at_s, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class _Loop:
    """An event loop whose time passes on demand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.timers: list[_Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, after_s: float, call: Callable[[], None]) -> _Timer:
        self.timers.append(_Timer(self.now_s + after_s, call))
        return self.timers[-1]

    def create_future(self) -> Mock:
        return Mock()

    def pass_time(self, for_s: float) -> None:
        """Let time pass, and call the timers that are due."""
        self.now_s += for_s
        while due := [each for each in self.timers if each.at_s <= self.now_s]:
            self.timers.remove(due[0])
            if not due[0].is_cancelled:
                due[0].call()


class _Transport:
    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False

    def set_write_buffer_limits(self, **_: int) -> None:
        pass

    def get_extra_info(self, _: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True


class _Application:
    """Answers at once, or later by `answer`."""

    def __init__(self) -> None:
        self.is_quick = True

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        if self.is_quick:
            connection.send(200, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n", b"ok")
        return self.is_quick

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None: ...


class _Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop, self.transport, self.application = _Loop(), _Transport(), _Application()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self.loop)
        self.connection = HttpConnection(self.application, set(), Mock())
        transport: Any = self.transport
        self.connection.connection_made(transport)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> _Rig:
    return _Rig(monkeypatch)


def test_a_connection_without_a_request_is_closed(rig: _Rig) -> None:
    rig.connection.data_received(_GET[:20])
    rig.loop.pass_time(HEAD_WITHIN_S - 1)
    assert not rig.transport.is_closed

    rig.loop.pass_time(1)

    assert rig.transport.is_closed


def test_each_response_begins_the_idle_time_anew(rig: _Rig) -> None:
    for _ in range(5):
        rig.connection.data_received(_GET)
        rig.loop.pass_time(IDLE_S - 1)
        assert not rig.transport.is_closed

    rig.loop.pass_time(1)

    assert rig.transport.is_closed
    assert rig.transport.sent.count(b"200 OK") == 5


def test_many_requests_share_one_timer(rig: _Rig) -> None:
    for _ in range(100):
        rig.connection.data_received(_GET)

    assert len(rig.loop.timers) == 1


def test_a_body_of_any_length_follows_its_head(rig: _Rig) -> None:
    sent: list[bytes] = []
    rig.transport.writelines = lambda parts: sent.extend(bytes(each) for each in parts)  # type: ignore[attr-defined]
    body = bytes(range(256)) * 4_096

    def respond_now(request: HttpRequest, connection: HttpConnection) -> bool:
        connection.send(200, b"HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n", memoryview(body))
        return True

    rig.application.respond_now = respond_now  # type: ignore[method-assign]
    rig.connection.data_received(_GET)

    assert b"".join(sent) == b"HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n\r\n" + body
