"""Requests collected column by column: 20 bytes each while they are read, at most 32 while they are sorted."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.log_format import UNKNOWN_BYTES
from burstcache_sim.traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 20  # rows handled at a time, so that what numpy sets up on the way stays small
MAX_REQUESTS = 2**32 - 1  # the order of a trace takes four bytes per request


class Columns:
    """Arrival, key and size of every request, in the order of reading."""

    def __init__(self) -> None:
        self._arrivals_us = array("q")
        self._key_ids = array("i")
        self._sizes_bytes = array("q")
        self.ids: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._arrivals_us)

    def add(self, arrival_us: int, key: bytes, size_bytes: int) -> None:
        """Add one request, with `UNKNOWN_BYTES` if its size is not known."""
        ids = self.ids
        self._arrivals_us.append(arrival_us)
        self._key_ids.append(ids.setdefault(key, len(ids)))
        self._sizes_bytes.append(size_bytes)

    def first_us(self) -> int:
        """Return the earliest arrival."""
        import numpy as np

        return int(np.frombuffer(self._arrivals_us, dtype=np.int64).min())

    def counts(self) -> NDArray[Any]:
        """Return the number of requests of each key."""
        import numpy as np

        key_ids = np.frombuffer(self._key_ids, dtype=np.int32)
        counts = np.zeros(len(self.ids), dtype=np.int64)
        for chunk in _chunks(len(key_ids)):
            counts += np.bincount(key_ids[chunk], minlength=len(counts))
        return counts

    def take_trace(self, names: tuple[str, ...], *, origin_us: int, key_id: int | None, has_keys: bool) -> Trace:
        """Return the requests by arrival, those of one instant in the order of reading, and empty the columns.

        Args:
            names: The keys, by id.
            origin_us: What becomes time 0 [us].
            key_id: Only the requests of this key; None for all.
            has_keys: False if the log has neither keys nor sizes.
        """
        import numpy as np

        arrivals_us = np.frombuffer(self._arrivals_us, dtype=np.int64)
        key_ids = np.frombuffer(self._key_ids, dtype=np.int32)
        sizes_bytes = np.frombuffer(self._sizes_bytes, dtype=np.int64)
        self._arrivals_us, self._key_ids, self._sizes_bytes = array("q"), array("i"), array("q")
        arrivals_us -= origin_us
        _fill_in(sizes_bytes, key_ids, len(names))
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
        return Trace(arrivals_us, key_ids if key_id is None else None, sizes_bytes, names)


def _chunks(length: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, length, _CHUNK)]


def _fill_in(sizes_bytes: NDArray[Any], key_ids: NDArray[Any], keys: int) -> None:
    """Fill in unknown sizes with the largest known size of the same key, or 0."""
    import numpy as np

    largest = np.zeros(keys, dtype=np.int64)
    for chunk in _chunks(len(sizes_bytes)):
        np.maximum.at(largest, key_ids[chunk], sizes_bytes[chunk])
    for chunk in _chunks(len(sizes_bytes)):
        part = sizes_bytes[chunk]
        part[:] = np.where(part == UNKNOWN_BYTES, largest[key_ids[chunk]], part)


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
