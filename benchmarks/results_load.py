"""Rosa's load on the thumbnail service: hits per second over time, to saturation and beyond it.

    python -m benchmarks.results_load docs/images/results-load.png

The service is `examples/thumbnails/server.py`: functions-framework, as Rosa's, on one core, with the smallest of his
pictures in every request. Clients that ask again as soon as they have an answer show what it can do (his figures 5.2 to
5.5); requests that come at a rate of their own, whether or not the former ones are answered, show what happens beyond.

Source:
    Rosa 2022, sections 5.2.1 to 5.2.3.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.read_path import free_port
from benchmarks.results_places import redis_on_this_machine
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.outcome import Progress, Table, add_options, leave
from burstcache_sim.report.drawing import INK, LINE_COLOURS, ticks_1_2_5
from examples.thumbnails.pictures import SIZES_PX, numbered, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SERVER = PROJECT / "examples" / "thumbnails" / "server.py"
# One core for the service, so that it has as much of the machine however much the clients need.
_CORES = sorted(os.sched_getaffinity(0))
_SERVICE_CORES, _CLIENT_CORES = _CORES[:1], _CORES[1:] or _CORES
_REQUESTS = (500, 750, 1500)  # of each client, as Rosa's
_CLIENTS = (1, 5)
_BIN_S = 0.5
_SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)  # of the rate that saturates
_RATE_FOR_S = 2.0
_SETTLED_S = 0.5  # of each rate's time, which is not counted
_ROUNDS = 3  # in which the rates take turns; of each, the run with the middle number of hits stands
_LIMIT_S = 10.0  # Rosa's time-out
# 5 clients and the small picture, results in process (figures 5.3 to 5.5).
_ROSA_PEAK_PER_S, _ROSA_LATE_PER_S = (76, 80.6), (17, 20)
# Clients and requests of each → his hits per second, each thumbnail computed (figures 5.2 to 5.5).
ROSA_PER_S = {
    (1, 500): "16",
    (5, 500): "65 to 75, peak 80.6",
    (5, 750): "70 to 80, then 20",
    (5, 1500): "peak 76, then 17 to 18",
}


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked."""

    requests: tuple[int, ...] = _REQUESTS  # of each client, in turn
    rounds: int = _ROUNDS
    rate_for_s: float = _RATE_FOR_S

    @property
    def of_clients(self) -> tuple[tuple[int, int], ...]:
        """Clients that wait for their answers, and the requests of each."""
        return tuple(itertools.product(_CLIENTS, self.requests))


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request."""

    at_s: float  # when it was answered, since the first request
    status: int
    latency_ms: float


@dataclass(slots=True)
class Run:
    """One load and its answers."""

    name: str
    offered_per_s: float = 0.0  # 0: clients that wait for their answers
    for_s: float = _RATE_FOR_S  # of a rate
    answers: list[Answer] = field(default_factory=list)
    service_cpu_s: float = 0.0

    def hits_per_s(self, bin_s: float = _BIN_S) -> list[float]:
        """Return the rate of requests answered with a thumbnail [1/s], in each bin but the last, incomplete one."""
        bins = [0.0] * (int(max(answer.at_s for answer in self.answers) / bin_s) + 1)
        for answer in self.answers:
            bins[int(answer.at_s / bin_s)] += (answer.status == 200) / bin_s
        return bins[:-1] or bins

    @property
    def whole_per_s(self) -> float:
        """Rate of requests answered with a thumbnail, over the whole time [1/s]."""
        return sum(answer.status == 200 for answer in self.answers) / max(answer.at_s for answer in self.answers)

    @property
    def hits_per_cpu_s(self) -> float:
        """Requests answered with a thumbnail per second of processor time."""
        return sum(answer.status == 200 for answer in self.answers) / self.service_cpu_s

    @property
    def asked_per_s(self) -> float:
        """Rate of requests over the counted time [1/s]."""
        return self._per_s(answer.at_s - answer.latency_ms / 1000 for answer in self.answers)

    def rate_per_s(self, status: int) -> float:
        """Return the rate of requests that got a status, over the counted time [1/s]."""
        return self._per_s(answer.at_s for answer in self.answers if answer.status == status)

    def _per_s(self, times_s: Iterable[float]) -> float:
        return sum(_SETTLED_S <= at_s < self.for_s for at_s in times_s) / (self.for_s - _SETTLED_S)

    def latency_ms(self, status: int, share: float) -> float:
        """Return a quantile of the latencies of a status; NaN without any."""
        ordered = sorted(answer.latency_ms for answer in self.answers if answer.status == status)
        return ordered[int(len(ordered) * share)] if ordered else float("nan")


class Pictures:
    """Bodies of requests: the same picture each time, or another one each time."""

    def __init__(self, size_bytes: int, *, is_new: bool) -> None:
        self._picture, self._numbers, self._is_new = picture(size_bytes), itertools.count(), is_new
        self._same = self._body(0)

    def next(self) -> bytes:
        """Return the next request's body."""
        return self._body(next(self._numbers)) if self._is_new else self._same

    def _body(self, number: int) -> bytes:
        return json.dumps({"image": base64.b64encode(numbered(self._picture, number)).decode()}).encode()


class Connection:
    """A connection to the service, opened again when the service has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, body: bytes) -> int:
        """Return the status of a POST, whose answer is read to its end."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        self._writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        fields = dict(line.partition(": ")[::2] for line in lines[1:])
        await self._reader.readexactly(int(fields.get("content-length", 0)))
        if fields.get("connection") == "close":
            self.close()
        return int(lines[0].split(" ")[1])

    def close(self) -> None:
        """Close the connection; the next POST opens another."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


async def ask_in_turn(port: int, pictures: Pictures, *, clients: int, requests: int) -> Run:
    """Return a run of clients that each ask as often as told, one request after the other's answer."""
    run, began_s = Run(f"{clients} × {requests}"), time.perf_counter()

    async def client() -> None:
        connection = Connection(port)
        for _ in range(requests):
            run.answers.append(await _answer(connection, pictures.next(), began_s))
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return run


async def ask_at_rate(port: int, pictures: Pictures, *, per_s: float, for_s: float) -> Run:
    """Return a run of requests at a rate, each on time whether or not the former ones have been answered."""
    run, idle = Run(f"{per_s:.0f} requests/s", per_s, for_s), list[Connection]()
    began_s = time.perf_counter()

    async def ask() -> None:
        connection = idle.pop() if idle else Connection(port)
        run.answers.append(await _answer(connection, pictures.next(), began_s))
        idle.append(connection)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(per_s * for_s)):
            await asyncio.sleep(began_s + number / per_s - time.perf_counter())
            tasks.create_task(ask())
    for connection in idle:
        connection.close()
    return run


async def _answer(connection: Connection, body: bytes, began_s: float) -> Answer:
    """Ask once; a connection that breaks and an answer that takes too long are answers, too, without a status."""
    asked_s = time.perf_counter()
    try:
        status = await asyncio.wait_for(connection.post(body), _LIMIT_S)
    except (OSError, EOFError, TimeoutError):
        connection.close()
        status = 0
    answered_s = time.perf_counter()
    return Answer(answered_s - began_s, status, (answered_s - asked_s) * 1000)


@dataclass(slots=True)
class Measured:
    """All runs."""

    saturated_per_s: float  # hits of the quickest run of new pictures
    computed: list[Run]  # clients that wait, each picture new
    offered: list[Run]  # requests at a rate, each picture new
    cached: dict[str, list[Run]]  # place of the results → clients that wait, one picture

    def kept_share(self, rate: Callable[[Run], float]) -> float:
        """Return the share of the highest rate of hits that is left at twice the saturating rate."""
        twice = next(run for run in self.offered if run.offered_per_s >= 2 * self.saturated_per_s)
        return rate(twice) / max(map(rate, self.offered))


@dataclass(frozen=True, slots=True)
class Service:
    """A service that runs."""

    port: int
    process_id: int

    def cpu_s(self) -> float:
        """Return the processor's time that it has taken."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(results: str) -> Iterator[Service]:
    """Run the service with its results in a place."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(_SERVER), str(port)], env=os.environ | {"BURSTCACHE_RESULTS": results}
    )
    os.sched_setaffinity(process.pid, _SERVICE_CORES)
    try:
        while not listens(port):
            if process.poll() is not None:
                sys.exit("the service has ended")
            time.sleep(0.05)
        yield Service(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def listens(port: int) -> bool:
    """Whether a port of this machine takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measure(size_bytes: int, places: dict[str, str], load: Load, progress: Progress) -> Measured:
    """Return all runs, the service newly started for each place."""
    new, same = Pictures(size_bytes, is_new=True), Pictures(size_bytes, is_new=False)
    with serving("memory://") as service:
        computed = _of_clients(service, new, load, "each picture new", progress)
        saturated_per_s = max(len(run.answers) / run.answers[-1].at_s for run in computed)
        rounds = list[list[Run]]()
        for _ in range(load.rounds):
            rounds.append([])
            for share in _SHARES:
                rounds[-1].append(at_rate(service, new, share * saturated_per_s, load.rate_for_s))
                progress.step("requests on time, below saturation and beyond")
    offered = [sorted(runs, key=lambda run: run.rate_per_s(200))[len(runs) // 2] for runs in zip(*rounds, strict=True)]
    cached = {}
    for place, url in places.items():
        with serving(url) as service:
            cached[place] = _of_clients(service, same, load, f"one picture, {place}", progress)
    return Measured(saturated_per_s, computed, offered, cached)


def _of_clients(service: Service, pictures: Pictures, load: Load, what: str, progress: Progress) -> list[Run]:
    runs = []
    for clients, requests in load.of_clients:
        runs.append(asyncio.run(ask_in_turn(service.port, pictures, clients=clients, requests=requests)))
        progress.step(what)
    return runs


def at_rate(service: Service, pictures: Pictures, per_s: float, for_s: float) -> Run:
    """Return a run at a rate, and what of the processor's time it took."""
    began_s = service.cpu_s()
    run = asyncio.run(ask_at_rate(service.port, pictures, per_s=per_s, for_s=for_s))
    run.service_cpu_s = service.cpu_s() - began_s
    return run


def table_of(measured: Measured, load: Load) -> Table:
    """Return his values and ours."""
    rows = []
    for number, (clients, requests) in enumerate(load.of_clients):
        runs = [measured.computed[number], *(of_place[number] for of_place in measured.cached.values())]
        who = f"{clients} client{'s' * (clients > 1)}, {requests:,} each"
        rows.append([who, ROSA_PER_S.get((clients, requests), ""), *(f"{run.whole_per_s:,.0f}" for run in runs)])
    columns = (
        "Requests",
        "Rosa 2022, each computed",
        "Each picture new",
        *(f"One, {place}" for place in measured.cached),
    )
    kept, failed = measured.kept_share(lambda run: run.rate_per_s(200)), _failed(measured)
    note = (
        f"Thumbnails per second of a picture of {min(SIZES_PX):,} bytes; his load never asks the cache. Requests that"
        f" come on time, each picture new: {measured.saturated_per_s:,.0f} a second saturate the service, at twice as"
        f" many {kept:.0%} of the peak are left, and all others are refused at once. Failed: {failed}. His machine has"
        " a quarter of a processor."
    )
    return Table(columns, 2, rows, note)


def _failed(measured: Measured) -> int:
    runs = [*measured.computed, *measured.offered, *itertools.chain.from_iterable(measured.cached.values())]
    return sum(answer.status not in (200, 503) for run in runs for answer in run.answers)


def print_runs(measured: Measured) -> None:
    """Print the tables."""
    print(
        f"\n{'results':<13} {'clients':>8} {'hits/s':>7} {'peak':>6} {'second half':>11} {'median ms':>9} {'failed':>6}"
    )
    for place, runs in {"each new": measured.computed, **measured.cached}.items():
        for run in runs:
            bins = run.hits_per_s()
            late_per_s = statistics.mean(bins[len(bins) // 2 :])
            failed = sum(answer.status != 200 for answer in run.answers)
            print(
                f"{place:<13} {run.name:>8} {run.whole_per_s:>7.0f} {max(bins):>6.0f} {late_per_s:>11.0f}"
                f" {run.latency_ms(200, 0.5):>9.2f} {failed:>6}"
            )
    print(f"\n{'offered/s':>9} {'asked/s':>7} {'hits/s':>7} {'refused/s':>9} {'p95 ms':>7}", end="")
    print(f" {'refusal p95 ms':>14} {'failed':>6} {'hits/CPU s':>10}")
    for run in measured.offered:
        failed = sum(answer.status not in (200, 503) for answer in run.answers)
        print(
            f"{run.offered_per_s:>9.0f} {run.asked_per_s:>7.0f} {run.rate_per_s(200):>7.0f} {run.rate_per_s(503):>9.0f}"
            f" {run.latency_ms(200, 0.95):>7.1f} {run.latency_ms(503, 0.95):>14.1f} {failed:>6}"
            f" {run.hits_per_cpu_s:>10.0f}"
        )
    by_clock, by_cpu = (
        measured.kept_share(lambda run: run.rate_per_s(200)),
        measured.kept_share(lambda run: run.hits_per_cpu_s),
    )
    print(
        f"\nat twice the saturating rate: {by_clock:.0%} of the peak; per second of the processor's time {by_cpu:.0%}"
    )


def figure_of(measured: Measured) -> Figure:
    """Return the picture, for use within `drawing()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.2), layout="constrained")
    (over_time, cached), (rates, latencies) = figure.subplots(2, 2)
    _draw_over_time(over_time, measured.computed, "Each picture new")
    over_time.axhspan(*_ROSA_PEAK_PER_S, color=INK, alpha=0.25, linewidth=0)
    over_time.axhspan(*_ROSA_LATE_PER_S, color=INK, alpha=0.25, linewidth=0)
    over_time.text(0.5, 82, "Rosa's peak, 5 clients", va="bottom")
    over_time.text(0.5, 19, "Rosa's end, 5 clients", va="bottom")
    runs = [runs[-1] for runs in measured.cached.values()]
    _draw_over_time(cached, runs, f"One picture, {runs[0].name}: results from", list(measured.cached))
    _draw_rates(rates, measured)
    _draw_latencies(latencies, measured)
    return figure


def _draw_over_time(axes: Axes, runs: list[Run], title: str, names: list[str] | None = None) -> None:
    for run, colour, name in zip(runs, LINE_COLOURS, names or [run.name for run in runs], strict=False):
        bins = run.hits_per_s()
        axes.plot([_BIN_S * (number + 0.5) for number in range(len(bins))], bins, color=colour, label=name)
    top_per_s = 1.35 * max(max(run.hits_per_s()) for run in runs)  # above the lines is room for the legend
    axes.set(xlabel="seconds", ylabel="hits per second", xlim=(0, None), ylim=(0, top_per_s))
    axes.set_title(title, loc="left", fontweight="bold")
    axes.legend(ncols=3, fontsize=7.5, loc="upper right")


def _draw_rates(axes: Axes, measured: Measured) -> None:
    asked_per_s = [run.asked_per_s for run in measured.offered]
    hits, refused = ([run.rate_per_s(status) for run in measured.offered] for status in (200, 503))
    axes.plot(asked_per_s, hits, "o-", color=LINE_COLOURS[0], label="answered with a thumbnail")
    axes.plot(asked_per_s, refused, "o-", color=LINE_COLOURS[1], label="refused (503)")
    axes.axhline(0.9 * max(hits), color=INK, linewidth=0.8, linestyle=":", label="90 % of the peak")
    axes.axvline(2 * measured.saturated_per_s, color=INK, linewidth=0.8, linestyle="--", label="twice what saturates")
    axes.set(xlabel="requests per second, on time", ylabel="per second", xlim=(0, None), ylim=(0, None))
    axes.set_title("Beyond saturation", loc="left", fontweight="bold")
    axes.legend(fontsize=7.5)


def _draw_latencies(axes: Axes, measured: Measured) -> None:
    for status, name, colour in ((200, "answer", LINE_COLOURS[0]), (503, "refusal", LINE_COLOURS[1])):
        runs = [run for run in measured.offered if run.rate_per_s(status)]
        for share, line in ((0.5, "o-"), (0.95, "o:")):
            latencies_ms = [run.latency_ms(status, share) for run in runs]
            label = f"{name}, {'median' if share == 0.5 else '95 %'}"
            axes.plot([run.asked_per_s for run in runs], latencies_ms, line, color=colour, label=label)
    ticks_1_2_5(axes)
    axes.set(xlabel="requests per second, on time", ylabel="latency [ms]", xlim=(0, None))
    axes.set_title("What an answer and a refusal take", loc="left", fontweight="bold")
    axes.legend(fontsize=7.5)


def main() -> int:
    """Measure, print and draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument(
        "--requests", type=int, nargs="+", default=_REQUESTS, help="of each client (default: as Rosa's)"
    )
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of all rates (default: 3)")
    parser.add_argument("--rate-for-s", type=float, default=_RATE_FOR_S, help="each, more than 0.5 (default: 2)")
    arguments = parser.parse_args()
    print(environment())
    load = Load(tuple(arguments.requests), arguments.rounds, arguments.rate_for_s)
    os.sched_setaffinity(0, _CLIENT_CORES)
    with redis_on_this_machine() as (socket_path, port):
        places = {
            "in process": "memory://",
            "same machine": f"unix://{socket_path}",
            "network": f"redis://127.0.0.1:{port}",
        }
        steps = len(load.of_clients) * (1 + len(places)) + load.rounds * len(_SHARES)
        measured = measure(min(SIZES_PX), places, load, Progress(steps, is_printed=arguments.page is not None))
    print_runs(measured)
    leave(arguments, table_of(measured, load), lambda: figure_of(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
