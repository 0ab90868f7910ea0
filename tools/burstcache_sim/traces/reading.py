"""One file after the other into columns: what is asked for, what is found, and the counts of everything else."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from re import Pattern

from burstcache_sim.traces.bulk import BulkReader
from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.errors import BadLogError, BadRowError, bad_line
from burstcache_sim.traces.fields import FieldNames
from burstcache_sim.traces.files import MOST_LINE_BYTES, BrokenFileError, LongLine, blocks
from burstcache_sim.traces.formats import candidates_named, guess
from burstcache_sim.traces.log_format import Fields, LogFormat, Parser, Request, lines_of
from burstcache_sim.traces.nearest import nearest
from burstcache_sim.traces.sampling import Threshold

_LINES_TO_RECOGNISE = 50  # a log may start with a bad row
LONG_LINE = f"a line of at most {MOST_LINE_BYTES:,} bytes"
LEAST_BLOCK_BYTES = 1 << 14  # a smaller block with an unusual line is read line by line


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file to read, and how messages call it: an object of S3 is read from a copy."""

    path: Path
    name: str
    size_bytes: int  # packed or not; 0: not known, as of a pipe
    etag: str = ""  # of an object of S3


@dataclass(frozen=True, slots=True)
class Asked:
    """How files are read."""

    format_: str = "auto"
    names: FieldNames = field(default_factory=dict)
    delimiter: bytes | None = None  # between a table's columns; None: as the first line shows
    skip_bad_rows: bool = False
    first_us: int | None = None  # only requests from here on, since 1970 [us]
    last_us: int | None = None  # and before here
    threshold: Threshold = field(default_factory=Threshold)


@dataclass(slots=True)
class Counts:
    """What files hold apart from requests that count."""

    rows: int = 0  # lines other than headers and comments
    bad_rows: int = 0
    outside: int = 0  # requests that no option's span of time has
    broken_files: list[str] = field(default_factory=list)  # which, and where they break off

    def add(self, more: Counts) -> None:
        """Add the counts of other files."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(more, each.name))


class Reading:
    """Files read so far, all of one format."""

    def __init__(self, asked: Asked, *, guessed_by: str | None = None) -> None:
        self.asked = asked
        self.candidates = candidates_named(asked.format_, asked.names, asked.delimiter)
        self.format = self.candidates[0].fixed if len(self.candidates) == 1 else None
        self.head: list[bytes] = []  # the lines that showed the format
        self.guessed_by = guessed_by  # the file that showed the format, if nobody named it
        self.columns = Columns(asked.threshold)
        self.counts = Counts()
        self._bulk_readers: dict[Pattern[bytes], BulkReader] = {}

    def bulk_reader(self, fields: Fields) -> BulkReader:
        """Return what reads blocks of lines with these fields: the same for all files that have the same."""
        if not (reader := self._bulk_readers.get(fields.pattern)):
            reader = self._bulk_readers[fields.pattern] = BulkReader(fields, self.columns)
        return reader

    def settle(self, file: LogFile) -> bool:
        """Settle the format by a file's first lines; False if it has none that can be read."""
        try:
            for block in blocks(file.path):
                if not isinstance(block, LongLine):
                    self.format_of(file.name, head_of(block.removeprefix(BOM_UTF8)))
                    return True
                if not self.asked.skip_bad_rows:
                    raise bad_line(file.name, 1, block, LONG_LINE)
        except (OSError, BrokenFileError):
            pass  # it is named when its turn comes
        return False

    def settle_as(self, head: list[bytes]) -> None:
        """Settle the format by lines that have shown it elsewhere."""
        self.head, self.format = head, self.format or guess(self.candidates, head)

    def format_of(self, name: str, head: list[bytes]) -> LogFormat:
        """Return the format of a file with these first lines; all files have the same."""
        if not self.format:
            if not (guessed := guess(self.candidates, head)):
                number, expected = nearest(self.candidates, head, self.asked.names)
                raise bad_line(name, number, head[number - 1], expected)
            self.guessed_by, self.head, self.format = name, head, guessed
        elif not self.format.recognises(head):
            if self.format.starts_with_header:
                raise bad_line(name, 1, head[0], f"the header of a {self.format.describes}")
            if self.guessed_by and guess(self.candidates, head):
                same = f"{self.format.describes}, as in {self.guessed_by}: all files of a log have one format"
                raise bad_line(name, 1, head[0], same)
        return self.format  # its rows are named one by one, or skipped

    def read(self, file: LogFile, on_lines: Callable[[int], None] = lambda lines: None) -> None:
        """Add all requests of a file.

        Args:
            file: What to read.
            on_lines: Called now and then with the number of lines read since the last call.

        Raises:
            BadLogError: The file cannot be read, has a bad row, or is of another format.
        """
        before = self.columns.requests + self.counts.outside
        lines = _Lines(self, file.name, on_lines)
        try:
            for block in blocks(file.path):
                lines.take(block)
        except BrokenFileError as error:
            broken = f"{file.name} line {lines.number + 1}: expected a file that can be read ({error})"
            if not self.asked.skip_bad_rows:
                raise BadLogError(f"{broken}; --skip-bad-rows keeps what comes before") from error
            self.counts.broken_files.append(broken)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadLogError(
                f"{file.name} line {lines.number + 1}: expected a file that can be read ({reason})"
            ) from error
        is_empty = before == self.columns.requests + self.counts.outside
        if lines.number and is_empty and self.format and not self.format.has_keys:
            raise BadLogError(
                f"{file.name} line {lines.number + 1}: the trace is empty: expected at least one row of seconds"
            )


class _Lines:
    """The lines of one file, counted."""

    def __init__(self, reading: Reading, name: str, on_lines: Callable[[int], None]) -> None:
        self.number = 0
        self._reading, self._name, self._on_lines = reading, name, on_lines
        self._counts, self._asked = reading.counts, reading.asked
        self._is_header_due = False
        self._format: LogFormat
        self._parser: Parser | None = None

    def take(self, block: bytes) -> None:
        """Add the requests of the next lines."""
        before = self.number
        if isinstance(block, LongLine):
            return self._take_long_line(block)
        if self._parser is None:
            block = block.removeprefix(BOM_UTF8)
            head = head_of(block)
            self._format = self._reading.format_of(self._name, head)
            try:
                self._parser = self._format.new_parser(head[0])
            except BadRowError as error:
                raise bad_line(self._name, self.number + 1, head[0], str(error)) from error
            self._is_header_due = True
        while block and (self._is_header_due or block.startswith(b"#")):  # headers
            end = block.find(b"\n") + 1 or len(block)
            self._take_lines(block[:end])
            block = block[end:]
        self._take_block(block)
        self._on_lines(self.number - before)
        return None

    def _take_long_line(self, line: LongLine) -> None:
        self.number += 1
        self._counts.rows += 1
        if not self._asked.skip_bad_rows:
            raise bad_line(self._name, self.number, line, LONG_LINE)
        self._counts.bad_rows += 1
        self._on_lines(1)

    def _take_block(self, block: bytes) -> None:
        """Add a block at once or, where it has an unusual line, its halves."""
        assert self._parser
        fields = self._parser.fields
        if not fields:
            return self._take_lines(block)
        bulk = self._reading.bulk_reader(fields)
        if taken := bulk.take(block, self._asked.first_us, self._asked.last_us):
            rows, outside = taken
            self.number += rows
            self._counts.rows += rows
            self._counts.outside += outside
            return None
        middle = block.rfind(b"\n", 0, len(block) // 2) + 1
        if middle and len(block) > LEAST_BLOCK_BYTES:
            self._take_block(block[:middle])
            return self._take_block(block[middle:])
        return self._take_lines(block)

    def _take_lines(self, block: bytes) -> None:
        assert self._parser
        for line in self._format.rows(block):
            self.number += 1
            self._counts.rows += 1
            try:
                self._take(self._parser.row(line), line)
            except BadRowError as error:
                self._reject(line, error)

    def _take(self, request: Request | None, line: bytes) -> None:
        if request:
            first_us, last_us = self._asked.first_us, self._asked.last_us
            if (first_us is None or request[0] >= first_us) and (last_us is None or request[0] < last_us):
                self._reading.columns.add(*request)
            else:
                self._counts.outside += 1
        elif line.startswith(b"#") or (self._is_header_due and self._format.starts_with_header):
            self._counts.rows -= 1
        self._is_header_due = False

    def _reject(self, line: bytes, error: BadRowError) -> None:
        self._is_header_due = False
        if self._format.allows_blank_lines and not line.strip():
            self._counts.rows -= 1
            return
        if not self._asked.skip_bad_rows:
            raise bad_line(self._name, self.number, line, str(error)) from error
        self._counts.bad_rows += 1


def head_of(block: bytes) -> list[bytes]:
    """Return the lines of a file's first block that show its format."""
    return list(islice(lines_of(block), _LINES_TO_RECOGNISE)) or [b""]
