"""Slice entries: what slices of a size take in memory, on disk and in Redis, and which share of reads memory serves.

Each size is measured in processes of its own, and the sizes take turns. Times are processor time of the whole process,
and the stand-in for S3 has neither delay nor limit. Hits are those of `SliceMemory` without bodies.

    python -m benchmarks.slice_entries [--sizes-kib 256 1024] [--rounds 5] [--reads 100000]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import redis

from benchmarks.support.common import environment
from benchmarks.support.delayed_s3 import delayed_s3
from burstcache.core import slices

_KEY, _OBJECT_BYTES = "large.bin", 64 << 20
_READS_KIB = (64, 1024, 8192, 65_536)
_CALLS_BYTES = 256 << 20  # read per measurement, in at most so many calls
_MOST_CALLS, _MOST_COLD_CALLS = 1000, 32
_MAX_STALE_MS = 3_600_000  # S3 confirms nothing meanwhile
_STORED = 512  # slices in Redis
_DATA_BYTES, _MEMORY_BYTES = 16 << 30, 256 << 20  # of the reads whose hits are counted

# Ranges of reads: number, size [KiB], neighbours of the same popularity, exponent of Zipf.
_POPULAR = {
    "64 KiB, scattered, Zipf 0.8": (32_768, 64, 1, 0.8),
    "64 KiB, scattered, Zipf 1.0": (32_768, 64, 1, 1.0),
    "64 KiB, in groups of 16, Zipf 0.8": (32_768, 64, 16, 0.8),
    "1 MiB, scattered, Zipf 0.8": (4096, 1024, 1, 0.8),
}


def measure_reads(pipe: Connection, url: str, slice_bytes: int, path: str) -> None:
    """Send the processor time of reads by tier and size [ms], and the bytes of a slice in memory and on disk."""
    slices.SLICE_BYTES = slice_bytes
    from benchmarks.support.pool_clients import generated_s3
    from burstcache.client import Client

    s3 = generated_s3(int(url.rpartition(":")[2]))
    cells: dict[str, float] = {}

    def client(**options: Any) -> Client:
        return Client(bucket="bucket", s3=s3, max_stale_ms=_MAX_STALE_MS, **options)

    for size_kib in _READS_KIB:
        size_bytes = size_kib * 1024
        starts = random.Random(7).choices(range(_OBJECT_BYTES - size_bytes + 1), k=64)
        calls = min(_MOST_CALLS, _CALLS_BYTES // size_bytes)

        def read(of: Client, tier: str, start: int, size_bytes: int = size_bytes) -> None:
            found = of.get(_KEY, range=f"bytes={start}-{start + size_bytes - 1}")
            if found.tier != tier:
                raise RuntimeError(f"{start} came from {found.tier}, not from {tier}")

        with client(memory_bytes=2 * _OBJECT_BYTES) as memory:
            memory.get(_KEY)
            cells[f"memory {size_kib}"] = _cpu_ms(lambda start: read(memory, "memory", start), starts, calls)
        with client(memory_bytes=0, disk=path) as disk:
            disk.get(_KEY)
            time.sleep(0.5)
            cells[f"disk {size_kib}"] = _cpu_ms(lambda start: read(disk, "disk", start), starts, calls)
        step_bytes = max(size_bytes, 1 << 20)
        cold = list(range(0, _OBJECT_BYTES, step_bytes))[:_MOST_COLD_CALLS]
        with client(memory_bytes=2 * _OBJECT_BYTES) as empty:
            empty.get(_KEY, range=f"bytes={_OBJECT_BYTES - 1}-")
            cells[f"s3 {size_kib}"] = _cpu_ms(lambda start: read(empty, "s3", start), cold, len(cold))
    cells["memory bytes"], cells["disk bytes"] = _memory_overhead(slice_bytes), _disk_overhead(path, slice_bytes)
    pipe.send(cells)


def _cpu_ms(call: Callable[[int], object], starts: Sequence[int], calls: int) -> float:
    """Return the processor time of a call [ms]."""
    begun_s = time.process_time()
    for start in itertools.islice(itertools.cycle(starts), calls):
        call(start)
    return (time.process_time() - begun_s) * 1000 / calls


def _memory_overhead(slice_bytes: int) -> float:
    """Return the bytes that a slice takes in memory beside its body."""
    import tracemalloc

    from burstcache.core.slices import SliceNames, Version
    from burstcache.serve.scan_resistant import ScanResistantCache
    from burstcache.serve.slice_memory import SliceMemory

    body = bytes(16)
    memory = SliceMemory(ScanResistantCache(1 << 40))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    number = 10_000
    for each in SliceNames("", "bucket").slices(Version("key", "hash", '"1"', 1 << 50), 0, number * slice_bytes):
        memory.put(each, body, each.end)
    del each
    gc.collect()
    return (tracemalloc.get_traced_memory()[0] - before) / number


def _disk_overhead(path: str, slice_bytes: int) -> float:
    """Return the bytes that a slice takes on disk beside its body, without its inode."""
    files = [file.stat() for file in Path(path).rglob("*.slice")]
    whole = [status for status in files if status.st_size > slice_bytes]
    return statistics.mean(status.st_blocks * 512 - slice_bytes for status in whole)


def redis_bytes(node: Any, slice_bytes: int) -> float:
    """Return the bytes that a slice takes in Redis beside its body."""
    node.flushall()
    before = node.info("memory")["used_memory"]
    body = os.urandom(slice_bytes)
    for number in range(_STORED):
        node.set(f"{{{number:032x}}}:object", body)
    return float((node.info("memory")["used_memory"] - before) / _STORED - slice_bytes)


def redis_cpu_ms(node: Any, slice_bytes: int, size_bytes: int) -> float:
    """Return the processor time of this process for a read of adjacent slices [ms]."""
    names = [f"{{{number:032x}}}:object" for number in range(max(1, size_bytes // slice_bytes))]

    def read(_: int) -> None:
        with node.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.get(name)
            pipeline.execute()

    return _cpu_ms(read, [0], 50)


def hit_shares(slice_bytes: int, reads: int) -> dict[str, tuple[float, float, float]]:
    """Return the share of reads that memory serves, GETs per read, and bytes fetched per byte used, by ranges."""
    from burstcache.core.slices import Slice
    from burstcache.serve.scan_resistant import ScanResistantCache
    from burstcache.serve.slice_memory import SliceMemory

    body: Any = range(slice_bytes)  # has this length, and no bytes
    found = {}
    for name, (number, range_kib, group, exponent) in _POPULAR.items():
        chance, size_bytes = random.Random(3), range_kib * 1024
        places = list(range(0, _DATA_BYTES - group * size_bytes, group * size_bytes))
        chance.shuffle(places)
        starts = [
            place + offset + (chance.randrange(size_bytes) if group == 1 else 0)
            for place in places[: number // group]
            for offset in range(0, group * size_bytes, size_bytes)
        ]
        memory: SliceMemory = SliceMemory(ScanResistantCache(_MEMORY_BYTES))
        weights = list(itertools.accumulate((rank + 1) ** -exponent for rank in range(number)))
        hits = gets = fetched = 0
        for count, start in enumerate(chance.choices(starts, cum_weights=weights, k=2 * reads)):
            end = start + size_bytes
            missing = []
            for index in range(start // slice_bytes, (end - 1) // slice_bytes + 1):
                each = Slice(str(index), index * slice_bytes, (index + 1) * slice_bytes)
                if memory.get(each, start, end) is None:
                    memory.put(each, body, min(each.end, end))
                    missing.append(each)
            if count >= reads:
                hits += not missing
                gets += len(list(slices.runs(missing)))
                fetched += len(missing) * slice_bytes
        found[name] = hits / reads, gets / reads, fetched / reads / size_bytes
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.slice_entries", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes-kib", type=int, nargs="+", default=[256, 1024], help="of a slice")
    parser.add_argument("--rounds", type=int, default=5, help="of which the medians are printed")
    parser.add_argument("--reads", type=int, default=100_000, help="whose hits are counted, after as many others")
    arguments = parser.parse_args()
    print(environment())
    print("\n| Ranges, memory of 256 MiB | Slice, KiB | Hits, % | GETs per read | Fetched per byte used |")
    print("|---|---|---|---|---|", flush=True)
    shares = {size_kib: hit_shares(size_kib * 1024, arguments.reads) for size_kib in arguments.sizes_kib}
    for name in _POPULAR:
        for size_kib, share in shares.items():
            hits, gets, fetched = share[name]
            print(f"| {name} | {size_kib:,} | {hits * 100:.1f} | {gets:.3f} | {fetched:.1f} |", flush=True)
    rounds = _measured_rounds(arguments.sizes_kib, arguments.rounds)
    print(f"\n| Entry, or processor time of a read, ms | {' | '.join(f'{each:,} KiB' for each in rounds)} |")
    print(f"|{'---|' * (1 + len(rounds))}")
    for name in next(iter(rounds.values()))[0]:
        medians = [statistics.median(cells[name] for cells in found) for found in rounds.values()]
        print(f"| {name} | {' | '.join(f'{each:,.3f}' for each in medians)} |", flush=True)


def _measured_rounds(sizes_kib: Sequence[int], rounds: int) -> dict[int, list[dict[str, float]]]:
    from benchmarks.read_path import free_port, start_redis  # imports the client, which would fix the slice size

    measured: defaultdict[int, list[dict[str, float]]] = defaultdict(list)
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="slice-entries-") as folder:
        objects = Path(folder) / "objects"
        objects.mkdir()
        (objects / _KEY).write_bytes(random.Random(6).randbytes(_OBJECT_BYTES))
        port = free_port()
        server = start_redis(port)
        node = redis.Redis(port=port)
        try:
            with delayed_s3(objects, delay_ms=0, mb_per_s=0) as store:
                for _ in range(rounds):
                    for size_kib in sizes_kib:
                        ours, theirs = processes.Pipe()
                        arguments = (theirs, store.url, size_kib * 1024, str(Path(folder) / f"slices-{size_kib}"))
                        process = processes.Process(target=measure_reads, args=arguments)
                        process.start()
                        theirs.close()
                        cells = ours.recv()
                        process.join()
                        cells["redis bytes"] = redis_bytes(node, size_kib * 1024)
                        for read_kib in _READS_KIB[:3]:
                            cells[f"redis {read_kib}"] = redis_cpu_ms(node, size_kib * 1024, read_kib * 1024)
                        measured[size_kib].append(cells)
        finally:
            server.kill()
            server.wait()
    return measured


if __name__ == "__main__":
    main()
