"""Rosa's tables: a picture's thumbnail without a cache, and from one in process, on the same machine, over a network.

    python -m benchmarks.results_places docs/images/results-places.png

Ten runs of each, as his, whose "average" is the median of his ten values. A run here is the median of some calls, as
other work on the machine weighs more than what is measured. A row has two times: `hit`, as he took it, from a key that
is known to the thumbnail, and `call`, the whole call, which makes the key of the picture's bytes first. The network is
this machine's loopback, and loopback with a stated delay. In turns with hits stands what cannot be had for less: a
dictionary, and redis-py's GET of the same bytes.

Source:
    Rosa 2022, tables 5.1 to 5.3.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import inspect
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from benchmarks.read_path import free_port, wait_for_port
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.outcome import Progress, Table, add_options, leave
from burstcache.results import cached
from burstcache_local.machines import processes
from burstcache_local.machines.redis_binary import redis_binary
from burstcache_sim.report.drawing import INK, LINE_COLOURS, ticks_1_2_5
from examples.thumbnails.pictures import SIZES_PX, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

sys.path.insert(0, str(PROJECT / "examples" / "thumbnails" / "src"))  # as Lambda has it

_RUNS, _CALLS = 10, 25
_OVERHEAD_CALLS = 2_000
_DELAY_MS = 0.5  # of a round trip, in the row that has one
_DAY_S = 86_400

WITHOUT, IN_PROCESS, SAME_MACHINE, NETWORK, DELAYED = (
    "without cache", "in process", "same machine", "network", "network, delayed",
)  # fmt: skip
# Picture [bytes] → place → what Rosa calls the average [ms].
ROSA_MS = {
    18_617: {WITHOUT: 36.80, IN_PROCESS: 0.158, SAME_MACHINE: 0.626, NETWORK: 27.78},
    228_902: {WITHOUT: 46.40, IN_PROCESS: 0.160, SAME_MACHINE: 0.648, NETWORK: 25.27},
    406_938: {WITHOUT: 351.3, IN_PROCESS: 0.222, SAME_MACHINE: 1.694, NETWORK: 25.16},
}


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one picture in one place."""

    size_bytes: int
    place: str
    hits_ms: list[float]  # by a known key; without a cache the thumbnail itself
    calls_ms: list[float]  # the whole call

    def line(self) -> str:
        """Return the printed row."""
        rosa_ms = ROSA_MS[self.size_bytes].get(self.place)
        return (
            f"{self.size_bytes:>7} {self.place:<17} {rosa_ms or '':>7} {statistics.median(self.hits_ms):>8.3f}"
            f" {statistics.mean(self.hits_ms):>8.3f} ± {statistics.stdev(self.hits_ms):<7.3f}"
            f" {statistics.median(self.calls_ms):>8.3f} {statistics.mean(self.calls_ms):>8.3f} ±"
            f" {statistics.stdev(self.calls_ms):<7.3f}"
        )


def measure(places: dict[str, str], runs: int, progress: Progress) -> list[Row]:
    """Return the rows of all pictures and places."""
    import thumbnails

    rows = []
    for size_bytes in SIZES_PX:
        request = {"image": base64.b64encode(picture(size_bytes)).decode()}
        digest = hashlib.sha256(request["image"].encode()).hexdigest()
        bare = inspect.unwrap(thumbnails.thumbnail_of_request)
        bare(request)
        plain_ms = runs_ms(partial(bare, request), runs)
        rows.append(Row(size_bytes, WITHOUT, plain_ms, plain_ms))
        progress.step(f"{size_bytes:,} bytes, {WITHOUT}")
        for place, url in places.items():
            known = cached_thumbnail(url, bare, request)
            call = cached(key="image", backend=url, codec="bytes", ttl_s=_DAY_S)(bare)
            assert known(digest) == call(request) == bare(request)
            hits_ms, whole_ms = (runs_ms(each, runs) for each in (partial(known, digest), partial(call, request)))
            rows.append(Row(size_bytes, place, hits_ms, whole_ms))
            progress.step(f"{size_bytes:,} bytes, {place}")
    return rows


def cached_thumbnail(url: str, bare: Callable[..., bytes], request: dict[str, str]) -> Callable[[str], bytes]:
    """Return the service of one picture, which is found by the digest of its bytes."""

    @cached(arguments=["digest"], backend=url, codec="bytes", ttl_s=_DAY_S)
    def thumbnail(digest: str) -> bytes:
        return bare(request)

    return thumbnail


def runs_ms(call: Callable[[], object], runs: int) -> list[float]:
    """Return the duration of a call in each run."""
    return [statistics.median(calls_ms(call, _CALLS)) for _ in range(runs)]


def calls_ms(call: Callable[[], object], calls: int) -> list[float]:
    """Return the duration of each of some calls, after a warm-up call."""
    call()
    lasted_ms = []
    for _ in range(calls):
        began_s = time.perf_counter()
        call()
        lasted_ms.append((time.perf_counter() - began_s) * 1000)
    return lasted_ms


def print_overheads(socket_path: Path) -> None:
    """Print what a hit costs over what it is made of, in turns."""
    digest, thumbnail = "0" * 64, bytes(2_400)
    store = {digest: thumbnail}
    sides: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    in_process = cached_thumbnail("memory://", lambda _: thumbnail, {})
    sides["a dictionary"] = (lambda: store[digest], lambda: in_process(digest))
    with redis.Redis(unix_socket_path=str(socket_path)) as client:
        client.set("bare", thumbnail)
        by_socket = cached_thumbnail(f"unix://{socket_path}", lambda _: thumbnail, {})
        sides["redis-py's GET"] = (lambda: client.get("bare"), lambda: by_socket(digest))
        print(f"\n{'against':<15} {'bare µs':>8} {'hit µs':>8} {'adds µs':>8}   medians of {_OVERHEAD_CALLS:,}")
        for name, (bare, hit) in sides.items():
            bare_ms, hit_ms = [], []
            for _ in range(_OVERHEAD_CALLS // 100):
                bare_ms += calls_ms(bare, 100)
                hit_ms += calls_ms(hit, 100)
            bare_us, hit_us = statistics.median(bare_ms) * 1000, statistics.median(hit_ms) * 1000
            print(f"{name:<15} {bare_us:>8.2f} {hit_us:>8.2f} {hit_us - bare_us:>8.2f}")


def table_of(rows: list[Row]) -> Table:
    """Return his values and ours."""
    columns = ("Picture", "Place", "Rosa 2022", "Hit here", "Whole call here")
    cells = []
    for row in rows:
        rosa_ms = ROSA_MS[row.size_bytes].get(row.place)
        hit_ms, whole_ms = (statistics.median(values_ms) for values_ms in (row.hits_ms, row.calls_ms))
        published = "" if rosa_ms is None else f"{rosa_ms:g}"
        cells.append([f"{row.size_bytes:,} bytes", row.place, published, f"{hit_ms:.3f}", f"{whole_ms:.3f}"])
    note = (
        f"In ms, the median of {len(rows[0].hits_ms)} runs. Hit: from a key that is known to the thumbnail, as he took"
        " it; the whole call makes the key of the picture's bytes first. His network joins two virtual machines, ours"
        f" is this machine's loopback, and loopback delayed by {_DELAY_MS} ms."
    )
    return Table(columns, 2, cells, note)


def figure_of(rows: list[Row]) -> Figure:
    """Return the picture, for use within `drawing()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    places = list(dict.fromkeys(row.place for row in rows))
    for axes, size_bytes in zip(figure.subplots(1, len(SIZES_PX), sharey=True), SIZES_PX, strict=True):
        mine = {row.place: statistics.median(row.hits_ms) for row in rows if row.size_bytes == size_bytes}
        published_ms = ROSA_MS[size_bytes]
        axes.plot([published_ms.get(place) for place in places], "o", color=INK, fillstyle="none", label="Rosa 2022")
        axes.plot([mine[place] for place in places], "o", color=LINE_COLOURS[0], label="here")
        axes.set_xticks(range(len(places)), places, rotation=40, ha="right")
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_title(f"{size_bytes:,} bytes", loc="left", fontweight="bold")
        axes.grid(axis="y", alpha=0.25)
        ticks_1_2_5(axes)
        axes.spines["right"].set_visible(False)
    figure.axes[0].set_ylabel("thumbnail, median of ten runs [ms]")
    figure.axes[0].legend()
    return figure


def main() -> int:
    """Measure, print and draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--runs", type=int, default=_RUNS, help="of each row, at least 2 (default: 10)")
    arguments = parser.parse_args()
    print(environment())
    with redis_on_this_machine() as (socket_path, port), delayed(port) as delayed_port:
        places = {
            IN_PROCESS: "memory://",
            SAME_MACHINE: f"unix://{socket_path}",
            NETWORK: f"redis://127.0.0.1:{port}",
            DELAYED: f"redis://127.0.0.1:{delayed_port}",
        }
        progress = Progress(len(SIZES_PX) * (1 + len(places)), is_printed=arguments.page is not None)
        rows = measure(places, arguments.runs, progress)
        print(f"\n{'bytes':>7} {'place':<17} {'Rosa ms':>7} {'hit ms':>8} {'mean, deviation':>18} {'call ms':>8}")
        for row in rows:
            print(row.line())
        print_overheads(socket_path)
    leave(arguments, table_of(rows), lambda: figure_of(rows))
    return 0


@contextlib.contextmanager
def redis_on_this_machine() -> Iterator[tuple[Path, int]]:
    """Run a Redis on this machine; yield its socket's path and its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "redis.sock"
        options = ["--bind", "127.0.0.1", "--port", str(port), "--unixsocket", str(path), "--save", ""]
        process = processes.start([str(redis_binary()), *options], env=os.environ, log=Path(folder) / "redis.txt")
        try:
            wait_for_port(port)
            yield path, port
        finally:
            processes.stop(process, grace_s=5)


@contextlib.contextmanager
def delayed(port: int) -> Iterator[int]:
    """Run, in a process of its own, a port that passes on to another and delays its answers; yield it."""
    delayed_port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_relay, args=(delayed_port, port), daemon=True)
    process.start()
    try:
        wait_for_port(delayed_port)
        yield delayed_port
    finally:
        process.terminate()
        process.join()


def _relay(listened_port: int, port: int) -> None:
    def pump(source: socket.socket, target: socket.socket, delay_s: float) -> None:
        with contextlib.suppress(OSError):  # the other way's pump has closed it
            while data := source.recv(1 << 16):
                time.sleep(delay_s)
                target.sendall(data)
        target.close()

    def end_with(parent: multiprocessing.process.BaseProcess) -> None:
        parent.join()
        os._exit(1)  # it was killed

    parent = multiprocessing.parent_process()
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    with socket.create_server(("127.0.0.1", listened_port)) as listener:
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", port))
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way in ((client, server, 0.0), (server, client, _DELAY_MS / 1000)):
                threading.Thread(target=pump, args=way, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
