"""Shared slices: those that Redis nodes and S3 Express keep for all readers.

A slice's home node follows from the slice's own name, so the slices of one hot file spread over all nodes. A slice is
immutable and its name contains its version. So no write invalidates it, and a node of an earlier run may still send it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.digest_reader import DigestReader
from burstcache.core.digest import MAX_AGE_S, Route
from burstcache.core.slices import Slice
from burstcache.serve.tier import FetchedSlices
from burstcache.serve.tiers import Tiers
from burstcache.traces import with_trace_context

_THREADS = 32  # as many as read slices

Found = Callable[[Slice, bytes, str], object]


@dataclass(frozen=True, slots=True)
class SliceStores:
    """The tiers that accept slices of one read."""

    tiers: Tiers | None = None
    accepting: Sequence[tuple[Route, FetchedSlices]] = field(default=())

    @property
    def accepts_any(self) -> bool:
        """True if some tier accepts some slice."""
        return any(fetched.accepts for _, fetched in self.accepting)

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Store slices by name in those tiers that accept them. Never raises."""
        if self.tiers is not None:
            for route, fetched in self.accepting:
                self.tiers.store_slices(route, fetched, bodies)


class SharedSlices:
    """A thread-safe reader of shared slices. A tier that fails never fails a read."""

    def __init__(
        self, tiers: Tiers, digest: DigestReader | None, express: Route | None, adaptive_timeout: AdaptiveTimeout
    ) -> None:
        """Create the reader.

        Args:
            tiers: The tiers by route.
            digest: Knows the slices' home nodes. None: nodes have no slices.
            express: Route to S3 Express. None: it has no slices.
            adaptive_timeout: Limits a read's total wait for the digest and all tiers.
        """
        self._tiers = tiers
        self._digest = digest
        self._express = express
        self._adaptive_timeout = adaptive_timeout
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="burstcache-nodes")

    def fetch(self, slices: Sequence[Slice], found: Found) -> tuple[list[Slice], SliceStores]:
        """Fetch slices in one round trip per tier, and return the missing ones, and the tiers that accept them.

        Args:
            slices: The slices.
            found: Called with each slice that a tier has, its bytes and the tier.
        """
        self._adaptive_timeout.begin()
        homes, missing = self._homes(slices)
        accepting: list[tuple[Route, FetchedSlices]] = []
        for route, fetched in self._fetch_from_nodes(homes):
            missing += _given(route, homes[route], fetched, found, accepting)
        if self._express is not None and missing:
            fetched = self._tiers.fetch_slices(self._express, missing)
            missing = _given(self._express, missing, fetched, found, accepting)
        return sorted(missing, key=lambda each: each.start), SliceStores(self._tiers, accepting)

    def close(self) -> None:
        """End the threads after their current reads."""
        self._threads.shutdown(wait=False)

    def _fetch_from_nodes(self, homes: Mapping[Route, Sequence[Slice]]) -> Iterator[tuple[Route, FetchedSlices | None]]:
        """Fetch slices from all of their home nodes at once, one of them in this thread."""
        calls = {route: partial(self._tiers.fetch_slices, route, wanted) for route, wanted in homes.items()}
        if not calls:
            return
        own, own_call = calls.popitem()
        others = {
            route: self._threads.submit(with_trace_context(self._adaptive_timeout.shared(call)))
            for route, call in calls.items()
        }
        yield own, own_call()
        for route, fetching in others.items():
            with self._adaptive_timeout.waiting():
                fetched = fetching.result()
            yield route, fetched

    def _homes(self, slices: Sequence[Slice]) -> tuple[dict[Route, list[Slice]], list[Slice]]:
        """Return the slices by their home nodes, and those without one."""
        if self._digest is None:
            return {}, list(slices)
        self._digest.is_within(MAX_AGE_S)  # a long file is read without its head, which would refresh the digest
        homes: defaultdict[Route, list[Slice]] = defaultdict(list)
        homeless: list[Slice] = []
        for each in slices:
            home = self._digest.home(each.name)
            (homeless if home is None else homes[home]).append(each)
        return homes, homeless


def _given(
    route: Route,
    slices: Sequence[Slice],
    fetched: FetchedSlices | None,
    found: Found,
    accepting: list[tuple[Route, FetchedSlices]],
) -> list[Slice]:
    """Hand out the slices that a tier has, and return the missing ones. None: the tier was skipped or failed."""
    if fetched is None:
        return list(slices)
    accepting.append((route, fetched))
    missing = []
    for each in slices:
        body = fetched.bodies.get(each.name)
        if body is None or len(body) != each.size_bytes:
            missing.append(each)
        else:
            found(each, body, route.tier)
    return missing
