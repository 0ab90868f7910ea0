"""Histories of a local run in real time: `python -m consistency.local`.

Front door, functions, Redis and relay run in processes of their own. The answering proxy environment is unknown, so
`front` is not checked for monotonic reads.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.support.common import Cloud, Setup, running_cloud
from burstcache.client import Client
from burstcache.core.errors import BurstcacheError, ObjectNotFoundError
from consistency.__main__ import KEYS, check, check_order
from consistency.history import Kind, Operation, Recorder, Way, write_history

_OVERRIDES = "lambda_threshold_s=2,tick_s=3,redis_threshold=20,redis_utilization_s=5,redis_check_s=5"
_MEMORY_BYTES = 1 << 20
_READERS = 2  # threads of each kind
_LIMIT_S = 60.0
_BURST_S, _REST_S = 25.0, 20.0  # with and without load on a key
_WRITE_EVERY_S = 0.7
_THINK_S = 0.02  # or nearly all reads would be from memory
_DELETES = 0.1

Read = Callable[[str], tuple[int, bytes, str]]
Write = Callable[[str, bytes | None], object]


class Session:
    """A session of clients with a local run, up to a number of operations."""

    def __init__(self, cloud: Cloud, way: Way, *, operations: int) -> None:
        self._cloud, self._way, self._operations = cloud, way, operations
        self._recorder = Recorder()
        self._began_s = time.monotonic()

    def run(self) -> list[Operation]:
        """Read and write; return the operations."""
        stack = self._cloud.stack
        access: Any = {"stack_name": stack.name, "session": stack.session, "endpoint_urls": stack.endpoint_urls}
        with Client(**access, memory_bytes=_MEMORY_BYTES) as memory, Client(**access, memory_bytes=0) as bare:
            reads = [("memory", _by_client(memory, "memory")), ("bare", _by_client(bare, ""))] * _READERS
            reads += [("front", _by_front(self._cloud.url)) for _ in range(_READERS)]
            direct = self._way == "direct"
            writes = [self._direct()] * 2 if direct else [_by_library(bare), _by_front_door(self._cloud.url)]
            threads = [
                threading.Thread(target=self._read_on, args=(name, read, number), daemon=True)
                for number, (name, read) in enumerate(reads)
            ]
            threads += [
                threading.Thread(target=self._write_on, args=(write, number), daemon=True)
                for number, write in enumerate(writes, 1)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return self._recorder.operations

    def _keys(self, seed: int) -> itertools.chain[str]:
        draw = random.Random(seed)

        def due() -> list[str]:
            now_s = time.monotonic() - self._began_s
            cycle_s = _BURST_S + _REST_S
            shifts_s = {key: number * cycle_s / len(KEYS) for number, key in enumerate(KEYS)}
            return [key for key, shift_s in shifts_s.items() if (now_s + shift_s) % cycle_s < _BURST_S]

        def picked() -> list[str]:
            return [draw.choice(due() or list(KEYS))]

        wanted = itertools.takewhile(lambda _: len(self._recorder.operations) < self._operations, itertools.count())
        return itertools.chain.from_iterable(picked() for _ in wanted)

    def _read_on(self, client: str, read: Read, seed: int) -> None:
        for key in self._keys(seed):
            began_us = time.time_ns() // 1000
            status, body, tier = read(key)
            ended_us = time.time_ns() // 1000
            value = int(body) if status == http.HTTPStatus.OK else None
            is_known = status in (http.HTTPStatus.OK, http.HTTPStatus.NOT_FOUND)
            self._recorder.add(Operation(client, "read", key, value, began_us, ended_us, is_known, tier, self._way))
            time.sleep(_THINK_S)

    def _write_on(self, write: Write, seed: int) -> None:
        draw = random.Random(-seed)
        for key in self._keys(-seed):
            number = None if draw.random() < _DELETES else self._recorder.number()
            kind: Kind = "delete" if number is None else "write"
            began_us, is_known = time.time_ns() // 1000, True
            try:
                write(key, None if number is None else b"%d" % number)
            except BurstcacheError:
                is_known = False
            ended_us = time.time_ns() // 1000
            self._recorder.add(Operation("writer", kind, key, number, began_us, ended_us, is_known, path=self._way))
            time.sleep(_WRITE_EVERY_S * 2 * draw.random())

    def _direct(self) -> Write:
        s3, bucket = self._cloud.client("s3"), self._cloud.stack.output("BucketName")

        def write(key: str, body: bytes | None) -> None:
            if body is None:
                s3.delete_object(Bucket=bucket, Key=key)
            else:
                s3.put_object(Bucket=bucket, Key=key, Body=body)

        return write


def _by_client(client: Client, absent_by: str) -> Read:
    """Return a read through the library, which does not name the tier of an absent object: that is `absent_by`."""

    def read(key: str) -> tuple[int, bytes, str]:
        try:
            found = client.get(key)
        except ObjectNotFoundError:
            return http.HTTPStatus.NOT_FOUND, b"", absent_by
        except BurstcacheError:
            return 0, b"", ""
        return http.HTTPStatus.OK, found.body, found.tier

    return read


def _by_front(url: str) -> Read:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_LIMIT_S)

    def read(key: str) -> tuple[int, bytes, str]:
        connection.request("GET", f"/objects/{key}")
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("X-Cache-Tier", "")

    return read


def _by_library(client: Client) -> Write:
    return lambda key, body: client.delete(key) if body is None else client.put(key, body)


def _by_front_door(url: str) -> Write:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_LIMIT_S)

    def write(key: str, body: bytes | None) -> None:
        connection.request("DELETE" if body is None else "PUT", f"/objects/{key}", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT):
            raise BurstcacheError(f"{key!r} may have been written or not: {answer.status}")

    return write


def main(arguments: Sequence[str]) -> int:
    """Record and check one history; return the exit code."""
    parser = argparse.ArgumentParser(prog="consistency.local", description=__doc__)
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--policy", choices=["thesis", "breakeven"], default="thesis")
    parser.add_argument("--way", choices=["api", "direct"], default="api")
    parser.add_argument("--checker", type=Path, help="program that checks API writes (default: bounds only)")
    options = parser.parse_args(arguments)
    setup = Setup(_OVERRIDES if options.policy == "thesis" else "", boot_s=3.0, takes_writes=options.way == "api")
    with running_cloud(setup) as cloud:
        history = Session(cloud, options.way, operations=options.operations).run()
    counts = Counter(each.tier or each.kind for each in history)
    failed = sum(not each.is_known for each in history)
    run = {"policy": options.policy, "way": options.way, "operations": len(history), "without_answer": failed}
    print(json.dumps({**run, **counts}))
    path = Path(tempfile.mkdtemp()) / "history.jsonl"
    write_history(path, history)
    problem = check_order(path, options.checker) if options.checker and options.way == "api" else ""
    problem = problem or check(history, many_readers=["front"])
    print(problem or "0 violations")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
