"""Processes of functions, forked from one that has imported their libraries already."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burstcache_local.lambdas import zygote
from burstcache_local.machines import processes

_PACKET_BYTES = 1 << 20
_LOST = -int(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Fork:
    """A process; `ended` yields its exit status, negative for a signal."""

    pid: int
    ended: asyncio.Future[int]

    def kill(self) -> None:
        """Kill the process and its group; nothing happens if it is gone."""
        if not self.ended.done():
            processes.kill_group(self.pid)


class Forks:
    """Asks the zygote for forks. All methods belong to one event loop."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._born: deque[asyncio.Future[Fork]] = deque()  # asked for, oldest first
        self._living: dict[int, asyncio.Future[int]] = {}

    def start(self) -> None:
        """Start the zygote; it imports while others start too."""
        self._wires, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wires.setblocking(False)
        command = [sys.executable, "-I", zygote.__file__, str(theirs.fileno())]
        self._process = processes.start(command, env=dict(os.environ), log=self._log, pass_fds=(theirs.fileno(),))
        theirs.close()
        asyncio.get_running_loop().add_reader(self._wires, self._receive)

    async def fork(self, handler: str, *, env: Mapping[str, str], root: Path, log: Path) -> Fork:
        """Return a new process that runs AWS's runtime client for `handler`."""
        if self._process is None:
            self.start()
        order = {"handler": handler, "env": dict(env), "root": str(root), "log": str(log)}
        born: asyncio.Future[Fork] = asyncio.get_running_loop().create_future()
        self._born.append(born)
        await asyncio.get_running_loop().sock_sendall(self._wires, json.dumps(order).encode())
        return await born

    def stop(self) -> None:
        """End the zygote, and by that all forks."""
        if self._process:
            self._lose()

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while packet := self._wires.recv(_PACKET_BYTES):
                self._take(json.loads(packet))
        if self._process and self._process.poll() is not None:
            self._lose()

    def _take(self, message: dict[str, int]) -> None:
        pid = message["pid"]
        if "exit" in message:
            if ended := self._living.pop(pid, None):
                ended.set_result(message["exit"])
            return
        self._living[pid] = asyncio.get_running_loop().create_future()
        self._born.popleft().set_result(Fork(pid, self._living[pid]))

    def _lose(self) -> None:
        """The zygote is gone, and the kernel has ended its forks."""
        asyncio.get_running_loop().remove_reader(self._wires)
        self._wires.close()
        if self._process:
            processes.stop(self._process, grace_s=0)
        self._process = None
        for ended in self._living.values():
            ended.set_result(_LOST)
        self._living.clear()
        for born in self._born:
            born.set_exception(ConnectionError("the process that functions are forked from has ended"))
        self._born.clear()
