"""Processes that a test has started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

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


def process_connected_from(port: int) -> int:
    """Return the process whose connection on loopback begins at that port, or raise LookupError."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == _ESTABLISHED:
            socket = f"socket:[{fields[9]}]"
            for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
                try:
                    if descriptor.readlink().name == socket:
                        return int(descriptor.parts[2])
                except OSError:
                    continue
    raise LookupError(f"no process has a connection from port {port}")
