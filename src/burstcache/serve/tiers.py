"""Tiers of a reader, each created on first use and guarded by a circuit breaker."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.circuit_breaker import FIRST_S, CircuitBreakers
from burstcache.adapters.clock import Clock
from burstcache.core.digest import Route
from burstcache.core.errors import SilentHolderError
from burstcache.core.slices import Slice
from burstcache.logs import logger
from burstcache.serve.hit_counter import Served
from burstcache.serve.tier import FAILURES_OF_ONE_KEY, FetchedSlices, Fill, SliceTier, Tier
from burstcache.web.entry import Entry
from burstcache.web.request import Request

FellBack = Callable[[Exception | None], None]


@dataclass(slots=True)
class _ReadCounts:
    """Successful and failed reads of a tier. Updates lost in a race between threads are harmless."""

    answered: int = 0
    failed: int = 0

    def is_healthy_since(self, before: _ReadCounts) -> bool:
        """Return True if successes outnumber failures since `before`: one timeout among many reads is harmless."""
        return self.answered - before.answered > self.failed - before.failed


class Tiers:
    """A thread-safe collection of tiers by route."""

    def __init__(
        self, make: Callable[[Route], Tier], clock: Clock, fell_back: FellBack, adaptive_timeout: AdaptiveTimeout
    ) -> None:
        """Create an empty collection.

        Args:
            make: Creates the tier of a route.
            clock: Clock of the circuit breakers.
            fell_back: Called with the error when a tier fails, and with None when a tier is skipped.
            adaptive_timeout: Limits a read's total wait for all tiers.
        """
        self._make = make
        self._fell_back = fell_back
        self._adaptive_timeout = adaptive_timeout
        self._tiers: dict[Route, Tier] = {}
        self._counts: dict[Hashable, _ReadCounts] = {}
        self._breakers = CircuitBreakers(clock, first_s=FIRST_S)

    def find(self, route: Route) -> Tier:
        """Return the tier of a route. The first call creates it, and propagates errors."""
        if (tier := self._tiers.get(route)) is None:
            tier = self._tiers.setdefault(route, self._make(route))  # another thread may have been faster
            if route.host:
                self._close_former(route)
        return tier

    def _close_former(self, route: Route) -> None:
        """Close the tiers of a node's earlier runs, which were at other addresses."""
        for former in [each for each in self._tiers.copy() if each.node == route.node and each.host != route.host]:
            if (tier := self._tiers.pop(former, None)) is not None:
                tier.close()

    def is_skipped(self, route: Route, request: Request) -> bool:
        """Return True if the breaker of the tier or the key is open, or the read's budget is exhausted."""
        is_skipped = self._adaptive_timeout.is_exhausted or self._breakers.is_open(route, request.hash)
        if is_skipped:
            self._fell_back(None)
        return is_skipped

    def fetch(self, route: Route, request: Request) -> Entry | Fill | None:
        """Return the result of the tier's `fetch`. Return None if the tier fails or sends an incomplete object."""
        is_fair, is_trial = self._adaptive_timeout.is_fair, self._breakers.is_half_open(route, request.hash)
        counts = self._counts.setdefault(route, _ReadCounts())
        before = replace(counts)
        try:
            with self._adaptive_timeout.waiting(is_trial=is_trial):
                fetched = self.find(route).fetch(request)
            if isinstance(fetched, Entry):
                _check_is_whole(request, fetched)
            counts.answered += 1
            self._breakers.record_success(route, request.hash)
            return fetched
        except Exception as error:  # any error: S3 serves the read
            if isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.record_failure(request.hash)
            if isinstance(error, SilentHolderError):  # the relay may be the cause
                self._breakers.record_doubt(route)
            elif isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.record_success(route)
            else:
                self._count_failure(route, counts, before, is_fair=is_fair)
            self._fell_back(error)
            logger().warning(
                "tier failed, S3 serves", tier=route.tier, reason=repr(error), key=request.key, key_hash=request.hash
            )
            return None

    def fill(self, route: Route, fill: Fill, request: Request, entry: Entry) -> None:
        """Store an object in the tier that granted the lease, unless the read's budget is exhausted."""
        if self._adaptive_timeout.is_exhausted:
            return
        is_fair = self._adaptive_timeout.is_fair
        try:
            with self._adaptive_timeout.waiting():
                fill.put(entry)
        except Exception as error:  # any error: the read already has its response
            self._blame(route, is_fair=is_fair)
            logger().warning(
                "tier not filled", tier=route.tier, reason=repr(error), key=request.key, key_hash=request.hash
            )

    def fetch_slices(self, route: Route, slices: Sequence[Slice]) -> FetchedSlices | None:
        """Return the result of the tier's `fetch_slices`. Return None if the tier is skipped or fails."""
        name = _breaker_of_slices(route)
        if self._adaptive_timeout.is_exhausted or self._breakers.is_open(name):
            self._fell_back(None)
            return None
        is_fair, is_trial = self._adaptive_timeout.is_fair, self._breakers.is_half_open(name)
        counts = self._counts.setdefault(name, _ReadCounts())
        before = replace(counts)
        try:
            with self._adaptive_timeout.waiting(is_trial=is_trial):
                fetched = cast(SliceTier, self.find(route)).fetch_slices(slices)
            counts.answered += 1
            self._breakers.record_success(name)
            return fetched
        except Exception as error:  # any error: a tier below serves the read
            self._count_failure(name, counts, before, is_fair=is_fair)
            self._fell_back(error)
            logger().warning("tier failed, S3 serves slices", tier=route.tier, reason=repr(error))
            return None

    def store_slices(self, route: Route, fetched: FetchedSlices, bodies: Mapping[str, bytes]) -> None:
        """Store those slices that the tier accepts. Errors are logged."""
        accepted = {name: body for name, body in bodies.items() if name in fetched.accepts}
        if not accepted:
            return
        self._adaptive_timeout.begin()  # no reader waits
        try:
            with self._adaptive_timeout.waiting():
                fetched.store(accepted)
        except Exception as error:  # any error: the read already has its bytes
            self._blame(_breaker_of_slices(route), is_fair=True)
            logger().warning("tier not filled with slices", tier=route.tier, reason=repr(error))

    def _count_failure(self, name: Hashable, counts: _ReadCounts, before: _ReadCounts, *, is_fair: bool) -> None:
        counts.failed += 1
        if counts.is_healthy_since(before):
            self._breakers.release(name)
        else:
            self._blame(name, is_fair=is_fair)

    def _blame(self, name: Hashable, *, is_fair: bool) -> None:
        """Open the breaker of a failed tier, unless other tiers had used up most of the read's budget."""
        if self._adaptive_timeout.blames(was_fair=is_fair):
            self._breakers.record_failure(name)
        else:
            self._breakers.release(name)

    def count(self, route: Route, batch: Sequence[Served]) -> None:
        """Report memory hits to a tier, unless its breaker is open. Propagates errors."""
        if self._breakers.is_open(route):
            return
        try:
            self.find(route).count(batch)
            self._breakers.record_success(route)
        except Exception as error:
            if isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.record_success(route)
            else:
                self._breakers.record_failure(route)
            raise

    def close(self) -> None:
        """Close all tiers."""
        for tier in list(self._tiers.values()):
            tier.close()


def _breaker_of_slices(route: Route) -> Hashable:
    """Return the name of a breaker of its own: a node whose bandwidth is used up may still send small objects."""
    return route, "slices"


def _check_is_whole(request: Request, entry: Entry) -> None:
    if request.method != "HEAD" and len(entry.body) != entry.size_bytes:
        raise ValueError(f"the entry of {request.key!r} has {len(entry.body)} of its {entry.size_bytes} bytes")
