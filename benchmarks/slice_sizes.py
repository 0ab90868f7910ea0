"""Slice sizes: latency of a read, GETs, bytes fetched per byte used, and price, by size and by workload.

A stand-in for S3 answers after 25 ms and sends 85 MB/s per connection (`benchmarks.support.delayed_s3`). Each size
reads each workload in a process of its own, by one thread or several, with an empty memory. A read returns once its own
bytes have arrived. The rest of its slices follows behind, and counts as fetched. The sizes take turns.

    python -m benchmarks.slice_sizes [--sizes-kib 256 1024 4096 8192] [--threads 1 8] [--rounds 3] [--small]
"""

from __future__ import annotations

import argparse
import io
import itertools
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.support.common import environment
from benchmarks.support.delayed_s3 import DELAY_MS, MB_PER_S, delayed_s3, read_counts
from benchmarks.support.large_data import LAKE, LAKE_FILES, LARGE, TABLE, Sizes, write_data
from burstcache.core import slices
from burstcache.core.prices import price_sheet
from burstcache.core.prices.sheet import BYTES_PER_GB

_MEMORY_BYTES = 4 << 30  # room for all slices: what is evicted is another question
_TILE_BYTES, _TILES_PER_ROW, _VIEW_TILES, _VIEWS = 36 * 1024, 64, 4, 16
_RANGE_BYTES, _RANGES = 64 * 1024, 200
_STEP_BYTES = 1 << 20
_MAX_STALE_MS = 3_600_000  # S3 confirms nothing meanwhile
_LONGEST_SCAN_BYTES = 256 << 20

Read = tuple[str, int, int]  # key, start and end
Workload = Sequence[Read]


class Recorder(io.FileIO):
    """A file that notes the ranges that a library reads."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ranges: list[tuple[int, int]] = []

    def read(self, size: int | None = -1) -> bytes:
        """Read, and note the range."""
        start = self.tell()
        data = super().read(-1 if size is None else size) or b""
        self.ranges.append((start, start + len(data)))
        return data


def workloads(folder: Path) -> dict[str, Workload]:
    """Return the reads of each workload."""
    large_bytes = (folder / LARGE).stat().st_size
    return {
        "Parquet, 3 columns": list(_columns(folder)),
        "COG, views of 4 × 4 tiles": list(_views(large_bytes)),
        "64 KiB at random": list(_ranges(large_bytes)),
        "1 MiB in order": [
            (LARGE, start, start + _STEP_BYTES)
            for start in range(0, min(large_bytes, _LONGEST_SCAN_BYTES), _STEP_BYTES)
        ],
    }


def _columns(folder: Path) -> Iterator[Read]:
    """Yield the reads of three columns of each Parquet file, as pyarrow reads them."""
    from pyarrow import parquet

    for key in (TABLE, *(f"{LAKE}/part-{number}.parquet" for number in range(LAKE_FILES))):
        with Recorder(folder / key) as file:
            parquet.read_table(file, columns=["c1", "c4", "c7"])
            yield from ((key, start, end) for start, end in file.ranges if start < end)


def _views(size_bytes: int) -> Iterator[Read]:
    """Yield the reads of a header, and of views of an image whose rows of tiles follow each other."""
    chance = random.Random(5)
    yield LARGE, 0, 16 * 1024
    rows = min(_TILES_PER_ROW, size_bytes // (_TILES_PER_ROW * _TILE_BYTES))
    for _ in range(_VIEWS):
        top, left = chance.randrange(rows - _VIEW_TILES), chance.randrange(_TILES_PER_ROW - _VIEW_TILES)
        for row in range(top, top + _VIEW_TILES):
            for column in range(left, left + _VIEW_TILES):
                start = (row * _TILES_PER_ROW + column) * _TILE_BYTES
                yield LARGE, start, start + _TILE_BYTES


def _ranges(size_bytes: int) -> Iterator[Read]:
    chance = random.Random(4)
    for _ in range(_RANGES):
        start = chance.randrange(size_bytes - _RANGE_BYTES)
        yield LARGE, start, start + _RANGE_BYTES


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one workload with one slice size."""

    latencies_ms: list[float]
    elapsed_s: float
    gets: int
    slices: int
    fetched_bytes: int
    used_bytes: int

    def cells(self) -> list[float]:
        """Return the numbers of a table's row: times, then requests, bytes and prices."""
        cuts, reads = statistics.quantiles(self.latencies_ms, n=100), len(self.latencies_ms)
        prices = price_sheet("today-us-east-1")
        express_usd = self.slices * prices.usd("s3-express-get")
        express_usd += self.fetched_bytes * prices.usd("s3-express-retrieval") / BYTES_PER_GB
        return [
            statistics.median(self.latencies_ms),
            cuts[-1],
            self.elapsed_s,
            self.gets,
            self.fetched_bytes / self.used_bytes,
            float(self.gets * prices.usd("s3-get") / reads * 1_000_000),
            float(express_usd / reads * 1_000_000),
        ]


def measure(pipe: Connection, url: str, slice_bytes: int, workload: Workload, threads: int) -> None:
    """Read a workload with a slice size, and send the figures."""
    if early := [name for name in sys.modules if name.startswith(("burstcache.client.", "burstcache.serve."))]:
        raise RuntimeError(f"{early[0]} already has the usual slice size")
    slices.SLICE_BYTES = slice_bytes
    from benchmarks.support.pool_clients import generated_s3
    from burstcache.client import Client

    def read_range(read: Read) -> float:
        key, start, end = read
        begun_s = time.perf_counter()
        length = len(client.get(key, range=f"bytes={start}-{end - 1}").body)
        latency_ms = (time.perf_counter() - begun_s) * 1000
        if length != end - start:
            raise AssertionError(f"{length} bytes of {key} instead of {end - start}")
        return latency_ms

    def read_in_order(reads: Sequence[Read]) -> list[float]:
        latencies_ms = []
        begun_s = time.perf_counter()
        with client.open(reads[0][0], range=f"bytes={reads[0][1]}-{reads[-1][2] - 1}") as file:
            for _, start, end in reads:
                length = len(file.read(end - start))
                ended_s = time.perf_counter()
                latencies_ms.append((ended_s - begun_s) * 1000)
                begun_s = ended_s
                if length != end - start:
                    raise AssertionError(f"{length} bytes at {start} instead of {end - start}")
        return latencies_ms

    s3 = generated_s3(int(url.rpartition(":")[2]))
    with (
        Client(bucket="bucket", s3=s3, memory_bytes=_MEMORY_BYTES, max_stale_ms=_MAX_STALE_MS) as client,
        ThreadPoolExecutor(threads) as pool,
    ):
        before = read_counts(url)
        begun_s = time.perf_counter()
        if is_in_order(workload):
            share = -(-len(workload) // threads)
            shares = [workload[first : first + share] for first in range(0, len(workload), share)]
            latencies_ms = [each for found in pool.map(read_in_order, shares) for each in found]
        else:
            latencies_ms = list(pool.map(read_range, workload))
        elapsed_s = time.perf_counter() - begun_s
        after = read_counts(url)
    touched = {
        (key, index)
        for key, start, end in workload
        for index in range(start // slice_bytes, (end - 1) // slice_bytes + 1)
    }
    pipe.send(
        Figures(
            latencies_ms,
            elapsed_s,
            gets=after["requests"].get("GET", 0) - before["requests"].get("GET", 0),
            slices=len(touched),
            fetched_bytes=after["sent_bytes"] - before["sent_bytes"],
            used_bytes=sum(end - start for _, start, end in set(workload)),
        )
    )


def is_in_order(workload: Workload) -> bool:
    """Return whether each read begins where the one before it ends."""
    return all(each[1] == last[2] for last, each in itertools.pairwise(workload))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.slice_sizes", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes-kib", type=int, nargs="+", default=[256, 1024, 4096, 8192], help="of a slice")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8], help="that read at once")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are printed")
    parser.add_argument("--small", action="store_true", help="read small files")
    arguments = parser.parse_args()
    print(environment())
    print(f"S3: {DELAY_MS:.0f} ms and {MB_PER_S:.0f} MB/s per connection\n")
    titles = [
        "Workload",
        "Threads",
        "Slice, KiB",
        "p50, ms",
        "p99, ms",
        "All reads, s",
        "GETs",
        "Fetched per byte used",
    ]
    titles += ["S3, USD per million reads", "S3 Express, ditto"]
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|", flush=True)
    with tempfile.TemporaryDirectory(prefix="slice-sizes-") as path:
        folder = Path(path)
        write_data(folder, Sizes.small() if arguments.small else Sizes())
        with delayed_s3(folder) as store:
            for name, workload in workloads(folder).items():
                for threads in arguments.threads:
                    rounds: defaultdict[int, list[list[float]]] = defaultdict(list)
                    for _ in range(arguments.rounds):
                        for size_kib in arguments.sizes_kib:
                            rounds[size_kib].append(_measured(store.url, size_kib * 1024, workload, threads).cells())
                    for size_kib, found in rounds.items():
                        cells = [statistics.median(column) for column in zip(*found, strict=True)]
                        formats = ("{:.1f}", "{:.1f}", "{:.2f}", "{:.0f}", "{:.1f}", "{:.2f}", "{:.2f}")
                        shown = [form.format(cell) for form, cell in zip(formats, cells, strict=True)]
                        print(f"| {name} | {threads} | {size_kib:,} | {' | '.join(shown)} |", flush=True)


def _measured(url: str, slice_bytes: int, workload: Workload, threads: int) -> Figures:
    """Return the figures from a process of its own."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=measure, args=(theirs, url, slice_bytes, workload, threads))
    process.start()
    theirs.close()
    figures: Figures = ours.recv()
    process.join()
    return figures


if __name__ == "__main__":
    main()
