"""Slow clients: many connections that each read a response at a trickle, and the server's memory meanwhile."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.support.growth import family
from benchmarks.support.http_load import Request

_TICK_S = 0.1
_RECEIVE_BUFFER_BYTES = 16 * 1024  # else the kernel takes megabytes ahead of the client
_SPARE_FILES = 200
_CONNECT_LIMIT_S = 30
_ANSWER_WITHIN_S = 60.0
_SETTLE_S = 2.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """Resident memory of a server, with the bytes that its slow clients read.

    Attributes:
        unanswered: Clients that got no byte.
    """

    before_mib: int
    peak_mib: int
    after_mib: int
    read_bytes: int
    unanswered: int


def measure_slow_clients(
    url: str,
    requests: Sequence[Request],
    process_id: int,
    *,
    clients: int,
    bytes_per_s: int,
    duration_s: float,
    answer_within_s: float = _ANSWER_WITHIN_S,
    settle_s: float = _SETTLE_S,
) -> MemoryFigures:
    """Connect clients that read slowly, and return the server's memory before, at its peak and after.

    Args:
        url: The server's scheme, host and port.
        requests: The clients take these in turns.
        process_id: The server's process, whose descendants count as well.
        clients: Connections open at the same time.
        bytes_per_s: Rate of each client [bytes/s].
        duration_s: How long the clients read once each has a byte [s].
        answer_within_s: How long to wait for that [s].
        settle_s: Wait after the last connection closes [s].
    """
    _allow_files(clients)
    before = peak = resident_bytes(process_id)
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 80)
    read: dict[socket.socket, int] = {}
    try:
        for number in range(clients):
            connection = _connect(address)
            read[connection] = 0
            connection.sendall(requests[number % len(requests)].encoded())
            connection.setblocking(False)
        begun_s = end_s = time.monotonic()
        while (now_s := time.monotonic()) < end_s + duration_s:
            for connection in read:
                read[connection] += _read_some(connection, round(bytes_per_s * _TICK_S))
            peak = max(peak, resident_bytes(process_id))
            if now_s < begun_s + answer_within_s and not all(read.values()):
                end_s = now_s
            time.sleep(max(0.0, now_s + _TICK_S - time.monotonic()))
    finally:
        for connection in read:
            connection.close()
    time.sleep(settle_s)
    after = resident_bytes(process_id)
    unanswered = sum(not count for count in read.values())
    return MemoryFigures(before // _MIB, peak // _MIB, after // _MIB, sum(read.values()), unanswered)


def resident_bytes(process_id: int) -> int:
    """Return the resident memory of a process and its descendants [bytes]."""
    pages = 0
    for each in family(process_id):
        try:
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except OSError:
            continue  # it has ended
    return pages * resource.getpagesize()


def _allow_files(clients: int) -> None:
    """Raise this process's limit of open files where the clients need more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = clients + _SPARE_FILES
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


def _connect(address: tuple[str, int]) -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    connection.settimeout(_CONNECT_LIMIT_S)
    connection.connect(address)
    return connection


def _read_some(connection: socket.socket, count: int) -> int:
    try:
        return len(connection.recv(count))
    except BlockingIOError:
        return 0
