"""A guard leaves a place that failed alone until it answers again, so that an outage costs a caller one time-out, once.

`adapters.breaker` lets the next caller after a pause find out; here that is a thread's business.
"""

from __future__ import annotations

from collections.abc import Callable

from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.forks import new_lock
from burstcache.logs import logger
from burstcache.results.threads import in_thread

PROBE_EVERY_S = 1.0


class Guard:
    """Whether a place may be asked. Threads share it, and the child of a fork goes on with its own probes."""

    def __init__(
        self,
        name: str,
        ping: Callable[[], None],
        clock: Clock,
        *,
        start: Callable[[Callable[[], None]], object] = in_thread,
    ) -> None:
        """Begin with a place that may be asked.

        Args:
            name: What a warning calls the place.
            ping: Returns if the place answers; raises any error.
            clock: What the pause between probes goes by.
            start: Runs a probe while the caller goes on.
        """
        self._name = name
        self._ping = ping
        self._clock = clock
        self._start = start
        self._is_down = False
        self._failed_at = instant(clock)  # or when a probe ended
        self._is_probed = False
        self._lock = new_lock(self)

    def allows(self) -> bool:
        """Whether the place may be asked now; has it probed in the background if it may not."""
        if not self._is_down:
            return True
        with self._lock:
            is_due = seconds_since(self._clock, self._failed_at) >= PROBE_EVERY_S and not self._is_probed
            self._is_probed |= is_due
        if is_due:
            try:
                self._start(self._probe)
            except Exception:  # there is no thread to be had now: a later call tries again
                self._probed()
        return not self._is_down

    def failed(self, error: Exception) -> None:
        """Note that the place did not answer."""
        logger().warning("results: a place is left alone until it answers", reason=f"{self._name}: {error}")
        with self._lock:
            self._is_down = True
            self._failed_at = instant(self._clock)

    def after_fork(self) -> None:
        """Make a new lock, and probe anew."""
        self._lock, self._is_probed = new_lock(self), False

    def _probe(self) -> None:
        try:
            self._ping()
        except Exception:  # whatever it is, it is no answer
            pass
        else:
            self._is_down = False
        finally:
            self._probed()

    def _probed(self) -> None:
        with self._lock:
            self._is_probed = False
            self._failed_at = instant(self._clock)
