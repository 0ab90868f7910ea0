"""Hit counter: buffers reads served from memory, by key, until they are reported to the keys' policies."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from burstcache.adapters.clock import Clock
from burstcache.core.policy import RecordedRequest as Read
from burstcache.web.entry import Entry
from burstcache.web.request import Request

_READS_PER_KEY = 8  # the most recent: no policy of the thesis's configurator looks back further
_MOST_KEYS = 4096
_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """Memory hits (GETs) of one key: the most recent ones, in chronological order."""

    key: str
    hash: str
    etag: str
    size_bytes: int
    reads: deque[Read] = field(default_factory=lambda: deque(maxlen=_READS_PER_KEY))


class HitCounter:
    """A thread-safe counter of memory hits, to be flushed about once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._served: dict[str, Served] = {}
        self._since_s = 0.0  # start of the current one-second window
        self._lock = threading.Lock()

    def record(self, request: Request, entry: Entry) -> bool:
        """Count a hit. Return True, about once a second, if the caller should flush the counter."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if not self._served:
                self._since_s = now_s
            served = self._served.get(request.hash)
            if served is None:
                if len(self._served) >= _MOST_KEYS:  # never flushed: only demand statistics are lost
                    self._served.clear()
                served = self._served[request.hash] = Served(request.key, request.hash, entry.etag, entry.size_bytes)
            served.reads.append(Read(request.at_us, request.request_id))
            if now_s - self._since_s < _EVERY_S:
                return False
            self._since_s = now_s  # only one caller should flush
            return True

    def take(self) -> list[Served]:
        """Return the hits since the last call, and reset the counter."""
        with self._lock:
            taken, self._served = self._served, {}
        return list(taken.values())
