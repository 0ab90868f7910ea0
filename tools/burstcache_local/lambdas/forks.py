"""Forks of a zygote process that has already imported the functions' libraries."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from burstcache_local.errors import StartLostError
from burstcache_local.lambdas import zygote
from burstcache_local.machines import processes

_PACKET_BYTES = 1 << 20
_LOST = -int(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Fork:
    """A forked process. `ended` resolves to the exit status, which is negative for a signal."""

    pid: int
    ended: asyncio.Future[int]
    kill: Callable[[], None]  # kills the process group, if it is running


class Forks:
    """A client of the zygote. Not thread-safe: call all methods in one event loop.

    Requests and replies carry an id, and unsent requests are queued. Therefore no request to a slow zygote is lost, and
    each reply reaches the right caller.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._ids = itertools.count(1)
        self._unsent: deque[bytes] = deque()
        self._pending: dict[int, asyncio.Future[Fork]] = {}
        self._running: dict[int, asyncio.Future[int]] = {}

    @property
    def zygote_pid(self) -> int | None:
        """Process id of the zygote, or None if the zygote is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the zygote, which imports the libraries while the rest of the cloud starts."""
        self._loop = asyncio.get_running_loop()
        self._socket, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        command = [sys.executable, "-I", zygote.__file__, str(zygote_end.fileno())]
        self._process = processes.start(command, env=dict(os.environ), log=self._log, pass_fds=(zygote_end.fileno(),))
        zygote_end.close()
        self._loop.add_reader(self._socket, self._receive)

    async def fork(
        self, handler: str, *, env: Mapping[str, str], root: Path, log: Path, clock_ahead_s: float = 0.0
    ) -> Fork:
        """Fork a process that runs AWS's runtime client for `handler`, with a clock ahead by `clock_ahead_s`.

        Raises:
            StartLostError: The zygote has exited.
        """
        if self._process is None:
            self.start()
        order_id = next(self._ids)
        forked: asyncio.Future[Fork] = self._loop.create_future()
        self._pending[order_id] = forked
        process = {"handler": handler, "env": dict(env), "root": str(root), "log": str(log)}
        self._send({"id": order_id, **process, "clock_ahead_s": clock_ahead_s})
        return await forked

    def stop(self) -> None:
        """Stop the zygote, and thereby all forks."""
        if self._process:
            self._fail_all()

    def _send(self, order: Mapping[str, object]) -> None:
        self._unsent.append(json.dumps(order).encode())
        self._flush()

    def _flush(self) -> None:
        """Send queued requests until the socket is full. Continue when the socket is writable."""
        try:
            while self._unsent:
                self._socket.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._flush)
        except (BrokenPipeError, ConnectionResetError):
            self._unsent.clear()  # `_receive` handles the zygote's end
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _receive(self) -> None:
        try:
            while packet := self._socket.recv(_PACKET_BYTES):
                self._handle_reply(json.loads(packet))
        except BlockingIOError:
            return
        except ConnectionResetError:
            pass
        self._fail_all()

    def _handle_reply(self, reply: dict[str, int]) -> None:
        order_id = reply["id"]
        if "exit" in reply:
            self._running.pop(order_id).set_result(reply["exit"])
            return
        ended = self._running[order_id] = self._loop.create_future()
        fork = Fork(reply["pid"], ended, kill=partial(self._kill, order_id))
        forked = self._pending.pop(order_id)
        if forked.cancelled():  # the caller was cancelled
            fork.kill()
        else:
            forked.set_result(fork)

    def _kill(self, order_id: int) -> None:
        if order_id in self._running:
            self._send({"id": order_id, "kill": True})

    def _fail_all(self) -> None:
        """Fail all pending requests after the zygote's end. The kernel has killed the forks."""
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        if self._process:
            processes.stop(self._process, grace_s=0)
        self._process = None
        self._unsent.clear()
        running, self._running = self._running, {}
        for ended in running.values():
            ended.set_result(_LOST)
        pending, self._pending = self._pending, {}
        for forked in pending.values():
            if not forked.done():
                forked.set_exception(StartLostError("the process that functions are forked from has ended"))
