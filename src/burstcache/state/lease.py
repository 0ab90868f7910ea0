"""A lease on a database: taken, waited for, extended by a thread, given back."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.state_function import StateFunction
from burstcache.core.errors import (
    BurstcacheError,
    DatabaseAsleepError,
    InvalidSettingError,
    LeaseLostError,
    TransientError,
)
from burstcache.core.messages.state import DatabaseHeld
from burstcache.logs import logger

LEASE_S = 60
_BEAT_S = 15.0  # three calls may fail before the lease runs out
_ASK_AGAIN_S = 0.2  # while the database wakes up


def new_holder() -> str:
    """Return a name that no other holder has."""
    return f"client-{uuid.uuid4().hex}"


class HeldLease:
    """A lease that a thread extends for as long as it is held. `acquire` takes it.

    Args:
        function: The state function, for one holder of one database.
        clock: What says whether the lease has run out.
    """

    def __init__(self, function: StateFunction, clock: Clock) -> None:
        self._function = function
        self._clock = clock
        self._process = os.getpid()
        self._released = threading.Event()
        self._is_given_up = False
        self._thread: threading.Thread | None = None
        self._held_since: Instant | None = None
        self._lost: LeaseLostError | None = None

    def check(self) -> None:
        """Raise LeaseLostError once the lease is lost or given back: before each connection and command."""
        if self._released.is_set():
            raise LeaseLostError(
                f"database {self._function.database!r} was given back: a client is for use within its `with`"
            )
        if self._lost is None and self._has_run_out():
            # The thread was not scheduled, as in a Lambda environment that was frozen.
            self._lost = LeaseLostError(
                f"database {self._function.database!r} was not held for a while: this process stood still for longer"
                f" than its lease of {LEASE_S} s"
            )
        if self._lost is not None:
            raise self._lost

    def acquire(self, *, wait_s: float, answers: Callable[[], bool]) -> None:
        """Take the lease and return when the database is awake.

        Args:
            wait_s: How long to wait for it [s], 0 or more.
            answers: Whether its Redis answers; asked once its node runs.

        Raises:
            DatabaseAsleepError: It does not wake up within that time; the lease is given back.
            NodeFailedError: It cannot be woken up.
            InvalidSettingError: `wait_s` is no such time.
        """
        if not (isinstance(wait_s, (int, float)) and wait_s >= 0):
            raise InvalidSettingError(f"wait_s={wait_s!r}; accepted: seconds, 0 or more")
        give_up_s = self._clock.monotonic_s() + wait_s
        try:
            held = self._timed(self._function.acquire)
            while not (held["phase"] == "running" and _says_so(answers)):
                if self._clock.monotonic_s() >= give_up_s or self._released.wait(_ASK_AGAIN_S):
                    raise DatabaseAsleepError(
                        f"database {self._function.database!r} is {held['phase']} after {wait_s:g} s; a boot takes half"
                        " a minute on AWS: wait for longer (wait_s), or see why its node does not answer"
                    )
                with suppress(TransientError):  # it is asked again, and the lease holds for a minute
                    held = self._timed(self._function.keep)
            if self._released.is_set():
                raise DatabaseAsleepError(f"nobody waits for database {self._function.database!r} any more")
        except BaseException:
            self.release()
            raise
        self._thread = threading.Thread(target=self._keep, name=f"lease {self._function.database}", daemon=True)
        self._thread.start()

    def give_up(self) -> None:
        """Have the lease given back that another thread waits for, or has taken just now."""
        self._is_given_up = True
        self._released.set()

    def end(self) -> None:
        """Have `check` refuse everything from now on."""
        self._released.set()

    def release(self) -> None:
        """Give the lease back; if that fails, it runs out by itself."""
        self._released.set()
        if self._thread is not None:
            self._thread.join()
        self._let_go()

    def _timed(self, call: Callable[[int], DatabaseHeld]) -> DatabaseHeld:
        """Take or extend the lease; it holds from before the call."""
        asked_at = instant(self._clock)
        held = call(LEASE_S)
        self._held_since = asked_at
        return held

    def _has_run_out(self) -> bool:
        return self._held_since is None or seconds_since(self._clock, self._held_since) > LEASE_S

    def _keep(self) -> None:
        while not self._released.wait(_BEAT_S):
            try:
                self._timed(self._function.keep)
            except LeaseLostError as error:
                self._lost = error
                return
            except Exception as error:  # the next beat tries again; `check` knows when the lease has run out
                logger().warning("a lease could not be extended: %s", error)
        if self._is_given_up:  # else the holder itself lets go
            self._let_go()

    def _let_go(self) -> None:
        if os.getpid() != self._process:  # the child of a fork leaves the `with`: its parent holds the lease
            return
        try:
            self._function.release()
        except BurstcacheError as error:
            logger().warning("a lease is left to run out: %s", error)


def _says_so(answers: Callable[[], bool]) -> bool:
    """Whether a database answers; what passes by itself, such as a password that is not given right now, is a no."""
    with suppress(TransientError):
        return answers()
    return False
