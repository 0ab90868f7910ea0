"""What Redis control does in a node's Redis: entries, the times of their newest requests, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from burstcache.core.errors import RedisDownError
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.serve.redis_tier import object_key, recent_key
from burstcache.web.entry import Entry, encode_meta


@contextmanager
def _failure_is_named() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise RedisDownError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class RedisStore:
    """One node's Redis. Every method raises RedisDownError when it does not answer."""

    client: Any

    def ping(self) -> None:
        """See that Redis answers."""
        with _failure_is_named():
            self.client.ping()

    def put(self, hash_: str, entry: Entry) -> None:
        """Store an entry in place of what was there."""
        with _failure_is_named():
            self.client.hset(object_key(hash_), mapping={"meta": encode_meta(entry.meta), "body": entry.body})

    def add_older_times(self, hash_: str, times_us: Sequence[int]) -> None:
        """Add the times of requests before Redis served, behind what proxies may have pushed already."""
        if times_us:
            newest_first = sorted(times_us, reverse=True)[:QUEUE_LENGTH]
            with _failure_is_named(), self.client.pipeline(transaction=False) as pipeline:
                pipeline.rpush(recent_key(hash_), *newest_first)
                pipeline.ltrim(recent_key(hash_), 0, QUEUE_LENGTH - 1)
                pipeline.execute()

    def remove(self, hash_: str) -> None:
        """Forget an entry and its times."""
        with _failure_is_named():
            self.client.unlink(object_key(hash_), recent_key(hash_))

    def remove_entry(self, hash_: str) -> None:
        """Forget an entry, but not when it was asked for."""
        with _failure_is_named():
            self.client.unlink(object_key(hash_))

    def queues(self, hashes: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        """Return per key the times of its newest requests [us], in one round trip.

        A key whose entry is not there (not seeded yet, or evicted) has none, whatever proxies have pushed: it is not
        being served from here.
        """
        asked = list(hashes)
        with _failure_is_named(), self.client.pipeline(transaction=False) as pipeline:
            for hash_ in asked:
                pipeline.exists(object_key(hash_))
                pipeline.lrange(recent_key(hash_), 0, QUEUE_LENGTH - 1)
            answers = pipeline.execute()
        pairs = zip(asked, answers[::2], answers[1::2], strict=True)
        return {hash_: tuple(int(time_us) for time_us in times) if exists else () for hash_, exists, times in pairs}
