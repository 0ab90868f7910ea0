"""What all parts share: where keys stay while they are measured, readers, timing and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import boto3

import burstcache
from benchmarks.hits import Cloud
from benchmarks.support.common import NEVER_HOT, Setup
from burstcache.client import Client

_ROUNDS = 4  # in which the sides take turns
SIZES_BYTES = {"100 B": 100, "10 KB": 10_000, "1 MB": 1_000_000}
MEMORY_BYTES = 256 << 20
LIMIT_S = 60.0

# Where keys stay while they are measured: in Lambda, as the node takes an hour to boot; in Redis, as a key counts as
# used for an hour; with S3, as none gets hot.
SETUP_OF = {
    "lambda": Setup("tick_s=600,lambda_threshold_s=30", boot_s=3600, max_hot_keys=128),
    "redis": Setup("tick_s=600,lambda_threshold_s=30,redis_utilization_s=3600", boot_s=0.2, max_hot_keys=128),
    "s3": Setup(NEVER_HOT, max_hot_keys=128),
}
SETUPS = tuple(SETUP_OF.values())

T = TypeVar("T")
Latencies = list[float]  # [ms]
Take = Callable[[int], Latencies]  # reads as often as it is asked to


@contextmanager
def open_readers(cloud: Cloud, *, memory_bytes: int = 0) -> Iterator[tuple[Client, Any]]:
    """Open a client of a local cloud, and boto3's client of S3 wrapped with it."""
    with Client(**access_of(cloud), memory_bytes=memory_bytes) as client:
        yield client, burstcache.wrap(cloud.client("s3"), client=client)


def access_of(cloud: Cloud) -> dict[str, Any]:
    """Return the arguments by which a client finds the cloud's stack."""
    session = boto3.Session("local", "local", region_name=cloud.region)
    return {"stack_name": cloud.stack_name, "session": session, "endpoint_urls": {"": cloud.endpoint_url}}


def read_object(s3: Any, cloud: Cloud, key: str) -> bytes:
    """Return an object of the bucket, by a client of S3."""
    body: bytes = s3.get_object(Bucket=cloud.bucket_name, Key=key)["Body"].read()
    return body


def timed(get: Callable[[], T], is_right: Callable[[T], bool], clock: Callable[[], float] = time.perf_counter) -> Take:
    """Return a way to take latencies; of an answer that is not right, by another tier for example, none is taken."""

    def take(gets: int) -> Latencies:
        latencies_ms = []
        for _ in range(gets):
            begun_s = clock()
            answer = get()
            ended_s = clock()
            if is_right(answer):
                latencies_ms.append((ended_s - begun_s) * 1000)
        return latencies_ms

    return take


def in_turns(sides: Mapping[str, Take], gets: int) -> dict[str, Latencies]:
    """Return the latencies of all sides, each after some reads that open its connections."""
    for take in sides.values():
        take(max(1, gets // 10))
    taken: dict[str, Latencies] = {side: [] for side in sides}
    for _ in range(_ROUNDS):
        for side, take in sides.items():
            taken[side] += take(max(1, gets // _ROUNDS))
    return taken


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print_rows([titles, ["---"] * len(titles), *rows])


def print_rows(rows: Iterable[Sequence[object]]) -> None:
    """Print rows of a Markdown table, as soon as they are known."""
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)
