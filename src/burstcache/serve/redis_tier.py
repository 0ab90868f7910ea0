"""The Redis tier: it reads an object and, in the same round trip, notes the time by which the node is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.adapters.redis_objects import RedisObjects
from burstcache.serve.tally import Served
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
