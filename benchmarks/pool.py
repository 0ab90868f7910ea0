"""How fast objects are read from the pool and written to it: 16 members as processes on loopback. A table in Markdown.

Clients are processes, too, each with its hub in it; without and with TLS between hub and members. In the same run: a
bare read over 11 sockets, which is as fast as this machine moves the same bytes, redis-py's GET (with hiredis if that
is installed), and parallel ranged GETs from the S3 of the local run. `GET through Client` is the whole way of a
program, into memory that is new each time; all others that can read into a buffer that is there already. The last
column is how long the reading process worked, which other work on the machine changes less.

    uv pip install --group peers && python -m benchmarks.pool [--rounds 20] [--without-s3]
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import secrets
import selectors
import socket
import ssl
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection

import redis
from redis.utils import HIREDIS_AVAILABLE

from benchmarks.read_path import free_port, wait_for_port
from benchmarks.support.common import Setup, environment, running_cloud
from benchmarks.support.generated_s3 import serve_generated
from benchmarks.support.pool_clients import CLIENT, GET, GET_AT_ONCE, PUT, Times, Work, room, run_client, timed
from benchmarks.support.pool_processes import processes, run_member_of, run_sender
from burstcache.core.pool.slices import Redundancy
from burstcache_local.machines.redis_binary import redis_binary

SETUPS = (Setup(),)
_MEMBERS = [f"pool-{number}" for number in range(16)]
_SIZES_MB = (1, 10, 100)
_CODES = (Redundancy(10, 1), Redundancy(10, 2))
_CLIENTS = (1, 4)
_BARE_SOCKETS = 11
_RANGE_BYTES = 8 * 1024 * 1024  # what AWS's own transfer managers ask for at once
_SMALLEST_LARGE_MB = 10  # smaller objects do not go through the pool


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
    server = subprocess.Popen([redis_binary(), *options], stdout=subprocess.DEVNULL)
    ends.callback(server.wait)
    ends.callback(server.kill)
    wait_for_port(port)
    pool = redis.ConnectionPool(port=port, socket_read_size=1 << 20)  # its default of 64 KiB takes longer
    return redis.Redis(connection_pool=pool)


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


class Clients:
    """Clients as processes, and the members that serve all of them."""

    def __init__(self, ends: ExitStack, s3_port: int, *, has_tls: bool) -> None:
        token = secrets.token_bytes(32)
        pipes = [multiprocessing.Pipe() for _ in range(max(_CLIENTS))]
        self.has_tls = has_tls
        self._pipes: list[Connection] = [own for own, _ in pipes]
        arguments = [
            (other, f"client-{number}", _MEMBERS, token, s3_port, has_tls) for number, (_, other) in enumerate(pipes)
        ]
        ends.enter_context(processes(run_client, arguments))
        for _, other in pipes:
            other.close()
        hubs = [pipe.recv() for pipe in self._pipes]
        ends.enter_context(processes(run_member_of, [(hubs, name, token) for name in _MEMBERS]))

    def do(self, work: Work, clients: int) -> Times:
        """Run an action of some of them at the same time."""
        for pipe in self._pipes[:clients]:
            pipe.send(work)
        times = [pipe.recv() for pipe in self._pipes[:clients]]
        return Times([each for one in times for each in one.each_ms], statistics.mean(one.cpu_ms for one in times))


def show(what: str, size_mb: int, times: Times, *, clients: int = 1, has_tls: bool = False) -> None:
    """Print one row of the table."""
    p99 = statistics.quantiles(times.each_ms, n=100, method="inclusive")[-1]
    figures = (min(times.each_ms), statistics.median(times.each_ms), p99, times.cpu_ms)
    cells = (f"{size_mb} MB", what, clients, "TLS" if has_tls else "", *(f"{each_ms:.1f}" for each_ms in figures))
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def measure_size(
    size_mb: int, rounds: int, pools: list[Clients], bare: BareRead, server: redis.Redis, s3: RangedRead | None
) -> None:
    """Print the rows of one size."""
    size_index, size_bytes = _SIZES_MB.index(size_mb), size_mb * 1_000_000
    into = room(size_bytes + _BARE_SOCKETS)
    kinds = [PUT, GET, CLIENT] if size_mb >= _SMALLEST_LARGE_MB else [PUT, GET]
    for clients in _CLIENTS:
        for code in _CODES:
            show("bare read over 11 sockets", size_mb, timed(rounds, lambda: bare.read(size_index, into)))
            for pool in pools:
                for kind in [*kinds, GET_AT_ONCE] if code.parity > 1 else kinds:
                    times = pool.do(Work(kind, size_bytes, code, rounds), clients)
                    show(f"{kind} {code.data}+{code.parity}", size_mb, times, clients=clients, has_tls=pool.has_tls)
    server.set("object", into[:size_bytes])
    name = "redis-py with hiredis" if HIREDIS_AVAILABLE else "redis-py"
    show(f"{name} GET", size_mb, timed(rounds, lambda: server.get("object")))
    if s3:
        show("ranged S3 GETs", size_mb, timed(rounds, lambda: s3.read(size_mb, into[:size_bytes])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="of each client; half as many at 100 MB")
    parser.add_argument("--without-s3", action="store_true", help="start no local run")
    arguments = parser.parse_args()
    print(f"{environment()}, {ssl.OPENSSL_VERSION}\n")
    print("| | | clients | | min [ms] | p50 [ms] | p99 [ms] | processor [ms] |\n|---|---|---|---|---|---|---|---|")
    with ExitStack() as ends:
        s3 = None if arguments.without_s3 else RangedRead(ends)
        port = free_port()
        ends.enter_context(processes(serve_generated, [(port,)]))
        wait_for_port(port)
        pools = [Clients(ends, port, has_tls=has_tls) for has_tls in (False, True)]
        bare, server = BareRead(ends), redis_server(ends)
        for size_mb in _SIZES_MB:
            rounds = arguments.rounds if size_mb < 100 else max(4, arguments.rounds // 2)
            measure_size(size_mb, rounds, pools, bare, server, s3)


if __name__ == "__main__":
    main()
