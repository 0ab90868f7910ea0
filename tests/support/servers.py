"""Real servers on loopback for tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from support.waiting import wait_for_port

_SCRIPTS = Path(sys.executable).parent


def serve(command: list[str], port: int) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_port(port, server)
    return server


@dataclass
class RedisServer:
    """A real Redis that a test may kill."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.process = serve([str(_SCRIPTS / "redis-server"), *options], self.port)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def serve_nats(port: int) -> subprocess.Popen[bytes]:
    """Start a NATS server without passwords, for messages as large as those of the stack's relay."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write(f"listen: 127.0.0.1:{port}\nmax_payload: 8MB\n")
        config.flush()
        return serve([str(_SCRIPTS / "nats-server"), "-c", config.name], port)
