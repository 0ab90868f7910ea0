"""Tier protocol: the operations that a reader requires of each tier, and of S3.

Contract, enforced by `tests/contract`: a tier returns an object with S3's own headers, byte for byte, so only
`X-Cache-Tier` tells clients which tier responded. A tier returns only complete objects. It raises an error after a
short timeout of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from burstcache.core.errors import SilentHolderError
from burstcache.core.slices import Slice
from burstcache.serve.hit_counter import Served
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response

# Errors that concern a single key. After any other error of a tier, reads of all keys skip it for a while.
FAILURES_OF_ONE_KEY = (SilentHolderError, ValueError)
# The front door times out after 29 s, and S3's first byte may take 20 s (`adapters/clients.py`). A failed read of S3 is
# therefore retried only within this time.
RETRY_WITHIN_S = 4.0


@dataclass(frozen=True, slots=True)
class Fill:
    """A lease that allows a reader to store an object in a tier after reading it from S3.

    The reader acquires the lease before it reads S3, and a write revokes the lease before the write is announced. The
    tier therefore rejects a copy of the old version.
    """

    put: Callable[[Entry], object]  # may reject the entry, which is always safe; raises like `Tier.fetch`
    max_object_bytes: int


@dataclass(frozen=True, slots=True)
class FetchedSlices:
    """The slices that a tier has, and those that it accepts once a tier below has returned them."""

    bodies: Mapping[str, bytes]  # by name
    accepts: frozenset[str]
    store: Callable[[Mapping[str, bytes]], object]  # raises like `SliceTier.fetch_slices`


class SliceTier(Protocol):
    """A cache tier of slices. A slice is immutable, so neither a lease nor a write ever revokes it."""

    def fetch_slices(self, slices: Sequence[Slice]) -> FetchedSlices:
        """Return those slices that the tier has. Raise any exception if the tier is down."""


class Tier(Protocol):
    """A cache tier, which may miss or be unavailable."""

    def fetch(self, request: Request) -> Entry | Fill | None:
        """Return the object (without its body for a HEAD), a lease to store it, or None.

        None: a miss that this reader need not fill.

        Raises:
            SilentHolderError, ValueError: This key is unavailable here. Other keys may be available.
            Exception: The tier is down.
        """

    def count(self, batch: Sequence[Served]) -> None:
        """Report memory hits, which count as demand for the keys. Raises like `fetch`."""

    def close(self) -> None:
        """Close the connections to the tier."""


class Origin(Protocol):
    """S3, the tier of last resort."""

    def read(self, request: Request) -> Response:
        """Return S3's response, which may be an error response."""

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        """Return the current object, or None if `known` is still current. Raises OriginError."""

    def is_current(self, key: str, known: Entry) -> bool:
        """Return True if `known` is still the current version. Raises OriginError."""

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Report a GET that S3 served, which counts as demand for the key."""

    def count(self, batch: Sequence[Served]) -> None:
        """Report memory hits, which count as demand for the keys."""

    def close(self) -> None:
        """Send the remaining reports."""
