"""The Redis tier: objects that a node holds, and in the same round trip the times by which the node is judged."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache.adapters.secrets import forget_secrets, secret
from burstcache.core.errors import RedisDownError
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.settings import RedisNode, Settings
from burstcache.web.entry import Entry, decode_meta
from burstcache.web.request import Request

_TIMEOUT_S = 0.5
_CHECK_AFTER_IDLE_S = 10  # a connection that slept longer is pinged first: the environment may have been frozen


def object_key(hash_: str) -> str:
    """Return where an object is: a hash with the fields `meta` (JSON of headers) and `body`."""
    return f"object:{hash_}"


def recent_key(hash_: str) -> str:
    """Return where the times of the last GETs are: a list of decimal microseconds, newest first."""
    return f"recent:{hash_}"


class RedisNodeTier:
    """One node, asked by GETs and HEADs. A HEAD fetches no body and does not count as use."""

    def __init__(self, node: RedisNode, settings: Settings) -> None:
        self._node = node
        self._secret_arn = settings.redis_secret_arn
        self._client: redis.Redis | None = None

    def fetch(self, request: Request) -> Entry | None:
        """Return the object, or None: the node does not hold it.

        Raises:
            RedisDownError: The node does not answer, or refuses our password.
            ValueError: What it holds is no entry.
        """
        try:
            client = self._connected()
            if request.method == "HEAD":
                return _entry(client.hget(object_key(request.hash), "meta"), b"")
            return self._get(client, request)
        except redis.AuthenticationError as error:
            forget_secrets()
            self._client = None
            raise RedisDownError(f"{self._node.name} refuses the password: {error}") from error
        except redis.RedisError as error:
            raise RedisDownError(f"{self._node.name} at {self._node.host}: {error!r}") from error

    def _get(self, client: redis.Redis, request: Request) -> Entry | None:
        object_, recent = object_key(request.hash), recent_key(request.hash)
        commands = client.pipeline(transaction=False)
        commands.hmget(object_, ["meta", "body"])
        commands.lpush(recent, str(request.at_us))
        commands.ltrim(recent, 0, QUEUE_LENGTH - 1)
        (meta, body), *_ = commands.execute()
        if meta is None or body is None:
            # S3 will serve it. A list that outlives its object would keep a node in use that serves nothing.
            client.delete(recent)
            return None
        return _entry(meta, body)

    def _connected(self) -> redis.Redis:
        if self._client is None:
            self._client = connect(self._node, self._secret_arn)
        return self._client


def connect(node: RedisNode, secret_arn: str, *, timeout_s: float = _TIMEOUT_S) -> redis.Redis:
    """Return a client of a node; it connects at first use. `secret_arn` may be empty: no password.

    One retry at once: a connection that was lost while the environment was frozen shows itself in its first use. A node
    that is silent is not asked twice.
    """
    return redis.Redis(
        host=node.host,
        port=node.port,
        password=secret(secret_arn)["password"] if secret_arn else None,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        health_check_interval=_CHECK_AFTER_IDLE_S,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        protocol=2,
        driver_info=None,  # two round trips less per connection
    )


def _entry(meta: Any, body: Any) -> Entry | None:
    return None if meta is None else Entry(decode_meta(meta), body)
