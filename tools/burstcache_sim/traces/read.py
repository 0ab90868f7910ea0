"""Functions that read access logs into a trace of GETs answered with 2xx or 304, sorted by arrival.

Files may be unsorted and in any order (S3 and CloudFront write thousands of small ones), but must share one format.
Several processes may read the files, and their results are merged in file order. Reading takes at most 32 bytes of
memory per request, plus the key names and the pending results of worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.addresses import has_public_clients
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.fields import check_names
from burstcache_sim.traces.formats import AUTO, FORMAT_NAMES
from burstcache_sim.traces.outliers import drop_outliers
from burstcache_sim.traces.parallel import read_all
from burstcache_sim.traces.reading import LogReader, ReadOptions
from burstcache_sim.traces.sampling import MAX_SAMPLE_REQUESTS, Threshold
from burstcache_sim.traces.select import id_of_rank, key_names, object_names
from burstcache_sim.traces.sources import Sources, sources_of
from burstcache_sim.traces.table_log import DELIMITERS
from burstcache_sim.traces.trace import KeySample, Trace


@dataclass(frozen=True, slots=True)
class RequestLog:
    """The trace of an access log, and counts of the lines outside the trace."""

    trace: Trace
    format_name: str
    files: int
    rows: int  # lines other than headers and comments
    other_requests: int  # requests with methods other than GET, or statuses other than 2xx and 304
    bad_rows: int  # skipped because they do not match the format
    outside: int  # requests before or after the chosen span
    unsized_keys: int  # keys without a size in any row, which get the mean size of the other keys, if known
    broken_files: tuple[str, ...]  # truncated or damaged compressed files, with the line at which they break
    origin_us: int | None  # time 0 of the trace, since 1970 (None: the log has no dates)
    has_paths: bool = False  # keys are paths, with a slash before the object's name
    format_note: str = ""  # assumptions on times and columns
    range_requests: int = 0  # requests in the trace for a piece of an object


def read_trace(
    paths: Sequence[str | Path] | str | Path,
    *,
    format_: str = AUTO,
    rank: int | None = None,
    skip_bad_rows: bool = False,
) -> Trace:
    """Return the trace in one or more files. For arguments and errors, see `read_log`."""
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
    most_requests: int = MAX_SAMPLE_REQUESTS,
    store: Path | None = None,
    processes: int = 1,
    dask: str | None = None,
    on_lines: Callable[[int], None] = lambda lines: None,
) -> RequestLog:
    """Read the trace in one or more files or S3 objects, and count the other lines.

    Args:
        paths: Files, folders, globs, `s3://bucket/prefix`, plain or compressed with gzip, zstd, bzip2 or xz.
        format_: One of `FORMAT_NAMES`. `auto` detects the format from the first lines of the files.
        names: Column or member for each of `FIELDS`. A column is given by name, or by number from 1. `time:ms` sets a
        unit, and `date+time` joins two columns.
        delimiter: Delimiter of a table, one of `DELIMITERS`. If None, it is detected from the first line.
        rank: Rank of the only key to keep, from 1 for the most requested key, or None to keep all keys. Ties are broken
        by name.
        skip_bad_rows: Whether to skip rows that do not match the format, and the rest of broken compressed files,
        instead of failing at the first error.
        first_us: Keep only requests at or after this instant, since 1970 [us]. The log must have dates.
        last_us: Keep only requests before this instant, since 1970 [us].
        sample_keys: Share of the keys to keep, or None for as many keys as `most_requests` allows.
        most_requests: Limit on the number of requests if `sample_keys` is None.
        store: Folder that caches parsed S3 objects for the next call, or None.
        processes: Maximum number of concurrent processes. More than 1 needs an importable main module.
        dask: Scheduler address of a Dask cluster that reads instead of local processes, or None.
        on_lines: Called from time to time with the number of lines read since the last call.

    Returns:
        The log. A table in seconds keeps its times. In a log with dates, time 0 is the first counted request
        of any key, even if only one key is kept.

    Raises:
        BadLogError: A file cannot be read, no request remains, or a row is bad. For a bad row, the message has the
            file, the line and the expected text.
        InvalidSettingError: A format, field, rank or share is invalid, or the cluster cannot be used.
    """
    if format_ not in FORMAT_NAMES:
        raise InvalidSettingError(f"log format {format_!r}: expected one of {', '.join(FORMAT_NAMES)}")
    if rank is not None and rank < 1:
        raise InvalidSettingError(f"rank {rank}: expected 1 (the most requested key) or more")
    check_names(names or {})
    if delimiter is not None and delimiter not in DELIMITERS:
        raise InvalidSettingError(f"delimiter {delimiter!r}: expected one of {', '.join(DELIMITERS)}")
    separator, threshold = DELIMITERS[delimiter] if delimiter else None, Threshold.of(sample_keys, most_requests)
    options = ReadOptions(format_, dict(names or {}), separator, skip_bad_rows, first_us, last_us, threshold)
    reader = LogReader(options)
    sources = sources_of([paths] if isinstance(paths, str | Path) else paths, options, store)
    read_all(reader, sources, processes=processes, on_lines=on_lines, dask=dask)
    return _take_log(reader, sources, rank)


def _take_log(reader: LogReader, sources: Sources, rank: int | None) -> RequestLog:
    """Move a reader's requests into a log."""
    columns, counts, format_ = reader.columns, reader.counts, reader.format
    has_span = reader.options.first_us is not None or reader.options.last_us is not None
    if has_span and format_ and not format_.has_dates:
        raise BadLogError(f"{sources.named}: a {format_.describes} has no dates: expected a log that has, for a span")
    if not format_ or not columns.requests:
        raise BadLogError(f"{sources.named}: no request in {counts.rows} rows: {_expected_requests(counts.outside)}")
    if not len(columns):
        raise BadLogError(
            f"{sources.named}: {columns.threshold.rate:g} of the keys: expected a share that has a request"
        )
    counts.bad_rows += drop_outliers(reader, sources)
    other_requests = counts.rows - counts.bad_rows - columns.requests - counts.outside
    sample = None if columns.threshold.is_whole else KeySample(columns.threshold.rate, columns.requests)
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
    return RequestLog(
        trace=replace(
            trace,
            sample=sample if rank is None else None,
            objects=objects,
            assumed_ranges=assumed,
            unsized_ranges=unsized,
            origin_us=origin_us,
            has_public_clients=has_public_clients(reader.head),
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


def _expected_requests(outside: int) -> str:
    expected = "expected GETs answered 2xx or 304"
    return f"{expected} in the chosen span; {outside} are outside it" if outside else expected
