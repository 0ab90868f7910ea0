"""The Lambda tier: the cache function that holds the object, asked over the relay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from burstcache.adapters.patience import Patience
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.relay import NOT_HERE, Get, ServedElsewhere, get_subject
from burstcache.core.parameters import US_PER_S
from burstcache.serve.tally import Served
from burstcache.web.entry import Entry, decode
from burstcache.web.request import Request

_COUNT_TIMEOUT_S = 1.0  # nobody waits for it


def unfenced() -> int:
    """Return that every copy may be answered."""
    return 0


@dataclass(frozen=True, slots=True)
class LambdaTier:
    """All cache functions of the stack; the relay knows which one holds a key."""

    relay: RelayRequests
    patience: Patience = field(default_factory=Patience)  # how long a cache function may take to answer
    fence_us: Callable[[], int] = unfenced  # what copies must not be older than, as far as the reader knows [us]

    def fetch(self, request: Request) -> Entry | None:
        """Return the object, or None if no cache function holds it (yet, or any longer).

        Raises:
            SilentHolderError: The cache function that holds it does not answer.
            RelayDownError: The relay does not answer.
            ValueError: The answer is not an entry.
        """
        wait_s = self.patience.wait_s
        get = Get(
            at_us=request.at_us,
            request_id=request.request_id,
            method=request.method,
            within_us=int(wait_s * US_PER_S),
            fence_us=self.fence_us(),
        )
        answer = self.relay.request(get_subject(request.hash), encode(get), timeout_s=wait_s)
        return None if answer is None or answer == NOT_HERE else decode(answer)

    def count(self, batch: Sequence[Served]) -> None:
        """Tell the cache functions what a reader's memory served of their keys; raise RelayDownError."""
        for served in batch:
            told = ServedElsewhere(served=[read.encode() for read in served.reads])
            self.relay.request(get_subject(served.hash), encode(told), timeout_s=_COUNT_TIMEOUT_S)

    def close(self) -> None:
        """Leave the relay."""
        self.relay.close()
