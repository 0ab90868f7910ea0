"""Results in a Redis or Valkey, on this machine or over the network, and who computes one that is missing."""

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
from burstcache.core.errors import InvalidSettingError, RedisDownError, ResultStoreDownError, ResultStoreRefusalError
from burstcache.results.stores.deadline import TimedConnection, TimedSSLConnection, TimedUnixConnection
from burstcache.results.stores.store import PING_TIMEOUT_S

_CONNECTIONS = {"rediss": TimedSSLConnection, "unix": TimedUnixConnection}
OPTIONS: dict[str, Any] = {
    # A connection that was lost while the environment was frozen shows itself in its first use.
    "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    "protocol": 2,
    "driver_info": None,  # two round trips less per connection
}
# Of redis-py's options in a URL: others would change what comes back, or how long it may take.
_ACCEPTED = re.compile("db|username|password|client_name|ssl_.*")
_OPEN = b"-"  # a lease whose holder had no result to keep; tokens are longer
# KEYS: lease. ARGV: token, milliseconds; of _RETURN: for how long it is open.
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
    """Return where the token of the process is that computes a result."""
    return f"{key}:lease"


class RedisStore:
    """Bytes in one Redis. Connections are made when they are needed, as many as there are threads that ask."""

    def __init__(
        self, make_pool: Callable[[Deadline], redis.ConnectionPool], clock: Clock, *, timeout_s: float, name: str
    ) -> None:
        """Remember how to connect.

        Args:
            make_pool: Makes the connections, of a kind that keeps to the deadline that it is given.
            clock: What deadlines go by.
            timeout_s: How long to wait for an answer [s].
            name: The kind of place.
        """
        self.name = name
        self._timeout_s = timeout_s
        self._deadline = Deadline(clock)
        self._client = redis.Redis.from_pool(make_pool(self._deadline))  # which it closes

    @classmethod
    def at(cls, url: str, clock: Clock, *, timeout_s: float) -> RedisStore:
        """Return the store at a URL that redis-py takes: `redis://`, `rediss://` or `unix://`.

        Raises:
            InvalidSettingError: redis-py does not take it, or it has an option that is not accepted.
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
                kind(**pool.connection_kwargs)  # connects to nothing yet, but knows its options
                return pool
            except (ValueError, TypeError) as error:
                raise InvalidSettingError(f"backend: redis-py does not take the URL: {error}") from error

        return cls(make_pool, clock, timeout_s=timeout_s, name="unix" if scheme == "unix" else "redis")

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return what is kept under a key, or of something larger its start."""
        with self._asked():
            return self._client.getrange(key, 0, most_bytes) or None  # type: ignore[return-value]

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Keep bytes for this long [ms]."""
        with self._asked():
            self._client.set(key, data, px=kept_ms)

    def forget(self, key: str) -> None:
        """Remove what is kept under a key."""
        with self._asked():
            self._client.delete(key)

    def ping(self) -> None:
        """Return if Redis answers."""
        with self._asked(PING_TIMEOUT_S):
            self._client.ping()

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        """Take the lease of a key, if nobody has it, and read what is kept, in one round trip.

        A holder stores its result before it returns the lease: what is read after a lease was taken is the newest.
        """
        with self._asked():
            commands = self._client.pipeline(transaction=False)
            commands.set(lease_key(key), token, nx=True, px=lease_ms)
            commands.get(lease_key(key))
            commands.getrange(key, 0, most_bytes)
            _, holder, data = commands.execute()
        # Not whether SET has set it: sent again over a new connection, it finds the caller's own token.
        return holder == token.encode(), holder == _OPEN, data or None

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        """Hold a lease for longer, if it is still the caller's."""
        self._eval(_RENEW, lease_key(key), token, lease_ms)

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        """Give a lease back, if it is still the caller's; with `open_ms` above 0 it is open for this long [ms]."""
        self._eval(_RETURN, lease_key(key), token, open_ms)

    def _eval(self, script: str, *key_and_arguments: Any) -> None:
        with self._asked():
            self._client.eval(script, 1, *key_and_arguments)

    @contextmanager
    def _asked(self, at_least_s: float = 0.0) -> Iterator[None]:
        try:
            with self._deadline.within(max(self._timeout_s, at_least_s)):
                yield
        except redis.ResponseError as error:
            raise ResultStoreRefusalError(f"Redis refuses: {error}") from error
        except (redis.RedisError, RedisDownError, OSError) as error:
            raise ResultStoreDownError(f"Redis does not answer: {type(error).__name__}: {error}") from error
