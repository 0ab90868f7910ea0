"""Traces of many keys: CSV with a header that has a time and a key; columns of size, method, status are read too."""

from __future__ import annotations

import csv
from collections.abc import Callable
from re import MULTILINE
from re import compile as regex

from burstcache_sim.traces.clock import is_iso, iso_us, seconds_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import (
    FieldNames,
    Fields,
    LogFormat,
    Parser,
    Request,
    answer_in,
    is_served,
    without_line_end,
)
from burstcache_sim.traces.ranges import Answer, names_range

_GET, _OK, _PART = b"GET", b"200", b"206"
# What a header may call its columns, whatever the case of its letters.
_USUAL_NAMES = {
    "time": (b"t", b"time", b"timestamp"),
    "key": (b"key",),
    "size": (b"size",),
    "method": (b"op", b"method"),
    "status": (b"status",),
    "sent": (b"sent_bytes",),
    "object": (b"object_bytes", b"object_size"),
    "range": (b"range", b"http_range"),
}
_DEFAULT_NAMES: FieldNames = {}


def request_csv(names: FieldNames = _DEFAULT_NAMES, *, has_dates: bool = False) -> LogFormat:
    """Return the format of tables.

    Args:
        names: How columns are called that have none of the usual names.
        has_dates: Whether the times are ISO 8601 or seconds; the first row shows which.
    """
    return LogFormat(
        name="csv",
        describes="CSV of many keys with times of ISO 8601"
        if has_dates
        else "CSV of many keys, header t,key,size,op,client,status (the last four as you like)",
        recognises=lambda head: _places(head[0], names) is not None and _has_dates(head, names) == has_dates,
        new_parser=lambda first_line: _new_parser(first_line, names, iso_us if has_dates else seconds_us),
        starts_with_header=True,
        has_dates=has_dates,
        allows_blank_lines=False,
    )


def _places(header: bytes, names: FieldNames) -> dict[str, int] | None:
    """Return which column has what; None if the header lacks a time, a key or a column that was named."""
    try:
        columns = _fields(header)
    except BadRowError:
        return None
    lower = [column.lower() for column in columns]
    places = {}
    for field, usual in _USUAL_NAMES.items():
        if field in names:
            if (wanted := names[field].encode()) not in columns:
                return None
            places[field] = columns.index(wanted)
        elif found := [lower.index(name) for name in usual if name in lower]:
            places[field] = found[0]
    return places if {"time", "key"} <= places.keys() else None


def _has_dates(head: list[bytes], names: FieldNames) -> bool:
    places = _places(head[0], names)
    if places is None or len(head) < 2:
        return False
    try:
        return is_iso(_fields(head[1])[places["time"]])
    except (BadRowError, IndexError):
        return False


def _fields(line: bytes) -> list[bytes]:
    line = without_line_end(line)
    if b'"' not in line:
        return line.split(b",")
    try:
        row = next(csv.reader([line.decode("latin-1")], strict=True))
    except csv.Error as error:
        raise BadRowError(f"a row of CSV ({error})") from error
    return [field.encode("latin-1") for field in row]


def _new_parser(first_line: bytes, names: FieldNames, time_us: Callable[[bytes], int]) -> Parser:
    places = _places(first_line, names) or {}
    columns = _fields(first_line)
    t, key = places["time"], places["key"]
    op, status, size, sent, object_, range_ = map(places.get, ("method", "status", "size", "sent", "object", "range"))
    is_header_due = True

    def parse(line: bytes) -> Request | None:
        nonlocal is_header_due
        if is_header_due:
            is_header_due = False
            return None
        fields = _fields(line)
        if len(fields) != len(columns):
            raise BadRowError(f"{len(columns)} fields ({b','.join(columns).decode(errors='replace')})")
        answer = b"" if status is None else fields[status]
        sizes = (b"" if place is None else fields[place] for place in (size, sent, object_, range_))
        carried = _answer(answer, *sizes)
        arrival_us = time_us(fields[t])
        if not _is_served(answer) or (op is not None and fields[op].upper() != _GET):
            return None
        return arrival_us, fields[key], carried

    return Parser(parse, _pattern(len(columns), places, time_us))


def _is_served(status: bytes) -> bool:
    """True if a row counts; one without a status does.

    Raises:
        BadRowError: The status is neither empty nor three digits.
    """
    try:
        return not status or is_served(status)
    except BadRowError as error:
        raise BadRowError(f"{error} (if the column has something else, leave it out)") from error


def _pattern(width: int, places: dict[str, int], time_us: Callable[[bytes], int]) -> Fields:
    """Return how rows without quotes are read."""
    groups = {place: field for field, place in places.items()}
    values = [rb"[^,\"\r\n]*" for _ in range(width)]
    for place, field in groups.items():
        values[place] = b"(?P<%b>%b)" % (field.encode(), values[place])
    has_method_first = places.get("method", width) < places["key"]

    def name(texts: tuple[bytes, ...]) -> bytes | None:
        if "method" not in places:
            return texts[0]
        key, method = reversed(texts) if has_method_first else texts
        return key if method.upper() == _GET else None

    return Fields(regex(rb"^" + b",".join(values) + rb"\r?\n", MULTILINE), time_us, name, _is_served, _answer)


def _answer(status: bytes, size: bytes, sent: bytes, object_: bytes, range_: bytes) -> Answer:
    return answer_in(status or (_PART if names_range(range_) else _OK), size, sent, object_, range_)
