"""A 5 GB object of which one per cent is hot, read by ranges through a pool of 16 members as processes on loopback.

Prints as JSON what the reader's process, with the hub in it, took at most, and which slices the pool has in the end.
With `--stream` the whole object is read once as a file in addition.

    python -m benchmarks.pool_ranges [--size-mb 5000] [--rounds 20] [--stream]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.read_path import free_port, wait_for_port
from benchmarks.support.generated_s3 import ETAG, generated, serve_generated
from benchmarks.support.pool_clients import generated_s3
from benchmarks.support.pool_processes import processes, run_member
from burstcache.client import Client
from burstcache.core.keys import key_hash
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy, pooled
from burstcache.core.slices import Version
from burstcache.pool.hub import Hub
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.reader import PoolReader

_TOKEN = b"the token of this benchmark"
_MEMBERS = [f"pool-{number}" for number in range(16)]
_CODE = Redundancy(10, 2)
_RANGE_BYTES = 256 * 1024


class Pool:
    """A pool in this process, with members in others."""

    def __init__(self) -> None:
        self.reader: PoolReader
        self.loop: asyncio.AbstractEventLoop

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[OpenPool]:
        """Run the pool."""
        hub = Hub(_TOKEN)
        port = await hub.start("127.0.0.1")
        with processes(run_member, [(port, name, _TOKEN) for name in _MEMBERS]):
            while len(hub.members) < len(_MEMBERS):
                await asyncio.sleep(0.01)
            self.loop = asyncio.get_running_loop()
            self.reader = PoolReader(hub, _MEMBERS, limit_s=60)
            yield OpenPool(self.reader, lambda: [_CODE])
            await hub.stop()

    def stored(self, version: Version) -> list[int]:
        """Return the numbers of the slices of an object that the pool has."""

        async def ask() -> list[int]:
            room = memoryview(bytearray(SLICE_BYTES))
            slices = enumerate(pooled(version, _CODE).slices())
            return [
                number for number, slice_ in slices if await self.reader.read_slice(slice_, room[: slice_.size_bytes])
            ]

        return asyncio.run_coroutine_threadsafe(ask(), self.loop).result()


def read_ranges(client: Client, size_bytes: int, hot: list[int], rounds: int) -> dict[str, float | None]:
    """Read one range of each cold slice and many of hot ones, check every byte, and return how long hot ones took."""
    chance = random.Random(1)
    cold = [number for number in range(-(-size_bytes // SLICE_BYTES)) if number not in hot]
    reads = [*cold, *hot * rounds]
    chance.shuffle(reads)
    tiers = {"pool": 0, "s3": 0}
    took_s = []
    for number in reads:
        start = min(number * SLICE_BYTES + chance.randrange(SLICE_BYTES - _RANGE_BYTES), size_bytes - _RANGE_BYTES)
        began_s = time.perf_counter()
        found = client.get("large", range=f"bytes={start}-{start + _RANGE_BYTES - 1}")
        if found.tier == "pool":
            took_s.append(time.perf_counter() - began_s)
        tiers[found.tier] += 1
        if found.body != b"".join(generated(start, start + _RANGE_BYTES)):
            raise AssertionError(f"wrong bytes at {start}")
    p50_ms = round(statistics.median(took_s) * 1e3, 2) if took_s else None  # none: the pool was too slow each time
    return {**tiers, "pool_p50_ms": p50_ms}


def stream(client: Client) -> dict[str, float]:
    """Read the whole object in order, check every byte, and return how fast that was."""
    began_s, position = time.perf_counter(), 0
    with client.open("large") as file:
        for part in file.parts():
            for block in generated(position, position + len(part)):
                if part[: len(block)] != block:
                    raise AssertionError(f"wrong bytes at {position}")
                part, position = part[len(block) :], position + len(block)
    return {"stream_mb_per_s": round(position / 1e6 / (time.perf_counter() - began_s))}


def peak_bytes() -> int:
    """Return the most memory that this program has had; `ru_maxrss` would be that of who started it, if it had more."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size-mb", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=20, help="reads of each hot slice")
    parser.add_argument("--stream", action="store_true", help="read the whole object in order, too")
    arguments = parser.parse_args()
    size_bytes = arguments.size_mb * 1_000_000
    slices = -(-size_bytes // SLICE_BYTES)
    hot = sorted(random.Random(2).sample(range(slices - 1), max(1, slices // 100)))
    version = Version("large", key_hash("large"), ETAG, size_bytes)
    port, pool = free_port(), Pool()
    with processes(serve_generated, [(port, size_bytes)]):
        wait_for_port(port)
        s3 = generated_s3(port)
        with Client(bucket="bucket", s3=s3, pool=pool.open, freshness="immutable", memory_bytes=0) as client:
            figures = read_ranges(client, size_bytes, hot, arguments.rounds)
            stored = pool.stored(version)
            if arguments.stream:
                figures |= stream(client)
    print(json.dumps({**figures, "peak_mb": round(peak_bytes() / 1e6), "hot": hot, "stored": stored}))


if __name__ == "__main__":
    main()
