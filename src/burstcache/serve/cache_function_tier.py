"""Cache function tier: Lambda functions that cache hot objects in memory, reached over the relay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.relay import NOT_HERE, Get, ServedElsewhere, get_subject
from burstcache.core.parameters import US_PER_S
from burstcache.serve.hit_counter import Served
from burstcache.web.entry import Entry, decode
from burstcache.web.request import Request

_COUNT_TIMEOUT_S = 1.0  # no read waits for these requests


def no_fence() -> int:
    """Return 0, a fence that admits every copy."""
    return 0


@dataclass(frozen=True, slots=True)
class LambdaTier:
    """The stack's cache functions. The relay routes each request to the cache function of its key."""

    relay: RelayRequests
    adaptive_timeout: AdaptiveTimeout = field(default_factory=AdaptiveTimeout)  # limits the wait for a response
    fence_us: Callable[[], int] = no_fence  # the reader's fence: older copies are not served [us]

    def fetch(self, request: Request) -> Entry | None:
        """Return the object, or None if no cache function has it.

        Raises:
            SilentHolderError: The key's cache function does not respond.
            RelayDownError: The relay is unreachable.
            ValueError: The response is not a valid entry.
        """
        wait_s = self.adaptive_timeout.wait_s
        get = Get(
            at_us=request.at_us,
            request_id=request.request_id,
            method=request.method,
            within_us=int(wait_s * US_PER_S),
            fence_us=self.fence_us(),
        )
        answer = self.relay.send_request(get_subject(request.hash), encode(get), timeout_s=wait_s)
        return None if answer is None or answer == NOT_HERE else decode(answer)

    def count(self, batch: Sequence[Served]) -> None:
        """Report memory hits to each key's cache function. Raises RelayDownError."""
        for served in batch:
            hits = ServedElsewhere(served=[read.encode() for read in served.reads])
            self.relay.send_request(get_subject(served.hash), encode(hits), timeout_s=_COUNT_TIMEOUT_S)

    def close(self) -> None:
        """Disconnect from the relay."""
        self.relay.close()
