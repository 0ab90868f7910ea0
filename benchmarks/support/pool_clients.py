"""Clients of a pool as processes, each with a hub of its own, for `benchmarks.pool`."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.support.generated_s3 import ETAG, generated
from burstcache.client import Client
from burstcache.core.keys import key_hash
from burstcache.core.pool.slices import CodedSlice, PooledObject, Redundancy, pooled
from burstcache.core.slices import Version
from burstcache.pool.certificate import hub_tls
from burstcache.pool.hub import Hub
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.reader import PoolReader

_READS_LEARNT = 20  # before the reader knows what takes long
_OPEN_LIMIT_S = 180.0

PUT, GET, GET_AT_ONCE, CLIENT = "PUT", "GET", "GET, all at once", "GET through Client"
KINDS = (PUT, GET, GET_AT_ONCE, CLIENT)


@dataclass(frozen=True, slots=True)
class Work:
    """What a client does `rounds` times, after some that do not count; `kind` is one of `KINDS`."""

    kind: str
    size_bytes: int
    code: Redundancy
    rounds: int


@dataclass(frozen=True, slots=True)
class Times:
    """How long each call took, and how long this process's processors worked for one [ms]."""

    each_ms: list[float]
    cpu_ms: float


def room(size_bytes: int) -> memoryview:
    """Return a buffer in large pages, as a program that reads large objects again and again has one."""
    pages = mmap.mmap(-1, size_bytes)
    pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)


def timed(rounds: int, call: Callable[[], object]) -> Times:
    """Return the durations of calls."""

    async def work() -> None:
        call()

    return asyncio.run(timed_on_loop(rounds, work))


async def timed_on_loop(rounds: int, work: Callable[[], Awaitable[object]]) -> Times:
    """Return the durations of coroutines run one after another."""
    each_ms: list[float] = []
    cpu_began_s = time.process_time()
    for _ in range(rounds):
        began_s = time.perf_counter()
        await work()
        each_ms.append((time.perf_counter() - began_s) * 1000)
    return Times(each_ms, (time.process_time() - cpu_began_s) * 1000 / rounds)


class AllAtOnce(PoolReader):
    """Asks all holders of a slice at once, as InfiniCache does."""

    def _order(self, slice_: CodedSlice) -> tuple[list[str], list[str]]:
        first, others = super()._order(slice_)
        return first + others, []


class _Pool:
    """A pool whose hub is in this process; where it listens is sent over a pipe, and members come."""

    def __init__(self, pipe: Connection, members: Sequence[str], token: bytes, *, has_tls: bool) -> None:
        self._pipe, self._members, self._token, self._has_tls = pipe, members, token, has_tls
        self.code = Redundancy(10, 1)
        self.is_open = threading.Event()
        self.hub: Hub
        self.loop: asyncio.AbstractEventLoop

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[OpenPool]:
        """Run the hub."""
        self.hub, self.loop = Hub(self._token), asyncio.get_running_loop()
        tls, certificate = hub_tls(datetime.now(UTC)) if self._has_tls else (None, "")
        self._pipe.send((await self.hub.start("127.0.0.1", tls=tls), certificate))
        while len(self.hub.members) < len(self._members):
            await asyncio.sleep(0.01)
        self.is_open.set()
        yield OpenPool(PoolReader(self.hub, self._members, _OPEN_LIMIT_S), lambda: [self.code])
        await self.hub.stop()


class _Worker:
    """Does what one client is asked for, and checks what it reads."""

    def __init__(self, client: Client, pool: _Pool, name: str, members: Sequence[str]) -> None:
        self._client, self._pool, self._name, self._members = client, pool, name, members

    def do(self, work: Work) -> Times:
        """Return its duration."""
        self._pool.code = work.code
        key = f"{self._name}/{work.size_bytes}"
        expected = room(work.size_bytes)
        expected[:] = b"".join(generated(0, work.size_bytes))
        if work.kind == CLIENT:
            return self._through_client(key, expected, work.rounds)
        object_ = pooled(Version(key, key_hash(key), ETAG, work.size_bytes), work.code)
        into = room(work.size_bytes)
        times = asyncio.run_coroutine_threadsafe(self._through_reader(work, object_, expected, into), self._pool.loop)
        result = times.result()
        if work.kind != PUT and into != expected:
            raise AssertionError(f"{work} returned wrong bytes")
        return result

    def _through_client(self, key: str, expected: memoryview, rounds: int) -> Times:
        if self._client.get(key).body != expected:
            raise AssertionError(f"{key} has wrong bytes")

        def get() -> None:
            if self._client.get(key).tier != "pool":
                raise AssertionError(f"{key} was not in the pool")

        return timed(rounds, get)

    async def _through_reader(self, work: Work, object_: PooledObject, expected: memoryview, into: memoryview) -> Times:
        kind = AllAtOnce if work.kind == GET_AT_ONCE else PoolReader
        reader = kind(self._pool.hub, self._members, _OPEN_LIMIT_S)

        async def once() -> None:
            if await (reader.write(object_, expected) if work.kind == PUT else reader.read(object_, into)):
                raise AssertionError(f"{work} lost a slice")

        await timed_on_loop(1 if work.kind == PUT else _READS_LEARNT, once)
        return await timed_on_loop(work.rounds, once)


def run_client(pipe: Connection, name: str, members: Sequence[str], token: bytes, s3_port: int, has_tls: bool) -> None:
    """Be one client: send where the hub listens, then what each `Work` took, until None arrives."""
    pool = _Pool(pipe, members, token, has_tls=has_tls)
    s3 = generated_s3(s3_port)
    with Client(bucket="bucket", s3=s3, pool=pool.open, freshness="immutable", memory_bytes=0) as client:
        client.get("first/10000000")  # opens the pool
        if not pool.is_open.wait(_OPEN_LIMIT_S):
            raise AssertionError("members did not come")
        worker = _Worker(client, pool, name, members)
        while (work := pipe.recv()) is not None:
            pipe.send(worker.do(work))


def generated_s3(port: int) -> Any:
    """Return boto3's client of the stand-in for S3 on a port."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(s3={"addressing_style": "path"}, response_checksum_validation="when_required"),
    )
