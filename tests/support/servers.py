"""Real servers on loopback for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(command: list[str], port: int) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up_s = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return server
        except OSError:
            assert server.poll() is None, f"{command} ended with {server.returncode}"
            assert time.monotonic() < give_up_s, f"{command} does not listen on {port}"
            time.sleep(0.01)


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
    """Start a NATS server without passwords."""
    return serve([str(_SCRIPTS / "nats-server"), "-a", "127.0.0.1", "-p", str(port)], port)
