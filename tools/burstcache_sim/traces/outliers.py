"""Removal of outliers in time, because a single wrong clock would stretch a one-day log over centuries."""

from __future__ import annotations

from codecs import BOM_UTF8
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.errors import BadLogError, BadRowError
from burstcache_sim.traces.files import LongLine, blocks
from burstcache_sim.traces.reading import LogFile, LogReader
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.sources import Sources

MAX_YEARS = 20
_MAX_US = MAX_YEARS * 8766 * 3600 * US_PER_S
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def drop_outliers(reader: LogReader, sources: Sources) -> int:
    """Remove requests that are more than 20 years from the median request, if bad rows may be skipped.

    Returns:
        The number of requests removed.

    Raises:
        BadLogError: An outlier exists, and bad rows may not be skipped. The message has the outlier's file and line.
    """
    columns = reader.columns
    middle_us = columns.middle_us()
    earliest_us, latest_us = middle_us - _MAX_US, middle_us + _MAX_US
    outliers_us = [us for us in (columns.first_us(), columns.last_us()) if not earliest_us <= us <= latest_us]
    if not outliers_us:
        return 0
    if reader.options.skip_bad_rows:
        return columns.keep_span(earliest_us, latest_us)
    try:
        where = next(filter(None, (_line_at(reader, sources, file, outliers_us[0]) for file in sources.files)), "a row")
    finally:
        sources.close()
    years = abs(outliers_us[0] - middle_us) // (_MAX_US // MAX_YEARS)
    when = _date if reader.format and reader.format.has_dates else _seconds
    raise BadLogError(
        f"{where}: a request {when(outliers_us[0])}, {years} years from the middle of the log {when(middle_us)}: "
        f"expected at most {MAX_YEARS} years (--skip-bad-rows leaves it out)"
    )


def _line_at(reader: LogReader, sources: Sources, file: LogFile, at_us: int) -> str | None:
    """Return the file and line of a request at an instant, or None if no line with such a request is found."""
    try:
        local = sources.fetched(file)
    except BadLogError:  # the object is gone
        return None
    try:
        number = _line_number(reader, local, at_us)
    finally:
        if local is not file:
            local.path.unlink()
    return None if number is None else f"{file.name} line {number}"


def _line_number(reader: LogReader, local: LogFile, at_us: int) -> int | None:
    at_instant = LogReader(replace(reader.options, first_us=at_us, last_us=at_us + 1, threshold=Threshold()))
    at_instant.format = reader.format
    with suppress(BadLogError):
        at_instant.read(local)
    if not len(at_instant.columns) or not reader.format:
        return None
    parser, number = None, 0
    for block in blocks(local.path):
        if isinstance(block, LongLine):
            number += 1
            continue
        for line in reader.format.rows(block):
            number += 1
            with suppress(BadRowError):
                parser = parser or reader.format.new_parser(line.removeprefix(BOM_UTF8))
                if (request := parser.row(line)) and request[0] == at_us:
                    return number
    return None


def _date(us: int) -> str:
    return f"on {(_EPOCH + timedelta(microseconds=us)).date().isoformat()}"


def _seconds(us: int) -> str:
    return f"at {us // US_PER_S} s"
