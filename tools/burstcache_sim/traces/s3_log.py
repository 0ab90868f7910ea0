"""Amazon S3 server access logs.

Source:
    Amazon S3 User Guide, "Amazon S3 server access log format": fields apart by blanks, the time in brackets, the
    request's first line in quotes or `-`, keys URL-encoded, records in no particular order, new fields at the end. What
    clients ask for is encoded twice in practice (`a b` as `a%2520b`); only deletions and expiries are encoded once.
"""

from __future__ import annotations

from re import compile as regex

from burstcache_sim.traces.clock import bracketed_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import LogFormat, Parser, Request, decoded, is_served, size_bytes

# Owner, (bucket), [(time)], address, requester, request id, (operation), (key), request line, (status), error code,
# bytes sent, (object size). The request line may hold quotes: it ends where a status follows. A size that nothing
# follows, not even a line end, may have lost digits: the line is cut off.
_LINE = regex(
    rb'\S+ (\S+) \[([^\]]+)\] \S+ \S+ \S+ (\S+) (\S+) (?:"[^"]*"|".*?"|-) (\d{3}|-) \S+ (?:\d+|-) (\d+|-)(?: |\r?\n)'
)
_READS = frozenset((b"REST.GET.OBJECT", b"WEBSITE.GET.OBJECT"))


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError(
            "a record of an S3 server access log: owner bucket [time] address requester id operation key …"
        )
    bucket, time, operation, key, status, size = match.groups()
    arrival_us = bracketed_us(time)
    if operation not in _READS or status == b"-" or not is_served(status):
        return None
    return arrival_us, bucket + b"/" + decoded(decoded(key)), size_bytes(size)


def _new_parser(first_line: bytes) -> Parser:
    return _parse


S3_LOG = LogFormat(
    name="s3",
    describes="S3 server access log",
    recognises=lambda line: _LINE.match(line) is not None,
    new_parser=_new_parser,
    has_buckets=True,
)
