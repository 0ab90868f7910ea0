"""CloudFront standard logs (text with tabs), legacy and v2.

Source:
    Amazon CloudFront Developer Guide, "Standard logging reference": `#Version` and `#Fields` first, then fields apart
    by tabs, values URL-encoded, so that a `%` of the request is `%25`. `date` and `time` say when the answer was
    finished, whole seconds of UTC; v2 can add `timestamp(ms)`.
"""

from __future__ import annotations

from collections.abc import Callable

from burstcache_sim.traces.clock import iso_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import LogFormat, Parser, Request, decoded, is_served, path_of, size_bytes, text

_FIELDS = b"#Fields:"
_NEEDED = (b"cs-method", b"cs-uri-stem", b"sc-status")
_NO_ANSWER = b"000"  # the viewer left before there was one


def _new_parser(first_line: bytes) -> Parser:
    parse_row: Callable[[bytes], Request | None] | None = None

    def parse(line: bytes) -> Request | None:
        nonlocal parse_row
        if line.startswith(b"#"):
            if line.startswith(_FIELDS):
                parse_row = _row_parser(line[len(_FIELDS) :].split())
            return None
        if parse_row is None:
            raise BadRowError("a line `#Fields: date time …` before the first row")
        return parse_row(line)

    return parse


def _row_parser(names: list[bytes]) -> Callable[[bytes], Request | None]:
    places = {name: place for place, name in enumerate(names)}
    has_clock = b"timestamp(ms)" in places or {b"date", b"time"} <= places.keys()
    if not has_clock or not all(name in places for name in _NEEDED):
        raise BadRowError("the fields date, time, cs-method, cs-uri-stem, sc-status among #Fields")
    method, stem, status = (places[name] for name in _NEEDED)
    length, sent = places.get(b"sc-content-len"), places.get(b"sc-bytes")
    arrival_us = _clock(places)

    def parse_row(line: bytes) -> Request | None:
        fields = line.rstrip(b"\r\n").split(b"\t")
        if len(fields) < len(names):
            raise BadRowError(f"{len(names)} fields apart by tabs, as #Fields says, not {len(fields)}")
        time_us = arrival_us(fields)
        answer = fields[status]
        if fields[method] != b"GET" or answer in (b"-", _NO_ANSWER) or not is_served(answer):
            return None
        size = b"-" if length is None else fields[length]
        if size == b"-" and sent is not None:  # with the headers, but better than nothing
            size = fields[sent]
        return time_us, decoded(path_of(fields[stem])), size_bytes(size, answer)

    return parse_row


def _clock(places: dict[bytes, int]) -> Callable[[list[bytes]], int]:
    if b"timestamp(ms)" not in places:
        date, time = places[b"date"], places[b"time"]
        return lambda fields: iso_us(fields[date] + b"T" + fields[time])
    stamp = places[b"timestamp(ms)"]

    def timestamp_us(fields: list[bytes]) -> int:
        if not fields[stamp].isdigit() or len(fields[stamp]) > 15:
            raise BadRowError(f"milliseconds since 1970, not {text(fields[stamp])}")
        return int(fields[stamp]) * 1000

    return timestamp_us


CLOUDFRONT_LOG = LogFormat(
    name="cloudfront",
    describes="CloudFront standard log",
    recognises=lambda line: line.startswith((b"#Version:", _FIELDS)),
    new_parser=_new_parser,
)
