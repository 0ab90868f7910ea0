"""The requests of one life of a cache function: which it knows of, and what it tells of those that it served."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from burstcache.core.cache_lives import CacheLife
from burstcache.core.messages.events import KeyServed, RequestsServed
from burstcache.core.policy import Request, remember
from burstcache.core.rows import KeyRow
from burstcache.web.entry import Entry

_MOST_REPORTED = 8  # the newest requests, by name: the others only count
_TRIM_FACTOR = 4  # of the window's useful length: what a quarter of an hour's load would remember fills the memory


@dataclass(slots=True)
class LifeRequests:
    """What is asked for in a life. Before it has begun, requests wait."""

    life: CacheLife
    window: set[Request] = field(default_factory=set)  # from the row, and what the life served
    served: int = 0
    first_us: int = 0
    last_us: int = 0
    _early: list[Request] | None = field(default_factory=list)  # served before the life began; None: it has
    _unreported: list[Request] = field(default_factory=list)

    def take_over(self, row: KeyRow, *, is_first: bool) -> None:
        """Know what the row has of the life, and of the invocations before this one unless it is the first."""
        assert row.trigger is not None, "every life has a trigger"
        self.window.update(row.window)
        self.first_us = self.last_us = row.trigger.at_us
        if not is_first:
            self.served = row.served

    def count_early(self) -> None:
        """Count what came between the row's write, which leads readers here, and its answer: the life has begun."""
        early, self._early = self._early, None
        self.count(early or ())

    def count(self, requests: Iterable[Request]) -> bool:
        """Count requests that were served; False if the life has not begun, so that they have to wait."""
        if self._early is not None:
            self._early += requests
            return False
        for request in requests:
            self.served += 1
            self.last_us = max(self.last_us, request.at_us)
            self.window.add(request)
            self.life.serve(request)
            if self.life.is_reported:
                self._unreported.append(request)
        if len(self.window) > _TRIM_FACTOR * self.life.keeps:
            self.window = set(remember(self.window, (), self.life.keeps))
        return True

    def newest(self) -> list[Request]:
        """Return those that the next invocation, or the next tier, has to know of."""
        return sorted(self.window)[-self.life.keeps :]

    def report(self, key: str, entry: Entry) -> RequestsServed | None:
        """Return what was served since the last report, for the use of the key's node; None: nothing."""
        requests, self._unreported = self._unreported, []
        if not requests:
            return None
        served = KeyServed(
            key=key,
            requests=[request.encode() for request in requests[-_MOST_REPORTED:]],
            size_bytes=entry.size_bytes,
            etag=entry.etag,
            served_by="lambda",
            left_out=max(len(requests) - _MOST_REPORTED, 0),
        )
        return RequestsServed(keys=[served])
