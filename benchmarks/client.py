"""The reader in the caller's process, next to what it is built on and to what it replaces.

    python -m benchmarks.client [hits misses tasks table staleness] [--gets 400] [--keys 100] [--writes 200]

Each part prints a Markdown table; without a name all of them run. The sides of a table take turns in one run, so that a
noisy machine disturbs all of them.

    hits       each tier by the client and by a wrapped boto3 client, next to the bare client of the tier's server,
               boto3's GET from the local S3, and the local front door
    misses     objects that no tier has, by boto3 and by the wrapped client
    tasks      many keys by 1, 8 and 64 tasks and threads of the client, and connections to the front door
    table      how often the digest is read from the table for a million GETs
    staleness  for how long after a write to the bucket reads still begin that see the former object
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import boto3

import burstcache
from benchmarks.common import PROJECT, Setup, environment
from benchmarks.hits import Cloud, Http, Sample, get_over_http, heat, running_cloud
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_reader import DigestReader
from burstcache.adapters.redis_objects import object_key
from burstcache.adapters.relay import connect
from burstcache.adapters.secrets import Secrets
from burstcache.client import AsyncClient, Client
from burstcache.client.configuration import configure
from burstcache.core.digest import Digest
from burstcache.core.keys import key_hash
from burstcache.core.messages import Get, encode, get_subject
from burstcache.core.parameters import QUEUE_LENGTH

_ROUNDS = 4  # in which the sides take turns
_SIZES_BYTES = {"100 B": 100, "10 KB": 10_000, "1 MB": 1_000_000}
_TASKS = (1, 8, 64)
_MEMORY_BYTES = 256 << 20
_LIMIT_S = 60.0
_COUNTED_GETS = 200_000
_POLL_S = 0.002  # how often the staleness of a key is looked at

# Where keys stay while they are measured: with S3, as two GETs never come within a microsecond; in Lambda, as the node
# takes an hour to boot; in Redis, as a key counts as used for an hour.
_SETUPS = {
    "s3": Setup("lambda_threshold_s=0.000001", max_hot_keys=128),
    "lambda": Setup("tick_s=600,lambda_threshold_s=30", boot_s=3600, max_hot_keys=128),
    "redis": Setup("tick_s=600,lambda_threshold_s=30,redis_utilization_s=3600", boot_s=0.2, max_hot_keys=128),
}
SETUPS = tuple(_SETUPS.values())

T = TypeVar("T")
Latencies = list[float]  # [ms]
Take = Callable[[int], Latencies]  # reads as often as it is asked to


def hits(*, gets: int) -> None:
    """Print what a hit takes one reader, by tier and size."""
    rows: list[list[object]] = []
    for tier in ("lambda", "redis"):
        with running_cloud(PROJECT, _SETUPS[tier]) as cloud, _readers(cloud) as readers:
            for size, size_bytes in _SIZES_BYTES.items():
                key, body = f"{tier}-{size_bytes}", os.urandom(size_bytes)
                cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
                heat(f"{cloud.front_url}/objects/{key}", tier)
                with _bare_relay(cloud, key) if tier == "lambda" else _bare_redis(cloud, key) as bare:
                    sides = {"bare": bare, **_sides(cloud, readers, tier, key, body)}
                    rows.append([tier, size, *_figures(_in_turns(sides, gets))])
    with running_cloud(PROJECT, _SETUPS["s3"]) as cloud, _readers(cloud, memory_bytes=_MEMORY_BYTES) as readers:
        for size, size_bytes in _SIZES_BYTES.items():
            key, body = f"memory-{size_bytes}", os.urandom(size_bytes)
            cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
            readers[0].get(key)
            sides = _sides(cloud, readers, "memory", key, body)
            rows.append(["memory", size, *_figures(_in_turns(sides, gets))])
    print("\n## Hits: medians of one reader in ms\n")
    _print_table(
        ["tier", "object", "bare client", "client", "on top", "wrapped boto3", "boto3 from S3", "front door", "hits"],
        rows,
    )


def _sides(cloud: Cloud, readers: tuple[Client, Any], tier: str, key: str, body: bytes) -> dict[str, Take]:
    client, wrapped = readers
    s3 = cloud.client("s3")
    sides = {
        "client": _timed(lambda: client.get(key), lambda found: (found.tier, found.body) == (tier, body)),
        "wrapped": _timed(lambda: _read(wrapped, cloud, key), body.__eq__),
        "boto3": _timed(lambda: _read(s3, cloud, key), body.__eq__),
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
    node, name = cloud.redis(), object_key(key_hash(key))

    def get() -> bytes:
        commands = node.pipeline(transaction=False)
        commands.hmget(name, ["meta", "body"])
        commands.lpush("bare", "1767225600000000")
        commands.ltrim("bare", 0, QUEUE_LENGTH - 1)
        body: bytes = commands.execute()[0][1]
        return body

    yield _timed(get, bool)
    node.close()


@contextmanager
def _bare_relay(cloud: Cloud, key: str) -> Iterator[Take]:
    """Yield a NATS client's way to ask the cache function, on a connection that is open already."""
    access = configure(**_access(cloud), bucket="").settings.relay
    secrets = Secrets(cloud.client("secretsmanager"))
    subject = get_subject(key_hash(key))

    loop = asyncio.new_event_loop()
    relay = loop.run_until_complete(connect(access, secrets, timeout_s=_LIMIT_S))

    async def work(gets: int) -> Latencies:
        latencies_ms = []
        for number in range(gets):
            question = encode(Get(at_us=time.time_ns() // 1000, request_id=f"bare-{number}", method="GET"))
            begun_s = time.perf_counter()
            await relay.request(subject, question, timeout=_LIMIT_S)
            latencies_ms.append((time.perf_counter() - begun_s) * 1000)
        return latencies_ms

    yield lambda gets: loop.run_until_complete(work(gets))
    loop.run_until_complete(relay.close())
    loop.close()


def _figures(taken: Mapping[str, Latencies]) -> list[object]:
    median_ms = {side: statistics.median(latencies_ms) for side, latencies_ms in taken.items()}
    on_top = f"{median_ms['client'] - median_ms['bare']:.3f}" if "bare" in median_ms else ""
    bare, client, wrapped, s3, front = (
        f"{median_ms[side]:.3f}" if side in median_ms else ""
        for side in ("bare", "client", "wrapped", "boto3", "front")
    )
    return [bare, client, on_top, wrapped, s3, front, len(taken["client"])]


def misses(*, gets: int) -> None:
    """Print what a GET of an object that no tier has takes, by boto3 and by the wrapped client."""
    rows: list[list[object]] = []
    with (
        running_cloud(PROJECT, _SETUPS["s3"]) as cloud,
        _readers(cloud) as (_, without_memory),
        _readers(cloud, memory_bytes=_MEMORY_BYTES) as (_, with_memory),
    ):
        clients = {"boto3": cloud.client("s3"), "wrapped": without_memory, "with memory": with_memory}
        for size, size_bytes in _SIZES_BYTES.items():
            body, count = os.urandom(size_bytes), min(gets, 100_000_000 // size_bytes)
            for what, clock in {"elapsed": time.perf_counter, "of the processor": time.thread_time}.items():
                keys = [f"{what}/{size_bytes}/{number}" for number in range(2 * count)]
                for key in keys:
                    clients["boto3"].put_object(Bucket=cloud.bucket_name, Key=key, Body=body)
                # Each client reads each key once, or a memory would have it.
                sides = {
                    name: _timed(partial(_read_next, client, cloud, iter(keys)), body.__eq__, clock)
                    for name, client in clients.items()
                }
                taken = _in_turns(sides, count)
                median_ms = {side: statistics.median(latencies_ms) for side, latencies_ms in taken.items()}
                figures = [f"{each:.3f}" for each in median_ms.values()]
                ratios = [f"{median_ms[side] / median_ms['boto3']:.2f}" for side in ("wrapped", "with memory")]
                rows.append([size, what, *figures, *ratios])
    print("\n## Misses: medians of one reader in ms\n")
    _print_table(["object", "time", "boto3", "wrapped", "wrapped, with memory", "ratio", "ratio with memory"], rows)


def tasks(*, gets: int, keys: int) -> None:
    """Print how many keys are read at a time, by tier and by number of tasks, threads or connections."""
    rows: list[list[object]] = []
    names = [f"key-{number}" for number in range(keys)]
    body = os.urandom(_SIZES_BYTES["10 KB"])
    for tier, setup in _SETUPS.items():
        with running_cloud(PROJECT, setup) as cloud:
            for name in names:
                cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=name, Body=body)
            if tier != "s3":
                for name in names:
                    heat(f"{cloud.front_url}/objects/{name}", tier)
            rows += _rows_of_tasks(cloud, tier, names, gets, memory_bytes=0)
            if tier == "s3":
                rows += _rows_of_tasks(cloud, "memory", names, 10 * gets, memory_bytes=_MEMORY_BYTES)
    print(f"\n## {keys} keys of 10 KB\n")
    _print_table(["tier", "reader", "at a time", "GETs/s", "p50 ms", "p99 ms", "by another tier"], rows)


def _rows_of_tasks(
    cloud: Cloud, tier: str, names: Sequence[str], gets: int, *, memory_bytes: int
) -> Iterator[list[object]]:
    for count in _TASKS:
        work = list(itertools.islice(itertools.cycle(names), max(gets, 8 * count)))
        sides = {
            "tasks": partial(_by_tasks, cloud, tier, work, count, memory_bytes),
            "threads": partial(_by_threads, cloud, tier, work, count, memory_bytes),
        }
        if tier != "memory":  # the proxy's is off
            sides["front door"] = partial(_by_connections, cloud, tier, work, count)
        for side, take in sides.items():
            sample = take()
            latencies_ms = sorted(sample.latencies_ms)
            yield [
                tier,
                side,
                count,
                f"{len(work) / sample.lasted_s:,.0f}",
                f"{statistics.median(latencies_ms):.2f}",
                f"{latencies_ms[int(len(latencies_ms) * 0.99)]:.2f}",
                sample.missed,
            ]


def _by_tasks(cloud: Cloud, tier: str, work: Sequence[str], count: int, memory_bytes: int) -> Sample:
    async def read_all() -> Sample:
        sample, left = Sample(), iter(work)
        async with AsyncClient(**_access(cloud), memory_bytes=memory_bytes) as client:
            await client.get_many(set(work))  # connections, digest and memory

            async def read() -> None:
                for key in left:
                    begun_s = time.perf_counter()
                    _note(sample, tier, (await client.get(key)).tier, begun_s)

            begun_s = time.perf_counter()
            await asyncio.gather(*(read() for _ in range(count)))
            sample.lasted_s = time.perf_counter() - begun_s
        return sample

    return asyncio.run(read_all())


def _by_threads(cloud: Cloud, tier: str, work: Sequence[str], count: int, memory_bytes: int) -> Sample:
    sample, left = Sample(), iter(work)
    with Client(**_access(cloud), memory_bytes=memory_bytes) as client:
        client.get_many(set(work))

        def read() -> None:
            for key in left:
                begun_s = time.perf_counter()
                _note(sample, tier, client.get(key).tier, begun_s)

        threads = [threading.Thread(target=read) for _ in range(count)]
        begun_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sample.lasted_s = time.perf_counter() - begun_s
    return sample


def _by_connections(cloud: Cloud, tier: str, work: Sequence[str], count: int) -> Sample:
    async def read_all() -> Sample:
        sample, left = Sample(), iter(work)
        connections = [Http(f"{cloud.front_url}/objects/{work[0]}") for _ in range(count)]
        await asyncio.gather(*(connection.connect() for connection in connections))
        for _ in range(2):  # the first GETs open the connections behind
            await asyncio.gather(*(connection.get() for connection in connections))

        async def read(connection: Http) -> None:
            for key in left:
                begun_s = time.perf_counter()
                _, served_by, _ = await connection.get(f"/objects/{key}")
                _note(sample, tier, served_by, begun_s)

        begun_s = time.perf_counter()
        await asyncio.gather(*map(read, connections))
        sample.lasted_s = time.perf_counter() - begun_s
        for connection in connections:
            connection.close()
        return sample

    return asyncio.run(read_all())


def _note(sample: Sample, tier: str, served_by: str, begun_s: float) -> None:
    if served_by == tier:
        sample.latencies_ms.append((time.perf_counter() - begun_s) * 1000)
    else:
        sample.missed += 1


def staleness(*, writes: int, keys: int = 20) -> None:
    """Print for how long after a write to the bucket was acknowledged reads begin that see the former object."""
    rows: list[list[object]] = []
    for tier, setup in _SETUPS.items():
        with running_cloud(PROJECT, setup) as cloud:
            names = [f"key-{number}" for number in range(keys)]
            for name in names:
                cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=name, Body=b"0")
                if tier != "s3":
                    heat(f"{cloud.front_url}/objects/{name}", tier)
            with _readers(cloud, memory_bytes=_MEMORY_BYTES if tier == "s3" else 0) as (client, _):
                stale_ms = sorted(
                    itertools.chain.from_iterable(
                        _stale_ms(cloud, client, names, b"%d" % version) for version in range(1, -(-writes // keys) + 1)
                    )
                )
            name = "memory" if tier == "s3" else tier
            rows.append([name, len(stale_ms), f"{statistics.median(stale_ms):.0f}", f"{stale_ms[-1]:.0f}"])
    print("\n## Staleness after a write to the bucket\n")
    _print_table(["tier", "writes", "p50 ms", "longest ms"], rows)


def _stale_ms(cloud: Cloud, client: Client, names: Sequence[str], body: bytes) -> list[float]:
    """Write all keys and return for how long after its write each was read as it had been: 0 if it never was."""
    s3 = cloud.client("s3")
    written_s: dict[str, float] = {}
    former_s: dict[str, float] = {}  # when the last read began that saw the former object

    def watch() -> None:
        waiting, end_s = set(names), time.perf_counter() + _LIMIT_S
        while waiting and time.perf_counter() < end_s:
            for name in sorted(waiting):
                begun_s = time.perf_counter()
                if client.get(name).body == body:
                    waiting.discard(name)
                else:
                    former_s[name] = begun_s
            time.sleep(_POLL_S)

    watching = threading.Thread(target=watch)
    watching.start()
    time.sleep(random.random())  # somewhere between two reads of the digest
    for name in names:
        s3.put_object(Bucket=cloud.bucket_name, Key=name, Body=body)
        written_s[name] = time.perf_counter()
    watching.join()
    return [max(0.0, (former_s.get(name, 0.0) - written_s[name]) * 1000) for name in names]


def table() -> None:
    """Print how often readers of 100 keys read the table for a million GETs, by a clock that a count moves."""
    rows = []
    for rate_per_s in (1, 10, 100, 1_000, 10_000):
        clock, queries = _Count(rate_per_s), itertools.count()
        digest = DigestReader(partial(_empty_digest, queries), clock, start=lambda work: work())
        for number in range(_COUNTED_GETS):
            clock.number = number
            digest.route(f"{number % 100:032x}")
        rows.append([f"{rate_per_s:,}", f"{next(queries) * 1_000_000 // _COUNTED_GETS:,}"])
    print("\n## Reads of the table per million GETs of one reader\n")
    _print_table(["GETs/s", "queries of the digest"], rows)


def _empty_digest(queries: Iterator[int]) -> Digest:
    next(queries)
    return Digest()


class _Count(SystemClock):
    """The time of a reader that has made a number of GETs at a rate."""

    def __init__(self, rate_per_s: int) -> None:
        self.number, self._rate_per_s = 0, rate_per_s

    def now_us(self) -> int:
        """Return the time since the first GET [us]."""
        return round(self.monotonic_s() * 1_000_000)

    def monotonic_s(self) -> float:
        """Return the time since the first GET [s]."""
        return self.number / self._rate_per_s


@contextmanager
def _readers(cloud: Cloud, *, memory_bytes: int = 0) -> Iterator[tuple[Client, Any]]:
    """Open a client of a local cloud, and boto3's client of S3 wrapped with it."""
    with Client(**_access(cloud), memory_bytes=memory_bytes) as client:
        yield client, burstcache.wrap(cloud.client("s3"), client=client)


def _access(cloud: Cloud) -> dict[str, Any]:
    session = boto3.Session("local", "local", region_name=cloud.region)
    return {"stack_name": cloud.stack_name, "session": session, "endpoint_urls": {"": cloud.endpoint_url}}


def _read(s3: Any, cloud: Cloud, key: str) -> bytes:
    body: bytes = s3.get_object(Bucket=cloud.bucket_name, Key=key)["Body"].read()
    return body


def _read_next(s3: Any, cloud: Cloud, keys: Iterator[str]) -> bytes:
    return _read(s3, cloud, next(keys))


def _timed(get: Callable[[], T], is_right: Callable[[T], bool], clock: Callable[[], float] = time.perf_counter) -> Take:
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


def _in_turns(sides: Mapping[str, Take], gets: int) -> dict[str, Latencies]:
    """Return the latencies of all sides, each after some reads that open its connections."""
    for take in sides.values():
        take(max(1, gets // 10))
    taken: dict[str, Latencies] = {side: [] for side in sides}
    for _ in range(_ROUNDS):
        for side, take in sides.items():
            taken[side] += take(max(1, gets // _ROUNDS))
    return taken


def _print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for row in (titles, ["---"] * len(titles), *rows):
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("hits", "misses", "tasks", "table", "staleness")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} (default: all)")
    parser.add_argument("--gets", type=int, default=400, help="GETs of each side of a row (default: 400)")
    parser.add_argument("--keys", type=int, default=100, help="keys of the part `tasks` (default: 100)")
    parser.add_argument(
        "--writes", type=int, default=200, help="writes per tier of the part `staleness` (default: 200)"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: accepted: {', '.join(parts)}")
    print(environment())
    run: dict[str, Callable[[], None]] = {
        "hits": partial(hits, gets=arguments.gets),
        "misses": partial(misses, gets=arguments.gets),
        "tasks": partial(tasks, gets=5 * arguments.gets, keys=arguments.keys),
        "table": table,
        "staleness": partial(staleness, writes=arguments.writes),
    }
    for part in arguments.parts or parts:
        run[part]()


if __name__ == "__main__":
    main()
