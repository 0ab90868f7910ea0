"""What a reader's memory served, by key, until it is passed on to where the keys' lives are judged."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from burstcache.adapters.clock import Clock
from burstcache.core.policy import Request as Read
from burstcache.web.entry import Entry
from burstcache.web.request import Request

_TOLD_PER_KEY = 8  # the newest ones: more than a policy of the configurator looks back on
_MOST_KEYS = 4096
_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """GETs of one key that a memory served: the newest ones, oldest first."""

    key: str
    hash: str
    etag: str
    size_bytes: int
    reads: deque[Read] = field(default_factory=lambda: deque(maxlen=_TOLD_PER_KEY))


class Tally:
    """Collects hits for a second. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._served: dict[str, Served] = {}
        self._since_s = 0.0  # of the first hit that has not been taken
        self._lock = threading.Lock()

    def note(self, request: Request, entry: Entry) -> bool:
        """Count a hit; return whether it is time to tell: a second after the first one."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if not self._served:
                self._since_s = now_s
            served = self._served.get(request.hash)
            if served is None:
                if len(self._served) >= _MOST_KEYS:  # nobody took them: heat is lost, nothing else
                    self._served.clear()
                served = self._served[request.hash] = Served(request.key, request.hash, entry.etag, entry.size_bytes)
            served.reads.append(Read(request.at_us, request.request_id))
            if now_s - self._since_s < _EVERY_S:
                return False
            self._since_s = now_s  # one caller is enough
            return True

    def take(self) -> list[Served]:
        """Return what was counted since the last time."""
        with self._lock:
            taken, self._served = self._served, {}
        return list(taken.values())
