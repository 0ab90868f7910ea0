"""Leases for computations. They are renewed while a computation runs, and expire soon after its process ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from burstcache.forks import new_lock
from burstcache.logs import logger
from burstcache.results.layers import SharedLayer

LEASE_MS = 3000
OPEN_MS = 1000  # after an uncacheable result, all callers may compute in parallel for this long
_RENEW_EVERY_S = LEASE_MS / 3000


class Renewals:
    """Renews leases every second, in a thread that sleeps while there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition(new_lock(self))
        self._renewals: dict[object, Callable[[], object]] = {}
        self._has_thread = False

    def begin(self, renew: Callable[[], object]) -> object:
        """Call `renew` every second from now on, and return a handle for `end`."""
        handle = object()
        with self._changed:
            self._renewals[handle] = renew
            if not self._has_thread:
                self._has_thread = self._start()
            self._changed.notify()
        return handle

    def end(self, handle: object) -> None:
        """Stop renewing a lease."""
        with self._changed:
            self._renewals.pop(handle, None)

    def after_fork(self) -> None:
        """Drop the parent's renewals."""
        self._changed = threading.Condition(new_lock(self))
        self._renewals = {}
        self._has_thread = False

    def _start(self) -> bool:
        """Start the thread. On failure return False. Leases then expire, and other environments also compute."""
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
                handles = set(self._renewals)
                self._changed.wait_for(lambda: False, _RENEW_EVERY_S)
                due = [renew for handle, renew in self._renewals.items() if handle in handles]
            for renew in due:
                try:
                    renew()
                except Exception as error:  # any error; other leases are renewed now, and this one in a second
                    logger().warning("results: a lease is not renewed", reason=str(error))


class ComputationLease:
    """A lease to compute one result, granted by a store to one environment at a time.

    The lease is open for a second after an uncacheable result. While it is open or the store is down, every environment
    may compute.
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
        """Take the lease if it is free, and return the bytes stored at the key."""
        answer = self.layer.call(
            self._store.take_lease, self.key, self._token, lease_ms=LEASE_MS, most_bytes=self._most_bytes
        )
        self.is_mine, self.is_open, data = answer or (False, True, None)
        return data

    def renew(self) -> None:
        """Extend the lease."""
        self.layer.call(self._store.renew_lease, self.key, self._token, lease_ms=LEASE_MS)

    def give_back(self) -> None:
        """Release the lease after the result was stored or found."""
        self._return(0)

    def open(self) -> None:
        """Release the lease without a result, and let every environment compute for a second."""
        self._return(OPEN_MS)

    def _return(self, open_ms: int) -> None:
        if self.is_mine:
            self.layer.call(self._store.return_lease, self.key, self._token, open_ms=open_ms)
