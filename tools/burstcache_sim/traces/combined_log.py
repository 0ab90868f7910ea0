"""Access logs of Apache and Nginx: common and combined, with or without a virtual host in front.

Source:
    Apache HTTP Server, mod_log_config: `%h %l %u %t "%r" %>s %b`, then quoted referrer and agent; inside quotes `"` and
    the backslash are escaped by a backslash, other bytes as \\xhh. Logs older than version 2.0.46 escape nothing.
"""

from __future__ import annotations

from re import MULTILINE, Match
from re import compile as regex

from burstcache_sim.traces.clock import bracketed_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import (
    Fields,
    LogFormat,
    Parser,
    Request,
    answer_in,
    is_served,
    path_of,
    target_of,
)

# The first time before a quote counts, so that a line without one takes time in proportion to its length.
_PATTERN = (
    rb'\S+ {1,2}(?>\S+ .*?\[(?P<time>[^][\n"]*)\] ")(?P<request>(?:[^"\\\n]|\\.)*+|.*?)" '
    rb"(?P<status>\d{3}) (?P<size>\d+|-)"
)
_LINE = regex(_PATTERN + rb"(?=\s|$)")
_ESCAPE = regex(rb'\\(x[0-9a-fA-F]{2}|["\\])')


def _parse(line: bytes) -> Request | None:
    match = _LINE.match(line)
    if not match:
        raise BadRowError('a line of an access log: host ident user [time] "request" status bytes ...')
    time, request, status, size = match.groups()
    arrival_us = bracketed_us(time)
    if not is_served(status) or (name := name_of_request((request,))) is None:
        return None
    return arrival_us, name, answer_in(status, size)


def name_of_request(fields: tuple[bytes, ...]) -> bytes | None:
    """Return the object that an escaped first line of a request asks for; None if it is not a GET."""
    target = target_of(fields[0])
    return None if target is None else path_of(unescaped(target))


def unescaped(target: bytes) -> bytes:
    """Return a request target without the backslashes that the log has put before some bytes."""
    return _ESCAPE.sub(_byte, target) if b"\\" in target else target


def _byte(match: Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes((int(escaped[1:], 16),)) if len(escaped) == 3 else escaped


_FIELDS = Fields(regex(rb"^(?!#)" + _PATTERN + rb"(?=\s).*\n", MULTILINE), bracketed_us, name_of_request)

COMBINED_LOG = LogFormat(
    name="combined",
    describes="Apache or Nginx access log, common or combined",
    recognises=lambda head: any(map(_LINE.match, head)),
    new_parser=lambda first_line: Parser(_parse, _FIELDS),
    has_paths=True,
)
