"""How fast objects are read from the pool and written to it: 16 members as processes on loopback, one hub.

In the same run: a bare read over 11 sockets, which is as fast as this machine moves the same bytes, redis-py's GET,
and parallel ranged GETs from the S3 of the local run. All read into a buffer that is there already where they can.

    python -m benchmarks.pool [--rounds 20] [--without-s3]
"""

from __future__ import annotations

import argparse
import asyncio
import math
import mmap
import os
import secrets
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import redis
import uvloop

from benchmarks.common import Setup, environment, running_cloud
from benchmarks.pool_processes import processes, run_member, run_sender
from benchmarks.read_path import free_port, wait_for_port
from benchmarks.tls import authority
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.hub import Hub
from burstcache.pool.reader import PoolReader

SETUPS = (Setup(),)
_MEMBERS = [f"pool-{number}" for number in range(16)]
_SIZES_MB = (1, 10, 100)
_CODES = (Redundancy(10, 1), Redundancy(10, 2))
_CLIENTS = (1, 4)
_BARE_SOCKETS = 11
_RANGE_BYTES = 8 * 1024 * 1024  # what AWS's own transfer managers ask for at once


def room(size_bytes: int) -> memoryview:
    """Return a buffer in large pages, as a program that reads large objects again and again has one."""
    pages = mmap.mmap(-1, size_bytes)
    pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)


class BareRead:
    """Reads the bytes of an object over 11 sockets, from as many processes, with nothing in between."""

    def __init__(self, ends: ExitStack) -> None:
        lengths = [math.ceil(size_mb * 1_000_000 / _BARE_SOCKETS) for size_mb in _SIZES_MB]
        listener = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=_BARE_SOCKETS))
        port = listener.getsockname()[1]
        ends.enter_context(processes(run_sender, [(port, lengths)] * _BARE_SOCKETS))
        self._lengths = lengths
        self._connections = [ends.enter_context(listener.accept()[0]) for _ in range(_BARE_SOCKETS)]

    def read(self, size_index: int, into: memoryview) -> None:
        """Read one object."""
        length = self._lengths[size_index]
        with selectors.DefaultSelector() as selector:
            for at, connection in enumerate(self._connections):
                connection.sendall(bytes([size_index]))
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ, at)
            rest = [into[at * length : (at + 1) * length] for at in range(_BARE_SOCKETS)]
            while selector.get_map():
                for key, _ in selector.select():
                    got = self._connections[key.data].recv_into(rest[key.data])
                    rest[key.data] = rest[key.data][got:]
                    if not rest[key.data]:
                        self._connections[key.data].setblocking(True)
                        selector.unregister(key.fileobj)


def redis_server(ends: ExitStack) -> redis.Redis:
    """Start a Redis and return a client."""
    port = free_port()
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([Path(sys.executable).parent / "redis-server", *options], stdout=subprocess.DEVNULL)
    ends.callback(server.wait)
    ends.callback(server.kill)
    wait_for_port(port)
    return redis.Redis(port=port)


class RangedRead:
    """Reads an object from the local S3 by parallel ranges."""

    def __init__(self, ends: ExitStack) -> None:
        cloud = ends.enter_context(running_cloud(SETUPS[0]))
        self._s3 = cloud.client("s3")
        self._bucket = cloud.stack.output("BucketName")
        self._threads = ends.enter_context(ThreadPoolExecutor(8))
        for size_mb in _SIZES_MB:
            cloud.put(f"{size_mb}.bin", os.urandom(size_mb * 1_000_000))

    def read(self, size_mb: int, into: memoryview) -> None:
        """Read one object."""

        def one(start: int) -> None:
            end = min(start + _RANGE_BYTES, len(into))
            body = self._s3.get_object(Bucket=self._bucket, Key=f"{size_mb}.bin", Range=f"bytes={start}-{end - 1}")
            into[start:end] = body["Body"].read()

        list(self._threads.map(one, range(0, len(into), _RANGE_BYTES)))


async def timed(rounds: int, clients: int, work: Callable[[int, int], Awaitable[object]]) -> list[float]:
    """Return how long each call took [ms]: `work(client, round)`, the clients at the same time."""
    times_ms: list[float] = []

    async def client(number: int) -> None:
        for turn in range(rounds):
            begun = time.perf_counter()
            await work(number, turn)
            times_ms.append((time.perf_counter() - begun) * 1000)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times_ms


def show(what: str, size_mb: int, clients: int, times_ms: list[float]) -> None:
    """Print one row."""
    p99 = statistics.quantiles(times_ms, n=100)[-1] if len(times_ms) > 1 else times_ms[0]
    figures = f"{min(times_ms):8.1f} {statistics.median(times_ms):8.1f} {min(p99, max(times_ms)):8.1f}"
    print(f"{what:<16} {size_mb:>4} {clients:>7} {figures}", flush=True)


async def measure(
    rounds: int, bare: BareRead, server: redis.Redis, s3: RangedRead | None, tls_folder: Path | None
) -> None:
    """Print all rows; with TLS by a certificate in `tls_folder`, if there is one."""
    token = secrets.token_bytes(32)
    hub = Hub(token)
    tls, ca_pem = None, ""
    if tls_folder:
        ca_pem = authority(tls_folder)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(tls_folder / "server.pem", tls_folder / "server.key")
    port = await hub.start("127.0.0.1", tls=tls)
    with processes(run_member, [(port, name, token, ca_pem) for name in _MEMBERS]):
        while len(hub.members) < len(_MEMBERS):
            await asyncio.sleep(0.05)
        reader = PoolReader(hub, _MEMBERS)
        for size_index, size_mb in enumerate(_SIZES_MB):
            await measure_size(rounds if size_mb < 100 else max(4, rounds // 2), size_index, reader, bare, server, s3)
        await hub.stop()


async def measure_size(
    rounds: int, size_index: int, reader: PoolReader, bare: BareRead, server: redis.Redis, s3: RangedRead | None
) -> None:
    """Print the rows of one size."""
    size_mb = _SIZES_MB[size_index]
    size_bytes = size_mb * 1_000_000
    body = room(size_bytes)
    body[:] = expected = os.urandom(size_bytes)
    into = [room(size_bytes + _BARE_SOCKETS)[:size_bytes] for _ in range(max(_CLIENTS))]

    async def others(read: Callable[[], object]) -> list[float]:
        async def work(client: int, turn: int) -> None:
            read()

        return await timed(rounds, 1, work)

    spare = room(size_bytes + _BARE_SOCKETS)
    show("bare read", size_mb, 1, await others(lambda: bare.read(size_index, spare)))
    for code in _CODES:
        for clients in _CLIENTS:

            async def put(client: int, turn: int, code: Redundancy = code) -> None:
                object_ = PooledObject(f"{size_mb}/{client}", "etag", size_bytes, code)
                if await reader.write(object_, body):
                    raise SystemExit("a write was not stored")

            async def get(client: int, turn: int, code: Redundancy = code) -> None:
                object_ = PooledObject(f"{size_mb}/{client}", "etag", size_bytes, code)
                if await reader.read(object_, into[client]):
                    raise SystemExit("a read found a slice lost")

            name = f"{code.data}+{code.parity}"
            show(f"PUT {name}", size_mb, clients, await timed(rounds, clients, put))
            show(f"GET {name}", size_mb, clients, await timed(rounds, clients, get))
            if any(each.tobytes() != expected for each in into[:clients]):
                raise SystemExit("a read returned wrong bytes")
            for client in range(clients):
                await reader.delete(PooledObject(f"{size_mb}/{client}", "etag", size_bytes, code))
    show("bare read", size_mb, 1, await others(lambda: bare.read(size_index, spare)))
    server.set("object", body)
    show("redis-py GET", size_mb, 1, await others(lambda: server.get("object")))
    if s3:
        show("S3 ranged GETs", size_mb, 1, await others(lambda: s3.read(size_mb, into[0])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="of each client; half as many at 100 MB")
    parser.add_argument("--tls", action="store_true", help="between hub and members")
    parser.add_argument("--without-s3", action="store_true", help="start no local run")
    arguments = parser.parse_args()
    print(environment())
    print("                   MB clients   min ms   p50 ms   p99 ms")
    with ExitStack() as ends:
        s3 = None if arguments.without_s3 else RangedRead(ends)
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory())) if arguments.tls else None
        uvloop.run(measure(arguments.rounds, BareRead(ends), redis_server(ends), s3, folder))


if __name__ == "__main__":
    main()
