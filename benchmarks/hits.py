"""Hits end to end: from the client through the local front door, next to what a client would read without Burstcache.

The Lambda and the Redis tier are read through the front door, then the same bytes straight from the local S3 and, with
redis-py, from the node's own Redis. The sides take turns, so that a noisy machine disturbs all of them.

    python -m benchmarks.hits [--project DIR] [--gets 200] [--sizes 100 10000 1000000] [--clients 1 8 64]

`--project` measures another clone of the project by its own .venv, one whose nodes speak TLS as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import redis

from benchmarks.support.common import PROJECT, Setup
from burstcache.adapters.redis_connection import connect
from burstcache.adapters.redis_objects import object_key
from burstcache.adapters.secrets import Secrets
from burstcache.settings.reader import ReaderSettings

_ROUNDS = 4  # in which the sides take turns
_HOT_LIMIT_S = 60.0
_START_LIMIT_S = 120.0
_MAX_HOT_KEYS = 16  # a key of each size, where the template's default allows two keys in all

# A key stays where it is: in Lambda because the node takes an hour to boot, in Redis because it counts as used.
_SETUPS = {
    "lambda": Setup("tick_s=600,lambda_threshold_s=30", boot_s=3600, max_hot_keys=_MAX_HOT_KEYS),
    "redis": Setup("tick_s=600,lambda_threshold_s=30,redis_utilization_s=3600", boot_s=0.2, max_hot_keys=_MAX_HOT_KEYS),
}
SETUPS = tuple(_SETUPS.values())


@dataclass(frozen=True, slots=True)
class Cloud:
    """A local cloud in another process, by its state file."""

    front_url: str
    endpoint_url: str
    bucket_name: str
    region: str
    stack_name: str
    outputs: dict[str, str]

    def client(self, service: str) -> Any:
        """Return a boto3 client of a service of this cloud."""
        session = boto3.Session("local", "local", region_name=self.region)
        return session.client(service, endpoint_url=self.endpoint_url)

    def redis(self) -> redis.Redis:
        """Return a client of the node, as a reader has one."""
        settings = ReaderSettings.read(json.loads(self.outputs["ReaderSettings"]))
        (node,) = settings.redis_nodes
        return connect(node.host, node.port, settings.redis, Secrets(self.client("ssm")))


@contextlib.contextmanager
def running_cloud(project: Path, setup: Setup) -> Iterator[Cloud]:
    """Run the local cloud of a clone for the duration of a `with`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(project / ".venv/bin/burstcache"), "local", "up", "--state-dir", folder, *setup.options()]
        process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL)
        try:
            yield _await_cloud(process, Path(folder) / "local.json")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _await_cloud(process: subprocess.Popen[bytes], state_file: Path) -> Cloud:
    end_s = time.monotonic() + _START_LIMIT_S
    while not state_file.exists():
        if process.poll() is not None or time.monotonic() > end_s:
            sys.exit("the local cloud did not start")
        time.sleep(0.05)
    state = json.loads(state_file.read_text())
    return Cloud(
        front_url=state["front_url"],
        endpoint_url=state["endpoint_url"],
        bucket_name=state["bucket_name"],
        region=state["region"],
        stack_name=state["stack_name"],
        outputs=state["outputs"],
    )


class Http:
    """One kept connection, by a client that costs almost nothing, since it shares the machine with what it measures."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)

    async def connect(self) -> None:
        """Open the connection."""
        self._reader, self._writer = await asyncio.open_connection(
            self._address.hostname, self._address.port, limit=1 << 22
        )

    async def get(self, path: str = "") -> tuple[int, str, bytes]:
        """Return status, tier and body of one GET, by default of the path in the URL."""
        self._writer.write(
            f"GET {path or self._address.path} HTTP/1.1\r\nHost: {self._address.netloc}\r\n\r\n".encode()
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        fields = dict(line.partition(": ")[::2] for line in head.split("\r\n")[1:])
        body = await self._reader.readexactly(int(fields["content-length"]))
        return int(head.split(" ", 2)[1]), fields.get("x-cache-tier", ""), body

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@dataclass(slots=True)
class Sample:
    """GETs of one side."""

    latencies_ms: list[float] = field(default_factory=list)
    lasted_s: float = 0.0
    missed: int = 0  # answered by another tier than the one that is measured

    def add(self, other: Sample) -> None:
        """Add the GETs of another sample."""
        self.latencies_ms += other.latencies_ms
        self.lasted_s += other.lasted_s
        self.missed += other.missed


def get_over_http(url: str, *, gets: int, clients: int, body: bytes, tier: str = "") -> Sample:
    """Return a sample of GETs that `tier` answers.

    Raises:
        RuntimeError: An answer is wrong.
    """

    async def work() -> Sample:
        connections = [Http(url) for _ in range(clients)]
        await asyncio.gather(*(connection.connect() for connection in connections))
        for _ in range(2):  # the first GETs open the connections behind
            await asyncio.gather(*(connection.get() for connection in connections))
        sample, left = Sample(), iter(range(gets))

        async def read(connection: Http) -> None:
            for _ in left:
                begun_s = time.perf_counter()
                status, served_by, received = await connection.get()
                if (status, received) != (200, body):
                    raise RuntimeError(f"{url}: status {status} with {len(received)} of {len(body)} bytes")
                if served_by == tier:
                    sample.latencies_ms.append((time.perf_counter() - begun_s) * 1000)
                else:
                    sample.missed += 1

        begun_s = time.perf_counter()
        await asyncio.gather(*map(read, connections))
        sample.lasted_s = time.perf_counter() - begun_s
        for connection in connections:
            connection.close()
        return sample

    return asyncio.run(work())


def get_from_redis(node: redis.Redis, name: str, *, gets: int, clients: int) -> Sample:
    """Return a sample of GETs, with a thread and a connection for each client."""
    sample, left = Sample(), iter(range(gets))

    def read() -> None:
        node.get(name)
        for _ in left:
            begun_s = time.perf_counter()
            node.get(name)
            sample.latencies_ms.append((time.perf_counter() - begun_s) * 1000)

    threads = [threading.Thread(target=read) for _ in range(clients)]
    begun_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sample.lasted_s = time.perf_counter() - begun_s
    return sample


@dataclass(slots=True)
class Row:
    """All GETs of one side."""

    side: str
    size_bytes: int
    clients: int
    sample: Sample = field(default_factory=Sample)

    def figures(self) -> dict[str, object]:
        """Return the printed figures."""
        ordered = sorted(self.sample.latencies_ms)
        return {
            "side": self.side,
            "size_bytes": self.size_bytes,
            "clients": self.clients,
            "gets": len(ordered),
            "median_ms": round(statistics.median(ordered), 3),
            "p95_ms": round(ordered[int(len(ordered) * 0.95)], 3),
            "per_s": round(len(ordered) / self.sample.lasted_s, 1),
            "missed": self.sample.missed,
        }


def heat(url: str, tier: str) -> None:
    """GET an object until `tier` serves it."""

    async def work() -> None:
        connection = Http(url)
        await connection.connect()
        end_s = time.monotonic() + _HOT_LIMIT_S
        while (answer := await connection.get())[1] != tier:
            if time.monotonic() > end_s:
                sys.exit(f"{url} is not served by {tier} after {_HOT_LIMIT_S:.0f} s, but by {answer[1]}")
            await asyncio.sleep(0.05)
        connection.close()

    asyncio.run(work())


def measure(cloud: Cloud, tier: str, *, sizes_bytes: Sequence[int], clients: Sequence[int], gets: int) -> list[Row]:
    """Return the rows of one tier, of S3 and, next to the Redis tier, of redis-py."""
    rows: list[Row] = []
    node = cloud.redis() if tier == "redis" else None
    for size_bytes in sizes_bytes:
        key, body = f"{tier}-{size_bytes}", os.urandom(size_bytes)
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
        front_url = f"{cloud.front_url}/objects/{key}"
        heat(front_url, tier)
        if node:
            node.set(object_key(f"bare:{key}"), body)
        for count in clients:
            sides = {side: Row(side, size_bytes, count) for side in (tier, "S3", *(["redis-py"] * bool(node)))}
            share = max(gets // _ROUNDS, 2 * count)
            for _ in range(_ROUNDS):
                taken = {
                    tier: get_over_http(front_url, gets=share, clients=count, body=body, tier=tier),
                    "S3": get_over_http(
                        f"{cloud.endpoint_url}/{cloud.bucket_name}/{key}", gets=share, clients=count, body=body
                    ),
                }
                if node:
                    taken["redis-py"] = get_from_redis(node, object_key(f"bare:{key}"), gets=share, clients=count)
                for side, sample in taken.items():
                    sides[side].sample.add(sample)
            rows += sides.values()
    return rows


def main() -> None:
    """Print the table of both tiers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, default=PROJECT, help="clone to measure (default: this one)")
    parser.add_argument("--gets", type=int, default=200, help="GETs per row (default: 200; at least 8 per client)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000, 1_000_000], help="bytes")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    arguments = parser.parse_args()
    if not arguments.json:
        print(f"{'side':<9} {'bytes':>8} {'clients':>7} {'median ms':>10} {'p95 ms':>10} {'GETs/s':>8} {'missed':>6}")
    for tier, setup in _SETUPS.items():
        with running_cloud(arguments.project.resolve(), setup) as cloud:
            for row in measure(
                cloud, tier, sizes_bytes=arguments.sizes, clients=arguments.clients, gets=arguments.gets
            ):
                _print(row, as_json=arguments.json)


def _print(row: Row, *, as_json: bool) -> None:
    f = row.figures()
    if as_json:
        print(json.dumps(f), flush=True)
    else:
        print(
            f"{f['side']:<9} {f['size_bytes']:>8} {f['clients']:>7} {f['median_ms']:>10} {f['p95_ms']:>10}"
            f" {f['per_s']:>8} {f['missed']:>6}",
            flush=True,
        )


if __name__ == "__main__":
    main()
