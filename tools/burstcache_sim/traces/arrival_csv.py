"""A CSV file of one key's arrivals: the header `arrival_s`, then one arrival per line in ascending order [s]."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import LogFormat, LogParser, Request, without_line_end
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, ResponseContent
from burstcache_sim.traces.timestamps import seconds_us

HEADER = b"arrival_s"
_NO_SIZE = ResponseContent(b"", UNKNOWN_BYTES, UNKNOWN_BYTES, UNKNOWN_BYTES)


def _has_header(head: list[bytes]) -> bool:
    return without_line_end(head[0]) == HEADER


def _new_parser(first_line: bytes) -> LogParser:
    latest_us = -1  # -1: the next line is the header

    def parse(line: bytes) -> Request | None:
        nonlocal latest_us
        if latest_us < 0:
            latest_us = 0
            return None
        arrival_us = seconds_us(without_line_end(line))
        if arrival_us < latest_us:
            raise BadRowError(f"at least {latest_us / US_PER_S:.6f}, as in the row before: arrivals are sorted")
        latest_us = arrival_us
        return arrival_us, b"", _NO_SIZE

    return LogParser(parse)


ARRIVAL_CSV = LogFormat(
    name="arrival",
    describes="CSV of one key, header arrival_s",
    recognises=_has_header,
    new_parser=_new_parser,
    starts_with_header=True,
    has_dates=False,
    has_keys=False,
    allows_blank_lines=False,
)
