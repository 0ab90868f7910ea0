"""One read as X-Ray saw it: what called what, and how long each took."""

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

_FILE = "traces.jsonl"  # of a local run that is traced
_TAIL_BYTES = 8_000_000
_WITHIN = timedelta(minutes=5)  # X-Ray bills every trace of the time that a question covers
_MOST_RETRIEVED = 3
_FUNCTION = re.compile(r".*-(\w+)Function-\w+")

Segment = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a waterfall."""

    depth: int
    name: str
    start_ms: float  # since the read began
    end_ms: float
    is_failed: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """The newest read of a key that was traced."""

    id: str
    url: str  # of the console; empty for a local run
    at_ms: int
    tier: str
    bars: tuple[Bar, ...]


def newest_trace(source: Source, row: KeyRow, now_us: int) -> Trace | None:
    """Return the newest trace of a read of a key; None if it has none, as in a stack without `Tracing`.

    A deployed stack's X-Ray is asked for the last minutes and, if they have none, for those around the newest request
    in the key's row: what Redis serves is not noted there. X-Ray bills the questions.
    """
    if not is_traced(source):
        return None
    if source.log_dir:
        found, url = _of_local_run(source.log_dir, row.hash), ""
    else:
        found = _of_xray(source.stack.client("xray"), row, datetime.fromtimestamp(now_us / 1e6, UTC))
        place = f"{source.region}.console.aws.amazon.com/cloudwatch/home?region={source.region}"
        url = f"https://{place}#xray:traces/{found[0]['trace_id']}" if found else ""
    return trace_of(found, url) if found else None


def is_traced(source: Source) -> bool:
    """Whether reads of a stack have traces."""
    return source.parameters.get("Tracing") == "Active"


def trace_of(segments: list[Segment], url: str = "") -> Trace:
    """Return the waterfall of a trace's segments, each below what called it, in the order of time.

    What begins after the read was answered, such as the life that it started, is left out.
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
            lines = file.read().split(b"\n")[bool(began) : -1]  # whole ones: the last may still be written
    except FileNotFoundError:
        return []
    needle = hash_.encode()
    newest = next((line for line in reversed(lines) if needle in line and _is_read(json.loads(line), hash_)), None)
    if newest is None:
        return []
    id_ = json.loads(newest)["trace_id"].encode()
    return list(_flat(json.loads(line) for line in lines if id_ in line))


def _of_xray(api: Any, row: KeyRow, now: datetime) -> list[Segment]:
    times = [(now - _WITHIN, now)]
    if row.window:
        newest = datetime.fromtimestamp(row.window[-1].at_us / 1e6, UTC)
        times.append((newest - _WITHIN, min(newest + _WITHIN, now - _WITHIN)))
    for since, until in times:
        if since < until and (found := _within(api, row.hash, since, until)):
            return found
    return []


def _within(api: Any, hash_: str, since: datetime, until: datetime) -> list[Segment]:
    pages = api.get_paginator("get_trace_summaries").paginate(
        StartTime=since, EndTime=until, FilterExpression=f'annotation.key_hash = "{hash_}"'
    )
    # A page without a match may stand before one with some; the newest come first.
    ids = next((ids for page in pages if (ids := [each["Id"] for each in page["TraceSummaries"]])), [])
    for id_ in sorted(ids, reverse=True)[:_MOST_RETRIEVED]:
        pages = api.get_paginator("batch_get_traces").paginate(TraceIds=[id_])
        segments = [each for page in pages for trace in page["Traces"] for each in trace["Segments"]]
        if segments:  # none: X-Ray has not processed it yet
            return list(_flat({"trace_id": id_} | json.loads(each["Document"]) for each in segments))
    return []


def _flat(segments: Iterable[Segment], trace_id: str = "", parent_id: str = "") -> Iterator[Segment]:
    """Yield segments and the subsegments within them, each with its trace and its parent."""
    for segment in segments:
        known = {"trace_id": trace_id} if trace_id else {}
        own = known | ({"parent_id": parent_id} if parent_id else {}) | segment
        yield own
        yield from _flat(segment.get("subsegments", ()), own["trace_id"], own["id"])


def _is_read(segment: Segment, hash_: str) -> bool:
    annotations = segment.get("annotations", {})
    return annotations.get("key_hash") == hash_ and "tier" in annotations


def _name(segment: Segment) -> str:
    name = str(segment["name"]).removeprefix("## ")
    if found := _FUNCTION.fullmatch(name):
        name = re.sub(r"(?<!^)(?=[A-Z])", " ", found[1]).lower()
    return f"{name} {segment.get('aws', {}).get('operation', '')}".strip()


def _end_s(segment: Segment) -> float:
    return float(segment["end_time"] if "end_time" in segment else segment["start_time"])


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
