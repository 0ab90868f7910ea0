"""A node's Redis: entries, the times of their newest requests, and who loads an object.

What is to store an entry takes its loading lease, reads the object below, and stores it if the lease is its own still.
The handling of a write removes entry and lease, so a copy of the old version finds no lease. Eviction and a restart
take leases, too. A guest is an entry that its readers put there; that of a key with a life comes from Redis control.
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
from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.deadline import Deadline
from burstcache.adapters.patience import Patience
from burstcache.adapters.redis_connection import connect
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RedisDownError
from burstcache.core.node_use import MOST_HITS
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.traces import part
from burstcache.web.entry import Entry, decode_meta, encode_meta

_TIMEOUT_S = 0.5
_LARGEST_S = 5.0  # more, for as long as an object's bytes keep passing
_CHECK_AFTER_IDLE_S = 10  # a connection that slept longer is pinged first: the environment may have been frozen
LEASE_S = 5  # for a read of S3 with its retries; if a reader dies, the next one loads its object after this
_CONTROL_LEASE_S = 90  # as long as Redis control may run: nobody else loads the object of a key with a life
GUEST_S = 24 * 3600  # a write whose event is lost makes no guest stale for longer, though its node may never stop
_HITS = "hits"  # of all guests: `time:size` of the newest ones, newest first [us, bytes]
_LEFT_OUT = "left-out"  # sizes of the objects seen lately that the boot did not bring, by where they would be [bytes]
_AT_ONCE = 1_000


def object_key(hash_: str) -> str:
    """Return where an object is: a hash with the fields `meta` (JSON of headers) and `body`."""
    return f"object:{hash_}"


def recent_key(hash_: str) -> str:
    """Return where the times of the last GETs are: a list of decimal microseconds, newest first."""
    return f"recent:{hash_}"


def lease_key(hash_: str) -> str:
    """Return where the token of the reader is that loads a guest."""
    return f"load:{hash_}"


class _Script:
    """A script that the server knows by its digest once it has run."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def run(self, client: redis.Redis, *keys_and_arguments: Any, keys: int) -> Any:
        try:
            return client.evalsha(self.sha, keys, *keys_and_arguments)
        except redis.exceptions.NoScriptError:
            return client.eval(self.text, keys, *keys_and_arguments)


# KEYS: object, lease, hits, left out. ARGV: time, token (empty: take no lease). Lua would copy the body twice, so it
# stays out.
_NOTE_OR_LEASE = _Script(f"""
local is_here = redis.call("HSTRLEN", KEYS[1], "meta") > 0
local size = is_here and redis.call("HSTRLEN", KEYS[1], "body") or redis.call("HGET", KEYS[4], KEYS[1])
if size then
  redis.call("LPUSH", KEYS[3], ARGV[1] .. ":" .. size)
  redis.call("LTRIM", KEYS[3], 0, {MOST_HITS - 1})
end
if is_here then return 0 end
if ARGV[2] ~= "" and redis.call("SET", KEYS[2], ARGV[2], "NX", "EX", {LEASE_S}) then return 1 end
return 0
""")
# KEYS: object, lease, left out. ARGV: token, meta, body, how long it is kept [s] (0: no limit).
_STORE = _Script("""
if redis.call("GET", KEYS[2]) ~= ARGV[1] then return 0 end
redis.call("DEL", KEYS[1], KEYS[2])
redis.call("HSET", KEYS[1], "meta", ARGV[2], "body", ARGV[3])
if ARGV[4] ~= "0" then redis.call("EXPIRE", KEYS[1], ARGV[4]) end
redis.call("HDEL", KEYS[3], KEYS[1])
return 1
""")


@dataclass(frozen=True, slots=True)
class Hit:
    """A GET of a guest that Redis served, or of one seen lately that it would have if the boot had brought it."""

    at_us: int
    size_bytes: int


class RedisObjects:
    """One node's Redis. Every method raises RedisDownError if it does not answer or refuses the password."""

    def __init__(
        self,
        node: RedisNode,
        secrets: Secrets,
        access: RedisAccess,
        *,
        timeout_s: float = _TIMEOUT_S,
        patience: Patience | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Remember how to connect; the connection is made at first use.

        Args:
            node: Where Redis listens.
            secrets: Gives the password.
            access: As which user to connect, and whom to believe.
            timeout_s: How long a method may take, a connection included, if few bytes pass [s].
            patience: Decides that in its place for a caller that can do without.
            clock: Tells the time.
        """
        self._node = node
        self._secrets = secrets
        self._access = access
        self._timeout_s = timeout_s
        self._patience = patience
        self._deadline = Deadline(clock or SystemClock())
        self._client: redis.Redis | None = None

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def ping(self) -> None:
        """Return if Redis answers."""
        with self._connected() as client:
            client.ping()

    def read(self, hash_: str, *, at_us: int) -> Entry | None:
        """Return an entry and note its request at `at_us`, in one round trip; None if it is not here.

        Raises:
            ValueError: Redis holds something that is not an entry.
        """
        object_, recent = object_key(hash_), recent_key(hash_)
        with self._connected() as client:
            commands = client.pipeline(transaction=False)
            commands.hmget(object_, ["meta", "body"])
            commands.lpush(recent, str(at_us))
            commands.ltrim(recent, 0, QUEUE_LENGTH - 1)
            (meta, body), *_ = commands.execute()
            if meta is None or body is None:
                # S3 will serve it. A list that outlives its object would keep a node in use that serves nothing.
                client.delete(recent)
                return None
        return Entry(decode_meta(meta), body)

    def read_meta(self, hash_: str) -> Entry | None:
        """Return an entry without its body, which does not count as use; None if it is not here.

        Raises:
            ValueError: Redis holds something that is not an entry.
        """
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            pipeline.hget(object_key(hash_), "meta")
            pipeline.hstrlen(object_key(hash_), "body")
            meta, size_bytes = pipeline.execute()
        if meta is None:
            return None
        entry = Entry(decode_meta(meta), b"")
        if entry.size_bytes != size_bytes:
            raise ValueError(f"a body of {size_bytes} bytes, whose content-length is {entry.size_bytes}")
        return entry

    def read_guest(self, hash_: str, *, at_us: int, leases: bool) -> tuple[Entry | None, str]:
        """Return a guest, or take its loading lease if it is not here; note the request; in one round trip.

        Args:
            hash_: The key's hash.
            at_us: When the request came [us].
            leases: Whether the caller is going to load the whole object.

        Returns:
            The entry if it is here; else the lease's token, empty if another reader has the lease.

        Raises:
            ValueError: Redis holds something that is not an entry.
        """
        token = os.urandom(8).hex() if leases else ""
        keys_and_arguments = (object_key(hash_), lease_key(hash_), _HITS, _LEFT_OUT, at_us, token)
        with self._connected() as client:
            pipeline = client.pipeline(transaction=False)
            pipeline.hmget(object_key(hash_), ["meta", "body"])
            pipeline.evalsha(_NOTE_OR_LEASE.sha, 4, *keys_and_arguments)
            found, is_leased = pipeline.execute(raise_on_error=False)
            if isinstance(is_leased, redis.exceptions.NoScriptError):
                is_leased = client.eval(_NOTE_OR_LEASE.text, 4, *keys_and_arguments)
            for answer in (found, is_leased):
                if isinstance(answer, Exception):
                    raise answer
        meta, body = found
        if meta is None or body is None:
            return None, token if is_leased else ""
        return Entry(decode_meta(meta), body), ""

    def lease(self, hashes: Iterable[str]) -> dict[str, str]:
        """Take the loading leases of guests that are not here; return the tokens by hash, in two round trips."""
        asked, token = list(hashes), os.urandom(8).hex()
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_ in asked:
                pipeline.exists(object_key(hash_))
            missing = [hash_ for hash_, exists in zip(asked, pipeline.execute(), strict=True) if not exists]
            for hash_ in missing:
                pipeline.set(lease_key(hash_), token, nx=True, ex=LEASE_S)
            taken = pipeline.execute()
        return {hash_: token for hash_, is_taken in zip(missing, taken, strict=True) if is_taken}

    def store_guest(self, hash_: str, entry: Entry, token: str) -> bool:
        """Store a guest if the lease with this token still holds, and give the lease back; False if it does not."""
        return self._store(hash_, entry, token, kept_s=GUEST_S)

    def leave_out(self, sizes_bytes: Mapping[str, int]) -> None:
        """Have reads of guests that are not here count as hits until they are stored, by their hashes."""
        sizes = [(object_key(hash_), size_bytes) for hash_, size_bytes in sizes_bytes.items()]
        for start in range(0, len(sizes), _AT_ONCE):
            with self._connected() as client:
                client.hset(_LEFT_OUT, mapping=dict(sizes[start : start + _AT_ONCE]))

    def drop(self, hash_: str) -> bool:
        """Forget an entry, and take the lease of what loads it, in one command; keep the times of its requests.

        Returns:
            True if the node had the entry or was loading it.
        """
        with self._connected() as client:
            return bool(client.unlink(object_key(hash_), lease_key(hash_)))

    def hits(self) -> list[Hit]:
        """Return the newest hits of all guests, newest first, at most `MOST_HITS`."""
        with self._connected() as client:
            noted: Any = client.lrange(_HITS, 0, MOST_HITS - 1)
        return [Hit(*map(int, each.split(b":"))) for each in noted]

    def memory_bytes(self) -> int:
        """Return what entries may take before Redis evicts [bytes]; 0: there is no limit."""
        with self._connected() as client:
            configured: Any = client.config_get("maxmemory")
        return int(configured["maxmemory"])

    def note(self, times_us: Mapping[str, Sequence[int]]) -> None:
        """Note the times of GETs that a reader's memory served, oldest first, for keys that have times here."""
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_, times in times_us.items():
                pipeline.lpushx(recent_key(hash_), *map(str, times))
                pipeline.ltrim(recent_key(hash_), 0, QUEUE_LENGTH - 1)
            pipeline.execute()

    def take_lease(self, hash_: str) -> str:
        """Take the loading lease of a key with a life from all that have it, and return its token."""
        token = os.urandom(8).hex()
        with self._connected() as client:
            client.set(lease_key(hash_), token, ex=_CONTROL_LEASE_S)
        return token

    def put(self, hash_: str, entry: Entry, token: str) -> bool:
        """Store the entry of a key with a life if the lease with this token still holds; False if it does not."""
        return self._store(hash_, entry, token, kept_s=0)

    def add_older_times(self, hash_: str, times_us: Sequence[int]) -> None:
        """Add the times of requests before Redis served, behind what proxies may have pushed already."""
        if times_us:
            newest_first = sorted(times_us, reverse=True)[:QUEUE_LENGTH]
            with self._connected() as client, client.pipeline(transaction=False) as pipeline:
                pipeline.rpush(recent_key(hash_), *newest_first)
                pipeline.ltrim(recent_key(hash_), 0, QUEUE_LENGTH - 1)
                pipeline.execute()

    def remove(self, hash_: str) -> None:
        """Forget an entry and its times, and take the lease of what loads it."""
        with self._connected() as client:
            client.unlink(object_key(hash_), lease_key(hash_), recent_key(hash_))

    def queues(self, hashes: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        """Return per key the times of its newest requests [us], in one round trip.

        A key whose entry is not there (not seeded yet, or evicted) has none, whatever proxies have pushed: it is not
        being served from here.
        """
        asked = list(hashes)
        with self._connected() as client, client.pipeline(transaction=False) as pipeline:
            for hash_ in asked:
                pipeline.exists(object_key(hash_))
                pipeline.lrange(recent_key(hash_), 0, QUEUE_LENGTH - 1)
            answers = pipeline.execute()
        pairs = zip(asked, answers[::2], answers[1::2], strict=True)
        return {hash_: tuple(int(time_us) for time_us in times) if exists else () for hash_, exists, times in pairs}

    def _store(self, hash_: str, entry: Entry, token: str, *, kept_s: int) -> bool:
        keys = (object_key(hash_), lease_key(hash_), _LEFT_OUT)
        with self._connected() as client:
            return bool(_STORE.run(client, *keys, token, encode_meta(entry.meta), entry.body, kept_s, keys=len(keys)))

    @contextmanager
    def _connected(self) -> Iterator[redis.Redis]:
        try:
            with part(f"redis {self._node.name}"), self._in_time():
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

    def _in_time(self) -> AbstractContextManager[None]:
        """Bound what is done in a `with`."""
        if self._patience is None:
            return self._deadline.within(self._timeout_s, most_s=self._timeout_s + _LARGEST_S)
        return self._deadline.within(self._patience.wait_s, most_s=self._patience.most_wait_s)

    def _connect(self) -> redis.Redis:
        """Return a client that connects at first use.

        One retry at once: a connection that was lost while the environment was frozen shows itself in its first use. A
        node that is silent is not asked twice.
        """
        return connect(
            self._node.host,
            self._node.port,
            self._access,
            self._secrets,
            deadline=self._deadline,
            health_check_interval=_CHECK_AFTER_IDLE_S,
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            protocol=2,
            driver_info=None,  # two round trips less per connection
        )
