"""Access logs in, a trace out: GETs that were answered with 2xx or 304, sorted by arrival.

Files may come in any order and need not be sorted (S3 and CloudFront write thousands of small ones); all are of one
format. Several processes read them; what each has read joins the columns in the order of the files. Reading takes at
most 32 bytes of memory per request, plus the names of the keys and what the processes are about to hand over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.fields import check_names
from burstcache_sim.traces.formats import AUTO, FORMAT_NAMES
from burstcache_sim.traces.parallel import read_all
from burstcache_sim.traces.reading import Asked, Reading
from burstcache_sim.traces.sampling import MOST_REQUESTS, Threshold
from burstcache_sim.traces.select import id_of_rank, key_names, object_names
from burstcache_sim.traces.sources import Sources, sources_of
from burstcache_sim.traces.strays import without_strays
from burstcache_sim.traces.table_log import DELIMITERS
from burstcache_sim.traces.trace import Sample, Trace


@dataclass(frozen=True, slots=True)
class Log:
    """A log that was read: its trace, and what else was in it."""

    trace: Trace
    format_name: str
    files: int
    rows: int  # lines other than headers and comments
    other_requests: int  # another method than GET, or another status than 2xx and 304
    bad_rows: int  # skipped because they are not rows of this format
    outside: int  # requests before or after the chosen span
    unsized_keys: int  # keys of which no row shows the size: as large as the others in the mean, if any shows one
    broken_files: tuple[str, ...]  # packed files that end early, and where; what comes before was read
    origin_us: int | None  # time 0 of the trace, since 1970 in UTC; None where the log has no dates
    has_paths: bool = False  # keys are paths, with a slash before the name of the object
    format_note: str = ""  # what was taken for granted of its times and columns
    range_requests: int = 0  # in the trace: they read a piece of an object


def read_trace(
    paths: Sequence[str | Path] | str | Path,
    *,
    format_: str = AUTO,
    rank: int | None = None,
    skip_bad_rows: bool = False,
) -> Trace:
    """Return the trace in one or more files; arguments and errors are those of `read_log`."""
    return read_log(paths, format_=format_, rank=rank, skip_bad_rows=skip_bad_rows).trace


def read_log(
    paths: Sequence[str | Path] | str | Path,
    *,
    format_: str = AUTO,
    names: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    rank: int | None = None,
    skip_bad_rows: bool = False,
    first_us: int | None = None,
    last_us: int | None = None,
    sample_keys: float | None = 1,
    most_requests: int = MOST_REQUESTS,
    store: Path | None = None,
    processes: int = 1,
    dask: str | None = None,
    on_lines: Callable[[int], None] = lambda lines: None,
) -> Log:
    """Return the trace in one or more files or objects of S3, and the counts of what is not in it.

    Args:
        paths: Files, folders, globs, `s3://bucket/prefix`; plain, gzip, zstd, bzip2 or xz; in any order.
        format_: One of `FORMAT_NAMES`; `auto` looks at the first lines of each file.
        names: Which column of a table or member of JSON has what; any of `FIELDS` by name, the columns by
            number from 1 as well; `time:ms` gives a unit, `date+time` joins two.
        delimiter: What is between the columns of a table, one of `DELIMITERS`; None: as the first line shows.
        rank: Only the rank-th most requested key, from 1; None for all keys. Equals rank by name.
        skip_bad_rows: Leave out rows that the format does not allow and the rest of packed files that end early,
            instead of ending at the first one.
        first_us: Only requests from this instant on, since 1970 [us]; the log must have dates.
        last_us: Only requests before this instant, since 1970 [us].
        sample_keys: The share of the keys to keep; None for as many as make at most `most_requests`.
        most_requests: See `sample_keys`.
        store: Folder for objects of S3 that were read, so that the next call need not fetch them; None for none.
        processes: How many may read at the same time. More than 1 needs a main module that can be imported.
        dask: Address of a Dask cluster's scheduler, whose workers read instead; None for none.
        on_lines: Called now and then with the number of lines read since the last call.

    Returns:
        The log. A CSV with times of its own keeps them; a log with dates starts at its first request that counts,
        whichever key is chosen.

    Raises:
        BadLogError: A file cannot be read, has a bad row (file, line, what was expected), or nothing is left.
        InvalidSettingError: No such format, field, rank or share, or no such cluster.
    """
    if format_ not in FORMAT_NAMES:
        raise InvalidSettingError(f"log format {format_!r}: expected one of {', '.join(FORMAT_NAMES)}")
    if rank is not None and rank < 1:
        raise InvalidSettingError(f"rank {rank}: expected 1 (the most requested key) or more")
    check_names(names or {})
    if delimiter is not None and delimiter not in DELIMITERS:
        raise InvalidSettingError(f"delimiter {delimiter!r}: expected one of {', '.join(DELIMITERS)}")
    separator, threshold = DELIMITERS[delimiter] if delimiter else None, Threshold.of(sample_keys, most_requests)
    asked = Asked(format_, dict(names or {}), separator, skip_bad_rows, first_us, last_us, threshold)
    reading = Reading(asked)
    sources = sources_of([paths] if isinstance(paths, str | Path) else paths, asked, store)
    read_all(reading, sources, processes=processes, on_lines=on_lines, dask=dask)
    return _log(reading, sources, rank)


def _log(reading: Reading, sources: Sources, rank: int | None) -> Log:
    """Return what was read, and keep nothing."""
    columns, counts, format_ = reading.columns, reading.counts, reading.format
    has_span = reading.asked.first_us is not None or reading.asked.last_us is not None
    if has_span and format_ and not format_.has_dates:
        raise BadLogError(f"{sources.named}: a {format_.describes} has no dates: expected a log that has, for a span")
    if not format_ or not columns.requests:
        raise BadLogError(f"{sources.named}: no request in {counts.rows} rows: {_what_counts(counts.outside)}")
    if not len(columns):
        raise BadLogError(
            f"{sources.named}: {columns.threshold.rate:g} of the keys: expected a share that has a request"
        )
    counts.bad_rows += without_strays(reading, sources)
    other_requests = counts.rows - counts.bad_rows - columns.requests - counts.outside
    sample = None if columns.threshold.is_whole else Sample(columns.threshold.rate, columns.requests)
    origin_us = columns.first_us() if format_.has_dates else None
    names = key_names(columns.ids, format_)
    key_id = None if rank is None else id_of_rank(columns.counts(), names, rank)
    ranges, assumed = columns.range_requests(key_id)
    objects = (
        object_names(columns.ids, format_)[slice(key_id, None if key_id is None else key_id + 1)] if ranges else ()
    )
    unsized = columns.unsized_ranges(key_id) if ranges else 0
    unsized_keys = columns.fill_in_sizes() if format_.has_keys else 0
    trace = columns.take_trace(
        names,
        origin_us=origin_us or 0,
        key_id=key_id if format_.has_keys else None,
        has_keys=format_.has_keys,
        has_sizes=unsized_keys < len(names),
    )
    return Log(
        trace=replace(
            trace,
            sample=sample if rank is None else None,
            objects=objects,
            assumed_ranges=assumed,
            unsized_ranges=unsized,
        ),
        format_name=format_.name,
        files=len(sources.files),
        rows=counts.rows,
        other_requests=other_requests,
        bad_rows=counts.bad_rows,
        outside=counts.outside,
        unsized_keys=unsized_keys,
        broken_files=tuple(counts.broken_files),
        origin_us=origin_us,
        has_paths=format_.has_paths,
        format_note=format_.note,
        range_requests=ranges,
    )


def _what_counts(outside: int) -> str:
    expected = "expected GETs answered 2xx or 304"
    return f"{expected} in the chosen span; {outside} are outside it" if outside else expected
