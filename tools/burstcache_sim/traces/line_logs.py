"""Line-based log formats that one pattern each can parse: squid, HAProxy, Envoy, Azure Blob Storage.

Source:
    Squid wiki, "Squid Log Files": the native `access.log`. HAProxy Configuration Manual, "HTTP log format". Envoy,
    "Access logging: default format string" (Istio's default has three more fields). Azure Storage, "Storage Analytics
    log format" 1.0 and 2.0.
"""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from re import MULTILINE
from re import compile as regex

from burstcache_sim.traces.combined_log import name_of_request
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.fields import is_get
from burstcache_sim.traces.log_format import (
    FieldPattern,
    LogFormat,
    LogParser,
    Request,
    is_served,
    parse_content,
    path_of,
)
from burstcache_sim.traces.timestamps import any_time_us, bracketed_us, iso_us, seconds_us

_Name = Callable[[tuple[bytes, ...]], bytes | None]
_NO_STATUS = frozenset((b"-", b"-1", b"0", b"000"))  # the client disconnected before a response
_REQUEST = rb'"(?P<request>(?:[^"\\\n]|\\.)*+)"'


def _is_served(status: bytes) -> bool:
    return status not in _NO_STATUS and is_served(status)


def line_log(
    name: str, describes: str, shape: str, pattern: bytes, time_us: Callable[[bytes], int], name_of: _Name
) -> LogFormat:
    """Return the format of lines that begin with a match of a pattern.

    Args:
        name: The format's name in `--format`.
        describes: The format's name in messages.
        shape: The shape of a line, for messages.
        pattern: Pattern with the groups `time`, `status` and `size`, and the groups for `name_of` in order.
        time_us: Converts the raw time to microseconds since 1970.
        name_of: Converts the other groups to the object's name, or to None if the request is not a GET.
    """
    line_pattern = regex(pattern)
    names = [group for group in line_pattern.groupindex if group not in ("time", "status", "size")]

    def parse(line: bytes) -> Request | None:
        if not (match := line_pattern.match(line)):
            raise BadRowError(f"a line of {describes}: {shape}")
        arrival_us = time_us(match["time"])
        key = name_of(tuple(match[group] for group in names)) if _is_served(match["status"]) else None
        return None if key is None else (arrival_us, key, parse_content(match["status"], match["size"]))

    fields = FieldPattern(regex(rb"^" + pattern + rb".*\n", MULTILINE), time_us, name_of, _is_served)
    return LogFormat(
        name=name,
        describes=describes,
        recognises=lambda head: any(map(line_pattern.match, head)),
        new_parser=lambda first_line: LogParser(parse, fields),
        has_paths=True,
    )


def _method_and_target(texts: tuple[bytes, ...]) -> bytes | None:
    method, target = texts
    return path_of(target) if is_get(method) else None


def _operation_and_key(texts: tuple[bytes, ...]) -> bytes | None:
    operation, key = texts  # HTML-encoded, without quotes and semicolons
    return (
        path_of(unescape(key.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
        if is_get(operation)
        else None
    )


LINE_LOGS = (
    line_log(
        "squid",
        "a squid access.log",
        "time elapsed client code/status bytes method URL ...",
        rb"(?P<time>\d{9,10}\.\d{3}) +\d+ \S+ \w+/(?P<status>\d{1,3}) (?P<size>\d+) "
        rb"(?P<method>\w+) (?P<target>\S+)(?=\s)",
        seconds_us,
        _method_and_target,
    ),
    line_log(
        "haproxy",
        "an HTTP log of HAProxy",
        'client:port [time] frontend backend/server timers status bytes ... "request"',
        rb"(?:[^\[\n]*\[[^\]\n]*\]: )?[^\[\n]*?\[(?P<time>[^\]\n]+)\] \S+ [^/\s]++/[^/\s]++ [-+\d]+(?:/[-+\d]+){3,4} "
        rb'(?P<status>-1|\d{1,3}) \+?(?P<size>\d+) \S+ \S+ \S+ [+\d]+(?:/[+\d]+){4} \d+/\d+ [^"\n]*' + _REQUEST,
        bracketed_us,
        name_of_request,
    ),
    line_log(
        "envoy",
        "an access log of Envoy",
        '[time] "request" status flags bytes_received bytes_sent duration ...',
        rb"\[(?P<time>\d{4}-\d\d-\d\dT[^\]\n]+)\] " + _REQUEST + rb" (?P<status>\d{1,3}) \S+ "
        rb'(?:\S+ \S+ "[^"\n]*" )?\d+ (?P<size>\d+) [-\d]+ [-\d]+(?=\s)',
        iso_us,
        name_of_request,
    ),
    line_log(
        "azure-blob",
        "a log of Azure Storage Analytics",
        "version;time;operation;result;status;...;url;key;...",
        rb"[12]\.0;(?P<time>[^;\n]+);(?P<operation>\w+);\w*;(?P<status>\d{1,3});[^;\n]*;[^;\n]*;[^;\n]*;[^;\n]*;[^;\n]*;"
        rb'[^;\n]*;"[^"\n]*";"(?P<key>[^"\n]*)";[^;\n]*;[^;\n]*;[^;\n]*;[^;\n]*;[^;\n]*;[^;\n]*;[^;\n]*;(?P<size>\d*)(?=;)',
        any_time_us,
        _operation_and_key,
    ),
)
