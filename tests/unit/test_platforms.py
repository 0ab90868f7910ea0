"""The library imports where a system has less than Linux: what Windows and macOS lack is taken away."""

from __future__ import annotations

import subprocess
import sys

import pytest

_IMPORT_ALL = """
import importlib, os, pkgutil, signal, socket, sys

for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
ABSENT = {
    os: ("fork", "getuid", "geteuid", "register_at_fork", "sched_getaffinity"),
    signal: ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "pthread_sigmask"),
    socket: ("AF_UNIX", "MSG_DONTWAIT", "SO_REUSEPORT"),
}
for module, names in ABSENT.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for package in sys.argv[1:]:
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, package + "."):
        importlib.import_module(module.name)
print("imported", len([name for name in sys.modules if name.startswith("burstcache")]) > 30)
"""


@pytest.mark.slow
def test_the_library_imports_without_what_windows_lacks() -> None:
    packages = ["burstcache.client", "burstcache.state", "burstcache.results"]

    run = subprocess.run([sys.executable, "-c", _IMPORT_ALL, *packages], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (0, "imported True\n"), run.stderr


_LEAVES_A_POOL_OPEN = """
import asyncio, contextlib, sys
from concurrent.futures import ThreadPoolExecutor
from burstcache.adapters.clock import SystemClock
from burstcache.client.pool import PoolThread
from burstcache.core.slices import Version
from burstcache.logs import logger

class Reader:
    members = ()

    async def settle(self):
        pass

@contextlib.asynccontextmanager
async def opener():
    try:
        yield type("Open", (), dict(reader=Reader(), redundancies=lambda self: (), counters=None, pays_within_s=1.0))()
    finally:
        await asyncio.to_thread(print, "left")

pool, threads = PoolThread(opener, SystemClock()), ThreadPoolExecutor(1)
version = Version("key", "hash", '"etag"', 1)
pool.read(version, 0, memoryview(bytearray(1)), lambda start, into: None, threads).result()
"""


@pytest.mark.slow
def test_a_pool_that_a_program_does_not_close_is_left_in_order_at_exit() -> None:
    run = subprocess.run([sys.executable, "-c", _LEAVES_A_POOL_OPEN], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout, run.stderr) == (0, "left\n", "")
