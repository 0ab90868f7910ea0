"""Reads of one key at the same time, which share what they read.

One that memory could serve follows the read below memory that is under way, as it would wait for an entry about to
arrive. Of the others that have to ask S3 each shares a read of it that begins later: what is under way may carry an
older version than a write that was acknowledged meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from burstcache.adapters.clock import Clock
from burstcache.serve.memory_tier import Ticket
from burstcache.web.response import Response

# The next read of S3 begins so long after its first reader came, even if the one under way has not ended: a slow S3
# makes no read later by more, and a key that everybody reads is read 40 times a second at most.
NEXT_AFTER_S = 0.025
LEFT_AFTER_S = 4.0  # another thread's read whose connection hangs: as long as S3 is asked again for what breaks off

Answer = Future[Response | None]  # None: the read was broken off


@dataclass(frozen=True, slots=True, eq=False)
class SharedRead:
    """One read: what was known before it began, and its answer."""

    ticket: Ticket
    answer: Answer = field(default_factory=Future)


class SharedReads:
    """The newest read below memory of each key. Threads may share it."""

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


class NextReads:
    """Reads of S3 by key: while one is under way, all that come wait for the next one, and share it.

    It begins when all of them have come, so none gets an older version than a read of its own. Threads may share it.
    """

    def __init__(self, clock: Clock) -> None:
        """Know of none; `clock` is what readers wait by."""
        self._clock = clock
        self._under_way: dict[str, Answer] = {}  # the newest that has begun
        self._next: dict[str, Answer] = {}
        self._lock = threading.Lock()

    def read(self, hash_: str, ask: Callable[[], Response]) -> tuple[Response, bool]:
        """Return the answer of a read that began after this call, and whether it was the caller's to do.

        Args:
            hash_: The key's.
            ask: Reads S3.
        """
        for within_s in (LEFT_AFTER_S, None):
            with self._lock:
                before, shared = self._under_way.get(hash_), self._next.get(hash_)
                if shared is None:
                    mine: Answer = Future()
                    (self._under_way if before is None else self._next)[hash_] = mine
            if shared is None:
                return self._lead(hash_, mine, before, ask), True
            if (answer := answer_of(shared, self._clock, within_s)) is not None:
                return answer, False
        return ask(), True

    def _lead(self, hash_: str, mine: Answer, before: Answer | None, ask: Callable[[], Response]) -> Response:
        """Ask for all that came before it begins: when the read under way has ended, or takes long."""
        answer = None
        try:
            if before is not None:
                answer_of(before, self._clock, NEXT_AFTER_S)
                with self._lock:
                    self._under_way[hash_] = self._next.pop(hash_)
            answer = ask()
            return answer
        finally:
            with self._lock:
                for reads in (self._under_way, self._next):
                    if reads.get(hash_) is mine:
                        del reads[hash_]
            mine.set_result(answer)


def answer_of(read: Answer, clock: Clock, within_s: float | None) -> Response | None:
    """Return the answer of another thread's read; None: it was broken off, or is not there in time."""
    try:
        return clock.wait_for(read, within_s)
    except TimeoutError:
        return None
