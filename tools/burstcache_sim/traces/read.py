"""Access logs in, a trace out: GETs that were answered with 2xx or 304, sorted by arrival.

Files may come in any order and need not be sorted (S3 and CloudFront write thousands of small ones); all are of one
format. Reading takes at most 32 bytes of memory per request, plus the names of the keys.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.alb_log import ALB_LOG
from burstcache_sim.traces.arrival_csv import ARRIVAL_CSV
from burstcache_sim.traces.cloudfront_log import CLOUDFRONT_LOG
from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.combined_log import COMBINED_LOG
from burstcache_sim.traces.errors import BadLogError, BadRowError, bad_line
from burstcache_sim.traces.files import READ_ERRORS, log_files, open_log
from burstcache_sim.traces.log_format import LogFormat, Request
from burstcache_sim.traces.request_csv import REQUEST_CSV
from burstcache_sim.traces.s3_log import S3_LOG
from burstcache_sim.traces.select import id_of_rank, key_names
from burstcache_sim.traces.trace import Trace

FORMATS = {log.name: log for log in (ARRIVAL_CSV, REQUEST_CSV, S3_LOG, CLOUDFRONT_LOG, ALB_LOG, COMBINED_LOG)}
FORMAT_NAMES = ("auto", *FORMATS)
_LINES_TO_RECOGNISE = 50  # a log may start with a bad row
_LINES_TO_TELL = 100_000


@dataclass(frozen=True, slots=True)
class Log:
    """A log that was read: its trace, and what else was in it."""

    trace: Trace
    format_name: str
    files: int
    rows: int  # lines other than headers and comments
    other_requests: int  # another method than GET, or another status than 2xx and 304
    bad_rows: int  # skipped because they are not rows of this format
    origin_us: int | None  # time 0 of the trace, since 1970 in UTC; None where the log has no dates


def read_trace(
    paths: Sequence[str | Path] | str | Path,
    *,
    format_: str = "auto",
    rank: int | None = None,
    skip_bad_rows: bool = False,
) -> Trace:
    """Return the trace in one or more files.

    Args:
        paths: Files, folders and globs; plain or gzip; in any order.
        format_: One of `FORMAT_NAMES`; `auto` looks at the first lines of each file.
        rank: Only the rank-th most requested key, from 1; None for all keys. Equals rank by name.
        skip_bad_rows: Leave out rows that the format does not allow, instead of ending at the first one.

    Returns:
        The trace. A CSV with times of its own keeps them; a log with dates starts at its first request that counts,
        whichever key is chosen.

    Raises:
        BadLogError: A file cannot be read, has a bad row (file, line, what was expected), or nothing is left.
        InvalidSettingError: No such format or rank.
    """
    return read_log(paths, format_=format_, rank=rank, skip_bad_rows=skip_bad_rows).trace


def read_log(
    paths: Sequence[str | Path] | str | Path,
    *,
    format_: str = "auto",
    rank: int | None = None,
    skip_bad_rows: bool = False,
    on_lines: Callable[[int], None] | None = None,
) -> Log:
    """Return the trace and the counts of what is not in it; arguments and errors are those of `read_trace`.

    Args:
        paths: See `read_trace`.
        format_: See `read_trace`.
        rank: See `read_trace`.
        skip_bad_rows: See `read_trace`.
        on_lines: Called now and then with the number of lines read since the last call.
    """
    if format_ not in FORMAT_NAMES:
        raise InvalidSettingError(f"log format {format_!r}: expected one of {', '.join(FORMAT_NAMES)}")
    if rank is not None and rank < 1:
        raise InvalidSettingError(f"rank {rank}: expected 1 (the most requested key) or more")
    reading = _Reading(FORMATS.get(format_), skip_bad_rows, on_lines or (lambda lines: None))
    files = log_files([paths] if isinstance(paths, str | Path) else paths)
    for path in files:
        reading.read(path)
    return reading.log(files, rank)


class _Reading:
    """What has been read so far."""

    def __init__(self, format_: LogFormat | None, skip_bad_rows: bool, on_lines: Callable[[int], None]) -> None:
        self.format = format_
        self.guessed_by: Path | None = None  # the file that showed the format, if nobody named it
        self.skips_bad_rows = skip_bad_rows
        self.on_lines = on_lines
        self.columns = Columns()
        self.rows = self.bad_rows = self.comments = 0

    def read(self, path: Path) -> None:
        """Add all requests of a file."""
        number, requests_before = 0, len(self.columns)
        try:
            with open_log(path) as stream:
                head = list(islice(stream, _LINES_TO_RECOGNISE))
                if not head:
                    return  # a folder fetched from S3 may hold empty markers; if there is nothing else, it shows later
                head[0] = head[0].removeprefix(BOM_UTF8)
                self.format = format_ = self._format_of(path, head)
                parse = format_.new_parser(head[0])
                for number, line in enumerate(chain(head, stream), start=1):
                    if not number % _LINES_TO_TELL:
                        self.on_lines(_LINES_TO_TELL)
                    try:
                        self._take(parse(line), number, line)
                    except BadRowError as error:
                        self._reject(path, number, line, error)
        except READ_ERRORS as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BadLogError(f"{path} line {number + 1}: expected a file that can be read ({reason})") from error
        self.rows += number
        self.on_lines(number % _LINES_TO_TELL)
        if format_ is ARRIVAL_CSV and len(self.columns) == requests_before:
            raise BadLogError(f"{path} line {number + 1}: the trace is empty: expected at least one row of seconds")

    def _take(self, request: Request | None, number: int, line: bytes) -> None:
        if request:
            self.columns.add(*request)
        elif line.startswith(b"#") or (number == 1 and self.format and self.format.starts_with_header):
            self.comments += 1

    def _reject(self, path: Path, number: int, line: bytes, error: BadRowError) -> None:
        if self.format and self.format.allows_blank_lines and not line.strip():
            self.comments += 1
            return
        if not self.skips_bad_rows:
            raise bad_line(path, number, line, str(error)) from error
        self.bad_rows += 1

    def _format_of(self, path: Path, head: list[bytes]) -> LogFormat:
        """Return the format of a file; all files have the same."""
        if not self.format:
            if not (guess := _guess(head)):
                accepted = "; ".join(format_.describes for format_ in FORMATS.values())
                raise bad_line(path, 1, head[0], f"the first line of one of: {accepted}")
            self.guessed_by = path
            return guess
        if _fits(self.format, head):
            return self.format
        if self.format.starts_with_header:
            raise bad_line(path, 1, head[0], f"the header of a {self.format.describes}")
        if self.guessed_by and _guess(head):
            same = f"{self.format.describes}, as in {self.guessed_by}: all files of a log have one format"
            raise bad_line(path, 1, head[0], same)
        return self.format  # its rows are named one by one, or skipped

    def log(self, files: Sequence[Path], rank: int | None) -> Log:
        """Return what was read, and keep nothing."""
        if not self.format or not len(self.columns):
            named = f"{files[0]} line 1" if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
            raise BadLogError(f"{named}: no request in {self._counted_rows()} rows: expected GETs answered 2xx or 304")
        other_requests = self._counted_rows() - self.bad_rows - len(self.columns)
        origin_us = self.columns.first_us() if self.format.has_dates else None
        names = key_names(self.columns.ids, self.format)
        key_id = None if rank is None else id_of_rank(self.columns.counts(), names, rank)
        has_keys = self.format is not ARRIVAL_CSV
        trace = self.columns.take_trace(
            names, origin_us=origin_us or 0, key_id=key_id if has_keys else None, has_keys=has_keys
        )
        return Log(
            trace=trace,
            format_name=self.format.name,
            files=len(files),
            rows=self._counted_rows(),
            other_requests=other_requests,
            bad_rows=self.bad_rows,
            origin_us=origin_us,
        )

    def _counted_rows(self) -> int:
        return self.rows - self.comments


def _guess(head: list[bytes]) -> LogFormat | None:
    return next((format_ for format_ in FORMATS.values() if _fits(format_, head)), None)


def _fits(format_: LogFormat, head: list[bytes]) -> bool:
    """True if a file with these first lines can be of this format."""
    return any(map(format_.recognises, head[:1] if format_.starts_with_header else head))
