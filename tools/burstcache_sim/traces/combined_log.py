"""Access logs of Apache and Nginx in the common and combined formats, optionally prefixed by a virtual host.

Source:
    Apache HTTP Server, mod_log_config: `%h %l %u %t "%r" %>s %b`, then quoted referrer and agent. Inside quotes, a
    backslash escapes `"` and itself, and other special bytes appear as \\xhh. Versions before 2.0.46 escape nothing.
"""

from __future__ import annotations

from re import MULTILINE, Match
from re import compile as regex

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import (
    FieldPattern,
    LogFormat,
    LogParser,
    Request,
    is_served,
    parse_content,
    path_of,
    target_of,
)
from burstcache_sim.traces.timestamps import bracketed_us

# The atomic group keeps matching linear for lines without a quote. The time is the first bracketed one before a quote.
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
    return arrival_us, name, parse_content(status, size)


def name_of_request(fields: tuple[bytes, ...]) -> bytes | None:
    """Return the object in an escaped request line, or None if the request is not a GET."""
    target = target_of(fields[0])
    return None if target is None else path_of(unescaped(target))


def unescaped(target: bytes) -> bytes:
    """Unescape a request target from a log."""
    return _ESCAPE.sub(_byte, target) if b"\\" in target else target


def _byte(match: Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes((int(escaped[1:], 16),)) if len(escaped) == 3 else escaped


_FIELDS = FieldPattern(regex(rb"^(?!#)" + _PATTERN + rb"(?=\s).*\n", MULTILINE), bracketed_us, name_of_request)

COMBINED_LOG = LogFormat(
    name="combined",
    describes="Apache or Nginx access log, common or combined",
    recognises=lambda head: any(map(_LINE.match, head)),
    new_parser=lambda first_line: LogParser(_parse, _FIELDS),
    has_paths=True,
)
