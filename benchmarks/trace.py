"""Draw traces of reads from the segments that the functions of a local run send to X-Ray's daemon.

    python -m benchmarks.trace docs/images/trace.png

An object is read until it has been through S3, a cache function and Redis. Drawn are a read of each: what X-Ray's own
page of a trace shows, in the same order.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.support.common import Cloud, Getter, Setup, environment, running_cloud
from burstcache_local.traces import segments_of_run
from burstcache_sim.report.drawing import INK, LINE_COLOURS, TIER_COLOURS, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SETUP = Setup("redis_utilization_s=3600", is_traced=True)
SETUPS = (_SETUP,)
_KEY, _BODY = "traced.bin", b"traced " * 1500
_WARM_UPS, _EVERY_S, _WITHIN_S = 8, 0.2, 120.0
_FUNCTION = re.compile(r"burstcache-(\w+)Function-\w+")  # a segment of its name
_TITLES = {
    "s3": "S3 answers, and the scheduler begins the key's life",
    "lambda": "a cache function answers",
    "redis": "Redis answers",
}
_COLOURS = {
    "function": INK,
    "handler": "#b9bdc4",
    "relay": TIER_COLOURS["L"],
    "redis": TIER_COLOURS["R"],
    "aws": LINE_COLOURS[4],
}

Segment = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One bar of a waterfall."""

    depth: int
    label: str
    kind: str  # of `_COLOURS`
    start_ms: float  # since the read began
    end_ms: float
    is_failed: bool
    goes_on: bool  # beyond what is drawn


def main() -> int:
    """Record and draw; return the exit code."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/trace.png")
    print(environment())
    with running_cloud(_SETUP) as cloud:
        _read_through_all_tiers(cloud)
        recorded = _until_complete(lambda: traces_by_tier(segments_of_run(cloud.log_dir)))
    if missing := _TITLES.keys() - recorded.keys():
        print(f"FAILED: no trace of a read by {', '.join(sorted(missing))}")
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    draw({tier: rows(recorded[tier]) for tier in _TITLES}, target)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")
    return 0


def traces_by_tier(segments: list[Segment]) -> dict[str, list[Segment]]:
    """Return the trace of the newest read that each tier answered; by S3 of the one that began the key's life."""
    traces: dict[str, list[Segment]] = {}
    for segment in segments:
        traces.setdefault(segment["trace_id"], []).append(segment)
    found = {}
    for trace in traces.values():
        tier = next(filter(None, (segment.get("annotations", {}).get("tier") for segment in trace)), "")
        begins_life = any(operation(segment) == "StartExecution" for segment in trace)
        has_front = any("parent_id" not in segment for segment in trace)
        if has_front and begins_life == (tier == "s3"):
            found[tier] = trace
    return found


def rows(trace: list[Segment]) -> list[Row]:
    """Return the bars of a trace, each below what called it, callers' calls in the order of time.

    Of a life only what the read still waited for, or what made the cache function ready, is drawn: it goes on for
    minutes.
    """
    (front,) = (segment for segment in trace if "parent_id" not in segment)
    ready = [s for s in trace if operation(s) == "UpdateItem" and _function_of(trace, s) == "cache"]
    until_s = min((segment["end_time"] for segment in ready), default=float("inf"))

    def below(parent: Segment, depth: int) -> Iterator[Row]:
        yield _row(parent, depth, front["start_time"], until_s)
        children = (segment for segment in trace if segment.get("parent_id") == parent["id"])
        for child in sorted(children, key=lambda segment: float(segment["start_time"])):
            if child["start_time"] < until_s:
                yield from below(child, depth + 1)

    return list(below(front, 0))


def operation(segment: Segment) -> str:
    """Return the call of AWS that a subsegment shows; empty for others."""
    return str(segment.get("aws", {}).get("operation", ""))


def _function_of(trace: list[Segment], segment: Segment) -> str:
    """Return the word of the function that sent a segment."""
    while not (word := _word(segment["name"])):
        segment = next(each for each in trace if each["id"] == segment["parent_id"])
    return word


def _word(name: str) -> str:
    """Return a function's word, such as redis-control, of the name of its segment; empty of another's."""
    found = _FUNCTION.fullmatch(name)
    return re.sub(r"(?<!^)(?=[A-Z])", "-", found[1]).lower() if found else ""


def _row(segment: Segment, depth: int, began_s: float, until_s: float) -> Row:
    name = str(segment["name"])
    shown = name.removeprefix("## ")
    kind = next((kind for kind in _COLOURS if shown.startswith(kind)), "aws")
    if word := _word(name):
        shown, kind = word, "function"
    end_s = min(segment["end_time"], until_s)
    start_ms, end_ms = ((at_s - began_s) * 1000 for at_s in (segment["start_time"], end_s))
    is_failed, goes_on = "error" in segment or "fault" in segment, segment["end_time"] > until_s
    return Row(depth, f"{shown} {operation(segment)}".strip(), kind, start_ms, end_ms, is_failed, goes_on)


def draw(waterfalls: dict[str, list[Row]], target: Path) -> None:
    """Write the picture as PNG: a waterfall below the other, each with a time of its own."""
    with drawing():
        from matplotlib.figure import Figure

        lengths = [len(each) for each in waterfalls.values()]
        figure = Figure(figsize=(9, 1.6 + 0.21 * sum(lengths)), layout="constrained")
        for axes, (tier, bars) in zip(
            figure.subplots(len(lengths), 1, height_ratios=[length + 1.5 for length in lengths]),
            waterfalls.items(),
            strict=True,
        ):
            _draw_one(axes, bars)
            axes.set_title(_TITLES[tier], loc="left", fontweight="bold")
        axes.set_xlabel("ms since the front door")
        figure.savefig(target, dpi=150, facecolor="white", metadata={"Software": None})


def _draw_one(axes: Axes, bars: list[Row]) -> None:
    length_ms = max(bar.end_ms for bar in bars)
    for number, bar in enumerate(bars):
        width_ms = max(bar.end_ms - bar.start_ms, length_ms / 400)
        axes.barh(number, width_ms, left=bar.start_ms, height=0.7, color=_COLOURS[bar.kind], linewidth=0)
        took = (
            "goes on" if bar.goes_on else f"{bar.end_ms - bar.start_ms:.1f} ms" + (" failed" if bar.is_failed else "")
        )
        place: dict[str, Any] = {"va": "center", "fontsize": 7.5}
        margin_ms = length_ms / 150
        if bar.start_ms + width_ms < length_ms * 0.88:
            axes.text(bar.start_ms + width_ms + margin_ms, number, took, **place)
        elif bar.start_ms > length_ms / 4:
            axes.text(bar.start_ms - margin_ms, number, took, ha="right", **place)
        else:
            axes.text(bar.end_ms - margin_ms, number, took, ha="right", color="white", **place)
    axes.set_yticks(range(len(bars)), ["    " * bar.depth + bar.label for bar in bars], ha="left")
    axes.tick_params(axis="y", pad=190, left=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, length_ms * 1.01)
    axes.spines[["left", "right"]].set_visible(False)


def _read_through_all_tiers(cloud: Cloud) -> None:
    """Read until Redis has answered some times; first what is not there, which starts the proxy."""
    getter = Getter(cloud.url)
    cloud.put(_KEY, _BODY)
    for _ in range(_WARM_UPS):
        getter.get(f"{_KEY}.absent")
    redis_reads, end_s = 0, time.monotonic() + _WITHIN_S
    while redis_reads < _WARM_UPS and time.monotonic() < end_s:
        redis_reads += getter.get(_KEY)[1] == "redis"
        time.sleep(_EVERY_S)


def _until_complete(ask: Callable[[], dict[str, list[Segment]]]) -> dict[str, list[Segment]]:
    """Ask until every tier has a trace: the cache function's segment comes when its life is over."""
    end_s = time.monotonic() + _WITHIN_S
    while not _is_complete(found := ask()) and time.monotonic() < end_s:
        time.sleep(_EVERY_S)
    return found


def _is_complete(found: dict[str, list[Segment]]) -> bool:
    if not _TITLES.keys() <= found.keys():
        return False
    ids = {segment["id"] for trace in found.values() for segment in trace}
    return all(segment.get("parent_id", segment["id"]) in ids for trace in found.values() for segment in trace)


if __name__ == "__main__":
    sys.exit(main())
