"""Traces of many keys: a header `t,key,…`, seconds first; columns `size`, `op`, `status` are read too."""

from __future__ import annotations

import csv

from burstcache_sim.traces.clock import seconds_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import LogFormat, Parser, Request, is_served, size_bytes, without_line_end

_GET = b"GET"
_OK = b"200"


def _fields(line: bytes) -> list[bytes]:
    line = without_line_end(line)
    if b'"' not in line:
        return line.split(b",")
    try:
        row = next(csv.reader([line.decode("latin-1")], strict=True))
    except csv.Error as error:
        raise BadRowError(f"a row of CSV ({error})") from error
    return [field.encode("latin-1") for field in row]


def _is_header(line: bytes) -> bool:
    try:
        return _fields(line)[:2] == [b"t", b"key"]
    except BadRowError:
        return False


def _new_parser(first_line: bytes) -> Parser:
    columns = _fields(first_line)
    places = {name: place for place, name in enumerate(columns)}
    t, key = places[b"t"], places[b"key"]
    size, op, status = (places.get(name) for name in (b"size", b"op", b"status"))
    is_header_due = True

    def parse(line: bytes) -> Request | None:
        nonlocal is_header_due
        if is_header_due:
            is_header_due = False
            return None
        fields = _fields(line)
        if len(fields) != len(columns):
            raise BadRowError(f"{len(columns)} fields ({b','.join(columns).decode(errors='replace')})")
        answer = _OK if status is None else fields[status]
        bytes_ = size_bytes(b"" if size is None else fields[size], answer)
        arrival_us = seconds_us(fields[t])
        if not is_served(answer) or (op is not None and fields[op].upper() != _GET):
            return None
        return arrival_us, fields[key], bytes_

    return parse


REQUEST_CSV = LogFormat(
    name="csv",
    describes="CSV of many keys, header t,key,size,op,client,status (the last four as you like)",
    recognises=_is_header,
    new_parser=_new_parser,
    starts_with_header=True,
    has_dates=False,
    allows_blank_lines=False,
)
