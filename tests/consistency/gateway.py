"""Histories through a gateway of several processes, in real time: `python -m consistency.gateway`.

All writes pass through the gateway, so a read that starts after a write's response has to see it, whatever process
answers: the bound is 0. S3 is moto, with random delays, and with faults if wanted: it is slow, refuses requests or
breaks off responses, and processes of the gateway are killed. A write without a response may or may not have taken
effect.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3

from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from consistency.__main__ import check_order
from consistency.bounds import violations
from consistency.history import Kind, Operation, Recorder, write_history
from support.gateway_process import gateway

_BUCKET = "histories"
_OWN = ("AKIDOFTHEGATEWAY", "secret-of-the-gateway")
_SMALL, _LARGE = ("a", "b", "c", "d", "e", "f"), ("large-a", "large-b")
_WORD_BYTES = 16
_LARGE_BYTES = 9 << 20  # above the size that is kept whole
_LONGEST_RANGE_BYTES = 600_000
_READERS, _WRITERS = 12, 4
_DELETES, _COPIES = 0.1, 0.1
_LIMIT_S = 120.0
_KILLED_EVERY_S = 4.0
_OK, _PARTIAL, _NOT_FOUND = 200, 206, 404


class _SlowS3:
    """Delays and faults of S3, as a WSGI middleware."""

    def __init__(self, seed: int, *, has_faults: bool) -> None:
        self._draw = random.Random(seed)
        self._has_faults = has_faults
        self.faults = Counter[str]()

    def __call__(self, application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            fault = self._draw.random() if self._has_faults else 1.0
            time.sleep(self._draw.uniform(0, 0.003))
            if fault < 0.01:
                self.faults["slow"] += 1
                time.sleep(0.3)
            elif fault < 0.02:
                self.faults["refused"] += 1
                start_response("503 Slow Down", [("content-type", "application/xml")])
                return [b"<Error><Code>SlowDown</Code></Error>"]
            answer = application(environ, start_response)
            if 0.02 <= fault < 0.025:  # the write has taken effect, but its response is lost
                self.faults["broken off"] += 1
                raise ConnectionResetError
            time.sleep(self._draw.uniform(0, 0.003))
            return answer

        return serve


class Session:
    """Clients of a gateway, up to a number of operations."""

    def __init__(self, url: str, *, operations: int, seed: int) -> None:
        self._netloc = urlsplit(url).netloc
        self._operations = operations
        self._seed = seed
        self._recorder = Recorder()

    def run(self) -> list[Operation]:
        """Read and write; return the operations."""
        threads = [threading.Thread(target=self._read_on, args=(number,)) for number in range(_READERS)]
        threads += [threading.Thread(target=self._write_on, args=(number,)) for number in range(_WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._recorder.operations

    @property
    def _is_over(self) -> bool:
        return len(self._recorder.operations) >= self._operations

    def _read_on(self, number: int) -> None:
        draw, client = random.Random(self._seed + number), _Connection(self._netloc)
        while not self._is_over:
            key = draw.choice(_LARGE if draw.random() < 0.3 else _SMALL)
            headers = {}
            if key in _LARGE:
                start = draw.randrange(_LARGE_BYTES - _LONGEST_RANGE_BYTES) // _WORD_BYTES * _WORD_BYTES
                length = draw.randrange(_WORD_BYTES, _LONGEST_RANGE_BYTES) // _WORD_BYTES * _WORD_BYTES
                headers["Range"] = f"bytes={start}-{start + length - 1}"
            began_us = time.time_ns() // 1000
            status, tier, body = client.request("GET", f"/{_BUCKET}/{key}", headers=headers)
            ended_us = time.time_ns() // 1000
            is_known, value = status in (_OK, _PARTIAL, _NOT_FOUND), None
            if status in (_OK, _PARTIAL):
                words = {body[at : at + _WORD_BYTES] for at in range(0, len(body), _WORD_BYTES)}
                value = int(words.pop()) if len(words) == 1 else -1  # of no version, or of two
            self._recorder.add(Operation(f"reader-{number}", "read", key, value, began_us, ended_us, is_known, tier))
        client.close()

    def _write_on(self, number: int) -> None:
        draw, client = random.Random(-self._seed - number), _Connection(self._netloc)
        while not self._is_over:
            key = draw.choice(_LARGE if draw.random() < 0.1 else _SMALL)
            value = None if draw.random() < _DELETES else self._recorder.number()
            kind: Kind = "delete" if value is None else "write"
            body = b"" if value is None else b"%016d" % value * (_LARGE_BYTES // _WORD_BYTES if key in _LARGE else 1)
            began_us = time.time_ns() // 1000
            if value is None:
                status, _, _ = client.request("DELETE", f"/{_BUCKET}/{key}")
            else:
                status, _, _ = client.request("PUT", f"/{_BUCKET}/{key}", body)
            is_known = status in (_OK, 204)
            self._recorder.add(
                Operation(f"writer-{number}", kind, key, value, began_us, time.time_ns() // 1000, is_known)
            )
            time.sleep(draw.uniform(0, 0.05))
        client.close()


class _Connection:
    """A client's connection, which is opened anew now and then: another process of the gateway may take it."""

    def __init__(self, netloc: str) -> None:
        self._netloc = netloc
        self._requests = 0
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str, bytes]:
        """Return status, tier and body, or the status 0 if there is no complete response."""
        self._requests += 1
        if self._requests % 50 == 0:
            self.close()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._netloc, timeout=_LIMIT_S)
        try:
            self._connection.request(method, path, body, headers or {})
            response = self._connection.getresponse()
            return response.status, response.headers.get("x-cache-tier", ""), response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return 0, "", b""

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def record(*, operations: int, seed: int, has_faults: bool) -> tuple[list[Operation], Counter[str]]:
    """Record a history, and count the faults."""
    services, slow = Services(), _SlowS3(seed, has_faults=has_faults)
    server = MotoServer(services, before=slow)
    is_over = threading.Event()
    try:
        s3_url = server.start()
        keys = {"aws_access_key_id": "own", "aws_secret_access_key": "own"}
        boto3.client("s3", endpoint_url=s3_url, region_name="us-east-1", **keys).create_bucket(Bucket=_BUCKET)
        with tempfile.TemporaryDirectory() as disk:
            options = [
                "--unsigned",
                "--processes",
                "2",
                "--disk",
                disk,
                "--memory-mib",
                "32",
                "--max-stale-ms",
                "60000",
            ]
            with gateway(s3_url, _BUCKET, {}, _OWN, options) as running:
                killer = threading.Thread(target=_kill_now_and_then, args=(is_over, slow.faults))
                if has_faults:
                    killer.start()
                try:
                    history = Session(running, operations=operations, seed=seed).run()
                finally:
                    is_over.set()
                    if has_faults:
                        killer.join()
        return history, slow.faults
    finally:
        server.stop()
        services.close()


def _kill_now_and_then(is_over: threading.Event, faults: Counter[str]) -> None:
    """Kill a process of the gateway every few seconds, but not the one that supervises them."""
    draw = random.Random(0)
    children = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    while not is_over.wait(_KILLED_EVERY_S):
        supervisors = Path(children).read_text().split()
        workers = [
            int(worker)
            for each in supervisors
            for worker in Path(f"/proc/{each}/task/{each}/children").read_text().split()
        ]
        if workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
            faults["killed"] += 1


def main(arguments: Sequence[str]) -> int:
    """Record and check one history; return the exit code."""
    parser = argparse.ArgumentParser(prog="consistency.gateway", description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", action="store_true", help="S3 fails, and processes of the gateway are killed")
    parser.add_argument("--checker", type=Path, help="program that checks the order of writes (default: bounds only)")
    options = parser.parse_args(arguments)
    history, faults = record(operations=options.operations, seed=options.seed, has_faults=options.faults)
    counts = Counter(each.tier or each.kind for each in history)
    unanswered = Counter(each.kind for each in history if not each.is_known)
    print(json.dumps({"operations": len(history), **counts, "unanswered": unanswered, "faults": faults}))
    found = list(violations(history, stale_us=lambda _: 0, forward=lambda _: not options.faults))
    path = Path(tempfile.mkdtemp()) / "history.jsonl"
    write_history(path, history)
    # A killed process may leave a write that takes effect after its copies were dropped, so its order is not checked.
    problem = check_order(path, options.checker) if options.checker and not options.faults else ""
    for each in found[:5]:
        print(each)
    print(problem or f"{len(found)} violations")
    return 1 if found or problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
