"""A bulk reader, which matches a whole block of lines with one pattern and parses each distinct field value once.

The standard library's `re` is as fast as the best of three libraries (`docs/understand/decisions/simulator.md`). Row
parsers use the same patterns and return identical results.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any, TypeVar

from burstcache_sim.traces.columns import NOT_SAMPLED, Columns
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import FieldPattern
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, ResponseContent, join_key

_MAX_TEXTS = 1 << 17  # cached raw values per field
_OTHER = NOT_SAMPLED - 1  # the id of all requests other than GETs of objects
_Text = TypeVar("_Text")
_Texts = tuple[bytes, ...]


class _ValueMemo(dict[_Text, int]):
    """A cache that maps a field's raw text to its parsed value, and parses on a miss."""

    def __init__(self, value_of: Callable[[_Text], int]) -> None:
        super().__init__()
        self._value_of = value_of

    def __missing__(self, text: _Text) -> int:
        value = self[text] = self._value_of(text)
        return value

    def column(self, texts: Iterable[_Text], count: int, dtype: type[Any]) -> Any:
        """Return the parsed values as an array."""
        import numpy as np

        if len(self) > _MAX_TEXTS:
            self.clear()
        return np.fromiter(map(self.__getitem__, texts), dtype, count)


class _ContentMemo:
    """A cache of response contents, which assigns an index to each combination of raw status, sizes and range."""

    def __init__(self, parse: Callable[..., ResponseContent], is_given: Sequence[bool]) -> None:
        self._parse = parse
        self._is_given = is_given  # whether the log has the field, for each argument of `parse`
        self._numbers: _ValueMemo[_Texts] = _ValueMemo(self._number_of)
        self._empty()

    def _empty(self) -> None:
        self._numbers.clear()
        self.pieces: list[bytes] = []
        self._columns = (array("q"), array("q"), array("q"))
        self.has_pieces = self._has_sent = self._has_objects = False

    def _number_of(self, texts: _Texts) -> int:
        remaining = iter(texts)
        piece, *amounts = self._parse(*(next(remaining) if is_given else b"" for is_given in self._is_given))
        self.pieces.append(piece)
        for column, amount in zip(self._columns, amounts, strict=True):
            column.append(amount)
        self.has_pieces |= piece != b""
        self._has_sent |= amounts[1] != UNKNOWN_BYTES
        self._has_objects |= amounts[2] != UNKNOWN_BYTES
        return len(self.pieces) - 1

    def numbers(self, texts: Iterable[_Texts], count: int) -> Any:
        """Return the content index of each row. The next call may invalidate all indices."""
        import numpy as np

        if len(self.pieces) > _MAX_TEXTS:
            self._empty()
        return self._numbers.column(texts, count, np.int32)

    def amounts(self, numbers: Any) -> tuple[Any, Any, Any]:
        """Return sizes, bytes sent and object sizes. A column is None if all of its values are unknown."""
        import numpy as np

        has_columns = (True, self._has_sent, self._has_objects)
        sizes, sent, objects = (
            np.frombuffer(column, np.int64)[numbers] if has_column else None
            for column, has_column in zip(self._columns, has_columns, strict=True)
        )
        return sizes, sent, objects


class BulkReader:
    """A reader that parses whole blocks into columns with one pattern and caches parsed field values."""

    def __init__(self, fields: FieldPattern, columns: Columns) -> None:
        self._pattern = fields.pattern
        self._columns = columns
        places = {name: place - 1 for name, place in fields.pattern.groupindex.items()}
        self._time = places.pop("time")
        self._status = places.get("status")
        content = [places.pop(name, None) for name in ("status", "size", "sent", "object", "range")]
        self._content = [place for place in content if place is not None]
        self._names = sorted(places.values())
        self._name = fields.name
        self._times_us = _ValueMemo(fields.time_us)
        self._served = _ValueMemo(fields.is_served)
        self._contents = _ContentMemo(fields.parse_content, [place is not None for place in content])
        self._rows_only = fields.rows_only
        self._ids: _ValueMemo[_Texts] = _ValueMemo(self._id_of)
        self._gets: _ValueMemo[_Texts] = _ValueMemo(lambda texts: fields.name(texts) is not None)
        self._numbering = columns.numbering

    def take(self, block: bytes, first_us: int | None, last_us: int | None) -> tuple[int, int] | None:
        """Add the requests of a block of whole lines to the columns.

        Args:
            block: Lines with their ends.
            first_us: Start of the selected time span [us], or None.
            last_us: Exclusive end of the selected time span [us], or None.

        Returns:
            The number of lines, and the number of requests outside the span. If the block needs the row parser, the
            result is None, and the columns are unchanged.
        """
        if self._rows_only in block:
            return None
        rows = self._pattern.findall(block)
        if not rows or len(rows) != block.count(b"\n"):
            return None
        try:
            return len(rows), self._take(list(zip(*rows, strict=True)), len(rows), first_us, last_us)
        except BadRowError:
            return None

    def _take(self, texts: list[_Texts], count: int, first_us: int | None, last_us: int | None) -> int:
        import numpy as np

        times_us = self._times_us.column(texts[self._time], count, np.int64)
        served = np.ones(count, np.bool_)
        if self._status is not None:
            served = self._served.column(texts[self._status], count, np.bool_)
        content = zip(*(texts[place] for place in self._content), strict=True) if self._content else repeat((), count)
        contents = self._contents.numbers(content, count)
        # Resolve names last, so that a failure adds nothing and only counted requests get an id.
        is_inside = served
        if first_us is not None:
            is_inside = is_inside & (times_us >= first_us)
        if last_us is not None:
            is_inside = is_inside & (times_us < last_us)
        if self._numbering != self._columns.numbering:
            self._ids.clear()
            self._numbering = self._columns.numbering
        contents = contents[is_inside]
        names = self._name_texts(texts, is_inside)
        if self._contents.has_pieces:
            pieces = map(self._contents.pieces.__getitem__, contents.tolist())
            names = ((*name, piece) for name, piece in zip(names, pieces, strict=True))
        ids = self._ids.column(names, len(contents), np.int32)
        is_get = ids != _OTHER
        self._columns.extend(times_us[is_inside][is_get], ids[is_get], *self._contents.amounts(contents[is_get]))
        is_outside = served & ~is_inside
        return int(self._gets.column(self._name_texts(texts, is_outside), int(is_outside.sum()), np.bool_).sum())

    def _name_texts(self, texts: list[_Texts], mask: Any) -> Iterator[_Texts]:
        return compress(zip(*(texts[place] for place in self._names), strict=True), mask.tolist())

    def _id_of(self, fields: _Texts) -> int:
        """Return the id of an object, or of a piece if the name's fields are followed by a range."""
        name, piece = fields[: len(self._names)], fields[len(self._names) :]
        key = self._name(name)
        return _OTHER if key is None else self._columns.id_of(join_key(key, *piece))
