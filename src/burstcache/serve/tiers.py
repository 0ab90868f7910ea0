"""The tiers that a reader asks: each is made at its first use, and left alone for a while after a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from burstcache.adapters.breaker import FIRST_S, Breakers
from burstcache.adapters.clock import Clock
from burstcache.adapters.patience import Patience
from burstcache.core.digest import Route
from burstcache.core.errors import SilentHolderError
from burstcache.logs import logger
from burstcache.serve.tally import Served
from burstcache.serve.tier import FAILURES_OF_ONE_KEY, Fill, Tier
from burstcache.web.entry import Entry
from burstcache.web.request import Request

FellBack = Callable[[Exception | None], None]


@dataclass(slots=True)
class _Asked:
    """How many reads a tier has answered and failed; one that threads lose does no harm."""

    answered: int = 0
    failed: int = 0

    def is_well_since(self, before: _Asked) -> bool:
        """Whether it has answered more reads than it has failed since then: one late answer of many is no end."""
        return self.answered - before.answered > self.failed - before.failed


class Tiers:
    """Tiers by the routes that lead to them. Threads may share it."""

    def __init__(self, make: Callable[[Route], Tier], clock: Clock, fell_back: FellBack, patience: Patience) -> None:
        """Know no tier yet.

        Args:
            make: Makes the tier that a route leads to.
            clock: What tiers are left alone by.
            fell_back: Gets the error of each tier that fails, and None for one that is left alone because it has.
            patience: How long a read waits for all tiers together.
        """
        self._make = make
        self._fell_back = fell_back
        self._patience = patience
        self._tiers: dict[Route, Tier] = {}
        self._asked: dict[Route, _Asked] = {}
        self._breakers = Breakers(clock, first_s=FIRST_S)

    def find(self, route: Route) -> Tier:
        """Return the tier, made now if it is its first use; raises what that fails with."""
        if route not in self._tiers:
            self._tiers.setdefault(route, self._make(route))  # two threads may have come here
        return self._tiers[route]

    def is_left_alone(self, route: Route, request: Request) -> bool:
        """Whether to do without the tier in this read: it, or the key there, has just failed, or others took long."""
        is_left_alone = self._patience.is_used_up or self._breakers.is_open(route, request.hash)
        if is_left_alone:
            self._fell_back(None)
        return is_left_alone

    def ask(self, route: Route, request: Request) -> Entry | Fill | None:
        """Return what the tier's `fetch` does, the object for a GET whole; None also if it fails."""
        is_fair, is_trial = self._patience.is_fair, self._breakers.is_tried(route, request.hash)
        asked = self._asked.setdefault(route, _Asked())
        before = replace(asked)
        try:
            with self._patience.waiting(is_trial=is_trial):
                found = self.find(route).fetch(request)
            if isinstance(found, Entry):
                _check_is_whole(request, found)
            asked.answered += 1
            self._breakers.succeed(route, request.hash)
            return found
        except Exception as error:  # whatever it is, S3 has the object
            if isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.fail(request.hash)
            if isinstance(error, SilentHolderError):  # or is it the relay that is silent?
                self._breakers.doubt(route)
            elif isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.succeed(route)
            else:
                asked.failed += 1
                if asked.is_well_since(before):
                    self._breakers.release(route)
                else:
                    self._blame(route, is_fair=is_fair)
            self._fell_back(error)
            logger().warning(
                "tier failed, S3 serves", tier=route.tier, reason=repr(error), key=request.key, key_hash=request.hash
            )
            return None

    def fill(self, route: Route, fill: Fill, request: Request, entry: Entry) -> None:
        """Put an object into the tier that has given the right to it, if the read has time for that."""
        if self._patience.is_used_up:
            return
        is_fair = self._patience.is_fair
        try:
            with self._patience.waiting():
                fill.put(entry)
        except Exception as error:  # the reader has its answer
            self._blame(route, is_fair=is_fair)
            logger().warning(
                "tier not filled", tier=route.tier, reason=repr(error), key=request.key, key_hash=request.hash
            )

    def _blame(self, route: Route, *, is_fair: bool) -> None:
        """Leave a tier alone that failed, unless others had left it too little of the read's wait."""
        if self._patience.blames(was_fair=is_fair):
            self._breakers.fail(route)
        else:
            self._breakers.release(route)

    def count(self, route: Route, batch: Sequence[Served]) -> None:
        """Count there what memory has served, unless the tier is left alone; raises what that fails with."""
        if self._breakers.is_open(route):
            return
        try:
            self.find(route).count(batch)
            self._breakers.succeed(route)
        except Exception as error:
            if isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.succeed(route)
            else:
                self._breakers.fail(route)
            raise

    def close(self) -> None:
        """Leave all of them."""
        for tier in self._tiers.values():
            tier.close()


def _check_is_whole(request: Request, entry: Entry) -> None:
    if request.method != "HEAD" and len(entry.body) != entry.size_bytes:
        raise ValueError(f"the entry of {request.key!r} has {len(entry.body)} of its {entry.size_bytes} bytes")
