"""Asking a part again that does not answer: a service that has died is started again within a second or two."""

from __future__ import annotations

from collections.abc import Callable

from burstcache.adapters.clock import Clock

INSISTS_FOR_S = 2.0
_PAUSE_S = 0.5


def insist(ask: Callable[[], None], error: type[Exception], clock: Clock, *, once: bool = False) -> bool:
    """Return whether a part has done what it was asked for, within about two seconds.

    Args:
        ask: Asks it.
        error: What `ask` raises if there is no answer; anything else is raised.
        clock: Tells how long it has been asked.
        once: Whether not to ask again.
    """
    give_up_s = clock.monotonic_s() + INSISTS_FOR_S
    while True:
        try:
            ask()
        except error:
            if once or clock.monotonic_s() >= give_up_s:
                return False
            clock.sleep(_PAUSE_S)
        else:
            return True
