"""What a GET takes of an object that no tier has."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.client.common import (
    MEMORY_BYTES,
    SETUP_OF,
    SIZES_BYTES,
    in_turns,
    open_readers,
    print_table,
    read_object,
    timed,
)
from benchmarks.hits import Cloud, running_cloud
from benchmarks.support.common import PROJECT


def misses(*, gets: int) -> None:
    """Print what a GET of an object that no tier has takes, by boto3 and by the wrapped client."""
    rows: list[list[object]] = []
    with (
        running_cloud(PROJECT, SETUP_OF["s3"]) as cloud,
        open_readers(cloud) as (_, without_memory),
        open_readers(cloud, memory_bytes=MEMORY_BYTES) as (_, with_memory),
    ):
        clients = {"boto3": cloud.client("s3"), "wrapped": without_memory, "with memory": with_memory}
        for size, size_bytes in SIZES_BYTES.items():
            body, count = os.urandom(size_bytes), min(gets, 100_000_000 // size_bytes)
            for what, clock in {"elapsed": time.perf_counter, "of the processor": time.thread_time}.items():
                keys = [f"{what}/{size_bytes}/{number}" for number in range(2 * count)]
                for key in keys:
                    clients["boto3"].put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
                # Each client reads each key once, or a memory would have it.
                sides = {
                    name: timed(partial(_read_next, client, cloud, iter(keys)), body.__eq__, clock)
                    for name, client in clients.items()
                }
                taken = in_turns(sides, count)
                median_ms = {side: statistics.median(latencies_ms) for side, latencies_ms in taken.items()}
                figures = [f"{each:.3f}" for each in median_ms.values()]
                ratios = [f"{median_ms[side] / median_ms['boto3']:.2f}" for side in ("wrapped", "with memory")]
                rows.append([size, what, *figures, *ratios])
    print("\n## Misses: medians of one reader in ms\n")
    print_table(["object", "time", "boto3", "wrapped", "wrapped, with memory", "ratio", "ratio with memory"], rows)


def _read_next(s3: Any, cloud: Cloud, keys: Iterator[str]) -> bytes:
    return read_object(s3, cloud, next(keys))
