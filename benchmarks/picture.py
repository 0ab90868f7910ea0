"""Record a burst in a local run, and draw it: who answered each GET and how fast, and what was switched on when.

    python -m benchmarks.picture docs/images/burst.png

Under the template's defaults and in real time; the node boots in half a minute, as on AWS. All that is drawn was
measured: dots are GETs at the front door, bars are states in the executions' histories.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.support.common import Cloud, Getter, Setup, environment, running_cloud
from burstcache_sim.report.drawing import INK, TIER_COLOURS, drawing, ticks_1_2_5

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SETUP = Setup(boot_s=30, stop_s=10)
SETUPS = (_SETUP,)
# The load: until when [s], GETs a second. Before and after the burst they are too few for a node.
_LOAD = ((10.0, 0.25), (80.0, 10.0))
_AFTER, _AFTER_EVERY_S = 5, 4.0
_KEY, _BODY = "burst.bin", b"burst " * 2000
_CLIENTS = 8
_LETTERS = {"s3": "S", "lambda": "L", "redis": "R"}
_NAMES = {"s3": "S3", "lambda": "cache function", "redis": "Redis"}
_LABEL_SHARE = 0.06  # of the picture's width: what a bar's label takes


@dataclass(frozen=True, slots=True)
class Get:
    """One GET."""

    at_s: float  # since the first one
    tier: str
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Stay:
    """How long something was in one state [s since the first GET]."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Recording:
    """A burst as it was measured."""

    gets: list[Get]
    cache_function: list[Stay]
    node_boots: list[Stay]
    node_runs: list[Stay]
    node_stops: list[Stay]


def main() -> int:
    """Record and draw; return the exit code."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/burst.png")
    print(environment())
    with running_cloud(_SETUP) as cloud:
        recording = record(cloud)
    if missing := set(_NAMES) - {get.tier for get in recording.gets}:
        print(f"FAILED: no GET was answered by {', '.join(sorted(missing))}")
        return 1
    for tier in _NAMES:
        latencies_ms = [get.latency_ms for get in recording.gets if get.tier == tier]
        print(f"{tier:<6} {len(latencies_ms):4} GETs, median {median(latencies_ms):.1f} ms")
    target.parent.mkdir(parents=True, exist_ok=True)
    draw(recording, target)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")
    return 0


def record(cloud: Cloud) -> Recording:
    """GET one object through a burst; return what was measured once everything is off again."""
    cloud.put(_KEY, _BODY)
    _warm_up(cloud)
    began_us = time.time_ns() // 1000
    gets = _gets(cloud, time.monotonic())

    def stays(machine_output: str, states: dict[str, str]) -> dict[str, list[Stay]]:
        found: dict[str, list[Stay]] = {}
        for name in cloud.execution_names(machine_output):
            steps = cloud.steps(machine_output, name)
            for step, following in pairwise(steps):
                if kind := states.get(step.state):
                    stay = Stay((step.at_us - began_us) / 1e6, (following.at_us - began_us) / 1e6)
                    found.setdefault(kind, []).append(stay)
        return found

    while any(cloud.execution_names(name, statusFilter="RUNNING") for name in ("KeyLifecycleArn", "RedisNodeArn")):
        time.sleep(0.2)
    key = stays("KeyLifecycleArn", dict.fromkeys(("Lambda", "RedisBootup", "SeedRedis"), "on"))
    node_states = dict.fromkeys(("BootNode", "NodeReady"), "boots") | {"StopNode": "stops"}
    node = stays("RedisNodeArn", node_states | dict.fromkeys(("RedisNodeRunning", "CheckNodeUse"), "runs"))
    return Recording(gets, key["on"], node["boots"], node["runs"], node["stops"])


def draw(recording: Recording, target: Path) -> None:
    """Write the picture as PNG: latencies above, what was switched on below."""
    with drawing():
        figure_of(recording).savefig(target, dpi=150, facecolor="white", metadata={"Software": None})


def figure_of(recording: Recording) -> Figure:
    """Return the picture, for use within `drawing()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.4), layout="constrained")
    dots, lanes = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    _draw_gets(dots, recording.gets)
    lanes.set_xlim(-1, max(get.at_s for get in recording.gets) + 1)
    _draw_lanes(lanes, recording)
    lanes.set_xlabel("seconds")
    return figure


def _draw_gets(axes: Axes, gets: list[Get]) -> None:
    for tier, name in _NAMES.items():
        mine = [get for get in gets if get.tier == tier]
        colour = TIER_COLOURS[_LETTERS[tier]]
        axes.plot(
            [get.at_s for get in mine],
            [get.latency_ms for get in mine],
            linestyle="none",
            marker="o",
            markersize=4,
            markeredgewidth=0,
            alpha=0.6,
            color=colour,
        )
        text = f"{name}\nmedian {median(get.latency_ms for get in mine):.0f} ms"
        if tier == "s3":  # it answers before and after the burst
            _label(axes, text, mine, mine[0].at_s, "left", colour)
            _label(axes, "S3 again", mine, mine[-1].at_s, "right", colour)
        else:
            _label(axes, text, mine, median(get.at_s for get in mine), "center", colour)
    ticks_1_2_5(axes)
    axes.set_ylim(min(get.latency_ms for get in gets) / 1.3, max(get.latency_ms for get in gets) * 2.5)
    axes.set_ylabel("latency of a GET [ms]")
    axes.spines["right"].set_visible(False)
    title = f"A burst passes through the tiers: {len(gets)} GETs of one object in a local run"
    axes.set_title(title, loc="left", fontweight="bold")


def _label(axes: Axes, text: str, gets: list[Get], at_s: float, align: str, colour: str) -> None:
    """Write a text over the GETs around an instant."""
    top_ms = max(get.latency_ms for get in gets if abs(get.at_s - at_s) < 12)
    axes.annotate(
        text,
        (at_s, top_ms),
        xytext=(0, 7),
        textcoords="offset points",
        ha=align,
        color=colour,
        fontweight="bold",
    )


def _draw_lanes(axes: Axes, recording: Recording) -> None:
    lanes = (
        ("cache function", ((recording.cache_function, TIER_COLOURS["L"], 1.0, "on"),)),
        (
            "Redis node",
            (
                (recording.node_boots, TIER_COLOURS["R"], 0.35, "boots"),
                (recording.node_runs, TIER_COLOURS["R"], 1.0, "on"),
                (recording.node_stops, TIER_COLOURS["R"], 0.35, "stops"),
            ),
        ),
    )
    for row, (_, parts) in enumerate(lanes):
        for stays, colour, alpha, text in parts:
            axes.barh(
                [row] * len(stays),
                [stay.end_s - stay.start_s for stay in stays],
                left=[stay.start_s for stay in stays],
                height=0.55,
                color=colour,
                alpha=alpha,
                linewidth=0,
            )
            _draw_bar_label(axes, row, text, stays, "white" if alpha == 1 else INK)
    axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
    axes.set_ylim(len(lanes) - 0.45, -0.55)
    axes.set_title("switched on", loc="left", fontweight="bold")
    axes.tick_params(left=False)
    axes.spines[["left", "right"]].set_visible(False)


def _draw_bar_label(axes: Axes, row: int, text: str, stays: list[Stay], colour: str) -> None:
    """Write a text into a bar, or after one that is too narrow for it, which only the last bar of a lane may be."""
    start_s, end_s = min(stay.start_s for stay in stays), max(stay.end_s for stay in stays)
    left_s, right_s = axes.get_xlim()
    if end_s - start_s >= _LABEL_SHARE * (right_s - left_s):
        axes.text((start_s + end_s) / 2, row, text, ha="center", va="center", color=colour)
    else:
        axes.annotate(text, (end_s, row), xytext=(4, 0), textcoords="offset points", ha="left", va="center", color=INK)


def _warm_up(cloud: Cloud) -> None:
    """Start the proxy's environments on other objects, since the picture shows the burst and not their cold starts."""
    keys = [f"warm-{i}.bin" for i in range(_CLIENTS)]
    for key in keys:
        cloud.put(key, _BODY)
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(lambda key: Getter(cloud.url).get(key), keys))


def _gets(cloud: Cloud, began_s: float) -> list[Get]:
    """GET at the load's rate from several clients, so that one that waits for an answer delays no other."""
    clients = threading.local()

    def get(due_s: float) -> Get:
        if not hasattr(clients, "getter"):
            clients.getter = Getter(cloud.url)
        status, tier, body, latency_ms = clients.getter.get(_KEY)
        if (status, body) != (200, _BODY):
            sys.exit(f"GET after {due_s:.1f} s: status {status}, {len(body)} bytes")
        return Get(due_s, tier, latency_ms)

    with ThreadPoolExecutor(_CLIENTS) as pool:
        answers = []
        for due_s in _due_s():
            time.sleep(max(0.0, began_s + due_s - time.monotonic()))
            answers.append(pool.submit(get, time.monotonic() - began_s))
        while cloud.running_nodes():
            time.sleep(1)
        for _ in range(_AFTER):
            time.sleep(_AFTER_EVERY_S)
            answers.append(pool.submit(get, time.monotonic() - began_s))
        return [answer.result() for answer in answers]


def _due_s() -> Iterator[float]:
    due_s = 0.0
    for until_s, per_s in _LOAD:
        while due_s < until_s:
            yield due_s
            due_s += 1 / per_s


if __name__ == "__main__":
    sys.exit(main())
