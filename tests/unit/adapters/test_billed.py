"""Billed time that an environment reports: all of it, once."""

from __future__ import annotations

from burstcache.adapters.billed import Billed
from support.virtual_time import VirtualClock


def test_everything_is_reported_once_whenever_that_is() -> None:
    clock = VirtualClock()
    billed = Billed(clock, init_s=0.25)
    with billed.invocation():
        clock.sleep(0.1)
        assert billed.read_usage() == (1, 350)
        clock.sleep(0.02)
    clock.sleep(60)  # asleep
    with billed.invocation():
        clock.sleep(0.005)
    with billed.invocation():
        clock.sleep(0.001)
        assert billed.read_usage() == (2, 26)
        assert billed.read_usage() == (0, 0)


def test_an_invocation_that_fails_is_billed_as_well() -> None:
    clock = VirtualClock()
    billed = Billed(clock)
    try:
        with billed.invocation():
            clock.sleep(0.5)
            raise KeyError("a failure")
    except KeyError:
        pass

    assert billed.read_usage() == (1, 500)
