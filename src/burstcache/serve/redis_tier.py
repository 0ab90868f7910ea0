"""The Redis tier: it reads an object and, in the same round trip, notes the time by which the node is judged."""

from __future__ import annotations

from dataclasses import dataclass

from burstcache.adapters.redis_objects import RedisObjects
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
