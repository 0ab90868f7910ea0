"""The requests of a life in a cache function: a window for the policy, and the unreported requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from burstcache.core.cache_lives import CacheLife
from burstcache.core.messages.events import KeyServed, RequestsServed
from burstcache.core.policy import RecordedRequest, remember
from burstcache.core.rows import KeyRow
from burstcache.web.entry import Entry

_MOST_REPORTED = 8  # newest requests, with their IDs; older requests are only counted
_TRIM_FACTOR = 4  # times the length that the policy uses, since all requests of 15 busy minutes would fill the memory


@dataclass(slots=True)
class LifeRequests:
    """The requests of a life. Requests that arrive before the life begins are queued."""

    life: CacheLife
    window: set[RecordedRequest] = field(default_factory=set)  # requests from the row, and requests served by the life
    served: int = 0
    first_us: int = 0
    last_us: int = 0
    _early: list[RecordedRequest] | None = field(default_factory=list)  # queued requests; None once the life has begun
    _unreported: list[RecordedRequest] = field(default_factory=list)

    def take_over(self, row: KeyRow, *, is_first: bool) -> None:
        """Load the row's window and, unless this invocation is the first, the count of earlier invocations."""
        assert row.trigger is not None, "every life has a trigger"
        self.window.update(row.window)
        self.first_us = self.last_us = row.trigger.at_us
        if not is_first:
            self.served = row.served

    def count_early(self) -> None:
        """Count the queued requests. Readers may send requests as soon as the row names this function."""
        early, self._early = self._early, None
        self.count(early or ())

    def count(self, requests: Iterable[RecordedRequest]) -> bool:
        """Count served requests. Queue them and return False if the life has not begun."""
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
        if len(self.window) > _TRIM_FACTOR * self.life.kept_requests:
            self.window = set(remember(self.window, (), self.life.kept_requests))
        return True

    def newest(self) -> list[RecordedRequest]:
        """Return the newest requests, for the next invocation or tier."""
        return sorted(self.window)[-self.life.kept_requests :]

    def report(self, key: str, entry: Entry) -> RequestsServed | None:
        """Return a report of unreported requests, which count for the key's node, or None if there are none."""
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
