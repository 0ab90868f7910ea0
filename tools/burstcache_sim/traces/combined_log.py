"""Access logs of Apache and Nginx: common and combined, with or without a virtual host in front.

Source:
    Apache HTTP Server, mod_log_config: `%h %l %u %t "%r" %>s %b`, then quoted referrer and agent; inside quotes `"` and
    the backslash are escaped by a backslash, other bytes as \\xhh. Logs older than version 2.0.46 escape nothing.
"""

from __future__ import annotations

from re import Match
from re import compile as regex

from burstcache_sim.traces.clock import bracketed_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import LogFormat, Parser, Request, is_served, path_of, size_bytes

_LINE = regex(rb'\S+ \S+ .*?\[([^\]"]*)\] "((?:[^"\\]|\\.)*+|.*?)" (\d{3}) (\d+|-)(?=\s|$)')
_ESCAPE = regex(rb'\\(x[0-9a-fA-F]{2}|["\\])')


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError('a line of an access log: host ident user [time] "request" status bytes …')
    time, request, status, size = match.groups()
    arrival_us = bracketed_us(time)
    if not request.startswith(b"GET ") or not is_served(status):
        return None
    target = request[4:].rpartition(b" HTTP/")[0] or request[4:]
    return arrival_us, path_of(unescaped(target)), size_bytes(size, status)


def unescaped(target: bytes) -> bytes:
    """Return a request target without the backslashes that the log has put before some bytes."""
    return _ESCAPE.sub(_byte, target) if b"\\" in target else target


def _byte(match: Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes((int(escaped[1:], 16),)) if len(escaped) == 3 else escaped


def _new_parser(first_line: bytes) -> Parser:
    return _parse


COMBINED_LOG = LogFormat(
    name="combined",
    describes="Apache or Nginx access log, common or combined",
    recognises=lambda line: _LINE.match(line) is not None,
    new_parser=_new_parser,
)
