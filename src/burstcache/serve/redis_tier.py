"""Redis tier: reads an object and, in the same round trip, records the read for the node's or the key's policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.slices import Slice
from burstcache.serve.hit_counter import Served
from burstcache.serve.tier import FetchedSlices, Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request


@dataclass(frozen=True, slots=True)
class RedisNodeTier:
    """A Redis node with the keys promoted to it."""

    objects: RedisObjects

    def fetch(self, request: Request) -> Entry | None:
        """Return the object, or None if the node does not have it.

        Raises:
            RedisDownError: The node is unreachable, or rejects the password.
            ValueError: The value in Redis is not a valid entry.
        """
        if request.method == "HEAD":
            return self.objects.read_meta(request.hash)
        return self.objects.read(request.hash, at_us=request.at_us)

    def count(self, batch: Sequence[Served]) -> None:
        """Record the timestamps of memory hits in one round trip. Raises RedisDownError."""
        self.objects.note({served.hash: [read.at_us for read in served.reads] for served in batch})

    def close(self) -> None:
        """Close the connection."""
        self.objects.close()


@dataclass(frozen=True, slots=True)
class RedisGuestTier:
    """A Redis node with read-through entries, which readers store after a miss."""

    objects: RedisObjects
    max_object_bytes: int

    def fetch(self, request: Request) -> Entry | Fill | None:
        """Return the object, a lease to store it, or None if another reader holds the lease.

        Raises:
            RedisDownError: The node is unreachable, or rejects the password.
            ValueError: The value in Redis is not a valid entry.
        """
        if request.method == "HEAD":
            return self.objects.read_meta(request.hash)
        entry, token = self.objects.read_guest(request.hash, at_us=request.at_us, leases=_is_whole(request))
        if entry is not None or not token:
            return entry
        return Fill(partial(self.objects.store_guest, request.hash, token=token), self.max_object_bytes)

    def fetch_slices(self, slices: Sequence[Slice]) -> FetchedSlices:
        """Return slices, and leases to store missing ones. Raises RedisDownError."""
        bodies, leased = self.objects.read_slices({each.name: each.size_bytes for each in slices})
        return FetchedSlices(bodies, frozenset(leased), self.objects.store_slices)

    def count(self, batch: Sequence[Served]) -> None:
        """Do nothing: a node's utilisation counts only reads that it served itself."""

    def close(self) -> None:
        """Close the connection."""
        self.objects.close()


def _is_whole(request: Request) -> bool:
    """Return True if S3 would send the whole object."""
    return request.range is None and not any(name.startswith("if-") for name in request.headers)
