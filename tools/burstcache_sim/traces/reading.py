"""Sequential reading of log files into columns: options, reader and row counts."""

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
from burstcache_sim.traces.files import MAX_LINE_BYTES, BrokenFileError, LongLine, blocks
from burstcache_sim.traces.formats import candidates_named, detect
from burstcache_sim.traces.log_format import FieldPattern, LogFormat, LogParser, Request, lines_of
from burstcache_sim.traces.nearest import nearest
from burstcache_sim.traces.sampling import Threshold

_DETECTION_LINES = 50  # more than one, because a log may start with a bad row
LONG_LINE = f"a line of at most {MAX_LINE_BYTES:,} bytes"
MIN_BLOCK_BYTES = 1 << 14  # smaller blocks without a match are read line by line


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file to read, and its name for messages. An S3 object is read from a local copy."""

    path: Path
    name: str
    size_bytes: int  # as stored (0: unknown, for example a pipe)
    etag: str = ""  # of an S3 object


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading files."""

    format_: str = "auto"
    names: FieldNames = field(default_factory=dict)
    delimiter: bytes | None = None  # of a table (None: detected from the first line)
    skip_bad_rows: bool = False
    first_us: int | None = None  # keep only requests at or after this instant, since 1970 [us]
    last_us: int | None = None  # keep only requests before this instant
    threshold: Threshold = field(default_factory=Threshold)


@dataclass(slots=True)
class RowCounts:
    """Counts of rows, bad rows and requests outside the span."""

    rows: int = 0  # lines other than headers and comments
    bad_rows: int = 0
    outside: int = 0  # requests outside the chosen span
    broken_files: list[str] = field(default_factory=list)  # with the line at which they break

    def add(self, more: RowCounts) -> None:
        """Add the counts of other files."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(more, each.name))


class LogReader:
    """A reader that adds files of one format to columns."""

    def __init__(self, options: ReadOptions, *, detected_in: str | None = None) -> None:
        self.options = options
        self.candidates = candidates_named(options.format_, options.names, options.delimiter)
        self.format = self.candidates[0].fixed if len(self.candidates) == 1 else None
        self.head: list[bytes] = []  # the lines that the format was detected from
        self.detected_in = detected_in  # the file that the format was detected in (None: set by the options)
        self.columns = Columns(options.threshold)
        self.counts = RowCounts()
        self._bulk_readers: dict[Pattern[bytes], BulkReader] = {}

    def bulk_reader(self, fields: FieldPattern) -> BulkReader:
        """Return the bulk reader for a pattern. Files with the same pattern share one reader."""
        if not (reader := self._bulk_readers.get(fields.pattern)):
            reader = self._bulk_readers[fields.pattern] = BulkReader(fields, self.columns)
        return reader

    def detect_format(self, file: LogFile) -> bool:
        """Detect the format from a file's first lines. Return False if the file has no readable line."""
        try:
            for block in blocks(file.path):
                if not isinstance(block, LongLine):
                    self.format_of(file.name, head_of(block.removeprefix(BOM_UTF8)))
                    return True
                if not self.options.skip_bad_rows:
                    raise bad_line(file.name, 1, block, LONG_LINE)
        except (OSError, BrokenFileError):
            pass  # reported when the file is read
        return False

    def use_format_of(self, head: list[bytes]) -> None:
        """Set the format according to the first lines of a file."""
        self.head, self.format = head, self.format or detect(self.candidates, head)

    def format_of(self, name: str, head: list[bytes]) -> LogFormat:
        """Return a file's format according to its first lines. All files must share one format."""
        if not self.format:
            if not (detected := detect(self.candidates, head)):
                number, expected = nearest(self.candidates, head, self.options.names)
                raise bad_line(name, number, head[number - 1], expected)
            self.detected_in, self.head, self.format = name, head, detected
        elif not self.format.recognises(head):
            if self.format.starts_with_header:
                raise bad_line(name, 1, head[0], f"the header of a {self.format.describes}")
            if self.detected_in and detect(self.candidates, head):
                same = f"{self.format.describes}, as in {self.detected_in}: all files of a log have one format"
                raise bad_line(name, 1, head[0], same)
        return self.format  # bad rows of an unrecognised file are reported or skipped one by one

    def read(self, file: LogFile, on_lines: Callable[[int], None] = lambda lines: None) -> None:
        """Add all requests of a file.

        Args:
            file: The file.
            on_lines: Called from time to time with the number of lines read since the last call.

        Raises:
            BadLogError: The file cannot be read, has a bad row, or is of another format.
        """
        before = self.columns.requests + self.counts.outside
        lines = _FileReader(self, file.name, on_lines)
        try:
            for block in blocks(file.path):
                lines.read_block(block)
        except BrokenFileError as error:
            broken = f"{file.name} line {lines.number + 1}: expected a file that can be read ({error})"
            if not self.options.skip_bad_rows:
                raise BadLogError(f"{broken}; --skip-bad-rows keeps the lines before it") from error
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


class _FileReader:
    """A reader for one file that counts the file's lines."""

    def __init__(self, reader: LogReader, name: str, on_lines: Callable[[int], None]) -> None:
        self.number = 0
        self._reader, self._name, self._on_lines = reader, name, on_lines
        self._counts, self._options = reader.counts, reader.options
        self._is_header_due = False
        self._format: LogFormat
        self._parser: LogParser | None = None

    def read_block(self, block: bytes) -> None:
        """Add the requests of the next lines."""
        before = self.number
        if isinstance(block, LongLine):
            return self._skip_long_line(block)
        if self._parser is None:
            block = block.removeprefix(BOM_UTF8)
            head = head_of(block)
            self._format = self._reader.format_of(self._name, head)
            try:
                self._parser = self._format.new_parser(head[0])
            except BadRowError as error:
                raise bad_line(self._name, self.number + 1, head[0], str(error)) from error
            self._is_header_due = True
        while block and (self._is_header_due or block.startswith(b"#")):  # headers
            end = block.find(b"\n") + 1 or len(block)
            self._read_lines(block[:end])
            block = block[end:]
        self._read_rows(block)
        self._on_lines(self.number - before)
        return None

    def _skip_long_line(self, line: LongLine) -> None:
        self.number += 1
        self._counts.rows += 1
        if not self._options.skip_bad_rows:
            raise bad_line(self._name, self.number, line, LONG_LINE)
        self._counts.bad_rows += 1
        self._on_lines(1)

    def _read_rows(self, block: bytes) -> None:
        """Add a block in bulk. If bulk reading fails, halve the block repeatedly, down to single rows."""
        assert self._parser
        fields = self._parser.fields
        if not fields:
            return self._read_lines(block)
        bulk = self._reader.bulk_reader(fields)
        if counts := bulk.take(block, self._options.first_us, self._options.last_us):
            rows, outside = counts
            self.number += rows
            self._counts.rows += rows
            self._counts.outside += outside
            return None
        middle = block.rfind(b"\n", 0, len(block) // 2) + 1
        if middle and len(block) > MIN_BLOCK_BYTES:
            self._read_rows(block[:middle])
            return self._read_rows(block[middle:])
        return self._read_lines(block)

    def _read_lines(self, block: bytes) -> None:
        assert self._parser
        for line in self._format.rows(block):
            self.number += 1
            self._counts.rows += 1
            try:
                self._add(self._parser.row(line), line)
            except BadRowError as error:
                self._reject(line, error)

    def _add(self, request: Request | None, line: bytes) -> None:
        if request:
            first_us, last_us = self._options.first_us, self._options.last_us
            if (first_us is None or request[0] >= first_us) and (last_us is None or request[0] < last_us):
                self._reader.columns.add(*request)
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
        if not self._options.skip_bad_rows:
            raise bad_line(self._name, self.number, line, str(error)) from error
        self._counts.bad_rows += 1


def head_of(block: bytes) -> list[bytes]:
    """Return the first lines of a file's first block for format detection."""
    return list(islice(lines_of(block), _DETECTION_LINES)) or [b""]
