"""Fixtures of the contract tests (conftest)."""

from __future__ import annotations

from collections.abc import Iterator

import fakeredis
import pytest
import redis

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_objects import RedisObjects
from support.redis_in_process import NO_SECRETS, ObjectsInProcess
from support.servers import RedisServer
from support.waiting import LIMIT_S


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """Run a real Redis for the tests of a module."""
    with RedisServer() as running:
        yield running


@pytest.fixture(params=["a server", "in this process"])
def client(request: pytest.FixtureRequest, server: RedisServer) -> Iterator[redis.Redis]:
    """Return a client of an empty Redis: a server's, or the one in this process."""
    connected: redis.Redis = redis.Redis(port=server.port) if request.param == "a server" else fakeredis.FakeRedis()
    with connected:
        connected.flushall()
        connected.script_flush()
        yield connected


@pytest.fixture
def objects(client: redis.Redis, server: RedisServer) -> RedisObjects:
    """Return a node's objects, in the Redis of `client`."""
    node = RedisNode("node-1", "i-1", "127.0.0.1", server.port)
    if isinstance(client, fakeredis.FakeRedis):
        return ObjectsInProcess(node, client)
    return RedisObjects(node, NO_SECRETS, RedisAccess(), timeout_s=LIMIT_S)
