"""The reader in the caller's process, next to what it is built on and to what it replaces.

    python -m benchmarks.client [hits misses tasks table staleness] [--gets 400] [--seconds 1] [--keys 100]
        [--writes 200]

Each part prints a Markdown table; without a name all of them run. The sides of a hit and of a miss take turns, so that
a noisy machine disturbs all of them; those of `tasks` follow one another.

    hits       each tier by the client and by a wrapped boto3 client, next to the bare client of the tier's server,
               boto3's GET from the local S3, and the local front door
    misses     objects that no tier has, by boto3 and by the wrapped client
    tasks      many keys by 1, 8 and 64 threads and tasks of the client and of the tier's own, and by the front door
    table      how often the digest is read from the table for a million GETs
    staleness  how long after a write to the bucket a reader sees it, and the digest has it
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import random
import statistics
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import boto3
import redis
from botocore.config import Config
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

import burstcache
from benchmarks.common import PROJECT, Setup, environment
from benchmarks.hits import Cloud, Http, Sample, get_over_http, heat, running_cloud
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_reader import DigestReader, read_digest
from burstcache.adapters.redis_objects import object_key
from burstcache.adapters.relay import connect
from burstcache.adapters.secrets import Secrets
from burstcache.client import AsyncClient, Client
from burstcache.client.configuration import configure
from burstcache.core.digest import Digest, prefix_of
from burstcache.core.keys import key_hash
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.relay import Get, get_subject
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.web.entry import decode

_ROUNDS = 4  # in which the sides take turns
_SIZES_BYTES = {"100 B": 100, "10 KB": 10_000, "1 MB": 1_000_000}
_TASKS = (1, 8, 64)
_MEMORY_BYTES = 256 << 20
_LIMIT_S = 60.0
_COUNTED_GETS = 200_000
_POLL_S = 0.002  # between two looks at the keys that were written
_HEAT_EVERY_S = 0.5
_HOT_LIMIT_S = 150.0
_WARM_UP_S, _WARM_UP_LIMIT_S = 0.3, 15.0

# Where keys stay while they are measured: in Lambda, as the node takes an hour to boot; in Redis, as a key counts as
# used for an hour; with S3, as two GETs never come within a microsecond.
_SETUPS = {
    "lambda": Setup("tick_s=600,lambda_threshold_s=30", boot_s=3600, max_hot_keys=128),
    "redis": Setup("tick_s=600,lambda_threshold_s=30,redis_utilization_s=3600", boot_s=0.2, max_hot_keys=128),
    "s3": Setup("lambda_threshold_s=0.000001", max_hot_keys=128),
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
    node = cloud.redis()
    yield _timed(lambda: _read_from_redis(node, key), bool)
    node.close()


@contextmanager
def _bare_relay(cloud: Cloud, key: str) -> Iterator[Take]:
    """Yield a NATS client's way to ask the cache function, on a connection that is open already."""
    loop = asyncio.new_event_loop()
    relay = loop.run_until_complete(_relay(cloud))

    async def work(gets: int) -> Latencies:
        latencies_ms = []
        for _ in range(gets):
            begun_s = time.perf_counter()
            await _ask(relay, key)
            latencies_ms.append((time.perf_counter() - begun_s) * 1000)
        return latencies_ms

    yield lambda gets: loop.run_until_complete(work(gets))
    loop.run_until_complete(relay.close())
    loop.close()


def _read_from_redis(node: redis.Redis, key: str) -> bytes:
    commands = node.pipeline(transaction=False)
    commands.hmget(object_key(key_hash(key)), ["meta", "body"])
    commands.lpush("bare", "1767225600000000")
    commands.ltrim("bare", 0, QUEUE_LENGTH - 1)
    body: bytes = commands.execute()[0][1]
    return body


async def _relay(cloud: Cloud) -> Nats:
    access = configure(**_access(cloud), bucket="").settings.relay
    return await connect(access, Secrets(cloud.client("ssm")), timeout_s=_LIMIT_S)


async def _ask(relay: Nats, key: str) -> Msg:
    question = Get(at_us=time.time_ns() // 1000, request_id=uuid.uuid4().hex, method="GET")
    return await relay.request(get_subject(key_hash(key)), encode(question), timeout=_LIMIT_S)


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


def tasks(*, lasts_s: float, keys: int) -> None:
    """Print how many keys are read at a time, by tier and by number of threads, tasks or connections."""
    print(f"\n## {keys} keys of 10 KB\n")
    _print_table(["tier", "reader", "at a time", "GETs/s", "p50 ms", "p99 ms", "by the tier"], ())
    body = os.urandom(_SIZES_BYTES["10 KB"])
    names = [f"key-{number}" for number in range(keys)]
    for tier, setup in _SETUPS.items():
        with running_cloud(PROJECT, setup) as cloud:
            _put_all(cloud, names, body)
            if tier != "s3":
                _heat_all(cloud, names, tier)
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
        _print_rows([[*row, f"{len(sample.latencies_ms) / gets:.1%}"]])


def _client_in_threads(cloud: Cloud, load: _Load) -> Sample:
    with Client(**_access(cloud), memory_bytes=_memory_bytes(load)) as client:

        def get(key: str) -> str:
            found = client.get(key)
            return load.tier_of(found.tier, found.body)

        return _by_threads(load, get)


def _client_in_tasks(cloud: Cloud, load: _Load) -> Sample:
    async def work() -> Sample:
        async with AsyncClient(**_access(cloud), memory_bytes=_memory_bytes(load)) as client:

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
    sample = _by_threads(load, lambda key: load.tier_of("s3", _read(s3, cloud, key)))
    s3.close()
    return sample


def _redis_py_in_threads(cloud: Cloud, load: _Load) -> Sample:
    node = cloud.redis()
    sample = _by_threads(load, lambda key: load.tier_of("redis", _read_from_redis(node, key)))
    node.close()
    return sample


def _nats_in_tasks(cloud: Cloud, load: _Load) -> Sample:
    async def work() -> Sample:
        relay = await _relay(cloud)

        async def get(key: str) -> str:
            return load.tier_of("lambda", decode((await _ask(relay, key)).data).body)

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
    return _MEMORY_BYTES if load.tier == "memory" else 0


def _by_threads(load: _Load, get: Callable[[str], str]) -> Sample:
    """Return what threads read, once all connections are open and the tier serves all they read."""

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
    """Return what tasks read, once all connections are open and the tier serves all they read."""

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


def _put_all(cloud: Cloud, names: Iterable[str], body: bytes) -> None:
    s3 = cloud.client("s3")
    for name in names:
        s3.put_object(Bucket=cloud.bucket_name, Key=name, Body=body)


def _heat_all(cloud: Cloud, names: Sequence[str], tier: str) -> None:
    """Read keys by a client, whose reports are the lightest load, until the digest has all of them in `tier`."""
    digest_now = _digest_of(cloud)
    left, end_s = list(names), time.perf_counter() + _HOT_LIMIT_S
    with Client(**_access(cloud), memory_bytes=0) as client:
        while left:
            if time.perf_counter() > end_s:
                sys.exit(f"{len(left)} of {len(names)} keys are not in {tier} after {_HOT_LIMIT_S:.0f} s")
            client.get_many(left)
            time.sleep(_HEAT_EVERY_S)
            digest, now_us = digest_now(), time.time_ns() // 1000
            routes = {name: digest.route(key_hash(name), now_us=now_us) for name in left}
            left = [name for name, route in routes.items() if route is None or route.tier != tier]


def _digest_of(cloud: Cloud) -> Callable[[], Digest]:
    table_name = configure(**_access(cloud), bucket="").settings.table_name
    return partial(read_digest, cloud.client("dynamodb"), table_name)


def staleness(*, writes: int, keys: int = 20) -> None:
    """Print how long after a write to the bucket was acknowledged a reader that asks without pause sees it."""
    print("\n## Staleness after a write to the bucket\n")
    titles = ["tier", "writes", "p50 ms", "p99 ms", "longest ms", "event p50 ms", "event longest ms", "old by the tier"]
    _print_table(titles, ())
    names = [f"key-{number}" for number in range(keys)]
    for tier, setup in _SETUPS.items():
        seen: list[_Seen] = []
        with running_cloud(PROJECT, setup) as cloud:
            _put_all(cloud, names, b"0")
            if tier != "s3":
                _heat_all(cloud, names, tier)
            with _readers(cloud, memory_bytes=_MEMORY_BYTES if tier == "s3" else 0) as (client, _):
                client.get_many(names)
                put, digest = partial(cloud.client("s3").put_object, Bucket=cloud.bucket_name), _digest_of(cloud)
                for version in range(1, -(-writes // keys) + 1):
                    seen += _write_and_watch(put, digest, client, names, b"%d" % version)
        stale_ms, event_ms = sorted(each.stale_ms for each in seen), sorted(each.event_ms for each in seen)
        old = Counter(itertools.chain.from_iterable(each.old_by for each in seen))
        row: list[object] = ["memory" if tier == "s3" else tier, len(seen), f"{statistics.median(stale_ms):.0f}"]
        row += [f"{stale_ms[int(len(stale_ms) * 0.99)]:.0f}", f"{stale_ms[-1]:.0f}"]
        row += [f"{statistics.median(event_ms):.0f}", f"{event_ms[-1]:.0f}"]
        _print_rows([[*row, ", ".join(f"{name} {count:,}" for name, count in old.most_common())]])


@dataclass(slots=True)
class _Seen:
    """When one write was seen, after its acknowledgement."""

    stale_ms: float = 0.0  # by the reader: when the first read began that saw the new object
    event_ms: float = 0.0  # in the digest: when the first Query began that had the change
    old_by: list[str] = field(default_factory=list)  # the tiers of reads that saw the former object


def _write_and_watch(
    put: Callable[..., object], digest: Callable[[], Digest], client: Client, names: Sequence[str], body: bytes
) -> list[_Seen]:
    before = digest().sequence
    seen = {name: _Seen() for name in names}
    written_s: dict[str, float] = {}

    def watch(see: Callable[[Sequence[str]], Iterable[tuple[str, float]]], note: Callable[[str, float], None]) -> None:
        left, end_s = set(names), time.perf_counter() + _LIMIT_S
        while left:
            if time.perf_counter() > end_s:
                raise TimeoutError(f"{len(left)} of {len(names)} writes not seen in {_LIMIT_S:.0f} s")
            for name, begun_s in see([name for name in names if name in left and name in written_s]):
                left.discard(name)
                note(name, max(0.0, begun_s - written_s[name]) * 1000)
            time.sleep(_POLL_S)

    def read(written: Sequence[str]) -> Iterator[tuple[str, float]]:
        for name in written:
            begun_s = time.perf_counter()
            found = client.get(name)
            if found.body == body:
                yield name, begun_s
            else:
                seen[name].old_by.append(found.tier)

    def query(written: Sequence[str]) -> Iterator[tuple[str, float]]:
        begun_s = time.perf_counter()
        changes = set(digest().changed_since(before) or ())
        yield from ((name, begun_s) for name in written if prefix_of(key_hash(name)) in changes)

    def note_read(name: str, after_ms: float) -> None:
        seen[name].stale_ms = after_ms

    def note_event(name: str, after_ms: float) -> None:
        seen[name].event_ms = after_ms

    with ThreadPoolExecutor(2) as threads:
        watching = [threads.submit(watch, read, note_read), threads.submit(watch, query, note_event)]
        for name in names:
            time.sleep(random.random() / len(names))  # somewhere between two reads of the digest
            put(Key=name, Body=body)
            written_s[name] = time.perf_counter()
        for each in watching:
            each.result()
    return list(seen.values())


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
    _print_rows([titles, ["---"] * len(titles), *rows])


def _print_rows(rows: Iterable[Sequence[object]]) -> None:
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("hits", "misses", "tasks", "table", "staleness")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} (default: all)")
    parser.add_argument("--gets", type=int, default=400, help="GETs of each side of a row (default: 400)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row of the part `tasks` (default: 1)")
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
        "tasks": partial(tasks, lasts_s=arguments.seconds, keys=arguments.keys),
        "table": table,
        "staleness": partial(staleness, writes=arguments.writes),
    }
    for part in arguments.parts or parts:
        run[part]()


if __name__ == "__main__":
    main()
