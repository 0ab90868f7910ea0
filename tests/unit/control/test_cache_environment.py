"""The environment of cache functions before its first life."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.control import cache_environment
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.core.errors import RelayDownError


class Relay:
    """Counts how often it was opened; `down` and `silent` ones are not."""

    def __init__(self, state: str) -> None:
        self.state, self.opened, self.cancelled = state, 0, 0

    async def open(self) -> None:
        if self.state == "down":
            raise RelayDownError("the relay is down")
        if self.state == "silent":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        self.opened += 1

    async def close(self) -> None:
        """Leave nothing."""


def connected_ahead(state: str) -> Relay:
    relay: Any = Relay(state)
    environment = CacheEnvironment(SimpleNamespace(clock=SystemClock()), relay, warm_copies(1))  # type: ignore[arg-type]
    try:
        environment.connect_ahead()
    finally:
        environment.close()
    return relay  # type: ignore[no-any-return]


def test_an_environment_is_connected_before_its_first_life() -> None:
    assert connected_ahead("up").opened == 1


def test_a_relay_that_is_down_is_left_to_the_first_life() -> None:
    assert connected_ahead("down").opened == 0


def test_a_relay_that_is_silent_does_not_take_the_time_of_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_environment, "_AHEAD_S", 0.01)

    relay = connected_ahead("silent")

    assert (relay.opened, relay.cancelled) == (0, 1)
