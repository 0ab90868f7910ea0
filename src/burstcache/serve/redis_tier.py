"""The Redis tier: it reads an object and, in the same round trip, notes what the key or the node is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from burstcache.adapters.redis_objects import RedisObjects
from burstcache.serve.tally import Served
from burstcache.serve.tier import Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request


@dataclass(frozen=True, slots=True)
class RedisNodeTier:
    """One node, asked by GETs and HEADs."""

    objects: RedisObjects

    def fetch(self, request: Request) -> Entry | None:
        """Return the object, or None if the node does not hold it.

        Raises:
            RedisDownError: The node does not answer, or refuses our password.
            ValueError: The node holds something that is not an entry.
        """
        if request.method == "HEAD":
            return self.objects.read_meta(request.hash)
        return self.objects.read(request.hash, at_us=request.at_us)

    def count(self, batch: Sequence[Served]) -> None:
        """Note the times of what a reader's memory served, in one round trip; raise RedisDownError."""
        self.objects.note({served.hash: [read.at_us for read in served.reads] for served in batch})

    def close(self) -> None:
        """Close the connection."""
        self.objects.close()


@dataclass(frozen=True, slots=True)
class RedisGuestTier:
    """One node and its guests, which the readers that miss them bring."""

    objects: RedisObjects
    max_object_bytes: int

    def fetch(self, request: Request) -> Entry | Fill | None:
        """Return the object; what stores it, if it is not here and nobody else is loading it; or None.

        Raises:
            RedisDownError: The node does not answer, or refuses our password.
            ValueError: The node holds something that is not an entry.
        """
        if request.method == "HEAD":
            return self.objects.read_meta(request.hash)
        entry, token = self.objects.read_guest(request.hash, at_us=request.at_us, leases=_is_whole(request))
        if entry is not None or not token:
            return entry
        return Fill(partial(self.objects.store_guest, request.hash, token=token), self.max_object_bytes)

    def count(self, batch: Sequence[Served]) -> None:
        """Do nothing: a node is judged by what it has served itself."""

    def close(self) -> None:
        """Close the connection."""
        self.objects.close()


def _is_whole(request: Request) -> bool:
    """Whether S3 will answer with the whole object."""
    return request.range is None and not any(name.startswith("if-") for name in request.headers)
