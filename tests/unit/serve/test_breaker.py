"""Breakers: who failed is left alone, for a while, and nobody else."""

from __future__ import annotations

from burstcache.serve.breaker import Breakers


def test_breaker_opens_for_whoever_failed_and_closes_by_itself() -> None:
    now_s = 0.0
    breakers = Breakers(open_s=5, clock_s=lambda: now_s)

    breakers.fail("redis")

    assert (breakers.is_open("redis"), breakers.is_open("lambda")) == (True, False)
    now_s = 5.0
    assert not breakers.is_open("redis")


def test_breakers_of_many_keys_do_not_pile_up() -> None:
    now_s = 0.0
    breakers = Breakers(open_s=5, clock_s=lambda: now_s)

    for number in range(5000):
        now_s = float(number)
        breakers.fail(number)

    assert len(breakers._open_until_s) <= 1024
