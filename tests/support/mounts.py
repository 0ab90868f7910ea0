"""Mounts: file systems of a given size, for tests of full disks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_file_system(path: Path, size_mib: int) -> Iterator[Path]:
    """Mount a file system in memory for the duration of a `with`. Skip the test where that needs another user."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=0700", "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)
