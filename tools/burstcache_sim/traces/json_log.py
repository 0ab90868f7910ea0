"""Access logs as JSON lines: an object per request, with the names that Nginx's variables have or that an option gives.

Source:
    Nginx, ngx_http_log_module: `escape=json` writes what `log_format` says; `$time_iso8601` and `$time_local` have
    whole seconds, `$msec` milliseconds, all of when the answer was finished; `$request_uri` is as the client wrote it,
    `$uri` decoded.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from burstcache_sim.traces.clock import any_time_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.json_rows import json_object, text_of
from burstcache_sim.traces.log_format import (
    FieldNames,
    LogFormat,
    Parser,
    Request,
    answer_in,
    is_served,
    path_of,
    target_of,
)
from burstcache_sim.traces.ranges import names_range

# The first of these that an object has; where there are several, the more exact first.
_TIMES = ("msec", "time_iso8601", "time_local", "@timestamp", "timestamp", "time", "ts", "t")
_SIZES = ("body_bytes_sent", "bytes_sent", "size", "bytes")
_METHODS = ("request_method", "method")
_STATUSES = ("status",)
_AMOUNTS = (("size", _SIZES), ("sent", ("sent_bytes",)), ("object", ("object_bytes", "object_size")))
_RANGES = ("range", "http_range", "sent_http_content_range")
_WRITTEN_PATHS = ("request_uri", "url", "path")  # with a query, still encoded
_PLAIN_PATHS = ("uri", "key")
_REQUEST = "request"
_DEFAULT_NAMES: FieldNames = {}


def json_log(names: FieldNames = _DEFAULT_NAMES) -> LogFormat:
    """Return the format of JSON lines whose members have these names, or else the usual ones."""
    parse = partial(_parse, names)
    return LogFormat(
        name="json",
        describes="JSON lines with the names of Nginx's variables (others: --fields)",
        recognises=lambda head: any(line.startswith(b"{") and _is_request(names, line) for line in head),
        new_parser=lambda first_line: Parser(parse),
        has_paths=True,
    )


def _is_request(names: FieldNames, line: bytes) -> bool:
    try:
        _parse(names, line)
    except BadRowError:
        return False
    return True


def _parse(names: FieldNames, line: bytes) -> Request | None:
    members = json_object(line)

    def value(field: str, usual: tuple[str, ...]) -> bytes | None:
        accepted = (names[field],) if field in names else usual
        return next((text_of(members[name]) for name in accepted if name in members), None)

    time = value("time", _TIMES)
    if time is None:
        raise BadRowError(f"a time in one of {', '.join([names['time']] if 'time' in names else _TIMES)}")
    arrival_us = any_time_us(time)
    range_ = value("range", _RANGES) or b""
    status = value("status", _STATUSES) or (b"206" if names_range(range_) else b"200")
    method = value("method", _METHODS)
    is_get = method is None or method.upper() == b"GET"
    key = members[names["key"]] if names.get("key") in members else None
    name = text_of(key) if key is not None else _path(members)
    if not is_served(status) or not is_get or name is None:
        return None
    size, sent, object_ = (value(*each) or b"" for each in _AMOUNTS)
    return arrival_us, name, answer_in(status, size, sent, object_, range_)


def _path(members: dict[str, Any]) -> bytes | None:
    """Return the object that a record names; None if it is not a GET.

    Raises:
        BadRowError: It names none.
    """
    for name in _WRITTEN_PATHS:
        if name in members:
            return path_of(text_of(members[name]))
    for name in _PLAIN_PATHS:
        if name in members:
            return text_of(members[name])
    if _REQUEST in members:
        target = target_of(text_of(members[_REQUEST]))
        return None if target is None else path_of(target)
    raise BadRowError(f"an object in one of {', '.join((*_WRITTEN_PATHS, *_PLAIN_PATHS, _REQUEST))}")
