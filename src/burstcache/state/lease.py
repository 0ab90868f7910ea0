"""A lease on a database, renewed by a thread until it is released."""

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
_RENEW_S = 15.0  # three renewals may fail before the lease expires
_POLL_S = 0.2  # while the database starts


def new_holder() -> str:
    """Return a unique name for a holder."""
    return f"client-{uuid.uuid4().hex}"


class HeldLease:
    """A lease that `acquire` takes, and that a thread renews until its release.

    Args:
        function: Client of the state function, for one holder of one database.
        clock: Clock for the lease's expiry.
    """

    def __init__(self, function: StateFunction, clock: Clock) -> None:
        self._function = function
        self._clock = clock
        self._process = os.getpid()
        self._released = threading.Event()
        self._is_given_up = False
        self._thread: threading.Thread | None = None
        self._held_since: Instant | None = None
        self._host = ""
        self._lost: LeaseLostError | None = None

    def check(self) -> None:
        """Raise LeaseLostError once the lease is lost or released. Called before each connection and command."""
        if self._released.is_set():
            raise LeaseLostError(
                f"the lease on database {self._function.database!r} was released: use a client only within its `with`"
            )
        if self._lost is None and self._has_expired():
            # The thread was not scheduled, as in a frozen Lambda environment.
            self._lost = LeaseLostError(
                f"the lease on database {self._function.database!r} has expired: this process was suspended for longer"
                f" than {LEASE_S} s"
            )
        if self._lost is not None:
            raise self._lost

    def acquire(self, *, wait_s: float, answers: Callable[[str], bool]) -> str:
        """Take the lease, and return the database's address once it runs, empty on EC2.

        Args:
            wait_s: Maximum wait [s], 0 or more.
            answers: Returns True if Redis responds at an address. Polled as soon as the node runs.

        Raises:
            DatabaseAsleepError: The database does not start in time. The lease is released.
            NodeFailedError: The database cannot be started.
            InvalidSettingError: `wait_s` is negative or not a number.
        """
        if not (isinstance(wait_s, (int, float)) and wait_s >= 0):
            raise InvalidSettingError(f"wait_s={wait_s!r}; accepted: seconds, 0 or more")
        give_up_s = self._clock.monotonic_s() + wait_s
        try:
            held = self._timed(self._function.acquire)
            while not (held["phase"] == "running" and _responds(answers, held.get("host", ""))):
                if self._clock.monotonic_s() >= give_up_s or self._released.wait(_POLL_S):
                    raise DatabaseAsleepError(
                        f"database {self._function.database!r} is {held['phase']} after {wait_s:g} s; a boot takes half"
                        " a minute on AWS: increase wait_s, or check why its node does not answer"
                    )
                with suppress(TransientError):  # the next poll retries, and the lease lasts for a minute
                    held = self._timed(self._function.renew)
            if self._released.is_set():
                raise DatabaseAsleepError(f"the wait for database {self._function.database!r} was cancelled")
        except BaseException:
            self.release()
            raise
        self._host = held.get("host", "")
        self._thread = threading.Thread(
            target=self._renew_regularly, name=f"lease {self._function.database}", daemon=True
        )
        self._thread.start()
        return self._host

    def give_up(self) -> None:
        """Cancel another thread's `acquire`. If that thread still acquires the lease, it releases the lease."""
        self._is_given_up = True
        self._released.set()

    def end(self) -> None:
        """Make `check` raise from now on."""
        self._released.set()

    def release(self) -> None:
        """Release the lease. If that fails, the lease expires by itself."""
        self._released.set()
        if self._thread is not None:
            self._thread.join()
        self._release()

    def _timed(self, call: Callable[[int], DatabaseHeld]) -> DatabaseHeld:
        """Take or renew the lease. The lease's term counts from the start of the call."""
        called_at = instant(self._clock)
        held = call(LEASE_S)
        self._held_since = called_at
        return held

    def _has_expired(self) -> bool:
        return self._held_since is None or seconds_since(self._clock, self._held_since) > LEASE_S

    def _renew_regularly(self) -> None:
        while not self._released.wait(_RENEW_S):
            try:
                held = self._timed(self._function.renew)
                if held.get("host", "") != self._host:
                    raise LeaseLostError(f"database {self._function.database!r} has been started again elsewhere")
            except LeaseLostError as error:
                self._lost = error
                return
            except Exception as error:  # the next renewal retries, and `check` detects an expired lease
                logger().warning("a lease was not renewed: %s", error)
        if self._is_given_up:  # otherwise the holder itself releases the lease
            self._release()

    def _release(self) -> None:
        if os.getpid() != self._process:  # a forked child leaves the `with`, but the lease belongs to the parent
            return
        try:
            self._function.release()
        except BurstcacheError as error:
            logger().warning("a lease was not released, and expires by itself: %s", error)


def _responds(answers: Callable[[str], bool], host: str) -> bool:
    """Return True if a database responds. Return False on a transient error, such as a missing password."""
    with suppress(TransientError):
        return answers(host)
    return False
