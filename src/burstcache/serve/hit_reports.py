"""Hit reports: hits that no other tier sees, counted and sent to the keys' policies as demand."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from burstcache.adapters.digest_reader import Start, try_start
from burstcache.core.digest import Route
from burstcache.logs import logger
from burstcache.serve.hit_counter import HitCounter, Served
from burstcache.serve.tier import Origin
from burstcache.serve.tiers import Tiers
from burstcache.web.entry import Entry
from burstcache.web.request import Request


class HitReports:
    """A thread-safe sender of hits of memory and of S3 Express. Errors lose hits, never a read.

    Args:
        counter: Counts the hits until they are sent.
        route: Returns the tier that the digest lists for a key's hash, if any.
        tiers: Tiers whose members decide about their own keys.
        origin: Takes the hits of all other keys.
        start: Runs a function in the background.
    """

    def __init__(
        self, counter: HitCounter, route: Callable[[str], Route | None], tiers: Tiers, origin: Origin, start: Start
    ) -> None:
        self._counter = counter
        self._route = route
        self._tiers = tiers
        self._origin = origin
        self._start = start
        self._publishing = threading.Lock()

    def record(self, request: Request, entry: Entry) -> None:
        """Count a hit. Send the pending hits about once a second, in the background."""
        if request.method == "GET" and self._counter.record(request, entry):
            try_start(self._start, self.publish)

    def publish(self) -> None:
        """Send the pending hits."""
        with self._publishing:  # a closing reader waits for a call in progress
            batches: defaultdict[Route | None, list[Served]] = defaultdict(list)
            for served in self._counter.take():
                batches[self._route(served.hash)].append(served)
            for route, batch in batches.items():
                self._send(route, batch)

    def _send(self, route: Route | None, batch: Sequence[Served]) -> None:
        try:
            if route is None:
                self._origin.count(batch)
            else:
                self._tiers.count(route, batch)
        except Exception as error:
            logger().warning("hits of memory not counted", tier=route.tier if route else "s3", reason=repr(error))
