"""A node's Redis in the process of a test."""

from __future__ import annotations

from typing import Any

import fakeredis
import redis

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.node_memory import MemorySample

NO_SECRETS: Any = None  # for a Redis without a password


class NodeRedis:
    """Redis server that can be stopped and restarted."""

    def __init__(self) -> None:
        self._server = fakeredis.FakeServer()
        self.client = fakeredis.FakeRedis(server=self._server)
        self.is_up = True

    def start(self) -> None:
        """Start answering again, with the data from before."""
        self._server.connected = self.is_up = True

    def kill(self) -> None:
        """Stop answering."""
        self._server.connected = self.is_up = False

    def empty(self) -> None:
        """Lose all data, as when the instance stops, whether or not the server is up."""
        self._server.connected = True
        self.client.flushall()
        self._server.connected = self.is_up


class ObjectsInProcess(RedisObjects):
    """Adapter connected to a Redis in this process."""

    def __init__(self, node: RedisNode, client: redis.Redis) -> None:
        super().__init__(node, NO_SECRETS, RedisAccess())
        self._in_process = client
        self.max_bytes = 0
        self.sample: MemorySample | None = MemorySample(used_bytes=0, limit_bytes=0, evicted=0)

    def memory_bytes(self) -> int:
        """Return a limit that nothing enforces, as this Redis has no configuration."""
        with self._connected() as client:
            client.ping()
        return self.max_bytes

    def memory_sample(self) -> MemorySample | None:
        """Return the sample that a test has set, as this Redis evicts nothing."""
        with self._connected() as client:
            client.ping()
        return self.sample

    def _connect(self) -> redis.Redis:
        return self._in_process
