"""Processes on this machine that hold chunks, for `benchmarks.pool` and tests."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkServerProcess
from typing import Any

import uvloop

from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.pool.member import serve
from burstcache.pool.tls import member_tls

_MEMBER_BYTES = 256_000_000
_PROCESSES = multiprocessing.get_context("forkserver")
# What each process would import by itself otherwise.
_PROCESSES.set_forkserver_preload(["benchmarks.support.pool_processes", "benchmarks.read_path"])


def run_member(port: int, name: str, token: bytes) -> None:
    """Be one member of the hub on a port until the hub ends the connection."""
    uvloop.run(serve("127.0.0.1", port, name, token, ChunkStore(_MEMBER_BYTES)))


def run_member_of(hubs: Sequence[tuple[int, str]], name: str, token: bytes) -> None:
    """Be one member of hubs, given by port and certificate (empty: without TLS), until all are gone."""
    store = ChunkStore(_MEMBER_BYTES)

    async def serve_one(port: int, certificate: str) -> None:
        tls = member_tls(certificate) if certificate else None
        with contextlib.suppress(OSError):
            while True:  # on a busy machine a handshake may take too long
                await serve("127.0.0.1", port, name, token, store, tls)

    async def serve_all() -> None:
        await asyncio.gather(*(serve_one(*hub) for hub in hubs))

    uvloop.run(serve_all())


def run_sender(port: int, lengths: list[int]) -> None:
    """Send as many bytes as one of `lengths`, whose index is asked for with one byte."""
    payloads = [bytes(length) for length in lengths]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while asked := connection.recv(1):
            connection.sendall(payloads[asked[0]])


@contextlib.contextmanager
def processes(work: Callable[..., None], arguments: list[tuple[Any, ...]]) -> Iterator[list[ForkServerProcess]]:
    """Run a process for each tuple of arguments."""
    started = [_PROCESSES.Process(target=work, args=each) for each in arguments]
    for process in started:
        process.start()
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
            process.join()
