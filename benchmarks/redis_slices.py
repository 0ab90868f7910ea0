"""Reads of slices from a Redis node beside a bare redis-py that gets the same values, in one run.

The server is on loopback, without TLS. The sides take turns, and other work on the machine hardly changes the lower
decile of their durations. `limit` is the bare read and 150 us. `bare` gets all values in one pipeline and copies them
into one buffer. `node` is the adapter's round trip, and `read` is a whole read of a process without copies of its own.

    python -m benchmarks.redis_slices [--rounds 500]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.read_path import free_port, start_redis
from benchmarks.support.common import environment
from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_reader import DigestReader
from burstcache.adapters.redis_objects import RedisObjects, slice_key
from burstcache.core.digest import Digest, RunningNode
from burstcache.core.slices import SLICE_BYTES, SliceNames, Version
from burstcache.serve.redis_tier import RedisGuestTier
from burstcache.serve.scan_resistant import ScanResistantCache
from burstcache.serve.shared_slices import SharedSlices
from burstcache.serve.slice_memory import SliceMemory
from burstcache.serve.slices import Slices
from burstcache.serve.tiers import Tiers

KIB = 1 << 10
NAMES = SliceNames("", "bucket")
ROWS = (  # size of the object, and of the part that is read from its start [bytes]
    ("64 KiB, all", 64 * KIB, 64 * KIB),
    ("64 KiB of a slice", SLICE_BYTES, 64 * KIB),
    ("1 MiB", 1024 * KIB, 1024 * KIB),
    ("8 MiB", 8192 * KIB, 8192 * KIB),
)
Call = Callable[[], object]
NO_SECRETS: Any = None
NO_SOURCE: Any = None


class NoSource:
    """S3, which no read reaches."""

    tier = "s3"

    def check_usable(self, _: Version) -> None:
        """Accept all versions."""

    def close(self) -> None:
        """Do nothing."""


def make_slices(objects: RedisObjects) -> Slices:
    """Return a reader without copies of its own, of one node."""
    clock, timeout = SystemClock(), AdaptiveTimeout()
    digest = DigestReader(lambda: Digest(nodes={"node-1": RunningNode(1, 2, True, ("node-1",))}), clock)
    tiers = Tiers(lambda _: RedisGuestTier(objects, 1), clock, lambda _: None, timeout)
    memory = SliceMemory(ScanResistantCache(1))  # too small for any slice, so that each read goes to the node
    source: Any = NoSource()
    return Slices(source, NAMES, clock, memory=memory, shared=SharedSlices(tiers, digest, None, timeout))


def lower_deciles_us(rounds: int, calls: dict[str, Call]) -> dict[str, float]:
    """Return the lower decile of the durations of each call, of which each round makes one [us]."""
    taken: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(rounds):
        for what, call in calls.items():
            begun = time.perf_counter()
            call()
            taken[what].append((time.perf_counter() - begun) * 1e6)
    return {what: statistics.quantiles(durations, n=10)[0] for what, durations in taken.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500, help="reads per row and side")
    arguments = parser.parse_args()
    print(environment())
    print("                    bare us      node      read  limit us   (lower deciles)")
    port = free_port()
    server = start_redis(port)
    try:
        with redis.Redis(port=port) as bare:
            measure(bare, port, arguments.rounds)
    finally:
        server.kill()
        server.wait()


def measure(bare: redis.Redis, port: int, rounds: int) -> None:
    """Print the rows."""
    objects = RedisObjects(RedisNode("node-1", "", "127.0.0.1", port), NO_SECRETS, RedisAccess())
    slices = make_slices(objects)
    for what, size_bytes, read_bytes in ROWS:
        version = Version(what, what, '"1"', size_bytes)
        names = NAMES.slices(version, 0, read_bytes)
        bodies = {each.name: os.urandom(each.size_bytes) for each in names}
        sizes = {each.name: each.size_bytes for each in names}
        objects.store_slices(bodies)

        def plain(names: tuple[str, ...] = tuple(bodies), read_bytes: int = read_bytes) -> Any:
            pipeline = bare.pipeline(transaction=False)
            for name in names:
                pipeline.get(slice_key(name))
            found = pipeline.execute()
            return b"".join(found) if len(found) > 1 else found[0][:read_bytes]

        def node(sizes: dict[str, int] = sizes) -> None:
            assert len(objects.read_slices(sizes)[0]) == len(sizes)

        def read(version: Version = version, read_bytes: int = read_bytes) -> None:
            assert slices.read(version, 0, read_bytes)[1] == "redis"

        took = lower_deciles_us(rounds, {"bare": plain, "node": node, "read": read})
        columns = (took["bare"], took["node"], took["read"], took["bare"] + 150)
        print(f"{what:>16} " + " ".join(f"{column:9.0f}" for column in columns))
    slices.close()
    objects.close()


if __name__ == "__main__":
    main()
