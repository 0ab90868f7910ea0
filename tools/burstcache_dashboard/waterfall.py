"""The waterfall for a traced read, with the read's X-Ray segments and durations, nested by caller."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from burstcache.core.rows import KeyRow
from burstcache_dashboard.source import Source

_FILE = "traces.jsonl"  # trace log of a local run
_TAIL_BYTES = 8_000_000
_SEARCH_SPAN = timedelta(minutes=5)  # short, because X-Ray bills all traces in a query's time range
_MOST_RETRIEVED = 3
_FUNCTION = re.compile(r".*-(\w+)Function-\w+")

Segment = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a waterfall."""

    depth: int
    name: str
    start_ms: float  # since the start of the read
    end_ms: float
    is_failed: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """A key's latest traced read."""

    id: str
    url: str  # in the CloudWatch console (empty: a local run)
    at_ms: int
    tier: str
    bars: tuple[Bar, ...]


def newest_trace(source: Source, row: KeyRow, now_us: int) -> Trace | None:
    """Return the latest trace of a key's reads, or None if there is no trace or the stack is not traced.

    For a deployed stack, X-Ray is queried for the last minutes. If there is no result, X-Ray is queried for the minutes
    around the latest request in the key's row, which omits reads served by Redis. X-Ray bills the queries.
    """
    if not is_traced(source):
        return None
    if source.log_dir:
        segments, url = _of_local_run(source.log_dir, row.hash), ""
    else:
        segments = _of_xray(source.stack.client("xray"), row, datetime.fromtimestamp(now_us / 1e6, UTC))
        console = f"{source.region}.console.aws.amazon.com/cloudwatch/home?region={source.region}"
        url = f"https://{console}#xray:traces/{segments[0]['trace_id']}" if segments else ""
    return trace_of(segments, url) if segments else None


def is_traced(source: Source) -> bool:
    """Return whether a stack has tracing enabled."""
    return source.parameters.get("Tracing") == "Active"


def trace_of(segments: list[Segment], url: str = "") -> Trace:
    """Build the waterfall from a trace's segments, each below its caller, in chronological order.

    Segments that begin after the response, such as the life that the read started, are omitted.
    """
    ids = {segment["id"] for segment in segments}
    roots = [segment for segment in segments if segment.get("parent_id") not in ids]
    front = min(roots, key=lambda segment: float(segment["start_time"]))
    began_s, until_s = float(front["start_time"]), _end_s(front)

    def below(segment: Segment, depth: int) -> Iterator[Bar]:
        start_s, end_s = float(segment["start_time"]), min(_end_s(segment), until_s)
        is_failed = any(segment.get(name) for name in ("fault", "error", "throttle"))
        yield Bar(depth, _name(segment), _ms(start_s - began_s), _ms(end_s - began_s), is_failed)
        children = (child for child in segments if child.get("parent_id") == segment["id"])
        for child in sorted(children, key=lambda child: float(child["start_time"])):
            if float(child["start_time"]) <= until_s:
                yield from below(child, depth + 1)

    tier = next((tier for segment in segments if (tier := segment.get("annotations", {}).get("tier"))), "")
    return Trace(front["trace_id"], url, round(began_s * 1000), tier, tuple(below(front, 0)))


def _of_local_run(folder: Path, hash_: str) -> list[Segment]:
    try:
        with (folder / _FILE).open("rb") as file:
            began = file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            lines = file.read().split(b"\n")[bool(began) : -1]  # complete lines only
    except FileNotFoundError:
        return []
    needle = hash_.encode()
    newest = next((line for line in reversed(lines) if needle in line and _is_read(json.loads(line), hash_)), None)
    if newest is None:
        return []
    id_ = json.loads(newest)["trace_id"].encode()
    return list(_flat(json.loads(line) for line in lines if id_ in line))


def _of_xray(api: Any, row: KeyRow, now: datetime) -> list[Segment]:
    times = [(now - _SEARCH_SPAN, now)]
    if row.window:
        newest = datetime.fromtimestamp(row.window[-1].at_us / 1e6, UTC)
        times.append((newest - _SEARCH_SPAN, min(newest + _SEARCH_SPAN, now - _SEARCH_SPAN)))
    for since, until in times:
        if since < until and (segments := _newest_between(api, row.hash, since, until)):
            return segments
    return []


def _newest_between(api: Any, hash_: str, since: datetime, until: datetime) -> list[Segment]:
    pages = api.get_paginator("get_trace_summaries").paginate(
        StartTime=since, EndTime=until, FilterExpression=f'annotation.key_hash = "{hash_}"'
    )
    # Pages without matches may precede pages with matches. Traces are ordered newest first.
    ids = next((ids for page in pages if (ids := [each["Id"] for each in page["TraceSummaries"]])), [])
    for id_ in sorted(ids, reverse=True)[:_MOST_RETRIEVED]:
        pages = api.get_paginator("batch_get_traces").paginate(TraceIds=[id_])
        segments = [each for page in pages for trace in page["Traces"] for each in trace["Segments"]]
        if segments:  # empty if X-Ray has not processed the trace yet
            return list(_flat({"trace_id": id_} | json.loads(each["Document"]) for each in segments))
    return []


def _flat(segments: Iterable[Segment], trace_id: str = "", parent_id: str = "") -> Iterator[Segment]:
    """Yield segments and subsegments, each with trace id and parent id."""
    for segment in segments:
        inherited = {"trace_id": trace_id} if trace_id else {}
        own = inherited | ({"parent_id": parent_id} if parent_id else {}) | segment
        yield own
        yield from _flat(segment.get("subsegments", ()), own["trace_id"], own["id"])


def _is_read(segment: Segment, hash_: str) -> bool:
    annotations = segment.get("annotations", {})
    return annotations.get("key_hash") == hash_ and "tier" in annotations


def _name(segment: Segment) -> str:
    name = str(segment["name"]).removeprefix("## ")
    if match := _FUNCTION.fullmatch(name):
        name = re.sub(r"(?<!^)(?=[A-Z])", " ", match[1]).lower()
    return f"{name} {segment.get('aws', {}).get('operation', '')}".strip()


def _end_s(segment: Segment) -> float:
    return float(segment["end_time"] if "end_time" in segment else segment["start_time"])


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
