"""Leases of what is computed: they hold for as long as that takes, and end soon after their process does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from burstcache.forks import new_lock
from burstcache.logs import logger
from burstcache.results.layers import SharedLayer

LEASE_MS = 3000
OPEN_MS = 1000  # when nothing was kept, those who wait compute at once, without waiting for each other
_RENEW_EVERY_S = LEASE_MS / 3000


class Renewals:
    """Renews leases every second, in a thread that sleeps while there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition(new_lock(self))
        self._renewals: dict[object, Callable[[], object]] = {}
        self._has_thread = False

    def begin(self, renew: Callable[[], object]) -> object:
        """Call `renew` every second from now on, and return what ends that."""
        handle = object()
        with self._changed:
            self._renewals[handle] = renew
            if not self._has_thread:
                self._has_thread = self._start()
            self._changed.notify()
        return handle

    def end(self, handle: object) -> None:
        """Renew that lease no more."""
        with self._changed:
            self._renewals.pop(handle, None)

    def after_fork(self) -> None:
        """Renew nothing of the parent's."""
        self._changed = threading.Condition(new_lock(self))
        self._renewals = {}
        self._has_thread = False

    def _start(self) -> bool:
        """Start the thread, and return whether there is one; without it a lease runs out, and another computes, too."""
        try:
            threading.Thread(target=self._run, name="burstcache-leases", daemon=True).start()
        except Exception as error:
            logger().warning("results: leases are not renewed", reason=str(error))
            return False
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._renewals)
                known = set(self._renewals)
                self._changed.wait_for(lambda: False, _RENEW_EVERY_S)
                due = [renew for handle, renew in self._renewals.items() if handle in known]
            for renew in due:
                try:
                    renew()
                except Exception as error:  # whatever it is, the others are renewed, and this one is again
                    logger().warning("results: a lease is not renewed", reason=str(error))


class Lease:
    """The right to compute one result, which a store gives to one environment at a time.

    If the store is down, the lease is open: everybody computes.
    """

    def __init__(self, layer: SharedLayer, key: str, most_bytes: int) -> None:
        self.layer = layer
        self.key = key
        self.is_mine = False
        self.is_open = False
        self._store: Any = layer.store
        self._most_bytes = most_bytes
        self._token = os.urandom(8).hex()

    def take(self) -> bytes | None:
        """Take it if nobody has it, and return what is kept under the key."""
        answer = self.layer.ask(
            self._store.take_lease, self.key, self._token, lease_ms=LEASE_MS, most_bytes=self._most_bytes
        )
        self.is_mine, self.is_open, data = answer or (False, True, None)
        return data

    def renew(self) -> None:
        """Hold it for longer."""
        self.layer.ask(self._store.renew_lease, self.key, self._token, lease_ms=LEASE_MS)

    def give_back(self) -> None:
        """Give it back after the result was stored, or found."""
        self._return(0)

    def open(self) -> None:
        """Give it back without a result."""
        self._return(OPEN_MS)

    def _return(self, open_ms: int) -> None:
        if self.is_mine:
            self.layer.ask(self._store.return_lease, self.key, self._token, open_ms=open_ms)
