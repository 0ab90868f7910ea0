"""Bounds on staleness, and monotonic reads, checked in one pass over a history.

A write is newer than another one if it began after the other was acknowledged. Overlapping writes, and several deletes
before a read of no object, are ordered in the reads' favour. So each finding is a violation in every order. The other
checker (`checker/`) finds the violations that depend on the order.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from consistency.history import Operation

_BEGINNING = Operation("", "delete", "", None, -1, -1)  # before its first write an object does not exist


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation: a read that should have seen a newer write, and its evidence in the order of starts."""

    rule: str
    history: tuple[Operation, ...]
    by_us: float  # excess over the bound


class _Writes:
    """The writes of one key."""

    def __init__(self, writes: Sequence[Operation]) -> None:
        self._of = {each.value: each for each in writes if each.kind == "write"}
        self._deletes = sorted((each for each in writes if each.kind == "delete"), key=lambda each: each.start_us)
        self._latest_delete = [_BEGINNING]  # the last to end, among the first n
        for delete in self._deletes:
            self._latest_delete.append(max(self._latest_delete[-1], delete, key=_end))
        known = sorted((each for each in writes if each.is_known), key=lambda each: each.start_us)
        self._starts = [each.start_us for each in known]
        self._first_acknowledged: list[Operation] = []  # among the writes from the nth on
        for each in reversed(known):
            first = self._first_acknowledged[-1:] or [each]
            self._first_acknowledged.append(min(first[0], each, key=_end))
        self._first_acknowledged.reverse()

    def seen_by(self, read: Operation) -> Operation | None:
        """Return the write that a read saw; None if nobody wrote its value."""
        if read.value is not None:
            write = self._of.get(read.value)
            return None if write is None or write.start_us > read.end_us else write
        before = bisect_right(self._deletes, read.end_us, key=lambda each: each.start_us)
        return self._latest_delete[before]

    def first_newer(self, write: Operation) -> Operation | None:
        """Return the first acknowledged write of those that began after another one had ended."""
        at = bisect_right(self._starts, _end(write)) if _end(write) < math.inf else len(self._starts)
        return self._first_acknowledged[at] if at < len(self._starts) else None


def violations(
    history: Iterable[Operation], *, stale_us: Callable[[Operation], float], forward: Callable[[Operation], bool]
) -> Iterator[Violation]:
    """Yield the violations of a history: stale reads and reads that are not monotonic.

    Args:
        history: Operations on any keys, in any order.
        stale_us: Greatest staleness of a read: the time from the acknowledgement of a newer write to its start [us];
            infinite: unbounded.
        forward: Whether a read belongs to its client's monotonic reads.
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
        yield from _not_monotonic(known, [each for each in reads if forward(each)])


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


def _not_monotonic(writes: _Writes, reads: Iterable[Operation]) -> Iterator[Violation]:
    of_clients: defaultdict[str, list[Operation]] = defaultdict(list)
    for read in reads:
        of_clients[read.client].append(read)
    for own in of_clients.values():
        newest: tuple[Operation, Operation] | None = None  # the newest write seen, and its read
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
                yield Violation("not monotonic for one reader", tuple(history), read.start_us - newest[1].end_us)
            heapq.heappush(under_way, (read.end_us, place))


def _end(operation: Operation) -> float:
    """Return the latest possible end of an operation [us]."""
    return operation.end_us if operation.is_known else math.inf
