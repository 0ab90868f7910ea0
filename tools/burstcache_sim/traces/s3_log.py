"""Amazon S3 server access logs.

Source:
    Amazon S3 User Guide, "Amazon S3 server access log format": space-separated fields, time in brackets, request line
    in quotes or `-`, URL-encoded keys, records in no particular order, new fields appended at the end. In practice,
    keys in client requests are encoded twice (`a b` as `a%2520b`). Keys in deletions and expiries are encoded once.
"""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import (
    FieldPattern,
    LogFormat,
    LogParser,
    Request,
    decoded,
    is_served,
    parse_content,
)
from burstcache_sim.traces.ranges import ResponseContent
from burstcache_sim.traces.timestamps import bracketed_us

# Fields in order, captured ones in parentheses: owner, (bucket), [(time)], address, requester, request id, (operation),
# (key), request line, (status), error code, (bytes sent), (object size). The request line may contain quotes, and ends
# before a status. A size at the end of a file without a final line ending may be truncated.
_PATTERN = (
    rb"\S+ (?P<bucket>\S+) \[(?P<time>[^\]\n]+)\] \S+ \S+ \S+ (?P<operation>\S+) (?P<key>\S+) "
    rb'(?:"[^"\n]*"|".*?"|-) (?P<status>\d{3}|-) \S+ (?P<sent>\d+|-) (?P<object>\d+|-)'
)
_LINE = regex(_PATTERN + rb"(?: |\r?\n)")
_PART_NUMBER = b"partNumber="  # the only kind of range in a record
_PART = regex(rb'(?:"|- )(?:[^"\n]*[?&])?partNumber=(\d{1,5})[& ]')
_READS = frozenset((b"REST.GET.OBJECT", b"WEBSITE.GET.OBJECT"))


def _name(fields: tuple[bytes, ...]) -> bytes | None:
    bucket, operation, key = fields
    return bucket + b"/" + decoded(decoded(key)) if operation in _READS else None


def _is_served(status: bytes) -> bool:
    return status != b"-" and is_served(status)


def _content(status: bytes, size: bytes, sent: bytes, object_: bytes, range_: bytes = b"") -> ResponseContent:
    return parse_content(status, size, b"0" if sent == b"-" else sent, object_, range_)


_FIELDS = FieldPattern(
    regex(rb"^(?!#)" + _PATTERN + rb"(?: .*\n|\r?\n)", MULTILINE),
    bracketed_us,
    _name,
    _is_served,
    _content,
    rows_only=_PART_NUMBER,
)


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError(
            "a record of an S3 server access log: owner bucket [time] address requester id operation key ..."
        )
    bucket, time, operation, key, status, sent, size = match.groups()
    arrival_us = bracketed_us(time)
    if not _is_served(status) or (name := _name((bucket, operation, key))) is None:
        return None
    part = _PART.search(line) if _PART_NUMBER in line else None
    return arrival_us, name, _content(status, b"", sent, size, b"p" + part[1] if part else b"")


S3_LOG = LogFormat(
    name="s3",
    describes="S3 server access log",
    recognises=lambda head: any(map(_LINE.match, head)),
    new_parser=lambda first_line: LogParser(_parse, _FIELDS),
    has_buckets=True,
)
