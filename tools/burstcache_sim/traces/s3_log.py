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
from burstcache_sim.traces.log_format import Fields, LogFormat, Parser, Request, decoded, is_served, size_bytes

# Owner, (bucket), [(time)], address, requester, request id, (operation), (key), request line, (status), error code,
# bytes sent, (object size). The request line may hold quotes: it ends where a status follows. A size that nothing
# follows, not even a line end, may have lost digits: the line is cut off.
_PATTERN = (
    rb"\S+ (?P<bucket>\S+) \[(?P<time>[^\]\n]+)\] \S+ \S+ \S+ (?P<operation>\S+) (?P<key>\S+) "
    rb'(?:"[^"\n]*"|".*?"|-) (?P<status>\d{3}|-) \S+ (?:\d+|-) (?P<size>\d+|-)'
)
_LINE = regex(_PATTERN + rb"(?: |\r?\n)")
_READS = frozenset((b"REST.GET.OBJECT", b"WEBSITE.GET.OBJECT"))


def _name(fields: tuple[bytes, ...]) -> bytes | None:
    bucket, operation, key = fields
    return bucket + b"/" + decoded(decoded(key)) if operation in _READS else None


def _is_served(status: bytes) -> bool:
    return status != b"-" and is_served(status)


def _size_bytes(size: bytes, status: bytes) -> int:
    return size_bytes(size)  # of the object, whatever part of it was sent


_FIELDS = Fields(
    regex(rb"^(?!#)" + _PATTERN + rb"(?: .*\n|\r?\n)", MULTILINE), bracketed_us, _name, _is_served, _size_bytes
)


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError(
            "a record of an S3 server access log: owner bucket [time] address requester id operation key …"
        )
    bucket, time, operation, key, status, size = match.groups()
    arrival_us = bracketed_us(time)
    if not _is_served(status) or (name := _name((bucket, operation, key))) is None:
        return None
    return arrival_us, name, size_bytes(size)


S3_LOG = LogFormat(
    name="s3",
    describes="S3 server access log",
    recognises=lambda head: any(map(_LINE.match, head)),
    new_parser=lambda first_line: Parser(_parse, _FIELDS),
    has_buckets=True,
)
