"""Processes started by a test."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from burstcache_local.machines.redis_binary import redis_binary

REDIS = redis_binary().name  # the process name of a node's Redis
_ESTABLISHED = "01"  # in /proc/net/tcp


def processes_named(name: str) -> list[int]:
    """Return this process's descendants with a name. A task's server is the child of a shell."""
    parents, named = dict[int, int](), list[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # the process has ended
            continue
        process = int(stat.parent.name)
        parents[process] = int(text.rpartition(")")[2].split()[1])
        if f"({name}" in text:
            named.append(process)
    return [process for process in named if os.getpid() in _ancestors(process, parents)]


def _ancestors(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    while (process := parents.get(process, 0)) > 1:
        yield process


def processes_running(module: str) -> list[int]:
    """Return this process's descendants that run a Python module."""
    children = []
    for process in processes_named("python"):
        with suppress(OSError):  # the process has ended
            if module.encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                children.append(process)
    return children


def signal_named(name: str, number: signal.Signals) -> list[int]:
    """Send a signal to this process's descendants with a name, and return them."""
    signalled = []
    for process in processes_named(name):
        with suppress(ProcessLookupError):  # the process has ended
            os.kill(process, number)
            signalled.append(process)
    return signalled


def process_connected(end: tuple[str, int], other: tuple[str, int]) -> int:
    """Return the process that owns one end of a connection on this machine, or raise LookupError.

    A port alone could belong to another program, as each loopback address has its own ports.
    """
    ends = [_as_in_proc(*end), _as_in_proc(*other)]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == ends and fields[3] == _ESTABLISHED:
            inode = f"socket:[{fields[9]}]"
            for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
                try:
                    if descriptor.readlink().name == inode:
                        return int(descriptor.parts[2])
                except OSError:
                    continue
    raise LookupError(f"no process has a connection from {end} to {other}")


def _as_in_proc(host: str, port: int) -> str:
    return f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}"
