"""The tiers of a reader by route: a node that runs as a task has another address in each run."""

from __future__ import annotations

from typing import Any

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.core.digest import Route
from burstcache.serve.reader import ignore_fallback
from burstcache.serve.tiers import Tiers
from support.clock import ManualClock


class _Tier:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def _tiers() -> tuple[Tiers, dict[Route, Any]]:
    clock, made = ManualClock(), dict[Route, Any]()

    def make(route: Route) -> Any:
        made[route] = _Tier()
        return made[route]

    return Tiers(make, clock, ignore_fallback, AdaptiveTimeout(clock=clock)), made


def test_the_tier_of_a_nodes_next_run_replaces_that_of_its_former_run() -> None:
    tiers, made = _tiers()
    former, other = Route("redis", "node-1", host="10.0.0.1"), Route("redis", "node-2", host="10.0.0.1")
    present = Route("redis", "node-1", host="10.0.0.2")
    for route in (former, other, present):
        tiers.find(route)

    assert {route: tier.is_closed for route, tier in made.items()} == {former: True, other: False, present: False}
    assert tiers.find(present) is made[present]


def test_both_tiers_of_a_node_at_one_address_stay_open() -> None:
    tiers, made = _tiers()
    for is_guest in (False, True):
        tiers.find(Route("redis", "node-1", is_guest=is_guest, host="10.0.0.1"))
        tiers.find(Route("redis", "node-2", is_guest=is_guest))

    assert not any(tier.is_closed for tier in made.values())
