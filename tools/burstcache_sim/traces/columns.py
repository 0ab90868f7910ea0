"""Columns of requests, which take 20 bytes per request while reading and at most 32 while sorting.

Logs with truncated responses take 8 more bytes per request for the bytes sent. Logs with ranges take another 8 for
object sizes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.ranges import (
    UNKNOWN_BYTES,
    ResponseContent,
    is_length_only,
    join_key,
    min_object_bytes,
    split_key,
)
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 20  # rows at a time, so that numpy's temporary arrays stay small
NOT_SAMPLED = -1
MAX_REQUESTS = 2**32 - 1  # because the sort order of a trace takes four bytes per request


class Columns:
    """Arrival, key and size of every request for a sampled key, in read order.

    The columns for bytes sent and object sizes are allocated when a value first differs from the request's size.
    """

    def __init__(self, threshold: Threshold | None = None) -> None:
        self.threshold = threshold or Threshold()
        self.ids: dict[bytes, int] = {}
        self.requests = 0  # including keys that are not sampled
        self.numbering = 0  # version of the ids, incremented when ids change
        self._arrivals_us = array("q")
        self._key_ids = array("i")
        self._sizes_bytes = array("q")
        self._sent_bytes: array[int] | None = None
        self._object_bytes: array[int] | None = None

    @classmethod
    def of(
        cls,
        keys: Iterable[bytes],
        arrivals_us: NDArray[Any],
        key_ids: NDArray[Any],
        sizes_bytes: NDArray[Any],
        sent_bytes: NDArray[Any] | None = None,
        object_bytes: NDArray[Any] | None = None,
    ) -> Self:
        """Build columns from requests and their keys. A key's id is its index."""
        columns = cls()
        columns.ids = {key: number for number, key in enumerate(keys)}
        columns.extend(arrivals_us, key_ids, sizes_bytes, sent_bytes, object_bytes)
        return columns

    def arrays(self) -> list[NDArray[Any] | None]:
        """Return views of arrivals, ids, sizes, bytes sent and object sizes.

        The last two are None if they equal the sizes. Callers must not add requests while a view exists.
        """
        import numpy as np

        columns: tuple[tuple[array[int] | None, type[Any]], ...] = (
            (self._arrivals_us, np.int64),
            (self._key_ids, np.int32),
            (self._sizes_bytes, np.int64),
            (self._sent_bytes, np.int64),
            (self._object_bytes, np.int64),
        )
        return [None if column is None else np.frombuffer(column, dtype) for column, dtype in columns]

    def __len__(self) -> int:
        return len(self._arrivals_us)

    def id_of(self, key: bytes) -> int:
        """Return a key's id, assigned on first use, or `NOT_SAMPLED`. An object's pieces are sampled together."""
        if (id_ := self.ids.get(key)) is not None:
            return id_
        is_sampled = self.threshold.has(split_key(key)[0])
        return self.ids.setdefault(key, len(self.ids)) if is_sampled else NOT_SAMPLED

    def add(self, arrival_us: int, name: bytes, content: ResponseContent) -> None:
        """Add a request for an object or one of its pieces."""
        self.requests += 1
        if (id_ := self.id_of(join_key(name, content.piece))) != NOT_SAMPLED:
            self._add_columns(content.sent_bytes != UNKNOWN_BYTES, content.object_bytes != UNKNOWN_BYTES)
            self._arrivals_us.append(arrival_us)
            self._key_ids.append(id_)
            self._sizes_bytes.append(content.size_bytes)
            if self._sent_bytes is not None:
                self._sent_bytes.append(content.sent_bytes)
            if self._object_bytes is not None:
                self._object_bytes.append(content.object_bytes)
            self._limit_requests()

    def extend(
        self,
        arrivals_us: NDArray[Any],
        key_ids: NDArray[Any],
        sizes_bytes: NDArray[Any],
        sent_bytes: NDArray[Any] | None = None,
        object_bytes: NDArray[Any] | None = None,
    ) -> None:
        """Add requests. Requests with the id `NOT_SAMPLED` are only counted."""
        self._append(arrivals_us, key_ids, sizes_bytes, sent_bytes, object_bytes)
        self._limit_requests()

    def _append(self, arrivals_us: NDArray[Any], key_ids: NDArray[Any], *amounts: NDArray[Any] | None) -> None:
        import numpy as np

        self.requests += len(key_ids)
        sampled = key_ids != NOT_SAMPLED
        columns = [arrivals_us, key_ids, *amounts]
        if not sampled.all():
            columns = [None if column is None else column[sampled] for column in columns]
        self._add_columns(*(column is not None and bool((column != UNKNOWN_BYTES).any()) for column in columns[3:]))
        own = (self._arrivals_us, self._key_ids, self._sizes_bytes, self._sent_bytes, self._object_bytes)
        for column, more in zip(own, columns, strict=True):
            if column is not None:
                added = np.full(int(sampled.sum()), UNKNOWN_BYTES, np.int64) if more is None else more
                column.frombytes(added.tobytes())

    def _add_columns(self, has_sent: bool, has_objects: bool) -> None:
        """Add the columns for bytes sent and object sizes if needed, with unknown values for earlier requests."""
        if has_sent and self._sent_bytes is None:
            self._sent_bytes = array("q", (UNKNOWN_BYTES,)) * len(self)
        if has_objects and self._object_bytes is None:
            self._object_bytes = array("q", (UNKNOWN_BYTES,)) * len(self)

    def merge(self, other: Columns, first_us: int | None = None, last_us: int | None = None) -> int:
        """Append other columns' requests within a time span [us]. Return the number of requests outside the span."""
        import numpy as np

        if other.threshold.below < self.threshold.below:
            self._lower_threshold(other.threshold.below)
        arrivals_us, key_ids, *amounts = other.arrays()
        assert arrivals_us is not None
        assert key_ids is not None
        self.requests += other.requests - len(other)
        outside = 0
        if first_us is not None or last_us is not None:
            inside = arrivals_us >= (first_us or 0)
            if last_us is not None:
                inside &= arrivals_us < last_us
            outside = len(other) - int(inside.sum())
            arrivals_us, key_ids = arrivals_us[inside], key_ids[inside]
            amounts = [None if column is None else column[inside] for column in amounts]
        numbers, first = np.unique(key_ids, return_index=True)
        keys = list(other.ids)
        ids = np.full(len(keys), NOT_SAMPLED, np.int32)
        for number in numbers[np.argsort(first)].tolist():  # ordered by first request
            ids[number] = self.id_of(keys[number])
        for chunk in _chunks(len(key_ids)):
            parts = (None if column is None else column[chunk] for column in amounts)
            self._append(arrivals_us[chunk], ids[key_ids[chunk]], *parts)
        self._limit_requests()
        return outside

    def _limit_requests(self) -> None:
        """Halve the sampled share of the keys until the number of requests is within the limit."""
        limit = self.threshold.most_requests
        while limit is not None and len(self) > limit and len(self.ids) > 1:
            self._lower_threshold(self.threshold.below // 2)

    def _lower_threshold(self, below: int) -> None:
        """Lower the threshold and remove the keys above it."""
        import numpy as np

        self.threshold = replace(self.threshold, below=below)
        keys, numbers = list(self.ids), np.full(len(self.ids), NOT_SAMPLED, np.int32)
        self.ids = {}
        for number, key in enumerate(keys):
            numbers[number] = self.id_of(key)
        key_ids = numbers[np.frombuffer(self._key_ids, np.int32)]
        self._keep(key_ids != NOT_SAMPLED, key_ids)
        self.numbering += 1

    def _keep(self, kept: NDArray[Any], key_ids: NDArray[Any]) -> None:
        """Keep only the requests that a mask selects. `key_ids` has the new id for each request, kept or not."""
        arrivals_us, _, sizes_bytes, sent_bytes, object_bytes = self.arrays()
        assert arrivals_us is not None
        assert sizes_bytes is not None
        self._key_ids = _array("i", key_ids[kept])
        self._arrivals_us = _array("q", arrivals_us[kept])
        self._sizes_bytes = _array("q", sizes_bytes[kept])
        if sent_bytes is not None:
            self._sent_bytes = _array("q", sent_bytes[kept])
        if object_bytes is not None:
            self._object_bytes = _array("q", object_bytes[kept])

    def first_us(self) -> int:
        """Return the earliest arrival [us]."""
        import numpy as np

        return int(np.frombuffer(self._arrivals_us, dtype=np.int64).min())

    def last_us(self) -> int:
        """Return the latest arrival [us]."""
        import numpy as np

        return int(np.frombuffer(self._arrivals_us, dtype=np.int64).max())

    def middle_us(self) -> int:
        """Return the approximate median of the arrivals [us], from a sample of at most a million."""
        import numpy as np

        arrivals_us = np.frombuffer(self._arrivals_us, dtype=np.int64)
        sample_us = arrivals_us[:: 1 + len(arrivals_us) // _CHUNK]
        return int(np.partition(sample_us, len(sample_us) // 2)[len(sample_us) // 2])

    def keep_span(self, earliest_us: int, latest_us: int) -> int:
        """Remove the requests outside a time span. Return the number of removed requests."""
        import numpy as np

        arrivals_us = np.frombuffer(self._arrivals_us, dtype=np.int64)
        kept = (arrivals_us >= earliest_us) & (arrivals_us <= latest_us)
        removed = len(kept) - int(kept.sum())
        self.requests -= removed
        numbers = np.unique(np.frombuffer(self._key_ids, np.int32)[kept])
        keys = list(self.ids)
        self.ids = {keys[number]: place for place, number in enumerate(numbers.tolist())}
        places = np.zeros(len(keys), np.int32)
        places[numbers] = np.arange(len(numbers), dtype=np.int32)
        self._keep(kept, places[np.frombuffer(self._key_ids, np.int32)])
        return removed

    def counts(self) -> NDArray[Any]:
        """Return each key's number of requests."""
        import numpy as np

        key_ids = np.frombuffer(self._key_ids, dtype=np.int32)
        counts = np.zeros(len(self.ids), dtype=np.int64)
        for chunk in _chunks(len(key_ids)):
            counts += np.bincount(key_ids[chunk], minlength=len(counts))
        return counts

    def fill_in_sizes(self) -> int:
        """Fill in unknown sizes. Return the number of keys without a known size.

        A request gets the largest known size of its key, or else the mean size of the other keys. Unknown bytes sent
        default to the request's size. A piece's object gets the largest size that follows from any of the object's
        requests. If no size is known at all, nothing is filled in.
        """
        import numpy as np

        _, key_ids, sizes_bytes, sent_bytes, object_bytes = self.arrays()
        assert key_ids is not None
        assert sizes_bytes is not None
        largest = self._largest(sizes_bytes)
        is_known = largest != UNKNOWN_BYTES
        if is_known.any():
            largest[~is_known] = round(float(largest[is_known].mean()))
            for chunk in _chunks(len(sizes_bytes)):
                _fill_in(sizes_bytes[chunk], largest[key_ids[chunk]])
                if sent_bytes is not None:
                    _fill_in(sent_bytes[chunk], sizes_bytes[chunk])
            if object_bytes is None and any(map(self._is_piece, self.ids)):
                self._add_columns(has_sent=False, has_objects=True)
                object_bytes = self.arrays()[4]
            if object_bytes is not None:
                objects = self._objects(self._largest(object_bytes), largest)
                for chunk in _chunks(len(sizes_bytes)):
                    object_bytes[chunk] = np.maximum(objects[key_ids[chunk]], sizes_bytes[chunk])
        return int(np.count_nonzero(~is_known))

    def _largest(self, amounts: NDArray[Any]) -> NDArray[Any]:
        """Return each key's largest amount."""
        import numpy as np

        key_ids = np.frombuffer(self._key_ids, np.int32)
        largest = np.full(len(self.ids), UNKNOWN_BYTES, np.int64)
        for chunk in _chunks(len(amounts)):
            np.maximum.at(largest, key_ids[chunk], amounts[chunk])
        return largest

    def _objects(self, known_bytes: NDArray[Any], sizes_bytes: NDArray[Any]) -> NDArray[Any]:
        """Return the size of each key's object: the maximum of its known sizes, its keys' sizes, and its range ends."""
        import numpy as np

        numbers: dict[bytes, int] = {}
        object_ids = np.array([numbers.setdefault(split_key(key)[0], len(numbers)) for key in self.ids])
        objects = np.full(len(numbers), UNKNOWN_BYTES, np.int64)
        np.maximum.at(objects, object_ids, known_bytes)
        np.maximum.at(objects, object_ids, sizes_bytes)
        np.maximum.at(objects, object_ids, [min_object_bytes(split_key(key)[1]) for key in self.ids])
        largest: NDArray[Any] = objects[object_ids]
        return largest

    @staticmethod
    def _is_piece(key: bytes) -> bool:
        return split_key(key)[1] != b""

    def range_requests(self, key_id: int | None = None) -> tuple[int, int]:
        """Count the requests for pieces, of one key or all keys, and the subset that has a length but no offset."""
        pieces = [
            (id_, split_key(key)[1]) for key, id_ in self.ids.items() if self._is_piece(key) and key_id in (None, id_)
        ]
        if not pieces:
            return 0, 0
        counts = self.counts()
        return (
            sum(int(counts[id_]) for id_, _ in pieces),
            sum(int(counts[id_]) for id_, piece in pieces if is_length_only(piece)),
        )

    def unsized_ranges(self, key_id: int | None = None) -> int:
        """Count the requests, of one key or all keys, for pieces of objects without a size in any row.

        Call this before `fill_in_sizes`.
        """
        _, _, sizes_bytes, _, object_bytes = self.arrays()
        assert sizes_bytes is not None
        pieces = [split_key(key) for key in self.ids]
        if not any(piece for _, piece in pieces):
            return 0
        wholes = self._largest(sizes_bytes)
        objects = wholes * 0 + UNKNOWN_BYTES if object_bytes is None else self._largest(object_bytes)
        sized = {
            name
            for (name, piece), whole, object_ in zip(pieces, wholes.tolist(), objects.tolist(), strict=True)
            if object_ != UNKNOWN_BYTES or (not piece and whole != UNKNOWN_BYTES)
        }
        counts = self.counts().tolist()
        return sum(
            counts[id_]
            for id_, (name, piece) in enumerate(pieces)
            if piece and name not in sized and key_id in (None, id_)
        )

    def take_trace(
        self, names: tuple[str, ...], *, origin_us: int, key_id: int | None, has_keys: bool, has_sizes: bool = True
    ) -> Trace:
        """Move the requests into a trace, stably sorted by arrival.

        Args:
            names: The keys, by id.
            origin_us: The instant that becomes time 0 of the trace [us].
            key_id: The only key to keep, or None to keep all keys.
            has_keys: False if the log has neither keys nor sizes.
            has_sizes: False if no size is known.
        """
        columns = self.arrays()
        self._arrivals_us, self._key_ids, self._sizes_bytes = array("q"), array("i"), array("q")
        self._sent_bytes = self._object_bytes = None
        if not has_sizes:
            columns[2:] = [None, None, None]
        if key_id is not None:
            kept = columns[1] == key_id
            columns[1] = None
            names = names[key_id : key_id + 1]
            for place, column in enumerate(columns):  # one at a time, to free each old column before the next copy
                columns[place] = None if column is None else column[kept]
                del column
        arrivals_us = columns[0]
        assert arrivals_us is not None
        arrivals_us -= origin_us
        if not _is_sorted(arrivals_us):
            order = _order(arrivals_us)
            del arrivals_us
            for place in range(len(columns)):
                if (column := columns[place]) is not None:
                    columns[place] = None
                    columns[place] = _reordered(column, order)
                    del column
        arrivals_us, key_ids, sizes_bytes, sent_bytes, object_bytes = columns
        assert arrivals_us is not None
        if not has_keys:
            return Trace(arrivals_us)
        return Trace(arrivals_us, key_ids, sizes_bytes, names, None, sent_bytes, object_bytes)


def _fill_in(amounts: NDArray[Any], defaults: NDArray[Any]) -> None:
    import numpy as np

    np.copyto(amounts, defaults, where=amounts == UNKNOWN_BYTES)


def _array(code: Literal["i", "q"], values: NDArray[Any]) -> array[int]:
    copy = array(code)
    copy.frombytes(values.tobytes())
    return copy


def _chunks(length: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, length, _CHUNK)]


def _is_sorted(arrivals_us: NDArray[Any]) -> bool:
    earlier, later = arrivals_us[:-1], arrivals_us[1:]
    return all(bool((earlier[chunk] <= later[chunk]).all()) for chunk in _chunks(len(earlier)))


def _order(arrivals_us: NDArray[Any]) -> NDArray[Any]:
    """Return the permutation that sorts the requests by arrival."""
    import numpy as np

    if len(arrivals_us) > MAX_REQUESTS:
        raise InvalidSettingError(f"{len(arrivals_us)} requests: a trace holds at most {MAX_REQUESTS}")
    return np.argsort(arrivals_us, kind="stable").astype(np.uint32)


def _reordered(column: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    reordered = np.empty_like(column)
    for chunk in _chunks(len(column)):
        reordered[chunk] = column[order[chunk]]
    return reordered
