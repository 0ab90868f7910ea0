"""Requests of another age: one clock that was wrong makes a log of a day span centuries."""

from __future__ import annotations

from codecs import BOM_UTF8
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.errors import BadLogError, BadRowError
from burstcache_sim.traces.files import LongLine, blocks
from burstcache_sim.traces.reading import LogFile, Reading
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.sources import Sources

MOST_YEARS = 20
_MOST_US = MOST_YEARS * 8766 * 3600 * US_PER_S
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def without_strays(reading: Reading, sources: Sources) -> int:
    """Take out what lies more than 20 years from the middle request, if bad rows may be skipped.

    Returns:
        How many requests that were.

    Raises:
        BadLogError: There is such a request, and bad rows are not skipped; it is named by file and line.
    """
    columns = reading.columns
    middle_us = columns.middle_us()
    earliest_us, latest_us = middle_us - _MOST_US, middle_us + _MOST_US
    strays_us = [us for us in (columns.first_us(), columns.last_us()) if not earliest_us <= us <= latest_us]
    if not strays_us:
        return 0
    if reading.asked.skip_bad_rows:
        return columns.keep_span(earliest_us, latest_us)
    where = next(filter(None, (_line_at(reading, sources, file, strays_us[0]) for file in sources.files)), "a row")
    years = abs(strays_us[0] - middle_us) // (_MOST_US // MOST_YEARS)
    when = _date if reading.format and reading.format.has_dates else _seconds
    raise BadLogError(
        f"{where}: a request {when(strays_us[0])}, {years} years from the middle of the log {when(middle_us)}: "
        f"expected at most {MOST_YEARS} years (--skip-bad-rows leaves it out)"
    )


def _line_at(reading: Reading, sources: Sources, file: LogFile, at_us: int) -> str | None:
    """Return file and line of a request at this instant; None if the file has none, or cannot be read again."""
    here = sources.fetched(file)
    again = Reading(replace(reading.asked, first_us=at_us, last_us=at_us + 1, threshold=Threshold()))
    again.format = reading.format
    with suppress(BadLogError):
        again.read(here)
    if not len(again.columns) or not reading.format:
        return None
    parser, number = None, 0
    for block in blocks(here.path):
        if isinstance(block, LongLine):
            number += 1
            continue
        for line in reading.format.rows(block):
            number += 1
            with suppress(BadRowError):
                parser = parser or reading.format.new_parser(line.removeprefix(BOM_UTF8))
                if (request := parser.row(line)) and request[0] == at_us:
                    return f"{file.name} line {number}"
    return None


def _date(us: int) -> str:
    return f"on {(_EPOCH + timedelta(microseconds=us)).date().isoformat()}"


def _seconds(us: int) -> str:
    return f"at {us // US_PER_S} s"
