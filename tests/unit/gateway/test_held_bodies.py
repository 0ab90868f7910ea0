"""Held bodies of a gateway: how many bytes it keeps for clients that share them with nobody."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from burstcache.gateway import object_reads
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.object_reads import ObjectReads
from burstcache.gateway.s3_requests import ObjectRead, parse_target
from burstcache.serve.reader import Miss
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.waiting import LIMIT_S

_BODY = bytes(1 << 20)
_READ = ObjectRead({}, None, True, {}, is_plain=True)


class _Cache:
    """A cache whose tier has every object, and counts the reads of it."""

    def __init__(self, tier: str) -> None:
        self.client = Mock()
        self.finds = 0
        self._tier = tier

    def request(self, *_: object) -> Request:
        return Request("GET", "key", "0" * 32, {}, None, "1", 0)

    async def find(self, _: Request) -> Response:
        self.finds += 1
        return Response(200, {"etag": '"1"', "x-cache-tier": self._tier}, _BODY)

    def recall_part(self, _: Request) -> None:
        return None

    def part(self, *_: object) -> None:
        return None

    def miss(self) -> Miss:
        return Mock(spec=Miss, fills=[])


class _Client:
    """A connection that takes a body once its client reads."""

    has_begun = False

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.sent = b""

    def begin(self, status: int, head: bytes) -> None:
        self.has_begun = True

    async def write(self, data: bytes) -> None:
        await self.reads.wait()
        self.sent += data

    def send(self, status: int, head: bytes, body: bytes) -> None:
        self.sent += body

    def end(self) -> None: ...


class _Rig:
    """Reads of one process, which has room for one body and a half, and the reads that S3 answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
        monkeypatch.setattr(object_reads, "_HELD_BYTES", len(_BODY) * 3 // 2)
        self.cache = _Cache(tier)
        cache: Any = self.cache
        self.reads = ObjectReads(cache, Mock())
        self.from_s3 = 0
        monkeypatch.setattr(self.reads, "_read_through", self._read_through)

    async def _read_through(self, *_: object) -> None:
        self.from_s3 += 1

    def start(self, client: _Client) -> asyncio.Future[bool]:
        connection: Any = client
        request, target = HttpRequest(b"GET", b"/bucket/key"), parse_target(b"/bucket/key", "")
        return asyncio.ensure_future(self.reads.respond(request, connection, target, _READ))


async def _begun(client: _Client) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not client.has_begun:
            await asyncio.sleep(0)


def test_beyond_the_limit_s3_answers_until_a_client_has_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rig, slow, other, last = _Rig(monkeypatch, "disk"), _Client(), _Client(), _Client()
        reading = rig.start(slow)
        await _begun(slow)

        await asyncio.wait_for(rig.start(other), LIMIT_S)
        assert (rig.from_s3, other.sent) == (1, b"")

        slow.reads.set()
        last.reads.set()
        await asyncio.wait_for(asyncio.gather(reading, rig.start(last)), LIMIT_S)
        assert (rig.from_s3, slow.sent, last.sent) == (1, _BODY, _BODY)

    asyncio.run(work())


def test_a_client_that_goes_away_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rig, gone, last = _Rig(monkeypatch, "disk"), _Client(), _Client()
        reading = rig.start(gone)
        await _begun(gone)

        reading.cancel()
        await asyncio.wait((reading,))
        last.reads.set()
        await asyncio.wait_for(rig.start(last), LIMIT_S)

        assert (rig.from_s3, last.sent) == (0, _BODY)

    asyncio.run(work())


def test_bodies_in_memory_are_shared_and_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rig, clients = _Rig(monkeypatch, "memory"), [_Client() for _ in range(5)]

        await asyncio.wait_for(asyncio.gather(*map(rig.start, clients)), LIMIT_S)

        assert [client.sent for client in clients] == [_BODY] * 5
        assert rig.from_s3 == 0

    asyncio.run(work())


def test_a_read_waits_while_all_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rig, slow, waiting = _Rig(monkeypatch, "disk"), _Client(), _Client()
        monkeypatch.setattr(object_reads, "_HELD_BYTES", len(_BODY))
        monkeypatch.setattr(object_reads, "_HELD_WITHIN_S", LIMIT_S)
        first = rig.start(slow)
        await _begun(slow)
        second = rig.start(waiting)
        for _ in range(10):
            await asyncio.sleep(0)
        assert rig.cache.finds == 1

        slow.reads.set()
        waiting.reads.set()
        await asyncio.wait_for(asyncio.gather(first, second), LIMIT_S)

        assert (rig.from_s3, waiting.sent) == (0, _BODY)

    asyncio.run(work())
