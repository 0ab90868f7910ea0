"""Processes that a test has started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_ESTABLISHED = "01"  # as /proc/net/tcp has it


def processes_named(name: str) -> list[int]:
    """Return this process's descendants of that name."""
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


def signal_named(name: str, number: signal.Signals) -> list[int]:
    """Send a signal to this process's descendants of that name; return which ones they were."""
    found = processes_named(name)
    for process in found:
        os.kill(process, number)
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
