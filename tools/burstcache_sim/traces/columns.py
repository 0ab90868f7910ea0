"""Requests collected column by column: 20 bytes each while they are read, at most 32 while they are sorted."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.log_format import UNKNOWN_BYTES
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 20  # rows handled at a time, so that what numpy sets up on the way stays small
NOT_SAMPLED = -1
MAX_REQUESTS = 2**32 - 1  # the order of a trace takes four bytes per request


class Columns:
    """Arrival, key and size of every request, in the order of reading; of sampled keys alone."""

    def __init__(self, threshold: Threshold | None = None) -> None:
        self.threshold = threshold or Threshold()
        self.ids: dict[bytes, int] = {}
        self.requests = 0  # of all keys
        self.numbering = 0  # changes when the ids do
        self._arrivals_us = array("q")
        self._key_ids = array("i")
        self._sizes_bytes = array("q")

    @classmethod
    def of(
        cls, keys: Iterable[bytes], arrivals_us: NDArray[Any], key_ids: NDArray[Any], sizes_bytes: NDArray[Any]
    ) -> Self:
        """Return columns with these keys, by id, and requests."""
        columns = cls()
        columns.ids = {key: number for number, key in enumerate(keys)}
        columns.extend(arrivals_us, key_ids, sizes_bytes)
        return columns

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return arrivals, ids and sizes as they are read, which nothing may be added to meanwhile."""
        import numpy as np

        return (
            np.frombuffer(self._arrivals_us, np.int64),
            np.frombuffer(self._key_ids, np.int32),
            np.frombuffer(self._sizes_bytes, np.int64),
        )

    def __len__(self) -> int:
        return len(self._arrivals_us)

    def id_of(self, key: bytes) -> int:
        """Return a key's id, which it may get now, or `NOT_SAMPLED`."""
        if (id_ := self.ids.get(key)) is not None:
            return id_
        return self.ids.setdefault(key, len(self.ids)) if self.threshold.has(key) else NOT_SAMPLED

    def add(self, arrival_us: int, key: bytes, size_bytes: int) -> None:
        """Add one request, with `UNKNOWN_BYTES` if its size is not known."""
        self.requests += 1
        if (id_ := self.id_of(key)) != NOT_SAMPLED:
            self._arrivals_us.append(arrival_us)
            self._key_ids.append(id_)
            self._sizes_bytes.append(size_bytes)
            self._bound()

    def extend(self, arrivals_us: NDArray[Any], key_ids: NDArray[Any], sizes_bytes: NDArray[Any]) -> None:
        """Add requests, those of the id `NOT_SAMPLED` by number alone."""
        self._append(arrivals_us, key_ids, sizes_bytes)
        self._bound()

    def _append(self, arrivals_us: NDArray[Any], key_ids: NDArray[Any], sizes_bytes: NDArray[Any]) -> None:
        self.requests += len(key_ids)
        sampled = key_ids != NOT_SAMPLED
        if not sampled.all():
            arrivals_us, key_ids, sizes_bytes = arrivals_us[sampled], key_ids[sampled], sizes_bytes[sampled]
        self._arrivals_us.frombytes(arrivals_us.tobytes())
        self._key_ids.frombytes(key_ids.tobytes())
        self._sizes_bytes.frombytes(sizes_bytes.tobytes())

    def merge(self, other: Columns, first_us: int | None = None, last_us: int | None = None) -> int:
        """Add what was read elsewhere, of a span [us], after this; return how many requests are outside the span."""
        import numpy as np

        if other.threshold.below < self.threshold.below:
            self._lower(other.threshold.below)
        arrivals_us, key_ids, sizes_bytes = other.arrays()
        self.requests += other.requests - len(other)
        outside = 0
        if first_us is not None or last_us is not None:
            inside = arrivals_us >= (first_us or 0)
            if last_us is not None:
                inside &= arrivals_us < last_us
            outside = len(other) - int(inside.sum())
            arrivals_us, key_ids, sizes_bytes = arrivals_us[inside], key_ids[inside], sizes_bytes[inside]
        numbers, first = np.unique(key_ids, return_index=True)
        keys = list(other.ids)
        ids = np.full(len(keys), NOT_SAMPLED, np.int32)
        for number in numbers[np.argsort(first)].tolist():  # in the order of their first requests
            ids[number] = self.id_of(keys[number])
        for chunk in _chunks(len(key_ids)):
            self._append(arrivals_us[chunk], ids[key_ids[chunk]], sizes_bytes[chunk])
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
        key_ids = np.frombuffer(self._key_ids, np.int32)
        kept = numbers[key_ids] != NOT_SAMPLED
        key_ids = numbers[key_ids[kept]]
        self._key_ids = _array("i", key_ids)
        self._arrivals_us = _array("q", np.frombuffer(self._arrivals_us, np.int64)[kept])
        self._sizes_bytes = _array("q", np.frombuffer(self._sizes_bytes, np.int64)[kept])
        self.numbering += 1

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
        numbers, places = np.unique(np.frombuffer(self._key_ids, np.int32)[kept], return_inverse=True)
        keys = list(self.ids)
        self.ids = {keys[number]: place for place, number in enumerate(numbers.tolist())}
        self._key_ids = _array("i", places.astype(np.int32))
        self._sizes_bytes = _array("q", np.frombuffer(self._sizes_bytes, np.int64)[kept])
        self._arrivals_us = _array("q", arrivals_us[kept])
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

        A request has the largest known size of its key, or else the mean of the other keys' sizes.
        """
        import numpy as np

        _, key_ids, sizes_bytes = self.arrays()
        largest = np.full(len(self.ids), UNKNOWN_BYTES, np.int64)
        for chunk in _chunks(len(sizes_bytes)):
            np.maximum.at(largest, key_ids[chunk], sizes_bytes[chunk])
        is_known = largest != UNKNOWN_BYTES
        if is_known.any():
            largest[~is_known] = round(float(largest[is_known].mean()))
            for chunk in _chunks(len(sizes_bytes)):
                part = sizes_bytes[chunk]
                part[:] = np.where(part == UNKNOWN_BYTES, largest[key_ids[chunk]], part)
        return int(np.count_nonzero(~is_known))

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
        import numpy as np

        arrivals_us = np.frombuffer(self._arrivals_us, dtype=np.int64)
        key_ids = np.frombuffer(self._key_ids, dtype=np.int32)
        sizes_bytes = np.frombuffer(self._sizes_bytes, dtype=np.int64)
        self._arrivals_us, self._key_ids, self._sizes_bytes = array("q"), array("i"), array("q")
        arrivals_us -= origin_us
        # Column by column from here on: each old one is freed before the next new one is made.
        if key_id is not None:
            kept = key_ids == key_id
            arrivals_us = arrivals_us[kept]
            sizes_bytes = sizes_bytes[kept]
            key_ids = key_ids[:0]
            names = names[key_id : key_id + 1]
        if not _is_sorted(arrivals_us):
            order = _order(arrivals_us)
            arrivals_us = _reordered(arrivals_us, order)
            key_ids = _reordered(key_ids, order) if key_id is None else key_ids
            sizes_bytes = _reordered(sizes_bytes, order)
        if not has_keys:
            return Trace(arrivals_us)
        return Trace(arrivals_us, key_ids if key_id is None else None, sizes_bytes if has_sizes else None, names)


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
