"""What a reader needs of a tier.

The contract, held by `tests/contract`: a tier that holds an object gives it with S3's own headers, byte for byte, so a
client cannot tell tiers apart but by `X-Cache-Tier`. A tier never answers with an object it is not sure to hold whole.
It raises rather than waits: its time-outs are its own, and short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from burstcache.core.errors import SilentHolderError
from burstcache.serve.tally import Served
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response

# Failures of one key only; after any other failure of a tier all its keys do without it for a while.
FAILURES_OF_ONE_KEY = (SilentHolderError, ValueError)
# The front door gives up at 29 s, and S3 may take 20 s to its first byte (`adapters/clients.py`), so a read that S3 has
# failed asks it again only early.
RETRY_WITHIN_S = 4.0


@dataclass(frozen=True, slots=True)
class Fill:
    """A reader's right to put into a tier what it reads below it.

    It was given before anything below was read, and a write to the object takes it away before the write is announced:
    a copy of the old version comes too late.
    """

    put: Callable[[Entry], object]  # refused or not: the tier is right either way; raises as `Tier.fetch`
    max_object_bytes: int


class Tier(Protocol):
    """A tier that may hold objects, and may be away."""

    def fetch(self, request: Request) -> Entry | Fill | None:
        """Return the object (for a HEAD without its body), what fills the tier with it, or None.

        None: it is not there, and this reader need not bring it.

        Raises:
            SilentHolderError, ValueError: This key cannot be had here; other keys may.
            Exception: The tier is down.
        """

    def count(self, batch: Sequence[Served]) -> None:
        """Count what the reader's memory served for the lives of these keys, or raise as `fetch` does."""

    def close(self) -> None:
        """Leave the tier."""


class Origin(Protocol):
    """The tier that always has an answer."""

    def read(self, request: Request) -> Response:
        """Return the answer, errors included."""

    def confirm(self, request: Request, known: Entry) -> Entry | None:
        """Return the whole object, or None if it is still the one that is known; raise OriginError as `fetch` does."""

    def has(self, key: str, known: Entry) -> bool:
        """Whether the object is the one that is known now, or raise OriginError."""

    def report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Count a GET that S3 served for the key's life."""

    def count(self, batch: Sequence[Served]) -> None:
        """Count what the reader's memory served for the lives of these keys."""

    def close(self) -> None:
        """Send what is left to send."""
