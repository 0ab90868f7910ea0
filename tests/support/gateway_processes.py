"""Gateways in processes of their own, for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from support.project import PYTHONPATH
from support.waiting import LIMIT_S

BUCKET = "examples"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
# Hands over a listening socket as a service manager does: file descriptor 3, and the process's own id.
_ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
_ESTABLISHED = "01"  # a state in /proc/net/tcp


@dataclass
class Gateway:
    """A running gateway.

    Attributes:
        process: Its first process.
        port: Its TCP port.
        unix_socket: The path of its Unix socket. Empty: none.
    """

    process: subprocess.Popen[str]
    port: int
    unix_socket: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> HTTPConnection:
        """Open a connection, by the Unix socket if there is one."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        if self.unix_socket:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(LIMIT_S)
            try:
                connection.sock.connect(self.unix_socket)
            except OSError:
                connection.close()
                raise
        else:
            connection.connect()
        return connection

    def processes(self) -> list[int]:
        """Return the ids of the processes that the first one has started."""
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def accepted(self, pid: int) -> int:
        """Count the open connections that a process has accepted."""
        inodes = self._tcp_connections() if not self.unix_socket else self._unix_connections()
        return len(inodes & _sockets(pid))

    def _tcp_connections(self) -> set[str]:
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {each[9] for each in lines if each[1].endswith(f":{self.port:04X}") and each[3] == _ESTABLISHED}

    def _unix_connections(self) -> set[str]:
        lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
        return {each[6] for each in lines if each[-1] == self.unix_socket and each[3] != "00010000"}  # it listens


def _sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    inodes = set()
    with suppress(OSError):  # the process has ended
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # closed since
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    inodes.add(target[len("socket:[") : -1])
    return inodes


@contextmanager
def gateway(
    origin_url: str,
    *options: str,
    unix_socket: str = "",
    listening: socket.socket | None = None,
    log: Path | None = None,
    variables: Mapping[str, str] | None = None,
    **environ: str,
) -> Iterator[Gateway]:
    """Start a gateway in front of an S3, and kill it at the end.

    Args:
        origin_url: The S3.
        options: Options of the command.
        unix_socket: The path of a Unix socket, which tests then connect to.
        listening: A listening socket that it inherits.
        log: A file for its log. None: that of this process.
        variables: Environment variables.
        environ: More of them.
    """
    command = [sys.executable, "-m", "burstcache.gateway", "--bucket", BUCKET, "--port", "0"]
    command += ["--origin-endpoint", origin_url, *options]
    command += ["--unix-socket", unix_socket] if unix_socket else []
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, **CREDENTIALS, **(variables or {}), **environ}
    inherited = []
    if listening is not None:
        inherited = [listening.fileno()]
        command = [sys.executable, "-c", _ACTIVATE, str(listening.fileno()), *command]
    with ExitStack() as opened:
        error = None if log is None else opened.enter_context(log.open("wb"))
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=error, text=True, pass_fds=inherited
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"the gateway ended with {process.wait(LIMIT_S)}"
        yield Gateway(process, int(line.partition(" ")[0].rpartition(":")[2]), unix_socket)
    finally:
        process.kill()
        process.wait(LIMIT_S)
        process.stdout.close()
