"""Load to saturation, per tier: by the front door and by the client library, and where the knee is.

    python -m benchmarks.load docs/images/load.png [--seconds 4] [--tiers s3 lambda redis]

Clients that ask again as soon as they have an answer (a closed loop, 1 to 64 of them) show what a tier can do on this
machine. The knee is the number of clients at which throughput divided by latency is highest: more clients wait longer
for each answer than they add answers. Requests that come at a rate of their own (an open loop) show what happens beyond
it: their latency counts from when they were due. Readers and servers share the cores of one machine, so the figures
compare tiers and ways to read; they are no capacity of a deployed stack.

Source:
    Rosa 2022, sections 5.2.1 to 5.2.3; the knee: Kleinrock, "Power and deterministic rules of thumb", 1979.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from benchmarks.client.common import SETUP_OF, access_of
from benchmarks.client.heat import heat_all, put_all
from benchmarks.hits import Cloud, running_cloud
from benchmarks.support.common import PROJECT, environment
from burstcache.client import Client
from burstcache_replay.schedule import Outcome, Send, replay
from burstcache_replay.summary import Spread, is_failed
from burstcache_replay.targets import front_door, library
from burstcache_sim.report.drawing import INK, LINE_COLOURS, drawing, ticks_1_2_5
from burstcache_terminal.text import table_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES_BYTES = {"18 KB": 18_000, "200 KB": 200_000, "4 MB": 4_000_000}  # Rosa's pictures, the largest object of a tier
WAYS = ("front door", "client")
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # of the rate at the most that closed loops have reached
_LIMIT_S = 30.0
_UNCOUNTED = 0.2  # of the time, at the begin: connections are opened, environments started


@dataclass(frozen=True, slots=True)
class Load:
    """What one load got.

    Attributes:
        offered: Clients of a closed loop; requests a second of an open one.
        answers_per_s: Answers of the tier that was asked for, per second.
        latency: Of these, from when they were due.
        others: Answers of other tiers, and failures.
    """

    offered: float
    answers_per_s: float
    latency: Spread | None
    others: int

    @property
    def power(self) -> float:
        """Throughput by latency, Kleinrock's measure."""
        return self.answers_per_s / self.latency.p50_ms if self.latency else 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    """One tier, one size, one way to read."""

    tier: str
    size: str
    way: str
    closed: tuple[Load, ...]
    opened: tuple[Load, ...]

    @property
    def knee(self) -> Load:
        """The load beyond which latency grows faster than throughput."""
        return max(self.closed, key=lambda load: load.power)

    @property
    def most_per_s(self) -> float:
        """The highest throughput of the closed loops."""
        return max(load.answers_per_s for load in self.closed)


def _load(offered: float, tier: str, outcomes: Sequence[Outcome], counted_s: float) -> Load:
    right = [each.latency_s for each in outcomes if each.answer.tier == tier and not is_failed(each)]
    latency = Spread.of(right) if right else None
    return Load(offered, len(right) / counted_s, latency, len(outcomes) - len(right))


async def _closed(send: Send, tier: str, *, clients: int, lasts_s: float) -> Load:
    outcomes: list[Outcome] = []
    began_s = time.monotonic()
    counted_from_s, ends_s = began_s + _UNCOUNTED * lasts_s, began_s + lasts_s

    async def client() -> None:
        while (sent_s := time.monotonic()) < ends_s:
            answer = await send(0)
            answered_s = time.monotonic()
            if counted_from_s <= answered_s <= ends_s:
                outcomes.append(Outcome(0, 0.0, answered_s - sent_s, answer))

    await asyncio.gather(*(client() for _ in range(clients)))
    return _load(clients, tier, outcomes, ends_s - counted_from_s)


async def _open(send: Send, tier: str, *, per_s: float, lasts_s: float) -> Load:
    outcomes: list[Outcome] = []
    count = max(1, round(per_s * lasts_s))
    await replay([number / per_s for number in range(count)], lambda _: send(0), outcomes.append)
    first = round(_UNCOUNTED * count)
    counted = [outcome for outcome in outcomes if outcome.number >= first]
    # What came in the time that it was due in, and what was still owed then: a backlog is no throughput.
    last_due_s = (count - first) / per_s
    answered_s = max(outcome.number / per_s + outcome.latency_s for outcome in counted) - first / per_s
    return _load(per_s, tier, counted, max(last_due_s, answered_s))


def _target(cloud: Cloud, way: str, name: str) -> AbstractAsyncContextManager[Send]:
    if way == "client":
        return library(Client(**access_of(cloud), memory_bytes=0), [name], max(CLIENTS))
    return front_door(f"{cloud.front_url}/objects", [name], {}, _LIMIT_S)


def curve(cloud: Cloud, tier: str, size: str, way: str, name: str, lasts_s: float) -> Curve:
    """Return the results of a tier under all loads."""

    async def main() -> Curve:
        async with _target(cloud, way, name) as send:
            closed = [await _closed(send, tier, clients=clients, lasts_s=lasts_s) for clients in CLIENTS]
            most_per_s = max(load.answers_per_s for load in closed)
            rates = [share * most_per_s for share in SHARES if most_per_s]
            opened = [await _open(send, tier, per_s=rate, lasts_s=lasts_s) for rate in rates]
        return Curve(tier, size, way, tuple(closed), tuple(opened))

    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def curves(tiers: Sequence[str], lasts_s: float) -> Iterator[Curve]:
    """Yield all curves, each tier in a local run of its own."""
    for tier in tiers:
        with running_cloud(PROJECT, SETUP_OF[tier]) as cloud:
            names = {size: f"{size} of {tier}" for size in SIZES_BYTES}
            for size, name in names.items():
                put_all(cloud, [name], bytes(SIZES_BYTES[size]))
            if tier != "s3":
                heat_all(cloud, list(names.values()), tier)
            for size, name in names.items():
                for way in WAYS:
                    yield curve(cloud, tier, size, way, name, lasts_s)


def print_curve(found: Curve) -> None:
    """Print a curve as two tables, and its knee."""
    knee = found.knee
    print(f"\n{found.tier}, {found.size}, {found.way}")
    for title, loads in (("clients", found.closed), ("requests/s", found.opened)):
        rows = [
            (
                f"{load.offered:.0f}" + (" (knee)" if load is knee else ""),
                f"{load.answers_per_s:.0f}",
                *(("-", "-") if load.latency is None else (f"{load.latency.p50_ms:.1f}", f"{load.latency.p99_ms:.1f}")),
                f"{load.others}",
            )
            for load in loads
        ]
        print(table_text((title, "answers/s", "p50 ms", "p99 ms", "others"), rows, right=range(5)), flush=True)


def figure_of(found: Sequence[Curve]) -> Figure:
    """Return the picture, for use within `drawing()`: a row per way to read, a column per size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.4), layout="constrained")
    rows = figure.subplots(len(WAYS), len(SIZES_BYTES), squeeze=False)
    for way, row in zip(WAYS, rows, strict=True):
        for size, axes in zip(SIZES_BYTES, row, strict=True):
            _draw(axes, [each for each in found if (each.way, each.size) == (way, size)])
            axes.set_title(f"{way}, {size}", loc="left", fontweight="bold")
    lines, names = rows[0][0].get_legend_handles_labels()
    figure.legend(lines, names, fontsize=7.5, ncols=len(names), loc="outside lower center")
    return figure


def _draw(axes: Axes, found: Sequence[Curve]) -> None:
    for each, colour in zip(found, LINE_COLOURS, strict=False):
        loads = [load for load in each.closed if load.latency]
        latencies = [load.latency.p50_ms for load in loads if load.latency]
        axes.plot([load.answers_per_s for load in loads], latencies, "o-", color=colour, markersize=3, label=each.tier)
        loads = [load for load in each.opened if load.latency]
        latencies = [load.latency.p50_ms for load in loads if load.latency]
        rates = [load.answers_per_s for load in loads]
        axes.plot(rates, latencies, ":", color=colour, label=f"{each.tier}, open loop")
        if each.knee.latency:
            axes.plot(each.knee.answers_per_s, each.knee.latency.p50_ms, "o", color=INK, fillstyle="none", markersize=9)
            text = f"{each.knee.offered:.0f}"
            axes.annotate(text, (each.knee.answers_per_s, each.knee.latency.p50_ms), (6, 6), textcoords="offset points")
    ticks_1_2_5(axes)
    axes.set(xlabel="answers per second", ylabel="median latency [ms]", xlim=(0, None))


def main() -> int:
    """Measure, print and draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=Path, nargs="?", help="PNG to draw")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    parser.add_argument("--tiers", nargs="+", choices=SETUP_OF, default=list(SETUP_OF))
    arguments = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # nats-py has it warn of each TLS connection that closes
    print(environment())
    found = []
    for each in curves(arguments.tiers, arguments.seconds):
        print_curve(each)
        found.append(each)
    if arguments.image:
        with drawing():
            figure_of(found).savefig(arguments.image, dpi=150, facecolor="white", metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
