"""Results over many processes, and with a Redis that is killed, frozen and started again while they ask it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from burstcache.adapters.clock import SystemClock
from burstcache.results import cached, open_cache
from burstcache.results.stores.redis_store import RedisStore
from support.project import ROOT
from support.servers import RedisServer, frozen
from support.waiting import LIMIT_S, until

ENVIRONMENTS = 100
TIMEOUT_MS = 1000  # a busy machine answers later than within a tenth of it
THREADS = 4


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def herd(server: RedisServer, folder: Path, *options: str) -> dict[str, Any]:
    url = f"redis://127.0.0.1:{server.port}"
    command = [sys.executable, "-m", "support.herd", url, str(ENVIRONMENTS), str(folder), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    answer: dict[str, Any] = json.loads(
        subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S).stdout
    )
    return answer


def store_at(server: RedisServer) -> RedisStore:
    return RedisStore.at(f"redis://127.0.0.1:{server.port}", SystemClock(), timeout_s=LIMIT_S)


def test_a_store_that_is_closed_leaves_no_connection(server: RedisServer) -> None:
    store = store_at(server)
    with redis.Redis(port=server.port) as client:
        before = len(client.client_list())
        store.put("a", b"1", kept_ms=LIMIT_S * 1000)

        store.close()

        until(lambda: len(client.client_list()) == before)
    assert store.get("a", most_bytes=10) == b"1"


def test_a_lease_that_was_asked_for_twice_over_two_connections_is_the_callers(server: RedisServer) -> None:
    store = store_at(server)

    taken = [store.take_lease("a", token, lease_ms=LIMIT_S * 1000, most_bytes=10)[0] for token in ("own", "own", "b")]

    assert taken == [True, True, False]


def test_a_hundred_environments_that_miss_one_key_compute_once(server: RedisServer, tmp_path: Path) -> None:
    found = herd(server, tmp_path)

    assert found["computations"] == 1
    assert [answer for answer, _ in found["answers"]] == ["the result of one"] * ENVIRONMENTS


def test_another_environment_computes_when_the_first_is_killed_half_way(server: RedisServer, tmp_path: Path) -> None:
    found = herd(server, tmp_path, "kill")

    assert found["computations"] == 2
    assert [answer for answer, _ in found["answers"]] == ["the result of one"] * (ENVIRONMENTS - 1)


class Load:
    """Threads that call a cached function without a pause, on keys that are mostly kept."""

    def __init__(self, port: int) -> None:
        self.cache = open_cache(f"redis://127.0.0.1:{port}", timeout_ms=TIMEOUT_MS)
        self._calls = [0] * THREADS
        self._is_over = threading.Event()
        self._double = cached(backend=self.cache)(lambda number: 2 * number)

    def __enter__(self) -> Load:
        self._threads = ThreadPoolExecutor(THREADS)
        self._running = [self._threads.submit(self._run, place) for place in range(THREADS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._threads.shutdown()
        for each in self._running:
            each.result()

    def served(self) -> int:
        """Return the number of calls that Redis has answered."""
        return int(self._double.results.stats().get("redis", 0))

    def go_on(self, more: int = 20) -> None:
        """Wait until this many more calls have ended in each thread: what it was in has ended, too."""
        before = self._calls.copy()
        until(lambda: all(now - then >= more for then, now in zip(before, self._calls, strict=True)))

    def _run(self, place: int) -> None:
        number = 0
        while not self._is_over.is_set():
            number = (number + 1) % 50
            assert self._double(number) == 2 * number
            self._calls[place] += 1


def test_no_call_fails_and_each_waits_once_when_redis_freezes_dies_and_returns(server: RedisServer) -> None:
    assert server.process is not None
    with Load(server.port) as load:
        until(lambda: load.served() > 100)
        (layer,) = load.cache.layers.shared

        with frozen(server.process):
            until(lambda: layer.failures)
            load.go_on()
            failures = layer.failures
            load.go_on()
            assert layer.failures == failures <= THREADS

        served = load.served()
        until(lambda: load.served() > served + 100)

        server.kill()
        load.go_on()
        server.start()
        served = load.served()
        until(lambda: load.served() > served + 100)


def test_a_frozen_redis_costs_a_call_one_time_out(server: RedisServer) -> None:
    assert server.process is not None
    computing = cached(backend=f"redis://127.0.0.1:{server.port}", timeout_ms=TIMEOUT_MS)(lambda number: number)
    computing(0)
    with frozen(server.process):
        begun_s = time.monotonic()
        first = computing(1)
        took_s = time.monotonic() - begun_s

    assert first == 1
    assert took_s >= TIMEOUT_MS / 1000
    assert [layer.failures for layer in computing.results.cache.layers.shared] == [1]
