"""Things that are done at the same time, and what is done if they take long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burstcache.control.together import do_together
from support.virtual_time import VirtualClock

_LATE_S = 0.25


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def lasting(clock: VirtualClock, seconds: float) -> Callable[[], float]:
    """Return work that takes that long, and returns it."""

    def work() -> float:
        clock.sleep(seconds)
        return seconds

    return work


@pytest.mark.parametrize(("takes_s", "done_s"), [([0.2], []), ([0.3], [_LATE_S]), ([0.1, 2.0], [_LATE_S])])
def test_what_is_for_works_that_are_late_is_done_once_and_while_they_go_on(
    clock: VirtualClock, takes_s: list[float], done_s: list[float]
) -> None:
    at_s: list[float] = []
    works = [lasting(clock, seconds) for seconds in takes_s]

    done = do_together(clock, *works, late_s=_LATE_S, if_late=lambda: at_s.append(clock.monotonic_s()))

    assert (done, at_s) == (takes_s, done_s)
    assert clock.monotonic_s() == max(takes_s)


def test_works_go_on_to_their_end_where_what_is_for_late_ones_fails(clock: VirtualClock) -> None:
    def fail() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        do_together(clock, lasting(clock, 2.0), late_s=_LATE_S, if_late=fail)

    assert clock.monotonic_s() == 2.0
