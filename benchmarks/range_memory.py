"""The memory of a reader of a 5 GB object by ranges: one range of each slice in random order, by several threads.

Prints as JSON the peak memory of the process, with and without what it had before its first read, and the limit:
`memory_bytes` and 64 MiB. Exit code 1: the reads took more. Every byte is checked.

    python -m benchmarks.range_memory [--size-mb 5000] [--memory-mib 256] [--threads 8] [--stream]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.pool_ranges import peak_bytes, stream
from benchmarks.read_path import free_port, wait_for_port
from benchmarks.support.generated_s3 import generated, serve_generated
from benchmarks.support.pool_clients import generated_s3
from benchmarks.support.pool_processes import processes
from burstcache.client import Client
from burstcache.core.slices import SLICE_BYTES

_MIB = 1 << 20
_RANGE_BYTES = 256 * 1024
_MARGIN_BYTES = 64 * _MIB


def read_ranges(client: Client, size_bytes: int, threads: int) -> None:
    """Read a range of each slice, and check its bytes."""
    chance = random.Random(1)
    starts = [
        min(first + chance.randrange(SLICE_BYTES), size_bytes - _RANGE_BYTES)
        for first in range(0, size_bytes, SLICE_BYTES)
    ]
    chance.shuffle(starts)

    def read(start: int) -> None:
        found = client.get("large", range=f"bytes={start}-{start + _RANGE_BYTES - 1}")
        if found.body != b"".join(generated(start, start + _RANGE_BYTES)):
            raise AssertionError(f"wrong bytes at {start}")

    def read_share(number: int) -> None:
        for start in starts[number::threads]:  # a future for each range would take 2 KiB
            read(start)

    with ThreadPoolExecutor(threads) as readers:
        for _ in readers.map(read_share, range(threads)):
            pass


def main() -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size-mb", type=int, default=5_000)
    parser.add_argument("--memory-mib", type=int, default=256, help="`memory_bytes` of the client")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--stream", action="store_true", help="read the whole object in order, too")
    arguments = parser.parse_args()
    size_bytes, memory_bytes = arguments.size_mb * 1_000_000, arguments.memory_mib * _MIB
    port = free_port()
    with processes(serve_generated, [(port, size_bytes)]):
        wait_for_port(port)
        s3 = generated_s3(port)
        with Client(bucket="bucket", s3=s3, freshness="immutable", memory_bytes=memory_bytes) as client:
            client.head("large")  # imports what a reader needs
            before_bytes, began_s = peak_bytes(), time.perf_counter()
            read_ranges(client, size_bytes, arguments.threads)
            took_s = time.perf_counter() - began_s
            figures = stream(client) if arguments.stream else {}
    peak, limit_bytes = peak_bytes(), memory_bytes + _MARGIN_BYTES
    figures |= {
        "peak_mib": peak // _MIB,
        "reads_took_mib": (peak - before_bytes) // _MIB,
        "limit_mib": limit_bytes // _MIB,
        "seconds": round(took_s, 1),
    }
    print(json.dumps(figures))
    return int(peak - before_bytes > limit_bytes)


if __name__ == "__main__":
    sys.exit(main())
