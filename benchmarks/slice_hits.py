"""Slice hits: ranges of a large object from our memory and disk, beside slicing, pread and redis-py, in one run.

The aims: from memory 64 KiB within 20 us of slicing `bytes`, from disk within 1.3 times pread (with open and close) and
30 us. The sides take turns, and other work on the machine hardly changes the lower decile of their durations.

    python -m benchmarks.slice_hits [--rounds 2000]
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis

from benchmarks.client.common import print_rows
from benchmarks.read_path import Times, free_port, in_turns, start_redis
from benchmarks.support.common import environment
from benchmarks.support.delayed_s3 import delayed_s3
from benchmarks.support.pool_clients import generated_s3
from burstcache.client import Client

_OBJECT_BYTES = 64 << 20
_RANGES_KIB = (64, 1024, 8192)
_KEY = "large.bin"
_STARTS = 64  # offsets, which all sides read in the same order
_MAX_STALE_MS = 3_600_000  # S3 confirms nothing meanwhile
_MEMORY_BYTES = 2 * _OBJECT_BYTES

Reader = Callable[[int], bytes]  # by offset


def open_client(url: str, ends: ExitStack, tier: str, **options: Any) -> Client:
    """Open a client that has the whole object in one tier."""
    s3 = generated_s3(int(url.rpartition(":")[2]))
    for _ in range(2):  # the first one fills the disk
        client = Client(bucket="bucket", s3=s3, max_stale_ms=_MAX_STALE_MS, **options)
        with client.open(_KEY) as file:
            while file.read(1 << 20):
                pass
        if tier != "disk":
            break
        client.close()
        client = Client(bucket="bucket", s3=s3, max_stale_ms=_MAX_STALE_MS, **options)
    ends.callback(client.close)
    return client


def reading(client: Client, size_bytes: int, tier: str) -> Reader:
    """Return a read of a range that a tier has to serve."""

    def read(start: int) -> bytes:
        found = client.get(_KEY, range=f"bytes={start}-{start + size_bytes - 1}")
        if found.tier != tier:
            raise RuntimeError(f"{start} came from {found.tier}, not from {tier}")
        return found.body

    return read


def plain_read(path: Path, size_bytes: int) -> Reader:
    """Return a read of a range of a file."""

    def read(start: int) -> bytes:
        file = os.open(path, os.O_RDONLY)
        try:
            return os.pread(file, size_bytes, start)
        finally:
            os.close(file)

    return read


def repeated(read: Reader, starts: list[int], body: bytes, size_bytes: int) -> Callable[[], object]:
    """Return a call that reads one offset after another, once each was compared with the object."""
    for start in starts:
        if read(start) != body[start : start + size_bytes]:
            raise AssertionError(f"wrong bytes at {start}")
    order = itertools.cycle(starts)
    return lambda: read(next(order))


def row(size_kib: int, sides: dict[str, Times]) -> list[object]:
    """Return the cells of a table [us]."""
    taken = {name: statistics.quantiles(times.values_ms, n=10)[0] * 1000 for name, times in sides.items()}
    limit = 1.3 * taken["pread"] + 30
    return [
        f"{size_kib:,} KiB",
        *(f"{taken[name]:,.1f}" for name in ("slicing", "memory")),
        f"{taken['memory'] - taken['slicing']:,.1f}",
        *(f"{taken[name]:,.1f}" for name in ("pread", "disk")),
        f"{limit:,.1f}",
        f"{taken['redis']:,.1f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.slice_hits", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000, help="reads of 64 KiB, 16 times those of 8 MiB")
    rounds = parser.parse_args().rounds
    print(environment(), "\n\nLower deciles in us\n")
    titles = ["range", "slicing", "memory", "on top", "open, pread", "disk", "limit of disk", "redis-py"]
    print_rows([titles, ["---"] * len(titles)])
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="slice-hits-")))
        path, body = folder / "objects" / _KEY, random.Random(6).randbytes(_OBJECT_BYTES)
        path.parent.mkdir()
        path.write_bytes(body)
        store = ends.enter_context(delayed_s3(path.parent, delay_ms=0, mb_per_s=0))
        port = free_port()
        server = start_redis(port)
        ends.callback(server.wait)
        ends.callback(server.kill)
        node = redis.Redis(port=port)
        memory = open_client(store.url, ends, "memory", memory_bytes=_MEMORY_BYTES)
        disk = open_client(store.url, ends, "disk", memory_bytes=0, disk=str(folder / "slices"))
        for size_kib in _RANGES_KIB:
            size_bytes = size_kib * 1024
            starts = random.Random(7).sample(range(_OBJECT_BYTES - size_bytes), _STARTS)

            def from_redis(start: int, size_bytes: int = size_bytes) -> bytes:
                found: Any = node.get(f"{start}-{size_bytes}")
                return bytes(found)

            for start in starts:
                node.set(f"{start}-{size_bytes}", body[start : start + size_bytes])
            sides: dict[str, Reader] = {
                "slicing": lambda start, size_bytes=size_bytes: body[start : start + size_bytes],  # type: ignore[misc]
                "memory": reading(memory, size_bytes, "memory"),
                "pread": plain_read(path, size_bytes),
                "disk": reading(disk, size_bytes, "disk"),
                "redis": from_redis,
            }
            calls = [repeated(read, starts, body, size_bytes) for read in sides.values()]
            times = in_turns(max(20, rounds * 64 // (size_kib + 448) if size_kib > 64 else rounds), *calls)
            print_rows([row(size_kib, dict(zip(sides, times, strict=True)))])
            node.flushall()


if __name__ == "__main__":
    main()
