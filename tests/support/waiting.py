"""Waiting for what must happen, under one limit.

The limit is generous because only a failing test meets it; `BURSTCACHE_TEST_LIMIT_S` changes it for a slower machine.
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
_CHANCE = SystemRandom()  # a seed that two processes share would give both the same ports

LIMIT_S = int(os.environ.get("BURSTCACHE_TEST_LIMIT_S", "300"))
_LOOK_AFTER_S, _LOOK_EVERY_S = 0.001, 0.02  # at first, and later: most of what is waited for has nearly happened


def until(ask: Callable[[], T | None]) -> T:
    """Return the first true answer of `ask`."""
    end_s, pauses_s = time.monotonic() + LIMIT_S, _pauses_s()
    while not (answer := ask()):
        assert time.monotonic() < end_s, f"it did not happen within {LIMIT_S} s"
        time.sleep(next(pauses_s))
    return answer


async def eventually(ask: Callable[[], T | None]) -> T:
    """Return the first true answer of `ask`, while the event loop goes on."""
    pauses_s = _pauses_s()
    async with asyncio.timeout(LIMIT_S):
        while not (answer := ask()):
            await asyncio.sleep(next(pauses_s))
    return answer


def _pauses_s() -> Iterator[float]:
    pause_s = _LOOK_AFTER_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LOOK_EVERY_S)


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 on which nothing listens.

    They lie below the kernel's range of ephemeral ports, so nothing else binds one before its server does.
    """
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        with suppress(OSError):  # somebody listens there
            sockets.append(socket.create_server(("127.0.0.1", _CHANCE.randrange(10_000, 32_768))))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for_port(port: int, process: subprocess.Popen[bytes], host: str = "127.0.0.1") -> None:
    """Wait until the process listens on that port."""

    def listens() -> bool:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        try:
            socket.create_connection((host, port), LIMIT_S).close()
        except OSError:
            return False
        return True

    until(listens)
