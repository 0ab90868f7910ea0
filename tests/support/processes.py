"""Processes that a test has started."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from burstcache_local.machines.redis_binary import redis_binary

REDIS = redis_binary().name  # what the process of a node is called
_ESTABLISHED = "01"  # as /proc/net/tcp has it


def processes_named(name: str) -> list[int]:
    """Return those of this process's children that have a name."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
            parent = int(text.rpartition(")")[2].split()[1])
        except OSError:
            continue
        if f"({name}" in text and parent == os.getpid():
            found.append(int(stat.parent.name))
    return found


def processes_running(module: str) -> list[int]:
    """Return those of this process's children that run a module in Python."""
    found = []
    for process in processes_named("python"):
        with suppress(OSError):  # it has ended
            if module.encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def signal_named(name: str, number: signal.Signals) -> list[int]:
    """Send a signal to those of this process's children that have a name; return which ones they were."""
    found = []
    for process in processes_named(name):
        with suppress(ProcessLookupError):  # it has ended
            os.kill(process, number)
            found.append(process)
    return found


def process_connected(end: tuple[str, int], other: tuple[str, int]) -> int:
    """Return the process that has an end of a connection on this machine, or raise LookupError.

    A port alone could be another program's: each address of loopback has all of them.
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
