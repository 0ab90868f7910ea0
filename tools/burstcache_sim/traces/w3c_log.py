"""W3C extended logs with a `#Fields` line: CloudFront's (tab-separated), IIS's and others (space-separated).

Source:
    Amazon CloudFront Developer Guide, "Standard logging reference": `#Version` and `#Fields` first, then tab-separated,
    URL-encoded values (a `%` in the request becomes `%25`). `date` and `time` are the end of the response in UTC and
    whole seconds. v2 can add `timestamp(ms)`. W3C, "Extended Log File Format" (working draft). IIS encodes paths once
    and writes times in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from re import MULTILINE
from re import compile as regex

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.json_rows import json_object, text_of
from burstcache_sim.traces.log_format import (
    FieldPattern,
    LogFormat,
    LogParser,
    Request,
    RowParser,
    decoded,
    is_served,
    path_of,
    size_bytes,
    text,
)
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, ResponseContent, response_content
from burstcache_sim.traces.timestamps import iso_us

_HEADER = b"#Fields:"
_NEEDED = (b"cs-method", b"cs-uri-stem", b"sc-status")
_MILLISECONDS = b"timestamp(ms)"
_RANGE = (b"sc-range-start", b"sc-range-end")
_MIN_TABS = 3  # in a row with the fewest fields
_TAB, _BLANK = b"\t", b" "
_USED = (*_NEEDED, _MILLISECONDS, *_RANGE, b"date", b"time", b"sc-content-len", b"sc-bytes")
_MEMBERS = {name.decode(): name for name in _USED}  # of a JSON object
_NO_RESPONSE = b"000"  # the viewer disconnected before a response


def _new_parser(separator: bytes) -> LogParser:
    parse_row: RowParser | None = None

    def parse(line: bytes) -> Request | None:
        nonlocal parse_row
        if line.startswith(b"#"):
            if line.startswith(_HEADER):
                parse_row, parser.fields = _row_parser(line[len(_HEADER) :].split(), separator)
            return None
        if parse_row is None:
            raise BadRowError("a line `#Fields: date time ...` before the first row")
        return parse_row(line)

    parser = LogParser(parse)
    return parser


def _row_parser(names: list[bytes], separator: bytes) -> tuple[RowParser, FieldPattern | None]:
    """Return the row parser and the bulk pattern for rows with these fields."""
    _check(names)
    width, word = len(names), "tabs" if separator == _TAB else "blanks"

    def parse_row(line: bytes) -> Request | None:
        values = line.rstrip(b"\r\n").split(separator)
        if len(values) < width:
            raise BadRowError(f"{width} fields separated by {word}, as in #Fields, not {len(values)}")
        return _request_of(dict(zip(names, values, strict=False)), separator)

    return parse_row, _fields(names, separator)


def _check(names: Iterable[bytes]) -> None:
    """Raise a `BadRowError` unless the fields suffice for a request."""
    present = set(names)
    has_clock = _MILLISECONDS in present or {b"date", b"time"} <= present
    if not has_clock or not all(name in present for name in _NEEDED):
        raise BadRowError("the fields date, time, cs-method, cs-uri-stem, sc-status among #Fields")


def _request_of(values: Mapping[bytes, bytes], separator: bytes = _TAB) -> Request | None:
    """Build a request from a record's values by field. Return None if a cache would not serve the request."""
    stamp = values.get(_MILLISECONDS)
    time_us = iso_us(values[b"date"] + b"T" + values[b"time"]) if stamp is None else _timestamp_us(stamp)
    status = values[b"sc-status"]
    if values[b"cs-method"] != b"GET" or not _is_served(status):
        return None
    range_ = values.get(_RANGE[0], b"-") + b"\t" + values.get(_RANGE[1], b"-")
    content = _content(status, values.get(b"sc-content-len", b"-"), values.get(b"sc-bytes", b"-"), b"", range_)
    return time_us, _name(values[b"cs-uri-stem"], separator), content


@lru_cache(maxsize=4096)
def _content(status: bytes, size: bytes, sent: bytes, object_: bytes, range_: bytes) -> ResponseContent:
    """Return the content of a response. `sc-bytes` includes headers, but shows whether the viewer disconnected."""
    body_bytes, sent_bytes = size_bytes(size), size_bytes(sent)
    if body_bytes != UNKNOWN_BYTES and sent_bytes != UNKNOWN_BYTES:
        sent_bytes = min(body_bytes, sent_bytes)
    first, _, last = range_.partition(b"\t")
    range_ = first + b"-" + last if first.isdigit() and last.isdigit() else b""
    return response_content(status, body_bytes=body_bytes, sent_bytes=sent_bytes, range_=range_)


def _name(stem: bytes, separator: bytes) -> bytes:
    return decoded(path_of(stem)) if separator == _TAB else path_of(stem)  # CloudFront encodes a second time


def _fields(names: list[bytes], separator: bytes) -> FieldPattern | None:
    """Return a pattern for rows with these fields, or None if this order of fields needs the row parser."""
    groups = {b"cs-method": b"method", b"cs-uri-stem": b"stem", b"sc-status": b"status"}
    if _MILLISECONDS in names:
        groups[_MILLISECONDS] = b"time"
    elif names[:2] == [b"date", b"time"]:
        pass  # one group for both date and time, since about a hundred lines share each second
    else:
        return None
    groups |= {b"sc-content-len": b"size", b"sc-bytes": b"sent"}
    if len(set(names)) < len(names):
        return None
    value = rb"[^%b\r\n]*" % separator
    parts = [b"(?P<%b>%b)" % (groups[name], value) if name in groups else value for name in names]
    if range_at := [names.index(name) for name in _RANGE if name in names]:
        if range_at != [range_at[0], range_at[0] + 1]:
            return None
        parts[range_at[0]], parts[range_at[0] + 1] = b"(?P<range>" + value, value + b")"
    time_us: Callable[[bytes], int] = _timestamp_us
    if _MILLISECONDS not in names:
        parts[:2], time_us = [b"(?P<time>%b%b%b)" % (value, separator, value)], _date_and_time_us
    pattern = regex(rb"^(?!#)" + separator.join(parts) + rb"(?:%b.*)?\r?\n" % separator, MULTILINE)
    has_stem_first = names.index(b"cs-uri-stem") < names.index(b"cs-method")

    def name(texts: tuple[bytes, ...]) -> bytes | None:
        stem, method = texts if has_stem_first else reversed(texts)
        return _name(stem, separator) if method == b"GET" else None

    return FieldPattern(pattern, time_us, name, _is_served, _content)


def _is_served(status: bytes) -> bool:
    return status not in (b"-", _NO_RESPONSE) and is_served(status)


def _date_and_time_us(texts: bytes) -> int:
    return iso_us(texts.replace(b"\t", b"T").replace(b" ", b"T"))


def _timestamp_us(stamp: bytes) -> int:
    if not stamp.isdigit() or len(stamp) > 15:
        raise BadRowError(f"milliseconds since 1970, not {text(stamp)}")
    return int(stamp) * 1000


def _has_fields(head: list[bytes]) -> bool:
    return any(line.startswith((b"#Version:", _HEADER)) for line in head)


def _has_tabs(head: list[bytes]) -> bool:
    """Return whether the rows, or the header lines if there are no rows, have CloudFront's tabs."""
    rows = [line for line in head if not line.startswith(b"#")]
    return (
        any(row.count(_TAB) >= _MIN_TABS for row in rows)
        if rows
        else not any(line.startswith(b"#Software:") for line in head)
    )


CLOUDFRONT_LOG = LogFormat(
    name="cloudfront",
    describes="CloudFront standard log",
    recognises=lambda head: _has_fields(head) and _has_tabs(head),
    new_parser=lambda first_line: _new_parser(_TAB),
    has_paths=True,
)
W3C_LOG = LogFormat(
    name="w3c",
    describes="extended log of W3C, as of IIS",
    recognises=lambda head: (
        any(line.startswith((b"#Software:", b"#Version:", _HEADER)) for line in head) and not _has_tabs(head)
    ),
    new_parser=lambda first_line: _new_parser(_BLANK),
    has_paths=True,
)


def _parse_json(line: bytes) -> Request | None:
    members = json_object(line)
    values = {name: text_of(members[member]) for member, name in _MEMBERS.items() if member in members}
    _check(values)
    return _request_of(values)


CLOUDFRONT_JSON = LogFormat(
    name="cloudfront-json",
    describes="CloudFront standard log v2 as JSON lines",
    recognises=lambda head: any(line.startswith(b"{") and b'"cs-uri-stem"' in line for line in head),
    new_parser=lambda first_line: LogParser(_parse_json),
    has_paths=True,
)
