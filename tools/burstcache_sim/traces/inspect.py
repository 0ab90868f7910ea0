"""The log description that `burstcache sim inspect` prints, as text and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.sampling import expected_error
from burstcache_sim.traces.select import has_whole_seconds, ranking
from burstcache_sim.traces.trace import exact_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burstcache_sim.traces.read import RequestLog
    from burstcache_sim.traces.trace import Trace
from burstcache_terminal.text import WIDTH, count_text, rows_text, table_text

_SHOWN_CHARACTERS = 72
_CLOCK_NOTE = (
    "The clock has whole seconds: requests within one second look simultaneous, so gaps below a second, and with them "
    "short-lived decisions, are blurred."
)


def describe(log: RequestLog, *, top: int, first_rank: int = 1) -> dict[str, Any]:
    """Return a description of a log with its most requested keys, as JSON values.

    Args:
        log: The log, with all keys or reduced to one.
        top: Number of keys to list.
        first_rank: Rank of the first listed key. It exceeds 1 if the log was reduced to the key of that rank.
    """
    trace = log.trace
    first_us, last_us = int(trace.arrivals_us[0]), int(trace.arrivals_us[-1])
    span_s = (last_us - first_us) / US_PER_S
    return {
        "format": log.format_name,
        "files": log.files,
        "rows": log.rows,
        "requests": len(trace),
        "other_key_requests": log.rows - len(trace) - log.other_requests - log.bad_rows - log.outside,
        "other_requests": log.other_requests,
        "bad_rows": log.bad_rows,
        "outside": log.outside,
        "broken_files": list(log.broken_files),
        "sample_rate": trace.sample.rate if trace.sample else None,
        "sample_error_pct": round(100 * expected_error(trace), 6) if trace.sample else None,
        "keys": len(trace.keys) if trace.keys else 1,
        "first": _instant(log, first_us),
        "last": _instant(log, last_us),
        "first_s": first_us / US_PER_S,
        "last_s": last_us / US_PER_S,
        "span_s": span_s,
        "requests_per_min": round(len(trace) / span_s * 60, 6) if span_s else None,
        "has_whole_seconds": has_whole_seconds(trace),
        **_bytes(trace),
        "unsized_keys": log.unsized_keys,
        "range_requests": log.range_requests,
        "assumed_ranges": trace.assumed_ranges,
        "top_keys": _top_keys(trace, top, first_rank),
    }


def _instant(log: RequestLog, us: int) -> str | None:
    if log.origin_us is None:
        return None
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=log.origin_us + us)
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _bytes(trace: Trace) -> dict[str, int | None]:
    """Return the bytes requested, the bytes sent, and the sum of the largest size of each object and range."""
    if trace.sizes_bytes is None:
        return {"requested_bytes": None, "sent_bytes": None, "object_bytes": None}
    if trace.key_ids is None:
        objects_bytes = int(trace.sizes_bytes.max())
    else:
        objects_bytes = exact_sum(_largest(trace.key_ids, trace.sizes_bytes, len(trace.keys)))
    sent_bytes = trace.sizes_bytes if trace.sent_bytes is None else trace.sent_bytes
    return {
        "requested_bytes": exact_sum(trace.sizes_bytes),
        "sent_bytes": exact_sum(sent_bytes),
        "object_bytes": objects_bytes,
    }


def _largest(key_ids: NDArray[Any], sizes_bytes: NDArray[Any], keys: int) -> NDArray[Any]:
    import numpy as np

    largest = np.zeros(keys, dtype=np.int64)
    np.maximum.at(largest, key_ids, sizes_bytes)
    return largest


def _top_keys(trace: Trace, top: int, first_rank: int) -> list[dict[str, Any]]:
    import numpy as np

    if not trace.keys:
        return []
    key_ids = np.zeros(len(trace), np.int32) if trace.key_ids is None else trace.key_ids
    counts = np.bincount(key_ids, minlength=len(trace.keys))
    sizes_bytes = trace.sizes_bytes
    largest = None if sizes_bytes is None else _largest(key_ids, sizes_bytes, len(trace.keys))
    return [
        {
            "rank": rank,
            "key": trace.keys[id_],
            "requests": int(counts[id_]),
            "share_pct": round(100 * int(counts[id_]) / len(trace), 6),
            "size_bytes": None if largest is None else int(largest[id_]),
        }
        for rank, id_ in enumerate(ranking(counts, trace.keys)[:top], start=first_rank)
    ]


def sample_text(trace: Trace) -> str:
    """Return a note on the size and error of a sample, or an empty string for a complete log."""
    if not trace.sample:
        return ""
    rate, error_pct = trace.sample.rate, 100 * expected_error(trace)
    return (
        f"{len(trace):,} of {trace.sample.requests:,} requests, those of {rate:.4g} of the keys, stand for the log; "
        f"expect shares of hits above 50 % to be within {error_pct:.2g} percentage points"
    )


def sizes_text(unsized_keys: int, trace: Trace) -> str:
    """Return a note on objects without a size, or an empty string."""
    if not unsized_keys:
        return ""
    if trace.sizes_bytes is None:
        return "no row shows the size of an object"
    return f"{count_text(unsized_keys, 'object')} without a size in any row, assumed to have the others' mean size"


def ranges_text(trace: Trace) -> str:
    """Return a note on ranges without an offset in the log, or an empty string."""
    if not trace.assumed_ranges:
        return ""
    reads = count_text(trace.assumed_ranges, "request")
    return f"{reads} read ranges that the log does not show: equal lengths of one object count as the same range"


def describe_text(description: dict[str, Any]) -> str:
    """Format a description for a terminal."""
    rate = description["requests_per_min"]
    left_out = f"{description['other_requests']:,} other requests, {description['bad_rows']:,} bad rows"
    if description["outside"]:
        left_out = f"{description['outside']:,} outside the span, {left_out}"
    if description["other_key_requests"]:
        left_out = f"{description['other_key_requests']:,} of other keys, {left_out}"
    rows = [
        ("Format:", f"{description['format']}, {description['files']:,} file(s), {description['rows']:,} rows"),
        ("Requests:", f"{description['requests']:,} (GETs answered 2xx or 304)"),
        ("Left out:", left_out),
        ("Keys:", f"{description['keys']:,}"),
        ("Span:", f"{description['span_s']:,.6f} s"),
        ("First:", description["first"] or f"{description['first_s']:,.6f} s"),
        ("Last:", description["last"] or f"{description['last_s']:,.6f} s"),
        ("Mean rate:", "—" if rate is None else f"{rate:,.3f} requests a minute"),
    ]
    rows += [("Broken:", broken) for broken in description["broken_files"]]
    if description["sample_rate"] is not None:
        error_pct = description["sample_error_pct"]
        rows.append(
            (
                "Sample:",
                f"{description['sample_rate']:.4g} of the keys; hits above 50 % are within {error_pct:.2g} points",
            )
        )
    if description["requested_bytes"] is not None:
        sizes = f"{description['requested_bytes']:,} requested, {description['object_bytes']:,} in the objects"
        sizes += " and ranges" if description["range_requests"] else ""
        if description["sent_bytes"] != description["requested_bytes"]:
            sizes = f"{description['sent_bytes']:,} sent, {sizes}"
        rows.append(("Bytes:", sizes))
    if description["range_requests"]:
        with_offset = description["range_requests"] - description["assumed_ranges"]
        rows.append(
            ("Ranges:", f"{with_offset:,} with their offset, {description['assumed_ranges']:,} by their length")
        )
    if description["has_whole_seconds"]:
        rows.append(("Clock:", _CLOCK_NOTE))
    top = description["top_keys"]
    return rows_text(rows, most=WIDTH) + (f"\n\n{_top_text(top)}" if top else "")


def _top_text(top_keys: list[dict[str, Any]]) -> str:
    rows = []
    for row in top_keys:
        key = row["key"] if len(row["key"]) <= _SHOWN_CHARACTERS else row["key"][: _SHOWN_CHARACTERS - 1] + "…"
        size = "—" if row["size_bytes"] is None else f"{row['size_bytes']:,}"
        counts = (f"{row['rank']}", f"{row['requests']:,}", f"{row['share_pct']:.2f} %", size)
        rows.append((*counts, _printable(key)))
    return table_text(("rank", "requests", "share", "bytes", "key"), rows, right=range(4), most=WIDTH)


def _printable(key: str) -> str:
    """Escape a key's control characters for a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in key)
