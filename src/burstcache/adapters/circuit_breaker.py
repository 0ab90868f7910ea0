"""Circuit breaker: callers skip a part that has just failed, so a dead tier costs one timeout instead of one per read.

After a pause the breaker is half-open, and one trial decides whether it closes. The trial is a caller's own request, or
a background ping that no caller waits for (`BackgroundProbe`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.forks import new_lock

FIRST_S, OPEN_S = 0.5, 5.0
_MAX_KNOWN = 1024


class BackgroundProbe(NamedTuple):
    """A trial in the background: callers skip the part until it responds to a ping."""

    ping: Callable[[Hashable], object]  # called with the part's name. Raises any exception if the part is down
    start: Callable[[Callable[[], None]], object]  # runs the ping in the background


class _Failure(NamedTuple):
    """A failed part: the current pause, the next pause, and whether a trial is in progress."""

    since: Instant
    pause_s: float
    next_pause_s: float
    is_tried: bool


class CircuitBreakers:
    """Circuit breakers of several parts, by name. Thread-safe.

    The pause doubles, from `first_s` up to `open_s`, each time a part fails its trial or fails again soon after
    recovering. A brief stall costs a brief pause, and an overloaded part gets time to recover.

    A caller's trial without an outcome fails after `open_s`, so a hung part delays only one caller per pause. A
    background probe delays no caller, and ends at its own timeout.
    """

    def __init__(
        self, clock: Clock, *, first_s: float = OPEN_S, open_s: float = OPEN_S, probe: BackgroundProbe | None = None
    ) -> None:
        """Start with all breakers closed.

        Args:
            clock: Measures the pauses.
            first_s: The first pause after a failure [s].
            open_s: The longest pause [s].
            probe: Probes failed parts in the background. None: a caller's request is the trial.
        """
        self._clock = clock
        self._first_s, self._open_s = first_s, open_s
        self._probe = probe
        self._failures: dict[Hashable, _Failure] = {}
        self._recovered: dict[Hashable, tuple[Instant, float]] = {}  # recovery time, pause if the part fails again
        self._lock = new_lock(self)

    def is_open(self, *names: Hashable) -> bool:
        """Return True if the caller must skip the parts. Otherwise the request is the trial of any failed part."""
        if not any(name in self._failures for name in names):
            return False
        failed: list[Hashable] = []
        try:
            with self._lock:
                known = [name for name in names if name in self._failures]
                if any(self._is_paused(self._failures[name]) for name in known):
                    return True
                failed = known
                now, trial_s = instant(self._clock), self._open_s if self._probe is None else math.inf
                for name in failed:
                    self._failures[name] = _Failure(now, trial_s, self._failures[name].next_pause_s, is_tried=True)
            if self._probe is None:
                return False
            for name in failed:
                self._start(self._probe, name)
            return any(name in self._failures for name in failed)
        except BaseException:  # an interrupt (Ctrl-C): a part whose ping may not run must not stay on trial for ever
            for name in failed:
                self.release(name)
            raise

    def record_success(self, *names: Hashable) -> None:
        """Close the breakers of parts on trial. A late response to an earlier request closes no breaker."""
        for name in names:
            if name in self._failures:
                with self._lock:
                    if name in self._failures and self._failures[name].is_tried:
                        self._recovered[name] = instant(self._clock), self._failures.pop(name).next_pause_s

    def is_half_open(self, *names: Hashable) -> bool:
        """Return True if any of the parts is on trial."""
        return any(failure.is_tried for name in names if (failure := self._failures.get(name)))

    def release(self, name: Hashable) -> None:
        """End a trial without an outcome. The next caller's request is the new trial."""
        if name in self._failures:
            self.record_doubt(name)

    def record_doubt(self, name: Hashable) -> None:
        """Make the breaker half-open: the next caller's request is the trial, and other callers skip the part."""
        with self._lock:
            failure = self._failures.get(name)
            if failure is None or failure.is_tried:
                next_pause_s = failure.next_pause_s if failure else self._first_s
                self._failures[name] = _Failure(instant(self._clock), 0, next_pause_s, is_tried=False)

    def record_failure(self, name: Hashable) -> None:
        """Open the breaker, unless a background probe is in progress."""
        with self._lock:
            if self._probe is None or not self.is_half_open(name):
                self._open(name)

    def after_fork(self) -> None:
        """Replace the lock, and end trials by the parent's threads."""
        self._lock = new_lock(self)
        for name, failure in list(self._failures.items()):
            if failure.is_tried:
                self._failures[name] = failure._replace(pause_s=0, is_tried=False)

    def _open(self, name: Hashable) -> None:
        if len(self._failures) >= _MAX_KNOWN:
            self._failures = {each: failure for each, failure in self._failures.items() if self._is_paused(failure)}
        pause_s = self._pause_s(name)
        next_pause_s = min(2 * pause_s, self._open_s)
        self._failures[name] = _Failure(instant(self._clock), pause_s, next_pause_s, is_tried=False)

    def _start(self, probe: BackgroundProbe, name: Hashable) -> None:
        try:
            probe.start(partial(self._try, probe, name))
        except Exception:  # no thread can be started now. A later call tries again
            self._reopen(name)

    def _try(self, probe: BackgroundProbe, name: Hashable) -> None:
        try:
            probe.ping(name)
        except BaseException as error:
            self._reopen(name)
            if not isinstance(error, Exception):
                raise
        else:
            self.record_success(name)

    def _reopen(self, name: Hashable) -> None:
        with self._lock:
            self._open(name)

    def _pause_s(self, name: Hashable) -> float:
        if failure := self._failures.get(name):
            return failure.pause_s if self._is_paused(failure) and not failure.is_tried else failure.next_pause_s
        self._recovered = {each: recovery for each, recovery in self._recovered.items() if self._is_recent(recovery[0])}
        _, pause_s = self._recovered.get(name, (None, self._first_s))
        return pause_s

    def _is_recent(self, since: Instant) -> bool:
        return seconds_since(self._clock, since) < self._open_s

    def _is_paused(self, failure: _Failure) -> bool:
        return seconds_since(self._clock, failure.since) < failure.pause_s
