"""Breakers: a part that failed is left alone for a while, and no other part is."""

from __future__ import annotations

from burstcache.adapters.breaker import Breakers
from support.clock import ManualClock


def test_breaker_opens_for_what_failed_and_closes_by_itself() -> None:
    clock = ManualClock()
    breakers = Breakers(clock, open_s=5)

    breakers.fail("redis")

    assert (breakers.is_open("redis"), breakers.is_open("lambda")) == (True, False)
    clock.now_s = 5.0
    assert not breakers.is_open("redis")


def test_breakers_of_many_keys_do_not_pile_up() -> None:
    clock = ManualClock()
    breakers = Breakers(clock, open_s=5)

    for number in range(5000):
        clock.now_s = float(number)
        breakers.fail(number)

    assert len(breakers._open_until_s) <= 1024
