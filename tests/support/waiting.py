"""Waiting for conditions, under one limit.

The limit is generous because only failing tests reach it. `BURSTCACHE_TEST_LIMIT_S` changes it for a slower machine.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import SystemRandom
from typing import TypeVar

T = TypeVar("T")
_RANDOM = SystemRandom()  # two processes with the same seed would choose the same ports

LIMIT_S = int(os.environ.get("BURSTCACHE_TEST_LIMIT_S", "300"))
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02  # most conditions hold almost at once


def until(ask: Callable[[], T | None]) -> T:
    """Poll `ask` and return its first true answer."""
    end_s, pauses_s = time.monotonic() + LIMIT_S, _pauses_s()
    while not (answer := ask()):
        assert time.monotonic() < end_s, f"it did not happen within {LIMIT_S} s"
        time.sleep(next(pauses_s))
    return answer


async def eventually(ask: Callable[[], T | None]) -> T:
    """Poll `ask` on the running event loop and return its first true answer."""
    pauses_s = _pauses_s()
    async with asyncio.timeout(LIMIT_S):
        while not (answer := ask()):
            await asyncio.sleep(next(pauses_s))
    return answer


def _pauses_s() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return distinct free ports of 127.0.0.1.

    They lie below the kernel's ephemeral range, so no client socket takes one before its server binds it.
    """
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        with suppress(OSError):  # the port is in use
            sockets.append(socket.create_server(("127.0.0.1", _RANDOM.randrange(10_000, 32_768))))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for_port(port: int, process: subprocess.Popen[bytes], host: str = "127.0.0.1") -> None:
    """Wait until the process listens on the port. Fail if it ends first."""

    def listens() -> bool:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        try:
            socket.create_connection((host, port), LIMIT_S).close()
        except OSError:
            return False
        return True

    until(listens)
