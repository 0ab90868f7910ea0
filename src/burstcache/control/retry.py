"""Retry of calls to a part that does not answer, since a crashed service restarts within a second or two."""

from __future__ import annotations

from collections.abc import Callable

from burstcache.adapters.clock import Clock

RETRY_DEADLINE_S = 2.0
_PAUSE_S = 0.5


def retry_until_answered(
    call: Callable[[], None],
    error: type[Exception],
    clock: Clock,
    *,
    once: bool = False,
    for_s: float = RETRY_DEADLINE_S,
) -> bool:
    """Repeat a call until the part answers, for about two seconds by default. Return whether it has answered.

    Args:
        call: The call.
        error: The error that means no answer. Any other error is propagated.
        clock: The clock that measures the wait.
        once: Whether to make only one attempt.
        for_s: Time after which no further attempt is made [s].
    """
    give_up_s = clock.monotonic_s() + for_s
    while True:
        try:
            call()
        except error:
            if once or clock.monotonic_s() >= give_up_s:
                return False
            clock.sleep(_PAUSE_S)
        else:
            return True
