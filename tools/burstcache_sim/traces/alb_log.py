"""Access logs of Application Load Balancers.

Source:
    Elastic Load Balancing User Guide, "Access logs for your Application Load Balancer": space-separated fields, quoted
    strings, new fields appended at the end. `time` is when the balancer responded, `request_creation_time` when it
    received the request. Entries from before 2018 lack the latter.
"""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex

from burstcache_sim.traces.combined_log import name_of_request
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import FieldPattern, LogFormat, LogParser, Request, is_served, parse_content
from burstcache_sim.traces.timestamps import iso_us

_TYPE = rb"(?:http|https|h2|grpcs|ws|wss) "
_TIME = rb"\d{4}-\d\d-\d\dT\S+"
# Fields in order, captured ones in parentheses: balancer, client, target, three durations, (status), target's status,
# bytes in, (bytes out), (request).
_PATTERN = rb'(?: \S+){6} (?P<status>\d{3}|-) \S+ (?:\d+|-) (?P<size>\d+|-) "(?P<request>(?:[^"\\\n]|\\.)*+)"'
# Then: agent, cipher, protocol, target group, "trace id", "domain", "certificate", rule priority, (creation time).
_CREATED = rb' "(?:[^"\\\n]|\\.)*+" \S+ \S+ \S+ "[^"\n]*" "[^"\n]*" "[^"\n]*" \S+ (?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z)'
_LINE = regex(_TYPE + rb"(" + _TIME + rb")" + _PATTERN)
_REST = regex(_CREATED + rb"(?=\s|$)")


def _is_served(status: bytes) -> bool:
    return status != b"-" and is_served(status)


_FIELDS = FieldPattern(
    regex(rb"^" + _TYPE + _TIME + _PATTERN + _CREATED + rb"(?=\s).*\n", MULTILINE),
    iso_us,
    name_of_request,
    _is_served,
)


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError("an entry of an Application Load Balancer's access log: type time elb client:port ...")
    time, status, size, request = match.groups()
    created = _REST.match(line, match.end())
    if not created and not line.endswith(b"\n"):
        raise BadRowError("the fields up to request_creation_time: the line is cut off")
    arrival_us = iso_us(created[1] if created else time)
    if not _is_served(status) or (name := name_of_request((request,))) is None:
        return None
    return arrival_us, name, parse_content(status, size)


ALB_LOG = LogFormat(
    name="alb",
    describes="Application Load Balancer access log",
    recognises=lambda head: any(map(_LINE.match, head)),
    new_parser=lambda first_line: LogParser(_parse, _FIELDS),
    has_paths=True,
)
