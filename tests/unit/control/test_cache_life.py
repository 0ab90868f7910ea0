"""What a life of the cache function remembers, and what a promotion that fails leaves behind."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, cast

import pytest

from burstcache.control import cache_life
from burstcache.control.cache_life import CacheTask, CacheTools, KeyCache
from burstcache.core.errors import ServiceError
from burstcache.core.parameters import parameters_from_text
from burstcache.core.policy import LambdaLife
from burstcache.core.table import NodeRow
from burstcache.web.entry import Entry
from support.clock import ManualClock

_PARAMETERS = parameters_from_text(rate="9", sensitivity="4")
_FAR_US = 1 << 62


class _Executions:
    """Step Functions; it refuses to complete tasks."""

    def __init__(self) -> None:
        self.beat = threading.Event()

    def succeed(self, token: str, output: object) -> bool:
        raise ServiceError("slow down", code="ThrottlingException")

    def heartbeat(self, token: str) -> bool:
        self.beat.set()
        return True


class _Nodes:
    def read(self, node: str) -> NodeRow:
        return NodeRow(node)


async def _nowhere(data: bytes) -> None:
    """Take an answer and drop it."""


def _get(at_us: int) -> bytes:
    return json.dumps({"at_us": at_us, "request_id": str(at_us), "method": "GET"}).encode()


def _cache(executions: _Executions, life: LambdaLife) -> KeyCache:
    unused: Any = None
    tools = CacheTools(
        keys=unused,
        nodes=cast(Any, _Nodes()),
        executions=cast(Any, executions),
        objects=unused,
        max_object_bytes=4 << 20,
        parameters=_PARAMETERS,
        clock=ManualClock(),
    )
    entry = Entry({"etag": '"e"', "content-length": "4"}, b"body")
    return KeyCache(CacheTask("k", "0" * 32, 1, "token", "one"), tools, entry, _FAR_US, life)


def test_window_does_not_grow_with_the_load() -> None:
    cache = _cache(_Executions(), LambdaLife(deadline_us=0, count=0, is_promoted=True))

    async def serve() -> None:
        for at_us in range(10_000):
            await cache._on_get(_get(at_us), _nowhere)

    asyncio.run(serve())

    newest = {request.at_us for request in sorted(cache.window)[-_PARAMETERS.window_length :]}
    assert newest == set(range(10_000 - _PARAMETERS.window_length, 10_000))
    assert len(cache.window) <= 4 * _PARAMETERS.window_length
    assert cache.life.count == 10_000


def test_promotion_that_fails_does_not_prolong_the_life() -> None:
    life = LambdaLife(deadline_us=1_000_000, count=9)
    cache = _cache(_Executions(), life)

    async def promote_in_vain() -> None:
        for _ in range(3):
            await cache._promote()

    asyncio.run(promote_in_vain())

    assert cache.life == life


def test_heartbeats_go_on_after_a_promotion_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_life, "_HEARTBEAT_S", 0)
    executions = _Executions()
    cache = _cache(executions, LambdaLife(deadline_us=_FAR_US, count=9, is_promoted=True))

    async def beat() -> None:
        beating = asyncio.create_task(cache._beat())
        for _ in range(10):  # turns of the loop, each a beat's time
            await asyncio.sleep(0)
        assert not executions.beat.is_set()
        cache.life = LambdaLife(deadline_us=_FAR_US, count=9)
        assert await asyncio.to_thread(executions.beat.wait, 5)
        beating.cancel()

    asyncio.run(beat())
