"""Processes that a test has started."""

from __future__ import annotations

import os
from pathlib import Path


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
