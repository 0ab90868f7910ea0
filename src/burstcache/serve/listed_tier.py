"""Listed tier: the tier that the digest lists for a key, which is a cache function or a Redis node."""

from __future__ import annotations

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.digest_reader import DigestReader
from burstcache.core.digest import Route
from burstcache.serve.tiers import Tiers
from burstcache.web.entry import Entry
from burstcache.web.request import Request


class ListedTier:
    """A thread-safe reader of the tiers in the digest."""

    def __init__(self, digest: DigestReader, tiers: Tiers, adaptive_timeout: AdaptiveTimeout) -> None:
        """Create the reader.

        Args:
            digest: Lists the tiers of hot keys.
            tiers: The tiers by route.
            adaptive_timeout: Limits a read's total wait for the digest and all tiers.
        """
        self._digest = digest
        self._tiers = tiers
        self._adaptive_timeout = adaptive_timeout

    def fetch(self, request: Request) -> tuple[Route, Entry] | None:
        """Return the object and the route to the tier that had it, or None."""
        tried = None
        # The digest may be a few seconds old. If the tier no longer has the key, a newer digest may list its new tier.
        while (route := self._digest.route(request.hash)) is not None and route != tried:
            if (entry := self._fetch_from(route, request)) is not None:
                return route, entry
            if tried is not None:
                break
            tried = route
        return None

    def _fetch_from(self, route: Route, request: Request) -> Entry | None:
        if self._tiers.is_skipped(route, request):
            return None
        fetched = self._tiers.fetch(route, request)
        if isinstance(fetched, Entry):
            return fetched
        if not self._adaptive_timeout.is_exhausted:
            self._digest.forget(request.hash)
        return None
