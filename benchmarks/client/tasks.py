"""Many keys, read by several threads and tasks at a time."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import boto3
from botocore.config import Config
from nats.errors import NoRespondersError

from benchmarks.client.common import (
    MEMORY_BYTES,
    SETUP_OF,
    SIZES_BYTES,
    access_of,
    print_rows,
    print_table,
    read_object,
)
from benchmarks.client.heat import heat_all, put_all
from benchmarks.client.servers import ask_relay, open_relay, read_from_redis
from benchmarks.hits import Cloud, Http, Sample, running_cloud
from benchmarks.support.common import PROJECT
from burstcache.client import AsyncClient, Client
from burstcache.web.entry import decode

_TASKS = (1, 8, 64)
_WARM_UP_S, _WARM_UP_LIMIT_S = 0.3, 15.0


def tasks(*, lasts_s: float, keys: int) -> None:
    """Print how many keys are read at a time, by tier and by number of threads, tasks or connections."""
    print(f"\n## {keys} keys of 10 KB\n")
    print_table(["tier", "reader", "at a time", "GETs/s", "p50 ms", "p99 ms", "by the tier"], ())
    body = os.urandom(SIZES_BYTES["10 KB"])
    names = [f"key-{number}" for number in range(keys)]
    for tier, setup in SETUP_OF.items():
        with running_cloud(PROJECT, setup) as cloud:
            put_all(cloud, names, body)
            if tier != "s3":
                heat_all(cloud, names, tier)
            # Memory before S3, whose reads leave work behind: each is an event for the scheduler.
            for measured in ("memory", tier) if tier == "s3" else (tier,):
                for count in _TASKS:
                    _print_rows_of_tasks(cloud, _Load(measured, names, body, count, lasts_s))


@dataclass(frozen=True, slots=True)
class _Load:
    """What is read, by how many at a time, and for how long."""

    tier: str
    names: Sequence[str]
    body: bytes
    count: int
    lasts_s: float

    def tier_of(self, tier: str, body: bytes) -> str:
        """Return the tier that served a body, empty for a wrong one."""
        return tier if body == self.body else ""


def _print_rows_of_tasks(cloud: Cloud, load: _Load) -> None:
    sides = {
        "client, threads": _client_in_threads,
        "client, tasks": _client_in_tasks,
        **({load.tier: _BARE[load.tier]} if load.tier in _BARE else {}),
        **({"front door": _front_door} if load.tier != "memory" else {}),  # the proxy's is off
    }
    for side, take in sides.items():
        sample = take(cloud, load)
        latencies_ms = sorted(sample.latencies_ms) or [math.nan]
        gets = len(sample.latencies_ms) + sample.missed
        row: list[object] = [load.tier, _BARE_NAMES.get(side, side), load.count, f"{gets / sample.lasted_s:,.0f}"]
        row += [f"{statistics.median(latencies_ms):.2f}", f"{latencies_ms[int(len(latencies_ms) * 0.99)]:.2f}"]
        print_rows([[*row, f"{len(sample.latencies_ms) / gets:.1%}"]])


def _client_in_threads(cloud: Cloud, load: _Load) -> Sample:
    with Client(**access_of(cloud), memory_bytes=_memory_bytes(load)) as client:

        def get(key: str) -> str:
            found = client.get(key)
            return load.tier_of(found.tier, found.body)

        return _by_threads(load, get)


def _client_in_tasks(cloud: Cloud, load: _Load) -> Sample:
    async def work() -> Sample:
        async with AsyncClient(**access_of(cloud), memory_bytes=_memory_bytes(load)) as client:

            async def get(key: str) -> str:
                found = await client.get(key)
                return load.tier_of(found.tier, found.body)

            return await _by_tasks(load, [get] * load.count)

    return asyncio.run(work())


def _front_door(cloud: Cloud, load: _Load) -> Sample:
    async def work() -> Sample:
        async with AsyncExitStack() as stack:
            connections = [Http(f"{cloud.front_url}/objects/{load.names[0]}") for _ in range(load.count)]
            for connection in connections:
                await connection.connect()
                stack.callback(connection.close)

            async def get(connection: Http, key: str) -> str:
                _, tier, body = await connection.get(f"/objects/{key}")
                return load.tier_of(tier, body)

            return await _by_tasks(load, [partial(get, connection) for connection in connections])

    return asyncio.run(work())


def _boto3_in_threads(cloud: Cloud, load: _Load) -> Sample:
    session = boto3.Session("local", "local", region_name=cloud.region)
    s3 = session.client("s3", endpoint_url=cloud.endpoint_url, config=Config(max_pool_connections=max(_TASKS)))
    sample = _by_threads(load, lambda key: load.tier_of("s3", read_object(s3, cloud, key)))
    s3.close()
    return sample


def _redis_py_in_threads(cloud: Cloud, load: _Load) -> Sample:
    node = cloud.redis()
    sample = _by_threads(load, lambda key: load.tier_of("redis", read_from_redis(node, key)))
    node.close()
    return sample


def _nats_in_tasks(cloud: Cloud, load: _Load) -> Sample:
    async def work() -> Sample:
        relay = await open_relay(cloud)

        async def get(key: str) -> str:
            try:
                return load.tier_of("lambda", decode((await ask_relay(relay, key)).data).body)
            except NoRespondersError:  # on a busy machine a function may be late for its own announcement
                return ""

        sample = await _by_tasks(load, [get] * load.count)
        await relay.close()
        return sample

    return asyncio.run(work())


# Each tier's own client at its best: one pool of connections for threads, one connection for the tasks of a loop.
_BARE: Mapping[str, Callable[[Cloud, _Load], Sample]] = {
    "s3": _boto3_in_threads,
    "redis": _redis_py_in_threads,
    "lambda": _nats_in_tasks,
}
_BARE_NAMES = {"s3": "boto3, threads", "redis": "redis-py, threads", "lambda": "nats-py, tasks"}


def _memory_bytes(load: _Load) -> int:
    return MEMORY_BYTES if load.tier == "memory" else 0


def _by_threads(load: _Load, get: Callable[[str], str]) -> Sample:
    """Return the reads of threads, once all connections are open and the tier serves all keys."""

    def read_for(lasts_s: float) -> Sample:
        sample, keys = Sample(), itertools.cycle(load.names)
        begun_s = time.perf_counter()

        def read(_: int) -> None:
            while (get_begun_s := time.perf_counter()) < begun_s + lasts_s:
                _note(sample, load.tier, get(next(keys)), get_begun_s)

        list(threads.map(read, range(load.count)))
        sample.lasted_s = time.perf_counter() - begun_s
        return sample

    with ThreadPoolExecutor(load.count) as threads:
        end_s = time.perf_counter() + _WARM_UP_LIMIT_S
        while read_for(_WARM_UP_S).missed and time.perf_counter() < end_s:
            pass
        return read_for(load.lasts_s)


async def _by_tasks(load: _Load, gets: Sequence[Callable[[str], Awaitable[str]]]) -> Sample:
    """Return the reads of tasks, once all connections are open and the tier serves all keys."""

    async def read_for(lasts_s: float) -> Sample:
        sample, keys = Sample(), itertools.cycle(load.names)
        begun_s = time.perf_counter()

        async def read(get: Callable[[str], Awaitable[str]]) -> None:
            while (get_begun_s := time.perf_counter()) < begun_s + lasts_s:
                _note(sample, load.tier, await get(next(keys)), get_begun_s)

        await asyncio.gather(*map(read, gets))
        sample.lasted_s = time.perf_counter() - begun_s
        return sample

    end_s = time.perf_counter() + _WARM_UP_LIMIT_S
    while (await read_for(_WARM_UP_S)).missed and time.perf_counter() < end_s:
        pass
    return await read_for(load.lasts_s)


def _note(sample: Sample, tier: str, served_by: str, begun_s: float) -> None:
    if served_by == tier:
        sample.latencies_ms.append((time.perf_counter() - begun_s) * 1000)
    else:
        sample.missed += 1
