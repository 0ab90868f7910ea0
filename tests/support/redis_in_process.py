"""The Redis of a node, in the process of a test."""

from __future__ import annotations

from typing import Any

import fakeredis
import redis

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_objects import RedisObjects

NO_SECRETS: Any = None  # a Redis without a password asks for none


class NodeRedis:
    """A server that can be stopped and started again."""

    def __init__(self) -> None:
        self._server = fakeredis.FakeServer()
        self.client = fakeredis.FakeRedis(server=self._server)
        self.is_up = True

    def start(self) -> None:
        """Answer, with what was there before."""
        self._server.connected = self.is_up = True

    def kill(self) -> None:
        """Answer no more."""
        self._server.connected = self.is_up = False

    def empty(self) -> None:
        """Lose everything, as a Redis does whose instance stops, whether or not it answers."""
        self._server.connected = True
        self.client.flushall()
        self._server.connected = self.is_up


class ObjectsInProcess(RedisObjects):
    """The adapter, connected to a Redis in this process."""

    def __init__(self, node: RedisNode, client: redis.Redis) -> None:
        super().__init__(node, NO_SECRETS, RedisAccess())
        self._in_process = client
        self.max_bytes = 0

    def memory_bytes(self) -> int:
        """Return a limit that is not kept: this Redis has no configuration."""
        with self._connected() as client:
            client.ping()
        return self.max_bytes

    def _connect(self) -> redis.Redis:
        return self._in_process
