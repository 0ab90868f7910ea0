"""What a trace of Chromium says of a page's main thread."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class MainThread:
    """What a page's main thread did in a time."""

    updates_ms: list[float] = field(default_factory=list)  # processor time from each update to the next
    tasks_ms: list[float] = field(default_factory=list)  # of each task

    def text(self) -> str:
        """Return it in words."""
        tasks = f"largest task {max(self.tasks_ms, default=0):.0f}"
        return f"{len(self.updates_ms)} updates of the main thread's time, {spread(self.updates_ms)}, {tasks} ms"


def fill(found: MainThread, events: Sequence[Mapping[str, Any]]) -> None:
    """Add what a trace says of the thread in which the page measures its updates."""
    begun = [event for event in events if event["name"] in ("all", "change") and event["ph"] == "b"]
    if not begun:
        return
    thread = begun[0]["pid"], begun[0]["tid"]
    tasks = [event for event in events if event.get("tdur") and (event["pid"], event["tid"]) == thread]
    tasks = [event for event in tasks if event["name"].endswith("RunTask")]
    found.tasks_ms = [event["tdur"] / 1000 for event in tasks]
    starts = sorted(event["ts"] for event in begun)
    # An update begins within a task, the one that takes its message.
    ends = sorted((event["ts"] + event["dur"], event["tdur"] / 1000) for event in tasks)
    found.updates_ms = [
        sum(ms for end, ms in ends if start <= end < following)
        for start, following in zip(starts, [*starts[1:], ends[-1][0] + 1], strict=True)
    ]


def spread(values: list[float]) -> str:
    """Return the median and the largest of some times, in words."""
    return f"median {statistics.median(values):.1f}, at most {max(values):.1f} ms" if values else "none"
