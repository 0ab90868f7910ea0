"""Many lines at once: one pattern over a whole block, each distinct text of a field worked out once.

The standard library's `re` finds the fields of a block as fast as the best of three libraries that were measured
(`docs/understand/decisions/simulator.md`), and means the same in the parsers of rows, to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import compress, repeat
from typing import Any, TypeVar

from burstcache_sim.traces.columns import NOT_SAMPLED, Columns
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import UNKNOWN_BYTES, Fields

_MOST_REMEMBERED = 1 << 17  # texts per field
_OTHER = NOT_SAMPLED - 1  # not a GET of an object
_Text = TypeVar("_Text")
_Texts = tuple[bytes, ...]


class _Meanings(dict[_Text, int]):
    """What each text of a field means, worked out at its first use."""

    def __init__(self, meaning: Callable[[_Text], int]) -> None:
        super().__init__()
        self._meaning = meaning

    def __missing__(self, text: _Text) -> int:
        meaning = self[text] = self._meaning(text)
        return meaning

    def of(self, texts: Iterable[_Text], count: int, dtype: type[Any]) -> Any:
        """Return a column of meanings."""
        import numpy as np

        if len(self) > _MOST_REMEMBERED:
            self.clear()
        return np.fromiter(map(self.__getitem__, texts), dtype, count)


class BulkReader:
    """Reads blocks of files whose fields a pattern finds, into columns; remembers what the texts mean."""

    def __init__(self, fields: Fields, columns: Columns) -> None:
        self._pattern = fields.pattern
        self._columns = columns
        places = {name: place - 1 for name, place in fields.pattern.groupindex.items()}
        self._time = places.pop("time")
        self._status, self._size, self._spare = (places.pop(name, None) for name in ("status", "size", "spare_size"))
        self._names = sorted(places.values())
        self._name = fields.name
        self._times_us = _Meanings(fields.time_us)
        self._served = _Meanings(fields.is_served)
        self._sizes_bytes: _Meanings[tuple[bytes, bytes]] = _Meanings(lambda texts: fields.size_bytes(*texts))
        self._ids: _Meanings[_Texts] = _Meanings(self._id_of)
        self._gets: _Meanings[_Texts] = _Meanings(lambda texts: fields.name(texts) is not None)
        self._numbering = columns.numbering

    def take(self, block: bytes, first_us: int | None, last_us: int | None) -> tuple[int, int] | None:
        """Add the requests of a block of whole lines to the columns.

        Args:
            block: Lines with their ends.
            first_us: Requests before this are left out; None for none [us].
            last_us: So are those from this on [us].

        Returns:
            How many lines the block has, and how many requests of the chosen time were left out. None if a line is not
            as usual; then nothing was added.
        """
        rows = self._pattern.findall(block)
        if not rows or len(rows) != block.count(b"\n"):
            return None
        try:
            return len(rows), self._take(list(zip(*rows, strict=True)), len(rows), first_us, last_us)
        except BadRowError:
            return None

    def _take(self, texts: list[_Texts], count: int, first_us: int | None, last_us: int | None) -> int:
        import numpy as np

        times_us = self._times_us.of(texts[self._time], count, np.int64)
        served = np.ones(count, np.bool_)
        statuses: Iterable[bytes] = repeat(b"200", count)
        if self._status is not None:
            statuses = texts[self._status]
            served = self._served.of(statuses, count, np.bool_)
        sizes_bytes = np.full(count, UNKNOWN_BYTES, np.int64)
        if self._size is not None:
            sizes_bytes = self._sizes_bytes.of(zip(self._size_texts(texts), statuses, strict=True), count, np.int64)
        # Names last: from here on nothing is refused, and only what counts gets an id.
        is_inside = served
        if first_us is not None:
            is_inside = is_inside & (times_us >= first_us)
        if last_us is not None:
            is_inside = is_inside & (times_us < last_us)
        if self._numbering != self._columns.numbering:
            self._ids.clear()
            self._numbering = self._columns.numbering
        ids = self._ids.of(self._named(texts, is_inside), int(is_inside.sum()), np.int32)
        counts = ids != _OTHER
        self._columns.extend(times_us[is_inside][counts], ids[counts], sizes_bytes[is_inside][counts])
        is_outside = served & ~is_inside
        return int(self._gets.of(self._named(texts, is_outside), int(is_outside.sum()), np.bool_).sum())

    def _named(self, texts: list[_Texts], chosen: Any) -> Iterator[_Texts]:
        return compress(zip(*(texts[place] for place in self._names), strict=True), chosen.tolist())

    def _size_texts(self, texts: list[_Texts]) -> Iterable[bytes]:
        assert self._size is not None
        if self._spare is None:
            return texts[self._size]
        pairs = zip(texts[self._size], texts[self._spare], strict=True)
        return (spare if size == b"-" else size for size, spare in pairs)

    def _id_of(self, fields: _Texts) -> int:
        name = self._name(fields)
        return _OTHER if name is None else self._columns.id_of(name)
