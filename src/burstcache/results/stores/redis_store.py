"""Redis store: results and leases in Redis or Valkey, on this machine or over the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache.adapters.clock import Clock
from burstcache.adapters.deadline import Deadline
from burstcache.adapters.redis_options import WITHOUT_SETINFO
from burstcache.core.errors import InvalidSettingError, RedisDownError, ResultStoreDownError, ResultStoreRefusalError
from burstcache.results.stores.deadline import TimedConnection, TimedSSLConnection, TimedUnixConnection
from burstcache.results.stores.store import PING_TIMEOUT_S

_CONNECTIONS = {"rediss": TimedSSLConnection, "unix": TimedUnixConnection}
OPTIONS: dict[str, Any] = {
    # A connection lost while the environment was frozen fails on its next use.
    "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    "protocol": 2,
    **WITHOUT_SETINFO,
}
# Accepted redis-py options in a URL. Others would change the replies or the timeouts.
_ACCEPTED = re.compile("db|username|password|client_name|ssl_.*")
_OPEN = b"-"  # an open lease; tokens are longer
# KEYS: lease. ARGV: token, lifetime of the lease or, in _RETURN, of the open lease [ms].
_RENEW = """
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
"""
_RETURN = """
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == "0" then return redis.call("DEL", KEYS[1]) end
redis.call("SET", KEYS[1], "-", "PX", ARGV[2])
return 1
"""


def lease_key(key: str) -> str:
    """Return the key of a result's lease. Its value is the holder's token."""
    return f"{key}:lease"


class RedisStore:
    """A store in one Redis. Connections are opened on demand, one per concurrent thread."""

    def __init__(
        self, make_pool: Callable[[Deadline], redis.ConnectionPool], clock: Clock, *, timeout_s: float, name: str
    ) -> None:
        """Set up the store without connecting.

        Args:
            make_pool: Creates a pool of connections that observe the deadline.
            clock: Source of time for deadlines.
            timeout_s: Timeout of an operation [s].
            name: The kind of store.
        """
        self.name = name
        self._timeout_s = timeout_s
        self._deadline = Deadline(clock)
        self._client = redis.Redis.from_pool(make_pool(self._deadline))  # the client closes the pool

    @classmethod
    def at(cls, url: str, clock: Clock, *, timeout_s: float) -> RedisStore:
        """Return the store at a redis-py URL: `redis://`, `rediss://` or `unix://`.

        Raises:
            InvalidSettingError: redis-py rejects the URL, or one of its options is not accepted.
        """
        scheme, _, path, query, _ = urlsplit(url)
        kind: Any = _CONNECTIONS.get(scheme, TimedConnection)
        unknown = [name for name in parse_qs(query, keep_blank_values=True) if not _ACCEPTED.fullmatch(name)]
        if unknown:
            raise InvalidSettingError(
                f"backend: option {unknown[0]!r}; accepted: timeout_ms, db, username, password, client_name, ssl_…"
            )
        if scheme == "unix" and not path:
            raise InvalidSettingError(f"backend {scheme}://: accepted: unix:///PATH of the server's socket")

        def make_pool(deadline: Deadline) -> redis.ConnectionPool:
            try:
                pool = redis.ConnectionPool.from_url(url, connection_class=kind, deadline=deadline, **OPTIONS)
                kind(**pool.connection_kwargs)  # does not connect, but checks the options
                return pool
            except (ValueError, TypeError) as error:
                raise InvalidSettingError(f"backend: redis-py refuses the URL: {error}") from error

        return cls(make_pool, clock, timeout_s=timeout_s, name="unix" if scheme == "unix" else "redis")

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return the value at a key, or the start of a larger value."""
        with self._operation():
            return self._client.getrange(key, 0, most_bytes) or None  # type: ignore[return-value]

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Store bytes for this time [ms]."""
        with self._operation():
            self._client.set(key, data, px=kept_ms)

    def forget(self, key: str) -> None:
        """Remove the value at a key."""
        with self._operation():
            self._client.delete(key)

    def ping(self) -> None:
        """Raise an error unless Redis responds."""
        with self._operation(PING_TIMEOUT_S):
            self._client.ping()

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._client.close()

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        """Take the lease of a key, if it is free, and read the value, in one round trip.

        A holder stores its result before it releases the lease. Therefore the value read after taking the lease is the
        newest.
        """
        with self._operation():
            commands = self._client.pipeline(transaction=False)
            commands.set(lease_key(key), token, nx=True, px=lease_ms)
            commands.get(lease_key(key))
            commands.getrange(key, 0, most_bytes)
            _, holder, data = commands.execute()
        # The reply to SET is inconclusive: a SET retried over a new connection fails because of the caller's own token.
        return holder == token.encode(), holder == _OPEN, data or None

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        """Extend the caller's lease, unless it has expired."""
        self._eval(_RENEW, lease_key(key), token, lease_ms)

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        """Release the caller's lease, unless it has expired. `open_ms` above 0 leaves it open for that time [ms]."""
        self._eval(_RETURN, lease_key(key), token, open_ms)

    def _eval(self, script: str, *key_and_arguments: Any) -> None:
        with self._operation():
            self._client.eval(script, 1, *key_and_arguments)

    @contextmanager
    def _operation(self, at_least_s: float = 0.0) -> Iterator[None]:
        try:
            with self._deadline.within(max(self._timeout_s, at_least_s)):
                yield
        except redis.ResponseError as error:
            raise ResultStoreRefusalError(f"Redis refuses: {error}") from error
        except (redis.RedisError, RedisDownError, OSError) as error:
            raise ResultStoreDownError(f"Redis does not answer: {type(error).__name__}: {error}") from error
