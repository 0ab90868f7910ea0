"""Table logs: one request per row, delimited by commas, semicolons, tabs, bars or spaces, with or without a header."""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from re import MULTILINE, escape
from re import compile as regex

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.fields import (
    USUAL_NAMES,
    FieldNames,
    KeyKind,
    is_get,
    is_success,
    kind_of,
    name_in,
    normalised,
    possible_sizes,
    time_field,
)
from burstcache_sim.traces.log_format import (
    FieldPattern,
    FormatCandidate,
    LogFormat,
    LogParser,
    Request,
    parse_content,
    without_line_end,
)
from burstcache_sim.traces.ranges import ResponseContent, has_range
from burstcache_sim.traces.timestamps import any_time_us, is_number, reader_of_unit, seconds_us, unit_of

# Keyed by the values of `--delimiter`. A blank matches any number of spaces and tabs.
DELIMITERS = {"comma": b",", "semicolon": b";", "tab": b"\t", "bar": b"|", "blank": b" "}
_OK, _PART = b"200", b"206"
_AMOUNTS = ("size", "sent", "object", "range")
_DIRECTIVE = regex(rb"#[A-Za-z-]+:")  # a header of another format
_DATE, _TIME = "date", "time"


@dataclass(frozen=True, slots=True)
class _ColumnLayout:
    """The column index of each field."""

    width: int
    time: tuple[int, ...]  # one column, or two for date and time
    key: int
    kind: KeyKind
    others: dict[str, int]
    has_header: bool


@dataclass(frozen=True, slots=True)
class _TableFormat:
    """The properties shared by all files of a log."""

    delimiter: bytes
    unit: str  # of numeric times (empty: times are dates)
    names: FieldNames

    @property
    def time_us(self) -> Callable[[bytes], int]:
        """The function that parses a row's time to microseconds."""
        if not self.unit:
            return any_time_us
        return seconds_us if self.unit == "s" else reader_of_unit(self.unit)

    def split(self, line: bytes) -> list[bytes]:
        """Split a row into its values."""
        return split_row(line, self.delimiter)


def tables(names: FieldNames, delimiter: bytes | None = None) -> FormatCandidate:
    """Return the candidate for tables.

    Args:
        names: Names of columns without a usual name, or their numbers from 1.
        delimiter: The delimiter. If None, the first delimiter that yields columns for time and key is used.
    """
    return FormatCandidate("csv", "table with a header that has a time and a key", partial(_find, names, delimiter))


def _find(names: FieldNames, delimiter: bytes | None, head: list[bytes]) -> LogFormat | None:
    if _DIRECTIVE.match(head[0]):
        return None
    for separator in DELIMITERS.values() if delimiter is None else (delimiter,):
        if columns := _columns(head[0], separator, names):
            return _format(columns, separator, names, head, is_detected=delimiter is None)
    return None


def _format(
    columns: _ColumnLayout, delimiter: bytes, names: FieldNames, head: list[bytes], *, is_detected: bool
) -> LogFormat:
    unit, notes = _unit(columns, delimiter, names, head)
    table = _TableFormat(delimiter, unit, names)
    word = next(word for word, separator in DELIMITERS.items() if separator == delimiter)
    if is_detected and delimiter != b",":
        notes.append(f"columns are assumed to be separated by {word}s (--delimiter)")
    if columns.has_header and not columns.others.keys() & {"size", "object"}:
        header = [value.decode("utf-8", "backslashreplace") for value in split_row(head[0], delimiter)]
        used = {*columns.time, columns.key, *columns.others.values()}
        if sizes := possible_sizes([name for place, name in enumerate(header) if place not in used]):
            notes.append(f"possible columns of sizes: {', '.join(sizes)}; choose one by --fields size=NAME")
    times = f"times in {unit}" if unit else "times with a date"
    return LogFormat(
        name="csv",
        describes=f"table of many keys, columns separated by {word}s, {times}",
        recognises=lambda head: _columns(head[0], delimiter, names) is not None,
        new_parser=lambda first_line: _new_parser(first_line, table),
        starts_with_header=columns.has_header,
        has_dates=not unit or bool(_date_unit(columns, delimiter, head)),
        has_paths=columns.kind in (KeyKind.TARGET, KeyKind.REQUEST, KeyKind.URI),
        allows_blank_lines=False,
        note="; ".join(notes),
    )


def _unit(columns: _ColumnLayout, delimiter: bytes, names: FieldNames, head: list[bytes]) -> tuple[str, list[str]]:
    """Return the unit of numeric times (empty for dates), and notes on the unit."""
    if "time" in names and (unit := time_field(names["time"]).unit):
        return unit, []
    time = _first_time(columns, delimiter, head)
    if unit := unit_of(time):
        return unit, [] if unit == "s" else [f"times are assumed to be in {unit} (--fields time=NAME:s, ms, us or ns)"]
    return ("s" if not time or is_number(time) else ""), []


def _date_unit(columns: _ColumnLayout, delimiter: bytes, head: list[bytes]) -> str:
    """Return the unit, other than seconds, in which the first time is a date between 1990 and 2100, or ""."""
    unit = unit_of(_first_time(columns, delimiter, head))
    return "" if unit == "s" else unit


def _first_time(columns: _ColumnLayout, delimiter: bytes, head: list[bytes]) -> bytes:
    """Return the first valid time in a file's first lines, or else the first value in the time column, or b""."""
    times = []
    for row in head[columns.has_header :]:
        with suppress(BadRowError):
            values = split_row(row, delimiter)
            if len(values) == columns.width:
                times.append(_time(values, columns.time))
    return next(filter(_is_time, times), times[0] if times else b"")


def _time(values: list[bytes], places: tuple[int, ...]) -> bytes:
    return values[places[0]] if len(places) == 1 else b" ".join(values[place] for place in places)


def split_row(line: bytes, delimiter: bytes) -> list[bytes]:
    """Split a row into its values. Raise a `BadRowError` for unbalanced quotes."""
    line = without_line_end(line)
    if delimiter == b" ":
        return line.split()
    if b'"' not in line:
        values = line.split(delimiter)
    else:
        try:
            reader = csv.reader(
                [line.decode("latin-1")], strict=True, delimiter=delimiter.decode(), skipinitialspace=True
            )
            values = [value.encode("latin-1") for value in next(reader)]
        except csv.Error as error:
            raise BadRowError(f"a row of CSV ({error})") from error
    return [value.strip(b" ") for value in values]


def _columns(first_line: bytes, delimiter: bytes, names: FieldNames) -> _ColumnLayout | None:
    """Return the columns of the fields, or None if there is no column for the time, the key or a given name."""
    try:
        header = [value.decode("utf-8", "replace") for value in split_row(first_line, delimiter)]
    except BadRowError:
        return None
    if header and header[0].startswith("#"):
        header[0] = header[0].lstrip("# ")
    places: dict[str, int] = {}
    usual = [normalised(name) for name in header]
    time = _places_of_time(header, usual, names)
    for field in ("key", "method", "status", "size", "sent", "object", "range", "bucket"):
        if field in names:
            if (place := _place(header, names[field])) is None:
                return None
            places[field] = place
        elif usual_places := [usual.index(name) for name in USUAL_NAMES[field] if name in usual]:
            places[field] = usual_places[0]
    if not time or "key" not in places or len(header) < 2:
        return None
    key = places.pop("key")
    is_numbered = _is_numbered(names)
    has_header = not is_numbered or not _is_time(_time(split_row(first_line, delimiter), time))
    kind = kind_of(header[key]) if has_header else KeyKind.URI
    return _ColumnLayout(len(header), time, key, kind, places, has_header)


def _place(header: list[str], name: str) -> int | None:
    """Return the index of a column, given its number (from 1) or its name."""
    if name.isdecimal() and len(name) < 6 and 1 <= int(name) <= len(header):
        return int(name) - 1
    return header.index(name) if name in header else None


def _places_of_time(header: list[str], usual: list[str], names: FieldNames) -> tuple[int, ...]:
    if "time" in names:
        places = [_place(header, name) for name in time_field(names["time"]).names]
        return tuple(place for place in places if place is not None) if None not in places else ()
    if time_names := [name for name in USUAL_NAMES["time"] if name in usual]:
        if time_names[0] == _TIME and _DATE in usual:
            return usual.index(_DATE), usual.index(_TIME)
        return (usual.index(time_names[0]),)
    return ()


def _is_numbered(names: FieldNames) -> bool:
    return "time" in names and all(map(str.isdecimal, time_field(names["time"]).names))


def _is_time(time: bytes) -> bool:
    try:
        any_time_us(time)
    except BadRowError:
        return is_number(time)
    return True


def _new_parser(first_line: bytes, table: _TableFormat) -> LogParser:
    columns = _columns(first_line, table.delimiter, table.names)
    if columns is None:
        raise BadRowError("a header that has a time and a key")
    header = [value.decode("utf-8", "replace") for value in table.split(first_line)]
    time_us, others = table.time_us, columns.others
    op, status, bucket = map(others.get, ("method", "status", "bucket"))
    amounts = [others.get(field) for field in _AMOUNTS]
    is_header_due = columns.has_header

    def parse(line: bytes) -> Request | None:
        nonlocal is_header_due
        if is_header_due:
            is_header_due = False
            return None
        values = table.split(line)
        if len(values) != columns.width:
            raise BadRowError(
                f"{columns.width} fields ({','.join(header)})"
                if columns.has_header
                else f"{columns.width} columns, as in the first line"
            )
        code = b"" if status is None else values[status]
        content = _content(code, *(b"" if place is None else values[place] for place in amounts))
        arrival_us = time_us(_time(values, columns.time))
        if not _is_served(code) or (op is not None and not is_get(values[op])):
            return None
        name = name_in(values[columns.key], columns.kind, b"" if bucket is None else values[bucket])
        return None if name is None else (arrival_us, name, content)

    return LogParser(parse, _pattern(columns, table))


def _content(status: bytes, size: bytes, sent: bytes, object_: bytes, range_: bytes) -> ResponseContent:
    status = status.removesuffix(b".0")
    return parse_content(status or (_PART if has_range(range_) else _OK), size, sent, object_, range_)


def _is_served(status: bytes) -> bool:
    """Return whether a status counts as served. An empty status counts as served.

    Raises:
        BadRowError: The status is neither empty nor three digits.
    """
    try:
        return is_success(status)
    except BadRowError as error:
        raise BadRowError(f"{error} (if the column has something else, leave it out)") from error


def _pattern(columns: _ColumnLayout, table: _TableFormat) -> FieldPattern | None:
    """Return the pattern for rows without quotes, or None if this order of columns needs the row parser."""
    others = {field: place for field, place in columns.others.items() if field != "bucket"}
    groups = {place: field for field, place in {**others, "key": columns.key}.items()}
    first, last = columns.time[0], columns.time[-1]
    used = [*others.values(), columns.key, *columns.time]
    if len(set(used)) < len(used) or (first != last and last != first + 1) or "bucket" in columns.others:
        return None
    is_blank = table.delimiter == b" "
    separator = rb"[ \t]+" if is_blank else escape(table.delimiter)
    value = rb"[^ \t\"\r\n]+" if is_blank else rb"(?! )[^" + escape(table.delimiter) + rb"\"\r\n]*+(?<! )"
    values = [value] * columns.width
    for place, field in groups.items():
        values[place] = b"(?P<%b>%b)" % (field.encode(), value)
    values[first] = b"(?P<time>" + values[first]
    values[last] += b")"
    has_method_first = columns.others.get("method", columns.width) < columns.key
    kind, time_us = columns.kind, table.time_us

    def name(texts: tuple[bytes, ...]) -> bytes | None:
        if "method" not in others:
            return name_in(texts[0], kind)
        key, method = reversed(texts) if has_method_first else texts
        return name_in(key, kind) if is_get(method) else None

    def joined_time_us(texts: bytes) -> int:
        return time_us(b" ".join(texts.split(None if is_blank else table.delimiter)))

    return FieldPattern(
        regex(rb"^" + separator.join(values) + (rb"[ \t]*" if is_blank else b"") + rb"\r?\n", MULTILINE),
        time_us if first == last else joined_time_us,
        name,
        _is_served,
        _content,
    )
