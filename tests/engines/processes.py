"""Processes of the engines, on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from support.project import ROOT
from support.waiting import free_port, wait_for_port

NODE = ROOT / "tests" / "engines" / "node"
_MINISTACK = ROOT / ".venv-engines" / "bin" / "python"

NAMES = ("dynalite", "ministack")


def missing(name: str) -> str:
    """Return why an engine cannot start on this machine, in a sentence, or an empty text if it can."""
    if name == "ministack":
        return "" if _MINISTACK.exists() else "MiniStack is not installed: run `make engines`."
    if shutil.which("node") is None:
        return "dynalite needs Node, and there is none on the PATH."
    return "" if (NODE / "node_modules").is_dir() else "dynalite is not installed: run `make engines`."


@contextmanager
def running(name: str, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[int]:
    """Run an engine, with more variables in its environment, and yield its port."""
    port = free_port()
    command, own = _command(name, port)
    environment = {**os.environ, **own, **more}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for_port(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


def _command(name: str, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
    if name == "dynalite":
        return ["node", str(NODE / "dynalite.mjs"), str(port)], {}
    # Without the three hosts it listens on all addresses.
    hosts = dict.fromkeys(("GATEWAY_HOST", "BIND_HOST", "MINISTACK_HOST"), "127.0.0.1")
    return [str(_MINISTACK), "-m", "ministack"], {**hosts, "GATEWAY_PORT": str(port)}
