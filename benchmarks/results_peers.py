"""Microseconds per hit of a cached function, next to what others take for it, a bare dictionary and a bare Redis GET.

A function takes a short text and returns 18,617 bytes, the smallest image of Rosa's tables; every hit is the same key.
The contenders take turns in short batches, so that what else runs on the machine weighs on all alike; the quickest
tenth of the batches is what it weighs on least. Peers are in the extra `peers`; one that is not installed is left out.

    python -m benchmarks.results_peers [--batches 200]
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import cachetools
import redis
import redis.asyncio

from benchmarks.support.common import environment
from burstcache.results import cached
from burstcache_local.machines.redis_binary import redis_binary

SIZE_BYTES = 18_617
NAME = "images/small.jpg"
RESULT = bytes(range(256)) * (SIZE_BYTES // 256) + bytes(SIZE_BYTES % 256)
HITS = 50  # per batch
TTL_S = 3600

Sync = dict[str, Callable[[], Any]]
Async = dict[str, Callable[[], Awaitable[Any]]]


def compute(name: str) -> bytes:
    """Return the result."""
    return RESULT


async def compute_async(name: str) -> bytes:
    """Return the result."""
    return RESULT


def in_process() -> Sync:
    """Return synchronous contenders that keep the result in this process."""
    kept = {NAME: RESULT}
    ours = cached(backend="memory://", codec="bytes", ttl_s=TTL_S)(compute)
    of_image = cached(backend="memory://", codec="bytes", ttl_s=TTL_S, version="image")(compute_of_image)
    lru = functools.lru_cache(maxsize=1000)(compute)
    tools = cachetools.cached(cachetools.TTLCache(1000, TTL_S), lock=threading.Lock())(compute)
    contenders: Sync = {
        "a bare dict": lambda: kept[NAME],
        "burstcache, memory://": lambda: ours(NAME),
        "burstcache, memory://, the key is an image": lambda: of_image(RESULT),
        "functools.lru_cache": lambda: lru(NAME),
        "cachetools.cached, TTLCache, lock": lambda: tools(NAME),
    }
    try:
        from dogpile.cache import make_region
    except ImportError:
        return contenders
    region = make_region().configure("dogpile.cache.memory", expiration_time=TTL_S)
    dogpile = region.cache_on_arguments()(compute)
    return {**contenders, "dogpile.cache, memory": lambda: dogpile(NAME)}


def compute_of_image(image: bytes) -> bytes:
    """Return the result."""
    return RESULT


def in_redis(path: str, port: int) -> Sync:
    """Return synchronous contenders that ask a Redis on this machine."""
    by_socket, by_tcp = redis.Redis(unix_socket_path=path), redis.Redis(port=port)
    by_socket.set(NAME, RESULT)
    ours = cached(backend=f"unix://{path}", codec="bytes", ttl_s=TTL_S)(compute)
    ours_by_tcp = cached(backend=f"redis://127.0.0.1:{port}", codec="bytes", ttl_s=TTL_S, version="tcp")(compute)
    contenders: Sync = {
        "a bare GET of redis-py, socket": lambda: by_socket.get(NAME),
        "burstcache, unix://": lambda: ours(NAME),
        "a bare GET of redis-py, TCP": lambda: by_tcp.get(NAME),
        "burstcache, redis://": lambda: ours_by_tcp(NAME),
    }
    try:
        from dogpile.cache import make_region
    except ImportError:
        return contenders
    region = make_region().configure(
        "dogpile.cache.redis", expiration_time=TTL_S, arguments={"host": "127.0.0.1", "port": port}
    )
    dogpile = region.cache_on_arguments()(compute)
    return {**contenders, "dogpile.cache, redis, TCP": lambda: dogpile(NAME)}


def asynchronous(port: int) -> Async:
    """Return contenders that are awaited."""
    bare: Any = redis.asyncio.Redis(port=port)
    ours = cached(backend="memory://", codec="bytes", ttl_s=TTL_S)(compute_async)
    shared = cached(backend=f"redis://127.0.0.1:{port}", codec="bytes", ttl_s=TTL_S)(compute_async)
    contenders: Async = {
        "burstcache, memory://": lambda: ours(NAME),
        "a bare GET of redis.asyncio, TCP": lambda: bare.get(NAME),
        "burstcache, redis://": lambda: shared(NAME),
    }
    try:
        import aiocache
        import cashews
    except ImportError:
        return contenders
    memory, in_redis_ = cashews.Cache(), cashews.Cache()
    memory.setup("mem://", size=1000)
    in_redis_.setup(f"redis://127.0.0.1:{port}/1", pickle_type="null")
    ours_of_cashews = memory(ttl=TTL_S)(compute_async)
    theirs_in_redis = in_redis_(ttl=TTL_S)(compute_async)
    of_aiocache = aiocache.cached(ttl=TTL_S)(compute_async)
    aio_redis = aiocache.cached(
        ttl=TTL_S, cache=aiocache.RedisCache, port=port, db=2, serializer=aiocache.serializers.PickleSerializer()
    )(compute_async)
    return {
        **contenders,
        "cashews, mem://": lambda: ours_of_cashews(NAME),
        "cashews, redis://": lambda: theirs_in_redis(NAME),
        "aiocache, memory": lambda: of_aiocache(NAME),
        "aiocache, redis": lambda: aio_redis(NAME),
    }


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def serve_redis(port: int, *options: str) -> subprocess.Popen[bytes]:
    """Start a Redis that keeps nothing on disk, and return it when it answers."""
    server = str(redis_binary())
    command = [server, "--bind", "127.0.0.1", "--port", str(port), "--save", "", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with redis.Redis(port=port) as client:
        while process.poll() is None:
            with suppress(redis.ConnectionError):
                client.ping()
                break
            time.sleep(0.01)
    return process


def measure(contenders: Sync, batches: int) -> dict[str, list[float]]:
    """Return the duration of a hit in each batch, by contender [us]."""
    took_us: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()  # computes
        assert call() == RESULT
    for _ in range(batches):
        for name, call in contenders.items():
            begun_s = time.perf_counter()
            for _ in range(HITS):
                call()
            took_us[name].append((time.perf_counter() - begun_s) / HITS * 1e6)
    return took_us


async def measure_async(port: int, batches: int) -> dict[str, list[float]]:
    """Return the duration of an awaited hit in each batch, by contender [us]."""
    contenders = asynchronous(port)
    took_us: dict[str, list[float]] = {name: [] for name in contenders}
    await asyncio.gather(*(call() for call in contenders.values()))
    for call in contenders.values():
        assert await call() == RESULT
    for _ in range(batches):
        for name, call in contenders.items():
            begun_s = time.perf_counter()
            for _ in range(HITS):
                await call()
            took_us[name].append((time.perf_counter() - begun_s) / HITS * 1e6)
    return took_us


def show(title: str, took_us: dict[str, list[float]], bare: str) -> None:
    """Print a table: the median, the limit of the quickest tenth, and what that is above the bare one's."""
    print(f"\n{title:44}  median  quick  above [us]")
    for name, batches in took_us.items():
        quick_us = statistics.quantiles(batches, n=10)[0]
        above_us = quick_us - statistics.quantiles(took_us[bare], n=10)[0]
        print(f"{name:44} {statistics.median(batches):7.1f} {quick_us:6.1f} {above_us:6.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=200, help=f"turns of {HITS} hits each (default 200)")
    batches = parser.parse_args().batches
    print(environment())
    gc.disable()
    show("In process", measure(in_process(), 5 * batches), "a bare dict")
    with tempfile.TemporaryDirectory() as folder:
        path, port = f"{folder}/redis.sock", free_port()
        process = serve_redis(port, "--unixsocket", path)
        try:
            took_us = measure(in_redis(path, port), batches)
            show("Same machine, by its socket", took_us, "a bare GET of redis-py, socket")
            show("The same, above a GET by TCP", took_us, "a bare GET of redis-py, TCP")
            show("Awaited", asyncio.run(measure_async(port, batches)), "a bare GET of redis.asyncio, TCP")
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
