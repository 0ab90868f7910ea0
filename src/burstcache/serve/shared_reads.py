"""Reads below memory that are under way: one that comes meanwhile waits for them, as for an entry about to arrive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from burstcache.serve.memory_tier import Ticket
from burstcache.web.response import Response


@dataclass(frozen=True, slots=True, eq=False)
class SharedRead:
    """One read: what was known before it began, and its answer, None if it was broken off."""

    ticket: Ticket
    answer: Future[Response | None] = field(default_factory=Future)


class SharedReads:
    """The newest read of each key. Threads may share it."""

    def __init__(self) -> None:
        """Know of none."""
        self._reads: dict[str, SharedRead] = {}
        self._lock = threading.Lock()

    def join(self, hash_: str, ticket: Ticket, may_follow: Callable[[Ticket], bool]) -> tuple[SharedRead, bool]:
        """Return the read under way that may be followed, or one that begins; and whether it is the caller's to do.

        Args:
            hash_: The key's.
            ticket: What the caller knows now.
            may_follow: Whether a read with this ticket is fresh enough for the caller.
        """
        with self._lock:
            read = self._reads.get(hash_)
            if read is not None and may_follow(read.ticket):
                return read, False
            mine = self._reads[hash_] = SharedRead(ticket)
            return mine, True

    def end(self, hash_: str, read: SharedRead, answer: Response | None) -> None:
        """Answer those that follow the caller's read."""
        with self._lock:
            if self._reads.get(hash_) is read:
                del self._reads[hash_]
        read.answer.set_result(answer)

    def forget(self, hash_: str) -> None:
        """Let nobody else follow what is under way of a key."""
        with self._lock:
            self._reads.pop(hash_, None)
