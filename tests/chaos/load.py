"""The load on one local run: an open loop of reads, half through the front door, half through the library, and writes.

    python -m chaos.load < commands > outcomes

The first line is the `Target` as JSON. Each later line is `READS_PER_S HOT_SHARE FIRST_HOT`: the rate from now on, the
share of reads that go to hot keys, and the number of the first hot key. A share below 0 reads other keys in turn, each
so seldom that it stays cold. The load ends with its commands. Each line of the outcomes is a request as JSON, in the
order of `Outcome`. The load is a process of its own, so that readers do not wait for the servers' thread.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO

import boto3
import uvloop

from burstcache.client import Client
from burstcache.results import cached
from burstcache_replay.schedule import Answer, replay
from burstcache_replay.schedule import Outcome as Sent
from burstcache_replay.targets import front_door, library
from chaos.versions import Versions, value_of

KEYS = tuple(f"key-{number:02d}" for number in range(100))
HOT_KEYS = 12  # usually
HOT_SHARE = 0.95  # of the reads, usually
ALL_COLD = -1.0  # a share: only the cold keys are read
COLD_KEYS = tuple(f"cold-{number:04d}" for number in range(2000))  # too many to be read twice before a fault
_RESULTS = 10  # each is read several times before it expires
_SMALL_KEYS = (*KEYS, *COLD_KEYS)
OF_KEYS = frozenset({"front door", "library"})  # the ways to read keys
LARGE_KEYS = tuple(f"large-{number}" for number in range(4))  # read through the pool, never written
_SIZES_BYTES = (1_000, 10_000, 100_000)
_LARGE_BYTES, _RANGE_BYTES, _RESULT_BYTES = 9_000_000, 64_000, 10_000
_DISK_BYTES = 64 << 20
_LIMIT_S = 35.0  # the front door gives up after 30
_THREADS = 128


class Outcome(NamedTuple):
    """The outcome of one request."""

    way: str  # "front door", "library", "pool", "range", "result", or "write"
    key: str
    due_s: float  # since 1970
    latency_s: float  # from its due time
    status: int  # 0: no answer
    tier: str
    error: str

    @property
    def is_wrong(self) -> bool:
        """Return whether the answer contains bytes that were never written."""
        return self.error.startswith("wrong")

    @property
    def is_failed(self) -> bool:
        """Return whether the answer is not a 200. All objects exist at all times."""
        return self.status != 200


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a load, and its rates per second."""

    front_url: str
    bucket_name: str
    variables: Mapping[str, str]  # environment of a program that uses the library
    reads: float
    writes: float
    hot_keys: int
    hot_share: float = 0.0  # of the reads
    larges: float = 0.0  # reads through the pool
    ranges: float = 0.0  # of the same objects, in slices on disk
    results: float = 0.0  # of a function, cached on the nodes
    newest: Mapping[str, int] = field(default_factory=dict)  # versions written by earlier loads
    seed: int = 1


def versions(newest: Mapping[str, int] = MappingProxyType({})) -> Versions:
    """Return the versions of all objects, including those written by earlier loads."""
    sizes_bytes = dict(zip(_SMALL_KEYS, itertools.cycle(_SIZES_BYTES), strict=False))
    return Versions(sizes_bytes | dict.fromkeys(LARGE_KEYS, _LARGE_BYTES), newest)


class _Pace:
    """The pace of requests, at a rate that may change."""

    def __init__(self, per_s: float, hot_share: float = 0.0) -> None:
        self.per_s, self.hot_share, self.first_hot = per_s, hot_share, 0

    def due_s(self, share: float = 1.0) -> Iterator[float]:
        """Yield the due times of a stream that makes a share of the requests, from the start [s]."""
        due_s = 0.0
        while True:
            due_s += 1 / (share * self.per_s)
            yield due_s


class _Load:
    """The streams of a load, each an open loop of its own."""

    def __init__(self, target: Target, results: TextIO, threads: ThreadPoolExecutor) -> None:
        self._target, self._results, self._threads = target, results, threads
        self.pace, self._chance = _Pace(target.reads, target.hot_share), Random(target.seed)
        self._objects, self._cold = versions(target.newest), itertools.cycle(COLD_KEYS)

    async def open(self, opened: AsyncExitStack) -> list[Coroutine[Any, Any, None]]:
        """Open all clients; return the streams."""
        target, judge = self._target, self._objects.problem
        url, s3 = f"{target.front_url}/objects", boto3.client("s3")
        client = Client(memory_bytes=0, pool=False)
        by_http = await opened.enter_async_context(front_door(url, _SMALL_KEYS, {}, _LIMIT_S, judge=judge))
        by_library = await opened.enter_async_context(library(client, _SMALL_KEYS, _THREADS, judge))

        def put_direct(key: str, value: bytes) -> None:
            s3.put_object(Bucket=target.bucket_name, Key=key, Body=value)

        def put(key: str, value: bytes) -> None:
            client.put(key, value)

        streams = [
            self._stream(
                "front door", self.pace.due_s(0.5), self._read_key, lambda key: by_http(_SMALL_KEYS.index(key))
            ),
            self._stream(
                "library", self.pace.due_s(0.5), self._read_key, lambda key: by_library(_SMALL_KEYS.index(key))
            ),
            *(
                self._stream(
                    "write", _Pace(target.writes).due_s(0.5), self._any_key, self._in_thread(self._written, way)
                )
                for way in (put_direct, put)
            ),
        ]
        if target.larges:
            pooled = await opened.enter_async_context(library(Client(memory_bytes=0), LARGE_KEYS, _THREADS, judge))
            due_s = _Pace(target.larges).due_s()
            streams.append(self._stream("pool", due_s, self._large_key, lambda key: pooled(LARGE_KEYS.index(key))))
        if target.ranges:
            folder = opened.enter_context(TemporaryDirectory(prefix="chaos-slices-"))
            program = Client(memory_bytes=0, pool=False, disk=folder, disk_bytes=_DISK_BYTES)
            by_range = self._in_thread(self._read_range, opened.enter_context(program))
            streams.append(self._stream("range", _Pace(target.ranges).due_s(), self._large_key, by_range))
        if target.results:
            due_s = _Pace(target.results).due_s()
            streams.append(self._stream("result", due_s, self._result_key, self._in_thread(_function())))
        return streams

    async def _stream(
        self, way: str, due_s: Iterator[float], pick: Callable[[], str], ask: Callable[[str], Awaitable[Answer]]
    ) -> None:
        keys: dict[int, str] = {}  # of requests under way

        async def send(number: int) -> Answer:
            keys[number] = pick()
            return await ask(keys[number])

        def record(sent: Sent) -> None:
            answer, at_s = sent.answer, time.time() - sent.latency_s
            outcome = Outcome(
                way, keys.pop(sent.number), at_s, sent.latency_s, answer.status, answer.tier, answer.error
            )
            print(json.dumps(outcome), file=self._results, flush=True)

        await replay(due_s, send, record)

    def _read_key(self) -> str:
        if self.pace.hot_share < 0:
            return next(self._cold)
        is_hot, hot_keys = self._chance.random() < self.pace.hot_share, self._target.hot_keys
        number = self._chance.randrange(hot_keys) if is_hot else self._chance.randrange(hot_keys, len(KEYS))
        return KEYS[(self.pace.first_hot + number) % len(KEYS)]

    def _any_key(self) -> str:
        return self._chance.choice(KEYS)

    def _result_key(self) -> str:
        return self._chance.choice(KEYS[:_RESULTS])

    def _large_key(self) -> str:
        return self._chance.choice(LARGE_KEYS)

    def _in_thread(self, call: Callable[..., Answer], *more: object) -> Callable[[str], Awaitable[Answer]]:
        return lambda key: asyncio.get_running_loop().run_in_executor(self._threads, call, key, *more)

    def _read_range(self, key: str, client: Client) -> Answer:
        """Read a part of an object at a random place."""
        start = self._chance.randrange(_LARGE_BYTES - _RANGE_BYTES)
        try:
            found = client.get(key, range=f"bytes={start}-{start + _RANGE_BYTES - 1}")
        except Exception as error:  # an error must not end the load
            return Answer(0, error=type(error).__name__)
        is_right = found.body == self._objects.value(key)[start : start + _RANGE_BYTES]
        return Answer(200, found.tier, len(found.body), "" if is_right else f"wrong: the bytes from {start}")

    def _written(self, key: str, put: Callable[[str, bytes], None]) -> Answer:
        """Write the next version of an object."""
        _, value = self._objects.begin(key)
        try:
            put(key, value)
        except Exception as error:  # of any way to write: the write may have happened
            return Answer(0, error=type(error).__name__)
        return Answer(200)


def _function() -> Callable[[str], Answer]:
    """Return a call of a function whose results the stack's nodes cache."""
    call = threading.local()

    @cached(backend="burstcache://", codec="bytes", version="1", ttl_s=5)
    def compute(name: str) -> bytes:
        call.was_computed = True
        return value_of(name, 0, _RESULT_BYTES)

    def ask(name: str) -> Answer:
        call.was_computed = False
        try:
            found = compute(name)
        except Exception as error:  # the cache should never raise
            return Answer(0, error=type(error).__name__)
        problem = "" if found == value_of(name, 0, _RESULT_BYTES) else "wrong result"
        return Answer(200, "computed" if call.was_computed else "redis", len(found), problem)

    return ask


async def _run(target: Target, commands: TextIO, results: TextIO) -> None:
    async with AsyncExitStack() as opened:
        load = _Load(target, results, opened.enter_context(ThreadPoolExecutor(_THREADS)))
        streams = [asyncio.create_task(stream) for stream in await load.open(opened)]
        await asyncio.to_thread(_obey, commands, load.pace)
        for stream in streams:
            stream.cancel()
        await asyncio.wait(streams)


def _obey(commands: TextIO, pace: _Pace) -> None:
    """Apply the commands until they end."""
    for command in commands:
        per_s, hot_share, first_hot = command.split()
        pace.per_s, pace.hot_share, pace.first_hot = float(per_s), float(hot_share), int(first_hot)


def main() -> None:
    """Run the load until its commands end."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    target = Target(**json.loads(sys.stdin.readline()))
    os.environ.update(target.variables)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(target, sys.stdin, sys.stdout))


if __name__ == "__main__":
    main()
