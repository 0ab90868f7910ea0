"""What a hit takes one reader, by tier and size."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.client.common import (
    MEMORY_BYTES,
    SETUP_OF,
    SIZES_BYTES,
    Latencies,
    Take,
    in_turns,
    open_readers,
    print_table,
    read_object,
    timed,
)
from benchmarks.client.servers import ask_relay, open_relay, read_from_redis
from benchmarks.hits import Cloud, get_over_http, heat, running_cloud
from benchmarks.support.common import PROJECT
from burstcache.client import Client


def hits(*, gets: int) -> None:
    """Print what a hit takes one reader, by tier and size."""
    rows: list[list[object]] = []
    for tier in ("lambda", "redis"):
        with running_cloud(PROJECT, SETUP_OF[tier]) as cloud, open_readers(cloud) as readers:
            for size, size_bytes in SIZES_BYTES.items():
                key, body = f"{tier}-{size_bytes}", os.urandom(size_bytes)
                cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
                heat(f"{cloud.front_url}/objects/{key}", tier)
                with _bare_relay(cloud, key) if tier == "lambda" else _bare_redis(cloud, key) as bare:
                    sides = {"bare": bare, **_sides(cloud, readers, tier, key, body)}
                    rows.append([tier, size, *_figures(in_turns(sides, gets))])
    with running_cloud(PROJECT, SETUP_OF["s3"]) as cloud, open_readers(cloud, memory_bytes=MEMORY_BYTES) as readers:
        for size, size_bytes in SIZES_BYTES.items():
            key, body = f"memory-{size_bytes}", os.urandom(size_bytes)
            cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
            readers[0].get(key)
            sides = _sides(cloud, readers, "memory", key, body)
            rows.append(["memory", size, *_figures(in_turns(sides, gets))])
    print("\n## Hits: medians of one reader in ms\n")
    print_table(
        ["tier", "object", "bare client", "client", "on top", "wrapped boto3", "boto3 from S3", "front door", "hits"],
        rows,
    )


def _sides(cloud: Cloud, readers: tuple[Client, Any], tier: str, key: str, body: bytes) -> dict[str, Take]:
    client, wrapped = readers
    s3 = cloud.client("s3")
    sides = {
        "client": timed(lambda: client.get(key), lambda found: (found.tier, found.body) == (tier, body)),
        "wrapped": timed(lambda: read_object(wrapped, cloud, key), body.__eq__),
        "boto3": timed(lambda: read_object(s3, cloud, key), body.__eq__),
    }
    if tier != "memory":  # the proxy's is off

        def through_the_front_door(gets: int) -> Latencies:
            url = f"{cloud.front_url}/objects/{key}"
            return get_over_http(url, gets=gets, clients=1, body=body, tier=tier).latencies_ms

        sides["front"] = through_the_front_door
    return sides


@contextmanager
def _bare_redis(cloud: Cloud, key: str) -> Iterator[Take]:
    """Yield redis-py's way to read an object and note the read, in the round trip that the tier makes."""
    node = cloud.redis()
    yield timed(lambda: read_from_redis(node, key), bool)
    node.close()


@contextmanager
def _bare_relay(cloud: Cloud, key: str) -> Iterator[Take]:
    """Yield a NATS client's way to ask the cache function, on a connection that is open already."""
    loop = asyncio.new_event_loop()
    relay = loop.run_until_complete(open_relay(cloud))

    async def work(gets: int) -> Latencies:
        latencies_ms = []
        for _ in range(gets):
            begun_s = time.perf_counter()
            await ask_relay(relay, key)
            latencies_ms.append((time.perf_counter() - begun_s) * 1000)
        return latencies_ms

    yield lambda gets: loop.run_until_complete(work(gets))
    loop.run_until_complete(relay.close())
    loop.close()


def _figures(taken: Mapping[str, Latencies]) -> list[object]:
    """Return the cells of a row. A side is left blank if it is not measured, or if no read of it was a hit."""
    median_ms = {side: statistics.median(latencies_ms) for side, latencies_ms in taken.items() if latencies_ms}
    has_both = {"bare", "client"} <= median_ms.keys()
    on_top = f"{median_ms['client'] - median_ms['bare']:.3f}" if has_both else ""
    bare, client, wrapped, s3, front = (
        f"{median_ms[side]:.3f}" if side in median_ms else ""
        for side in ("bare", "client", "wrapped", "boto3", "front")
    )
    return [bare, client, on_top, wrapped, s3, front, len(taken["client"])]
