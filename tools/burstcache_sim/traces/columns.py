"""Requests collected column by column: 20 bytes each while they are read, at most 32 while they are sorted.

Logs in which some answers were not sent whole take 8 bytes more for the bytes sent, and those with ranges 8 more for
the sizes of their objects.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, Answer, key_of, object_and_piece, reach_bytes, shows_no_offset
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 20  # rows handled at a time, so that what numpy sets up on the way stays small
NOT_SAMPLED = -1
MAX_REQUESTS = 2**32 - 1  # the order of a trace takes four bytes per request


class Columns:
    """Arrival, key and size of every request, in the order of reading; of sampled keys alone.

    Bytes sent and the sizes of pieces' objects are held from the first request on for which they differ from the size.
    """

    def __init__(self, threshold: Threshold | None = None) -> None:
        self.threshold = threshold or Threshold()
        self.ids: dict[bytes, int] = {}
        self.requests = 0  # of all keys
        self.numbering = 0  # changes when the ids do
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
        """Return columns with these keys, by id, and requests."""
        columns = cls()
        columns.ids = {key: number for number, key in enumerate(keys)}
        columns.extend(arrivals_us, key_ids, sizes_bytes, sent_bytes, object_bytes)
        return columns

    def arrays(self) -> list[NDArray[Any] | None]:
        """Return arrivals, ids, sizes, bytes sent and objects' sizes as they are read; nothing may be added meanwhile.

        The last two are None where they do not differ from the sizes.
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
        """Return a key's id, which it may get now, or `NOT_SAMPLED`; all pieces of an object are sampled or none."""
        if (id_ := self.ids.get(key)) is not None:
            return id_
        is_sampled = self.threshold.has(object_and_piece(key)[0])
        return self.ids.setdefault(key, len(self.ids)) if is_sampled else NOT_SAMPLED

    def add(self, arrival_us: int, name: bytes, answer: Answer) -> None:
        """Add one request for an object, or for a piece of it."""
        self.requests += 1
        if (id_ := self.id_of(key_of(name, answer.piece))) != NOT_SAMPLED:
            self._hold(answer.sent_bytes != UNKNOWN_BYTES, answer.object_bytes != UNKNOWN_BYTES)
            self._arrivals_us.append(arrival_us)
            self._key_ids.append(id_)
            self._sizes_bytes.append(answer.size_bytes)
            if self._sent_bytes is not None:
                self._sent_bytes.append(answer.sent_bytes)
            if self._object_bytes is not None:
                self._object_bytes.append(answer.object_bytes)
            self._bound()

    def extend(
        self,
        arrivals_us: NDArray[Any],
        key_ids: NDArray[Any],
        sizes_bytes: NDArray[Any],
        sent_bytes: NDArray[Any] | None = None,
        object_bytes: NDArray[Any] | None = None,
    ) -> None:
        """Add requests, those of the id `NOT_SAMPLED` by number alone."""
        self._append(arrivals_us, key_ids, sizes_bytes, sent_bytes, object_bytes)
        self._bound()

    def _append(self, arrivals_us: NDArray[Any], key_ids: NDArray[Any], *amounts: NDArray[Any] | None) -> None:
        import numpy as np

        self.requests += len(key_ids)
        sampled = key_ids != NOT_SAMPLED
        columns = [arrivals_us, key_ids, *amounts]
        if not sampled.all():
            columns = [None if column is None else column[sampled] for column in columns]
        self._hold(*(column is not None and bool((column != UNKNOWN_BYTES).any()) for column in columns[3:]))
        held = (self._arrivals_us, self._key_ids, self._sizes_bytes, self._sent_bytes, self._object_bytes)
        for column, more in zip(held, columns, strict=True):
            if column is not None:
                added = np.full(int(sampled.sum()), UNKNOWN_BYTES, np.int64) if more is None else more
                column.frombytes(added.tobytes())

    def _hold(self, has_sent: bool, has_objects: bool) -> None:
        """Begin to hold bytes sent and objects' sizes, unknown for all requests before."""
        if has_sent and self._sent_bytes is None:
            self._sent_bytes = array("q", (UNKNOWN_BYTES,)) * len(self)
        if has_objects and self._object_bytes is None:
            self._object_bytes = array("q", (UNKNOWN_BYTES,)) * len(self)

    def merge(self, other: Columns, first_us: int | None = None, last_us: int | None = None) -> int:
        """Add what was read elsewhere, of a span [us], after this; return how many requests are outside the span."""
        import numpy as np

        if other.threshold.below < self.threshold.below:
            self._lower(other.threshold.below)
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
        for number in numbers[np.argsort(first)].tolist():  # in the order of their first requests
            ids[number] = self.id_of(keys[number])
        for chunk in _chunks(len(key_ids)):
            parts = (None if column is None else column[chunk] for column in amounts)
            self._append(arrivals_us[chunk], ids[key_ids[chunk]], *parts)
        self._bound()
        return outside

    def _bound(self) -> None:
        """Halve the share of the keys as long as there are too many requests."""
        most = self.threshold.most_requests
        while most is not None and len(self) > most and len(self.ids) > 1:
            self._lower(self.threshold.below // 2)

    def _lower(self, below: int) -> None:
        """Forget the keys that a lower threshold leaves out."""
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
        """Leave out all other requests than these; `key_ids` are the new ids of all."""
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
        """Return the earliest arrival."""
        import numpy as np

        return int(np.frombuffer(self._arrivals_us, dtype=np.int64).min())

    def last_us(self) -> int:
        """Return the latest arrival."""
        import numpy as np

        return int(np.frombuffer(self._arrivals_us, dtype=np.int64).max())

    def middle_us(self) -> int:
        """Return an arrival with about half of the others before it: the middle of at most a million."""
        import numpy as np

        arrivals_us = np.frombuffer(self._arrivals_us, dtype=np.int64)
        some = arrivals_us[:: 1 + len(arrivals_us) // _CHUNK]
        return int(np.partition(some, len(some) // 2)[len(some) // 2])

    def keep_span(self, earliest_us: int, latest_us: int) -> int:
        """Leave out the requests before and after, and return how many those were."""
        import numpy as np

        arrivals_us = np.frombuffer(self._arrivals_us, dtype=np.int64)
        kept = (arrivals_us >= earliest_us) & (arrivals_us <= latest_us)
        left_out = len(kept) - int(kept.sum())
        self.requests -= left_out
        numbers = np.unique(np.frombuffer(self._key_ids, np.int32)[kept])
        keys = list(self.ids)
        self.ids = {keys[number]: place for place, number in enumerate(numbers.tolist())}
        places = np.zeros(len(keys), np.int32)
        places[numbers] = np.arange(len(numbers), dtype=np.int32)
        self._keep(kept, places[np.frombuffer(self._key_ids, np.int32)])
        return left_out

    def counts(self) -> NDArray[Any]:
        """Return the number of requests of each key."""
        import numpy as np

        key_ids = np.frombuffer(self._key_ids, dtype=np.int32)
        counts = np.zeros(len(self.ids), dtype=np.int64)
        for chunk in _chunks(len(key_ids)):
            counts += np.bincount(key_ids[chunk], minlength=len(counts))
        return counts

    def fill_in_sizes(self) -> int:
        """Fill in unknown sizes and return how many keys show none; if all of them, the sizes stay unknown.

        A request has the largest known size of its key, or else the mean of the other keys' sizes. Bytes sent that are
        unknown are as many; the object of a piece is as large as its requests, or those of the whole object, show.
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
                self._hold(has_sent=False, has_objects=True)
                object_bytes = self.arrays()[4]
            if object_bytes is not None:
                objects = self._objects(self._largest(object_bytes), largest)
                for chunk in _chunks(len(sizes_bytes)):
                    object_bytes[chunk] = np.maximum(objects[key_ids[chunk]], sizes_bytes[chunk])
        return int(np.count_nonzero(~is_known))

    def _largest(self, amounts: NDArray[Any]) -> NDArray[Any]:
        """Return the largest amount of each key."""
        import numpy as np

        key_ids = np.frombuffer(self._key_ids, np.int32)
        largest = np.full(len(self.ids), UNKNOWN_BYTES, np.int64)
        for chunk in _chunks(len(amounts)):
            np.maximum.at(largest, key_ids[chunk], amounts[chunk])
        return largest

    def _objects(self, shown: NDArray[Any], sizes_bytes: NDArray[Any]) -> NDArray[Any]:
        """Return how large each key's object is: as its pieces show, as it is as a whole, or as far as they reach."""
        import numpy as np

        numbers: dict[bytes, int] = {}
        object_ids = np.array([numbers.setdefault(object_and_piece(key)[0], len(numbers)) for key in self.ids])
        objects = np.full(len(numbers), UNKNOWN_BYTES, np.int64)
        np.maximum.at(objects, object_ids, shown)
        np.maximum.at(objects, object_ids, sizes_bytes)
        np.maximum.at(objects, object_ids, [reach_bytes(object_and_piece(key)[1]) for key in self.ids])
        largest: NDArray[Any] = objects[object_ids]
        return largest

    @staticmethod
    def _is_piece(key: bytes) -> bool:
        return object_and_piece(key)[1] != b""

    def range_requests(self, key_id: int | None = None) -> tuple[int, int]:
        """Return how many requests, of one key or all, read a piece of an object, and how many show only its length."""
        pieces = [
            (id_, object_and_piece(key)[1])
            for key, id_ in self.ids.items()
            if self._is_piece(key) and key_id in (None, id_)
        ]
        if not pieces:
            return 0, 0
        counts = self.counts()
        return (
            sum(int(counts[id_]) for id_, _ in pieces),
            sum(int(counts[id_]) for id_, piece in pieces if shows_no_offset(piece)),
        )

    def unsized_ranges(self, key_id: int | None = None) -> int:
        """Return how many requests, of one key or all, read a piece of an object whose size no row shows.

        It is asked before sizes are filled in.
        """
        _, _, sizes_bytes, _, object_bytes = self.arrays()
        assert sizes_bytes is not None
        pieces = [object_and_piece(key) for key in self.ids]
        if not any(piece for _, piece in pieces):
            return 0
        wholes = self._largest(sizes_bytes)
        shown = wholes * 0 + UNKNOWN_BYTES if object_bytes is None else self._largest(object_bytes)
        sized = {
            name
            for (name, piece), whole, object_ in zip(pieces, wholes.tolist(), shown.tolist(), strict=True)
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
        """Return the requests by arrival, those of one instant in the order of reading, and empty the columns.

        Args:
            names: The keys, by id.
            origin_us: What becomes time 0 [us].
            key_id: Only the requests of this key; None for all.
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
            for place, column in enumerate(columns):  # column by column: the old one is freed before the next is made
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


def _fill_in(amounts: NDArray[Any], otherwise: NDArray[Any]) -> None:
    import numpy as np

    np.copyto(amounts, otherwise, where=amounts == UNKNOWN_BYTES)


def _array(code: Literal["i", "q"], values: NDArray[Any]) -> array[int]:
    made = array(code)
    made.frombytes(values.tobytes())
    return made


def _chunks(length: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, length, _CHUNK)]


def _is_sorted(arrivals_us: NDArray[Any]) -> bool:
    earlier, later = arrivals_us[:-1], arrivals_us[1:]
    return all(bool((earlier[chunk] <= later[chunk]).all()) for chunk in _chunks(len(earlier)))


def _order(arrivals_us: NDArray[Any]) -> NDArray[Any]:
    """Return the present position of each request of the sorted trace."""
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
