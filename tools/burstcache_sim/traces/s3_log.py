"""Amazon S3 server access logs.

Source:
    Amazon S3 User Guide, "Amazon S3 server access log format": fields apart by blanks, the time in brackets, the
    request's first line in quotes or `-`, keys URL-encoded, records in no particular order, new fields at the end. What
    clients ask for is encoded twice in practice (`a b` as `a%2520b`); only deletions and expiries are encoded once.
"""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex

from burstcache_sim.traces.clock import bracketed_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import Fields, LogFormat, Parser, Request, answer_in, decoded, is_served
from burstcache_sim.traces.ranges import Answer

# Owner, (bucket), [(time)], address, requester, request id, (operation), (key), request line, (status), error code,
# (bytes sent), (object size). The request line may hold quotes: it ends where a status follows. A size that nothing
# follows, not even a line end, may have lost digits: the line is cut off.
_PATTERN = (
    rb"\S+ (?P<bucket>\S+) \[(?P<time>[^\]\n]+)\] \S+ \S+ \S+ (?P<operation>\S+) (?P<key>\S+) "
    rb'(?:"[^"\n]*"|".*?"|-) (?P<status>\d{3}|-) \S+ (?P<sent>\d+|-) (?P<object>\d+|-)'
)
_LINE = regex(_PATTERN + rb"(?: |\r?\n)")
_PART_NUMBER = b"partNumber="  # the one kind of range that a record shows
_PART = regex(rb'(?:"|- )(?:[^"\n]*[?&])?partNumber=(\d{1,5})[& ]')
_READS = frozenset((b"REST.GET.OBJECT", b"WEBSITE.GET.OBJECT"))


def _name(fields: tuple[bytes, ...]) -> bytes | None:
    bucket, operation, key = fields
    return bucket + b"/" + decoded(decoded(key)) if operation in _READS else None


def _is_served(status: bytes) -> bool:
    return status != b"-" and is_served(status)


def _answer(status: bytes, size: bytes, sent: bytes, object_: bytes, range_: bytes = b"") -> Answer:
    return answer_in(status, size, b"0" if sent == b"-" else sent, object_, range_)


_FIELDS = Fields(
    regex(rb"^(?!#)" + _PATTERN + rb"(?: .*\n|\r?\n)", MULTILINE),
    bracketed_us,
    _name,
    _is_served,
    _answer,
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
    return arrival_us, name, _answer(status, b"", sent, size, b"p" + part[1] if part else b"")


S3_LOG = LogFormat(
    name="s3",
    describes="S3 server access log",
    recognises=lambda head: any(map(_LINE.match, head)),
    new_parser=lambda first_line: Parser(_parse, _FIELDS),
    has_buckets=True,
)
