"""A relay or a Redis that takes no step any more: a reader that could wait for minutes leaves it when S3 is quicker."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.patience import Patience
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay import RelayListener, RelayRequests
from burstcache.core.errors import RedisDownError, RelayDownError, SilentHolderError
from burstcache.core.messages.relay import get_subject
from burstcache.serve.cache_function_tier import LambdaTier
from burstcache.settings import RedisAccess, RedisNode, RelayAccess
from burstcache.web.entry import Entry, encode
from burstcache.web.request import Request
from support.redis_in_process import NO_SECRETS
from support.servers import RedisServer, serve_nats
from support.waiting import LIMIT_S, free_port

ENTRY = Entry({"etag": '"1"', "content-length": "1"}, b"1")
REQUEST = Request("GET", "a", "0" * 32, {}, None, "request-1", 1)


def endless() -> Patience:
    patience = Patience(least_s=0.05, most_s=LIMIT_S)
    patience.s3_took(LIMIT_S)
    return patience


def lose(patience: Patience) -> None:
    for _ in range(200):
        patience.s3_took(0.0)


def test_a_redis_that_freezes_under_a_connection_is_left_by_the_patience_of_the_moment() -> None:
    server, patience = RedisServer(free_port()), endless()
    server.start()
    node = RedisNode("node-1", "i-1", "127.0.0.1", server.port)
    objects = RedisObjects(node, NO_SECRETS, RedisAccess(), patience=patience)
    try:
        assert objects.read(REQUEST.hash, at_us=1) is None
        server.process.send_signal(signal.SIGSTOP)
        lose(patience)

        for _ in range(2):  # on the connection that it had, and on a new one
            with pytest.raises(RedisDownError):
                objects.read(REQUEST.hash, at_us=1)
    finally:
        server.kill()


@contextmanager
def cache_function(access: RelayAccess) -> Iterator[None]:
    """Have something answer GETs."""
    loop, listener = asyncio.new_event_loop(), RelayListener(access, NO_SECRETS)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def answer(message: bytes, respond: object) -> None:
        await respond(encode(ENTRY))  # type: ignore[operator]

    async def listen() -> None:
        await listener.open()
        await listener.listen(get_subject(REQUEST.hash), queue="q", answer=answer)
        await listener.flush()

    try:
        asyncio.run_coroutine_threadsafe(listen(), loop).result(LIMIT_S)
        yield
    finally:
        asyncio.run_coroutine_threadsafe(listener.close(), loop).result(LIMIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_relay_that_freezes_under_a_connection_is_left_by_the_patience_of_the_moment() -> None:
    port, patience = free_port(), endless()
    server, access = serve_nats(port), RelayAccess(f"nats://127.0.0.1:{port}")
    tier = LambdaTier(RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S), patience)
    try:
        with cache_function(access):
            assert tier.fetch(REQUEST) == ENTRY
            server.send_signal(signal.SIGSTOP)
            lose(patience)

            with pytest.raises(SilentHolderError):  # it may be the cache function
                tier.fetch(REQUEST)
            with pytest.raises(RelayDownError):  # it takes a connection and says nothing
                tier.fetch(REQUEST)
            server.send_signal(signal.SIGCONT)
    finally:
        tier.close()
        server.kill()
        server.wait()
