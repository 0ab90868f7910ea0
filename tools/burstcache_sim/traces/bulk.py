"""Many lines at once: one pattern over a whole block, each distinct text of a field worked out once.

The standard library's `re` finds the fields of a block as fast as the best of three libraries that were measured
(`docs/understand/decisions/simulator.md`), and means the same in the parsers of rows, to the byte.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any, TypeVar

from burstcache_sim.traces.columns import NOT_SAMPLED, Columns
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import Fields
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, Answer, key_of

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


class _Answers:
    """What each combination of status, sizes and range means: worked out at its first use, by number."""

    def __init__(self, answer: Callable[..., Answer], shown: Sequence[bool]) -> None:
        self._answer = answer
        self._shown = shown  # of the function's arguments; the others are empty
        self._numbers: _Meanings[_Texts] = _Meanings(self._number_of)
        self._empty()

    def _empty(self) -> None:
        self._numbers.clear()
        self.pieces: list[bytes] = []
        self._columns = (array("q"), array("q"), array("q"))
        self.has_pieces = self._has_sent = self._has_objects = False

    def _number_of(self, texts: _Texts) -> int:
        texts_shown = iter(texts)
        piece, *amounts = self._answer(*(next(texts_shown) if is_shown else b"" for is_shown in self._shown))
        self.pieces.append(piece)
        for column, amount in zip(self._columns, amounts, strict=True):
            column.append(amount)
        self.has_pieces |= piece != b""
        self._has_sent |= amounts[1] != UNKNOWN_BYTES
        self._has_objects |= amounts[2] != UNKNOWN_BYTES
        return len(self.pieces) - 1

    def numbers(self, texts: Iterable[_Texts], count: int) -> Any:
        """Return the number of each combination, valid until the next call."""
        import numpy as np

        if len(self.pieces) > _MOST_REMEMBERED:
            self._empty()
        return self._numbers.of(texts, count, np.int32)

    def amounts(self, numbers: Any) -> tuple[Any, Any, Any]:
        """Return sizes, bytes sent and sizes of objects; None for a column of unknown ones."""
        import numpy as np

        has_columns = (True, self._has_sent, self._has_objects)
        sizes, sent, objects = (
            np.frombuffer(column, np.int64)[numbers] if is_there else None
            for column, is_there in zip(self._columns, has_columns, strict=True)
        )
        return sizes, sent, objects


class BulkReader:
    """Reads blocks of files whose fields a pattern finds, into columns; remembers what the texts mean."""

    def __init__(self, fields: Fields, columns: Columns) -> None:
        self._pattern = fields.pattern
        self._columns = columns
        places = {name: place - 1 for name, place in fields.pattern.groupindex.items()}
        self._time = places.pop("time")
        self._status = places.get("status")
        carried = [places.pop(name, None) for name in ("status", "size", "sent", "object", "range")]
        self._carried = [place for place in carried if place is not None]
        self._names = sorted(places.values())
        self._name = fields.name
        self._times_us = _Meanings(fields.time_us)
        self._served = _Meanings(fields.is_served)
        self._answers = _Answers(fields.answer, [place is not None for place in carried])
        self._rows_only = fields.rows_only
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

        times_us = self._times_us.of(texts[self._time], count, np.int64)
        served = np.ones(count, np.bool_)
        if self._status is not None:
            served = self._served.of(texts[self._status], count, np.bool_)
        carried = zip(*(texts[place] for place in self._carried), strict=True) if self._carried else repeat((), count)
        answers = self._answers.numbers(carried, count)
        # Names last: from here on nothing is refused, and only what counts gets an id.
        is_inside = served
        if first_us is not None:
            is_inside = is_inside & (times_us >= first_us)
        if last_us is not None:
            is_inside = is_inside & (times_us < last_us)
        if self._numbering != self._columns.numbering:
            self._ids.clear()
            self._numbering = self._columns.numbering
        answers = answers[is_inside]
        named = self._named(texts, is_inside)
        if self._answers.has_pieces:
            pieces = map(self._answers.pieces.__getitem__, answers.tolist())
            named = ((*name, piece) for name, piece in zip(named, pieces, strict=True))
        ids = self._ids.of(named, len(answers), np.int32)
        counts = ids != _OTHER
        self._columns.extend(times_us[is_inside][counts], ids[counts], *self._answers.amounts(answers[counts]))
        is_outside = served & ~is_inside
        return int(self._gets.of(self._named(texts, is_outside), int(is_outside.sum()), np.bool_).sum())

    def _named(self, texts: list[_Texts], chosen: Any) -> Iterator[_Texts]:
        return compress(zip(*(texts[place] for place in self._names), strict=True), chosen.tolist())

    def _id_of(self, fields: _Texts) -> int:
        """Return the id of a name or, if one text more than a name has follows it, of a piece."""
        name, piece = fields[: len(self._names)], fields[len(self._names) :]
        key = self._name(name)
        return _OTHER if key is None else self._columns.id_of(key_of(key, *piece))
