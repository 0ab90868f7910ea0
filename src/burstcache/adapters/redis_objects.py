"""Redis objects: a node's cached entries, the times of their latest requests, and loading leases.

Slices of large objects are read-through entries, too. They are immutable, so their leases only prevent duplicate loads.

A loader takes the key's lease, reads the object from S3, and stores it only if it still holds the lease. Invalidation
after a write deletes both entry and lease, so a stale copy can no longer be stored. Eviction and restarts may also
delete leases. A guest is a read-through entry, filled by readers. Redis control fills the entry of a key with a life.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.deadline import Deadline
from burstcache.adapters.redis_connection import connect
from burstcache.adapters.redis_options import WITHOUT_SETINFO
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RedisDownError
from burstcache.core.node_memory import MemorySample
from burstcache.core.node_use import MAX_HITS
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.core.slices import MISSED_AGAIN_S
from burstcache.traces import subsegment
from burstcache.web.entry import Entry, decode_meta, encode_meta

_TIMEOUT_S = 0.5
_TRANSFER_S = 5.0  # added to the timeout while an object's bytes keep arriving
_CHECK_AFTER_IDLE_S = 10  # a connection idle for longer is pinged first, since the environment may have been frozen
LEASE_S = 5  # one S3 read with retries. If the loader dies, another can take the lease after this time
_CONTROL_LEASE_S = 90  # timeout of Redis control, the only loader of a key with a life
GUEST_S = 24 * 3600  # bounds staleness after a lost write event, even on a node that never stops
ATTENDED = "attended"  # channel of the task's dead-man switch (`instance/redis_task.sh`)
_HITS = "hits"  # hits of all guests, newest first: `time:size` [us, bytes]
_LEFT_OUT = "left-out"  # recently seen objects skipped by the boot's bulk load: size by object key [bytes]
_BATCH_SIZE = 1_000


def object_key(hash_: str) -> str:
    """Return the Redis key of an object: a hash with the fields `meta` (headers as JSON) and `body`."""
    return f"object:{hash_}"


def recent_key(hash_: str) -> str:
    """Return the Redis key of the latest GETs: a list of times in decimal microseconds, newest first."""
    return f"recent:{hash_}"


def lease_key(hash_: str) -> str:
    """Return the Redis key of an object's loading lease: its value is the loader's token."""
    return f"load:{hash_}"


def slice_key(name: str) -> str:
    """Return the Redis key of a slice: a string, its bytes."""
    return object_key(f"slice:{name}")


def _slice_lease_key(name: str) -> str:
    return lease_key(f"slice:{name}")


def _slice_miss_key(name: str) -> str:
    return recent_key(f"slice:{name}")


class _Script:
    """A Lua script, called by its SHA-1 once the server has cached it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def run(self, client: redis.Redis, *keys_and_arguments: Any, keys: int) -> Any:
        try:
            return client.evalsha(self.sha, keys, *keys_and_arguments)
        except redis.exceptions.NoScriptError:
            return client.eval(self.text, keys, *keys_and_arguments)


# KEYS: object, lease, hits, left out. ARGV: time, token (empty: take no lease). The body is read by HMGET, since Lua
# would copy it twice.
_NOTE_OR_LEASE = _Script(f"""
local is_here = redis.call("HSTRLEN", KEYS[1], "meta") > 0
local size = is_here and redis.call("HSTRLEN", KEYS[1], "body") or redis.call("HGET", KEYS[4], KEYS[1])
if size then
  redis.call("LPUSH", KEYS[3], ARGV[1] .. ":" .. size)
  redis.call("LTRIM", KEYS[3], 0, {MAX_HITS - 1})
end
if is_here then return 0 end
if ARGV[2] ~= "" and redis.call("SET", KEYS[2], ARGV[2], "NX", "EX", {LEASE_S}) then return 1 end
return 0
""")
# KEYS: object, lease, left out. ARGV: token, meta, body, time to live [s] (0: no limit).
_STORE = _Script("""
if redis.call("GET", KEYS[2]) ~= ARGV[1] then return 0 end
redis.call("DEL", KEYS[1], KEYS[2])
redis.call("HSET", KEYS[1], "meta", ARGV[2], "body", ARGV[3])
if ARGV[4] ~= "0" then redis.call("EXPIRE", KEYS[1], ARGV[4]) end
redis.call("HDEL", KEYS[3], KEYS[1])
return 1
""")
# KEYS: lease and mark of a miss, for each missing slice.
_LEASE_SLICES = _Script(f"""
local leased = {{}}
for at = 1, #KEYS, 2 do
  local is_seen = not redis.call("SET", KEYS[at + 1], "", "NX", "EX", {MISSED_AGAIN_S})
  leased[#leased + 1] = is_seen and redis.call("SET", KEYS[at], "", "NX", "EX", {LEASE_S}) and 1 or 0
end
return leased
""")


@dataclass(frozen=True, slots=True)
class Hit:
    """A GET of a guest that Redis served, or would have served if the boot had loaded the object."""

    at_us: int
    size_bytes: int


class RedisObjects:
    """One node's Redis. Every method raises RedisDownError if Redis is unreachable or rejects the password."""

    def __init__(
        self,
        node: RedisNode,
        secrets: Secrets,
        access: RedisAccess,
        *,
        timeout_s: float = _TIMEOUT_S,
        adaptive_timeout: AdaptiveTimeout | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Configure a connection, which is opened on first use.

        Args:
            node: Address of Redis.
            secrets: Source of the password.
            access: User to connect as, and the CA to trust.
            timeout_s: Timeout of one method, including the connect. It is extended while bytes arrive [s].
            adaptive_timeout: Replaces `timeout_s` for callers that can fall back to S3.
            clock: Source of time.
        """
        self._node = node
        self._secrets = secrets
        self._access = access
        self._timeout_s = timeout_s
        self._adaptive_timeout = adaptive_timeout
        self._deadline = Deadline(clock or SystemClock())
        self._client: redis.Redis | None = None

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def ping(self) -> None:
        """Return once Redis has responded to a PING."""
        with self._connected() as client:
            client.ping()

    def attend(self) -> None:
        """Publish a sign of the control plane, without which a task ends itself after half an hour."""
        with self._connected() as client:
            client.publish(ATTENDED, "1")

    def read(self, hash_: str, *, at_us: int) -> Entry | None:
        """Return the cached entry or None, and record a request at `at_us`, in one round trip.

        Raises:
            ValueError: The entry in Redis is malformed.
        """
        object_, recent = object_key(hash_), recent_key(hash_)
        with self._connected() as client:
            commands = client.pipeline(transaction=False)
            commands.hmget(object_, ["meta", "body"])
            commands.lpush(recent, str(at_us))
            commands.ltrim(recent, 0, QUEUE_LENGTH - 1)
            (meta, body), *_ = commands.execute()
            if meta is None or body is None:
                # A miss, which S3 serves. Request times of a missing object would keep an idle node running.
                client.delete(recent)
                return None
        return Entry(decode_meta(meta), body)

    def read_meta(self, hash_: str) -> Entry | None:
        """Return the entry with an empty body, or None if it is not cached. Record no request.

        Raises:
            ValueError: The entry in Redis is malformed.
        """
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            pipeline.hget(object_key(hash_), "meta")
            pipeline.hstrlen(object_key(hash_), "body")
            meta, size_bytes = pipeline.execute()
        if meta is None:
            return None
        entry = Entry(decode_meta(meta), b"")
        if entry.size_bytes != size_bytes:
            raise ValueError(f"the body has {size_bytes} bytes, but content-length is {entry.size_bytes}")
        return entry

    def read_guest(self, hash_: str, *, at_us: int, leases: bool) -> tuple[Entry | None, str]:
        """Return a guest, or take its loading lease on a miss. Record the request in the same round trip.

        Args:
            hash_: Hash of the key.
            at_us: Time of the request [us].
            leases: Whether to take the lease on a miss. Set it if the caller would then load the whole object.

        Returns:
            The entry, or None on a miss, and the token of the lease, empty if no lease was taken.

        Raises:
            ValueError: The entry in Redis is malformed.
        """
        token = os.urandom(8).hex() if leases else ""
        keys_and_arguments = (object_key(hash_), lease_key(hash_), _HITS, _LEFT_OUT, at_us, token)
        with self._connected() as client:
            pipeline = client.pipeline(transaction=False)
            pipeline.hmget(object_key(hash_), ["meta", "body"])
            pipeline.evalsha(_NOTE_OR_LEASE.sha, 4, *keys_and_arguments)
            fields, is_leased = pipeline.execute(raise_on_error=False)
            if isinstance(is_leased, redis.exceptions.NoScriptError):
                is_leased = client.eval(_NOTE_OR_LEASE.text, 4, *keys_and_arguments)
            for reply in (fields, is_leased):
                if isinstance(reply, Exception):
                    raise reply
        meta, body = fields
        if meta is None or body is None:
            return None, token if is_leased else ""
        return Entry(decode_meta(meta), body), ""

    def read_slices(self, sizes_bytes: Mapping[str, int]) -> tuple[dict[str, bytes], list[str]]:
        """Return slices by name, and the missing ones whose loading leases were taken.

        A hit takes one round trip, a miss two. The first miss of a slice only leaves a mark. Slices are no hits of the
        node: they do not keep it running.

        Args:
            sizes_bytes: The size of each slice by name, at least 1 [bytes]. A stored slice of another size is missing.
        """
        with self._connected() as client:
            pipeline = client.pipeline(transaction=False)
            for name in sizes_bytes:
                pipeline.get(slice_key(name))
            found = {}
            for (name, size_bytes), reply in zip(
                sizes_bytes.items(), pipeline.execute(raise_on_error=False), strict=True
            ):
                if isinstance(reply, bytes) and len(reply) == size_bytes:
                    found[name] = reply
                elif isinstance(reply, Exception) and not _is_wrong_type(reply):
                    raise reply
            missing = [name for name in sizes_bytes if name not in found]
            return found, self._lease_slices(client, missing) if missing else []

    def _lease_slices(self, client: redis.Redis, missing: Sequence[str]) -> list[str]:
        """Take the loading leases of those slices that have been missed before. A full node leases none."""
        keys = [key for name in missing for key in (_slice_lease_key(name), _slice_miss_key(name))]
        try:
            leased = _LEASE_SLICES.run(client, *keys, keys=len(keys))
        except redis.exceptions.OutOfMemoryError:
            return []
        return [name for name, is_leased in zip(missing, leased, strict=True) if is_leased]

    def store_slices(self, bodies: Mapping[str, bytes]) -> None:
        """Store slices by name, and release their leases, in one round trip. A full node stores none."""
        with self._connected() as client:
            pipeline = client.pipeline(transaction=False)
            for name, body in bodies.items():
                pipeline.set(slice_key(name), body, ex=GUEST_S)
                pipeline.delete(_slice_lease_key(name))
            for reply in pipeline.execute(raise_on_error=False):
                if isinstance(reply, Exception) and not isinstance(reply, redis.exceptions.OutOfMemoryError):
                    raise reply

    def stored_slices(self, sizes_bytes: Mapping[str, int]) -> set[str]:
        """Return the names of the slices that are stored, in one round trip. To Redis's LRU, this is a use of each.

        Args:
            sizes_bytes: As for `read_slices`.
        """
        with self._connected() as client:
            pipeline = client.pipeline(transaction=False)
            for name, size_bytes in sizes_bytes.items():  # the readers' user may not call EXISTS or STRLEN
                pipeline.getrange(slice_key(name), size_bytes - 1, size_bytes)
            lasts = pipeline.execute(raise_on_error=False)
            for last in lasts:
                if isinstance(last, Exception) and not _is_wrong_type(last):
                    raise last
        return {
            name for name, last in zip(sizes_bytes, lasts, strict=True) if isinstance(last, bytes) and len(last) == 1
        }

    def lease(self, hashes: Iterable[str]) -> dict[str, str]:
        """Take the loading leases of the guests that are not cached, in two round trips. Return the tokens by hash."""
        requested, token = list(hashes), os.urandom(8).hex()
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_ in requested:
                pipeline.exists(object_key(hash_))
            missing = [hash_ for hash_, exists in zip(requested, pipeline.execute(), strict=True) if not exists]
            for hash_ in missing:
                pipeline.set(lease_key(hash_), token, nx=True, ex=LEASE_S)
            taken = pipeline.execute()
        return {hash_: token for hash_, is_taken in zip(missing, taken, strict=True) if is_taken}

    def store_guest(self, hash_: str, entry: Entry, token: str) -> bool:
        """Store a guest and release its lease. Return False if the lease with this token has been lost."""
        return self._store(hash_, entry, token, kept_s=GUEST_S)

    def leave_out(self, sizes_bytes: Mapping[str, int]) -> None:
        """Register guests that the boot did not load. Until a guest is stored, its reads count as hits."""
        sizes = [(object_key(hash_), size_bytes) for hash_, size_bytes in sizes_bytes.items()]
        for start in range(0, len(sizes), _BATCH_SIZE):
            with self._connected() as client:
                client.hset(_LEFT_OUT, mapping=dict(sizes[start : start + _BATCH_SIZE]))

    def drop(self, hashes: Sequence[str]) -> set[str]:
        """Invalidate entries and their loading leases, in one round trip. Keep their request times.

        Returns:
            The hashes of the entries that the node had or was loading.
        """
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_ in hashes:
                pipeline.unlink(object_key(hash_), lease_key(hash_))
            dropped = pipeline.execute()
        return {hash_ for hash_, count in zip(hashes, dropped, strict=True) if count}

    def hits(self) -> list[Hit]:
        """Return the latest hits of all guests, newest first, at most `MAX_HITS`."""
        with self._connected() as client:
            hits: Any = client.lrange(_HITS, 0, MAX_HITS - 1)
        return [Hit(*map(int, hit.split(b":"))) for hit in hits]

    def memory_bytes(self) -> int:
        """Return Redis's `maxmemory` [bytes]. 0: no limit."""
        with self._connected() as client:
            configured: Any = client.config_get("maxmemory")
        return int(configured["maxmemory"])

    def memory_sample(self) -> MemorySample | None:
        """Return Redis's memory, its limit and its evictions, in one round trip. None: the user may not ask."""
        with self._connected() as client:
            pipeline = client.pipeline(transaction=False)
            pipeline.info("memory")
            pipeline.info("stats")
            memory, stats = pipeline.execute(raise_on_error=False)
            for reply in (memory, stats):
                if isinstance(reply, redis.exceptions.NoPermissionError):  # set up by an earlier version
                    return None
                if isinstance(reply, Exception):
                    raise reply
        return MemorySample(memory["used_memory"], memory["maxmemory"], stats["evicted_keys"])

    def note(self, times_us: Mapping[str, Sequence[int]]) -> None:
        """Record GETs served by a reader's local cache, oldest first, for keys that already have request times here."""
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_, times in times_us.items():
                pipeline.lpushx(recent_key(hash_), *map(str, times))
                pipeline.ltrim(recent_key(hash_), 0, QUEUE_LENGTH - 1)
            pipeline.execute()

    def take_lease(self, hash_: str) -> str:
        """Take the loading lease of a key with a life, revoking any current lease. Return its token."""
        token = os.urandom(8).hex()
        with self._connected() as client:
            client.set(lease_key(hash_), token, ex=_CONTROL_LEASE_S)
        return token

    def put(self, hash_: str, entry: Entry, token: str) -> bool:
        """Store the entry of a key with a life. Return False if the lease with this token has been lost."""
        return self._store(hash_, entry, token, kept_s=0)

    def add_older_times(self, hash_: str, times_us: Sequence[int]) -> None:
        """Append request times from before Redis served the key, after any times that proxies have already pushed."""
        if times_us:
            newest_first = sorted(times_us, reverse=True)[:QUEUE_LENGTH]
            with self._connected() as client, client.pipeline(transaction=False) as pipeline:
                pipeline.rpush(recent_key(hash_), *newest_first)
                pipeline.ltrim(recent_key(hash_), 0, QUEUE_LENGTH - 1)
                pipeline.execute()

    def remove(self, hash_: str) -> None:
        """Remove an entry, its request times and its loading lease."""
        with self._connected() as client:
            client.unlink(object_key(hash_), lease_key(hash_), recent_key(hash_))

    def queues(self, hashes: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        """Return the times of each key's latest requests [us], in one round trip.

        A key without an entry (not yet seeded, or evicted) has no times, since this node does not serve the key. Times
        that proxies have pushed are ignored.
        """
        requested = list(hashes)
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_ in requested:
                pipeline.exists(object_key(hash_))
                pipeline.lrange(recent_key(hash_), 0, QUEUE_LENGTH - 1)
            replies = pipeline.execute()
        pairs = zip(requested, replies[::2], replies[1::2], strict=True)
        return {hash_: tuple(int(time_us) for time_us in times) if exists else () for hash_, exists, times in pairs}

    def _store(self, hash_: str, entry: Entry, token: str, *, kept_s: int) -> bool:
        keys = (object_key(hash_), lease_key(hash_), _LEFT_OUT)
        with self._connected() as client:
            return bool(_STORE.run(client, *keys, token, encode_meta(entry.meta), entry.body, kept_s, keys=len(keys)))

    @contextmanager
    def _connected(self) -> Iterator[redis.Redis]:
        try:
            with subsegment(f"redis {self._node.name}"), self._bounded():
                if self._client is None:
                    self._client = self._connect()
                yield self._client
        except redis.AuthenticationError as error:
            self._secrets.forget()
            self.close()
            user = self._access.user or "default"
            raise RedisDownError(f"{self._node.name} refuses the password of user {user}: {error}") from error
        except (redis.RedisError, OSError) as error:
            raise RedisDownError(f"{self._node.name} at {self._node.host}: {error!r}") from error

    def _bounded(self) -> AbstractContextManager[None]:
        """Return a context that sets the deadline of one operation."""
        if self._adaptive_timeout is None:
            return self._deadline.within(self._timeout_s, most_s=self._timeout_s + _TRANSFER_S)
        return self._deadline.within(self._adaptive_timeout.wait_s, most_s=self._adaptive_timeout.most_wait_s)

    def _connect(self) -> redis.Redis:
        """Return a client that connects on first use.

        It retries once, immediately, since a connection lost while the environment was frozen fails on its next use.
        Timeouts are not retried.
        """
        if not self._node.host:
            raise RedisDownError(f"{self._node.name} has no address: its task has not started")
        return connect(
            self._node.host,
            self._node.port,
            self._access,
            self._secrets,
            deadline=self._deadline,
            health_check_interval=_CHECK_AFTER_IDLE_S,
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            protocol=2,
            **WITHOUT_SETINFO,
        )


def _is_wrong_type(error: Exception) -> bool:
    """Return True if a key has a value of another type. The next loader replaces it."""
    return isinstance(error, redis.exceptions.ResponseError) and str(error).startswith("WRONGTYPE")
