"""How old an answer may be, checked in one pass over a history: for writes of which copies hear later, and for memory.

Which of two writes is the newer one is known if one began after the other was acknowledged. Of writes that overlapped,
and of an object that is not there after several deletes, the order is taken that excuses most. So what is found is a
violation whatever the order was; the other checker (`checker/`) finds what depends on it.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from consistency.history import Operation

_BEGINNING = Operation("", "delete", "", None, -1, -1)  # before its first write an object is not there


@dataclass(frozen=True, slots=True)
class Violation:
    """A read that should have seen something newer, and the operations that show it, in the order of their starts."""

    rule: str
    history: tuple[Operation, ...]
    by_us: float  # how much too old it was


class _Writes:
    """The writes of one key."""

    def __init__(self, writes: Sequence[Operation]) -> None:
        self._of = {each.value: each for each in writes if each.kind == "write"}
        self._deletes = sorted((each for each in writes if each.kind == "delete"), key=lambda each: each.start_us)
        self._latest_delete = [_BEGINNING]  # to end, among the first n
        for delete in self._deletes:
            self._latest_delete.append(max(self._latest_delete[-1], delete, key=_end))
        known = sorted((each for each in writes if each.is_known), key=lambda each: each.start_us)
        self._starts = [each.start_us for each in known]
        self._first_acknowledged: list[Operation] = []  # among those from the nth on
        for each in reversed(known):
            first = self._first_acknowledged[-1:] or [each]
            self._first_acknowledged.append(min(first[0], each, key=_end))
        self._first_acknowledged.reverse()

    def seen_by(self, read: Operation) -> Operation | None:
        """Return the write whose value a read has; None if nobody wrote it."""
        if read.value is not None:
            write = self._of.get(read.value)
            return None if write is None or write.start_us > read.end_us else write
        before = bisect_right(self._deletes, read.end_us, key=lambda each: each.start_us)
        return self._latest_delete[before]

    def first_newer(self, write: Operation) -> Operation | None:
        """Return the first acknowledged write among those that began after another had ended."""
        at = bisect_right(self._starts, _end(write)) if _end(write) < math.inf else len(self._starts)
        return self._first_acknowledged[at] if at < len(self._starts) else None


def violations(
    history: Iterable[Operation], *, stale_us: Callable[[Operation], float], forward: Callable[[Operation], bool]
) -> Iterator[Violation]:
    """Yield the reads of a history that were too old.

    Args:
        history: Operations on any keys, in any order.
        stale_us: By how much a read may begin after the acknowledgement of a newer write than it saw [us]; infinite:
            at any time.
        forward: Whether a read counts among those of which no client may see an older write than before.
    """
    of_keys: defaultdict[str, tuple[list[Operation], list[Operation]]] = defaultdict(lambda: ([], []))
    for operation in history:
        if operation.is_write:
            of_keys[operation.key][0].append(operation)
        elif operation.kind == "read" and operation.is_known:
            of_keys[operation.key][1].append(operation)
    for writes, reads in of_keys.values():
        known = _Writes(writes)
        reads.sort(key=lambda each: each.start_us)
        yield from _too_old(known, reads, stale_us)
        yield from _backwards(known, [each for each in reads if forward(each)])


def _too_old(
    writes: _Writes, reads: Iterable[Operation], stale_us: Callable[[Operation], float]
) -> Iterator[Violation]:
    for read in reads:
        seen = writes.seen_by(read)
        if seen is None:
            yield Violation("a value that nobody wrote", (read,), math.inf)
            continue
        newer = writes.first_newer(seen)
        if newer is not None and (late_us := read.start_us - newer.end_us - stale_us(read)) > 0:
            yield Violation("older than allowed", (seen, newer, read), late_us)


def _backwards(writes: _Writes, reads: Iterable[Operation]) -> Iterator[Violation]:
    of_clients: defaultdict[str, list[Operation]] = defaultdict(list)
    for read in reads:
        of_clients[read.client].append(read)
    for own in of_clients.values():
        newest: tuple[Operation, Operation] | None = None  # the write that began last of those seen, and by which read
        under_way: list[tuple[int, int]] = []
        for place, read in enumerate(own):
            while under_way and under_way[0][0] < read.start_us:
                earlier = own[heapq.heappop(under_way)[1]]
                before = writes.seen_by(earlier)
                if before is not None and (newest is None or before.start_us > newest[0].start_us):
                    newest = before, earlier
            seen = writes.seen_by(read)
            if seen is not None and newest is not None and newest[0].start_us > _end(seen):
                history = sorted((seen, newest[0], newest[1], read), key=lambda each: each.start_us)
                yield Violation("backwards for one reader", tuple(history), read.start_us - newest[1].end_us)
            heapq.heappush(under_way, (read.end_us, place))


def _end(operation: Operation) -> float:
    """Return when an operation was over at the latest [us]."""
    return operation.end_us if operation.is_known else math.inf
