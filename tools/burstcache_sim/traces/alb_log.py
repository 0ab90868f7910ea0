"""Access logs of Application Load Balancers.

Source:
    Elastic Load Balancing User Guide, "Access logs for your Application Load Balancer": blanks between fields, texts in
    quotes, new fields at the end. `time` is when the answer was made, `request_creation_time` when the request came;
    entries from before 2018 have no such field.
"""

from __future__ import annotations

from re import compile as regex

from burstcache_sim.traces.clock import iso_us
from burstcache_sim.traces.combined_log import unescaped
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import LogFormat, Parser, Request, is_served, path_of, size_bytes

_QUOTED = rb'"((?:[^"\\]|\\.)*+)"'
# Type, (time), balancer, client, target, three durations, (status), target's status, bytes in, (bytes out), (request).
_LINE = regex(
    rb"(?:http|https|h2|grpcs|ws|wss) (\d{4}-\d\d-\d\dT\S+)(?: \S+){6} (\d{3}|-) \S+ (?:\d+|-) (\d+|-) " + _QUOTED
)
# Agent, cipher, protocol, target group, "trace id", "domain", "certificate", rule priority, (request creation time).
_CREATED = regex(
    rb' "(?:[^"\\]|\\.)*+" \S+ \S+ \S+ "[^"]*" "[^"]*" "[^"]*" \S+ (\d{4}-\d\d-\d\dT[\d:.]+Z)(?=\s|$)'
)  # fmt: skip


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError("an entry of an Application Load Balancer's access log: type time elb client:port …")
    time, status, size, request = match.groups()
    created = _CREATED.match(line, match.end())
    if not created and not line.endswith(b"\n"):
        raise BadRowError("the fields up to request_creation_time: the line is cut off")
    arrival_us = iso_us(created[1] if created else time)
    if not request.startswith(b"GET ") or status == b"-" or not is_served(status):
        return None
    target = request[4:].rpartition(b" HTTP/")[0] or request[4:]
    return arrival_us, path_of(unescaped(target)), size_bytes(size, status)


def _new_parser(first_line: bytes) -> Parser:
    return _parse


ALB_LOG = LogFormat(
    name="alb",
    describes="Application Load Balancer access log",
    recognises=lambda line: _LINE.match(line) is not None,
    new_parser=_new_parser,
)
