"""Servers on loopback for tests, real ones and faulty ones."""

from __future__ import annotations

import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from burstcache.adapters.redis_connection import SERVER_NAME
from burstcache_local.machines.redis_binary import redis_binary
from burstcache_local.machines.tls_front import TlsFront
from custom_resources.certificate import issue_certificate
from support.waiting import free_port, wait_for_port

_SCRIPTS = Path(sys.executable).parent


def serve(command: list[str], port: int, host: str = "127.0.0.1") -> subprocess.Popen[bytes]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_port(port, server, host)
    return server


def freeze(pid: int) -> None:
    """Stop a child process with SIGSTOP and wait until all its threads have stopped.

    On a busy machine the signal takes time, and threads answer requests until it arrives.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


@contextmanager
def frozen(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Freeze a process for the duration of a `with`."""
    freeze(process.pid)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


class Silence:
    """Port that accepts connections and never answers. It counts them, so a test knows the attempts of a caller."""

    def __enter__(self) -> Silence:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._socket.setblocking(False)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def connections(self) -> int:
        """Return the number of connections since the last call."""
        accepted = 0
        with suppress(BlockingIOError):
            while True:
                self._socket.accept()[0].close()
                accepted += 1
        return accepted


class Failing:
    """Port that answers each request with a 503, or hangs up instead. It counts the requests."""

    def __init__(self, *, hangs_up: bool = False) -> None:
        self.requests = 0
        failing, answer = self, b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while self.rfile.readline():
                    while self.rfile.readline().strip():
                        pass
                    failing.requests += 1
                    if hangs_up:
                        return
                    self.wfile.write(answer)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Failing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"


class Trickle:
    """Port that answers one byte at a time until it is closed."""

    def __enter__(self) -> Trickle:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    @property
    def port(self) -> int:
        """The port of 127.0.0.1."""
        return int(self._socket.getsockname()[1])

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection, suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(b"$1000000\r\n")  # Redis's header of a value of that size
                    while not self._is_over.wait(0.01):
                        connection.sendall(b"x")


class ServerProcess:
    """Server process that runs for the duration of a `with`, and that a test may kill and restart."""

    def __init__(self, command: list[str], port: int, host: str = "127.0.0.1") -> None:
        self.command, self.port, self.host = command, port, host
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.process = serve(self.command, self.port, self.host)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class RedisServer(ServerProcess):
    """Real Redis without persistence, by default on a free port."""

    def __init__(self, port: int = 0, *, host: str = "127.0.0.1", options: Sequence[str] = ()) -> None:
        port = port or free_port()
        addresses = ["--bind", host, "--port", str(port)]
        command = [str(redis_binary()), *addresses, "--save", "", "--appendonly", "no", *options]
        super().__init__(command, port, host)


class TlsRedis:
    """Real Redis behind TLS, as on a node of the local run, that a test may kill."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", name: str = SERVER_NAME, issued_at: datetime | None = None
    ) -> None:
        """Issue its certificate for a name, by default as of now."""
        self.port = port
        issued, pem = issue_certificate(name, now=issued_at or datetime.now(UTC))
        self.ca_pem = issued.ca_pem
        self._server = RedisServer(host=host)
        self._front = TlsFront((host, port), (host, self._server.port), pem, Path(os.devnull))

    def start(self) -> None:
        self._server.start()
        self._front.open()

    def kill(self) -> None:
        if self._server.process is not None:
            self._front.close()
            self._server.kill()


def serve_nats(port: int, pem: str = "") -> subprocess.Popen[bytes]:
    """Start a NATS server without passwords that accepts messages as large as the stack's relay does.

    Args:
        port: Port of 127.0.0.1.
        pem: A private key and its certificate. Empty: no TLS.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config, tempfile.NamedTemporaryFile("w") as key:
        config.write(f"listen: 127.0.0.1:{port}\nmax_payload: 8MB\n")
        if pem:
            key.write(pem)
            config.write(f"tls: {{cert_file: {key.name}, key_file: {key.name}}}\n")
        for file in (config, key):
            file.flush()
        return serve([str(_SCRIPTS / "nats-server"), "-c", config.name], port)
