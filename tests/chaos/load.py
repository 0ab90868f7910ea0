"""The load on one local run: an open loop of reads, half by the front door and half by the library, and some writes.

    python -m chaos.load < commands > outcomes

The first line is the load as JSON, each later one `READS_PER_S HOT_SHARE`: how many reads a second there are from now
on, and which share of them hot keys get. It ends with its commands. Each line of the
outcomes is a request as JSON, in the order of `Outcome`: a process of its own, so that readers do not wait for the
servers' thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TextIO

import boto3
import uvloop

from burstcache.client import Client
from burstcache_replay.schedule import Answer, Send, replay
from burstcache_replay.schedule import Outcome as Sent
from burstcache_replay.targets import front_door, library
from support.versions import Versions

KEYS = tuple(f"key-{number:02d}" for number in range(100))
HOT_KEYS = 24  # usually, the first ones
HOT_SHARE = 0.9  # of the reads, usually
_LIMIT_S = 35.0  # the front door gives up after 30
_THREADS = 128


class Outcome(NamedTuple):
    """One request as it went."""

    way: str  # "front door", "library", or "write"
    key: str
    due_s: float  # since 1970
    latency_s: float  # from when it was due
    status: int  # 0: nothing came
    tier: str
    error: str

    @property
    def is_wrong(self) -> bool:
        """Whether bytes came that were never written."""
        return self.error.startswith("wrong")

    @property
    def is_failed(self) -> bool:
        """Whether a request was not answered as it should be; all objects are there all the time."""
        return self.status != 200


@dataclass(frozen=True, slots=True)
class Target:
    """What is loaded, and how."""

    front_url: str
    endpoint_url: str
    region: str
    stack_name: str
    bucket_name: str
    reads_per_s: float
    writes_per_s: float
    hot_keys: int
    hot_share: float  # of the reads
    seed: int = 1


def versions() -> Versions:
    """Return the objects: most are small, some are of 100 KB."""
    return Versions({key: (1_000, 10_000, 100_000)[number % 3] for number, key in enumerate(KEYS)})


class _Pace:
    """When requests are due, at a rate that may change."""

    def __init__(self, per_s: float, hot_share: float = 0.0) -> None:
        self.per_s, self.hot_share = per_s, hot_share

    def due_s(self) -> Iterator[float]:
        due_s = 0.0
        while True:
            yield due_s
            due_s += 1 / self.per_s


async def _run(target: Target, commands: TextIO, results: TextIO) -> None:
    objects, session = versions(), boto3.Session("local", "local", region_name=target.region)
    chance, pace = Random(target.seed), _Pace(target.reads_per_s, target.hot_share)
    client = Client(
        stack_name=target.stack_name, session=session, endpoint_urls={"": target.endpoint_url}, memory_bytes=0
    )

    def record(way: Callable[[int], str], key: Callable[[int], str]) -> Callable[[Sent], None]:
        def take(sent: Sent) -> None:
            answer = sent.answer
            due_s = time.time() - sent.latency_s
            outcome = Outcome(way(sent.number), key(sent.number), due_s, sent.latency_s, *_of(answer))
            print(json.dumps(outcome), file=results, flush=True)

        return take

    async with (
        front_door(f"{target.front_url}/objects", KEYS, {}, _LIMIT_S, judge=objects.problem) as by_http,
        library(client, KEYS, _THREADS, objects.problem) as by_library,
    ):
        picks: dict[int, int] = {}  # a key's index by a request's number

        async def read(number: int) -> Answer:
            hot = chance.random() < pace.hot_share
            picks[number] = chance.randrange(target.hot_keys) if hot else chance.randrange(target.hot_keys, len(KEYS))
            return await (by_library if number % 2 else by_http)(picks[number])

        reads = replay(
            pace.due_s(),
            read,
            record(lambda number: "library" if number % 2 else "front door", lambda number: KEYS[picks.pop(number)]),
        )
        with ThreadPoolExecutor(_THREADS) as threads:
            write, written = _writer(target, objects, client, session, threads)
            writes = replay(_Pace(target.writes_per_s).due_s(), write, record(lambda _: "write", written))
            tasks = [asyncio.create_task(each) for each in (reads, writes)]
            await asyncio.to_thread(_obey, commands, pace)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def _of(answer: Answer) -> tuple[int, str, str]:
    return answer.status, answer.tier, answer.error


def _obey(commands: TextIO, pace: _Pace) -> None:
    """Change the rate as commands say, until they end."""
    for command in commands:
        pace.per_s, pace.hot_share = (float(word) for word in command.split())


def _writer(
    target: Target, objects: Versions, client: Client, session: Any, threads: ThreadPoolExecutor
) -> tuple[Send, Callable[[int], str]]:
    """Return what writes the next version of a key, in turn straight to S3 and by the library, and a number's key."""
    s3 = session.client("s3", endpoint_url=target.endpoint_url)
    chance = Random(target.seed + 1)
    picks: dict[int, str] = {}

    def put(number: int, key: str) -> Answer:
        _, value = objects.begin(key)
        try:
            if number % 2:
                client.put(key, value)
            else:
                s3.put_object(Bucket=target.bucket_name, Key=key, Body=value)
        except Exception as error:  # whatever either raises: the write may have happened
            return Answer(0, error=type(error).__name__)
        return Answer(200)

    async def send(number: int) -> Answer:
        picks[number] = chance.choice(KEYS)
        return await asyncio.get_running_loop().run_in_executor(threads, put, number, picks[number])

    return send, picks.pop


def main() -> None:
    """Load until told to stop."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    target = Target(**json.loads(sys.stdin.readline()))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(target, sys.stdin, sys.stdout))


if __name__ == "__main__":
    main()
