"""Processes of functions, forked from one that has already imported their libraries."""

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
    """A process; `ended` yields its exit status, negative for a signal."""

    pid: int
    ended: asyncio.Future[int]
    kill: Callable[[], None]  # the process and its group; does nothing once it has ended


class Forks:
    """Orders forks from the zygote. All methods belong to one event loop.

    Orders and answers carry an id, and one writer sends the orders in turn: however far the zygote falls behind, no
    order is lost and no answer reaches the wrong caller.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._ids = itertools.count(1)
        self._unsent: deque[bytes] = deque()
        self._unborn: dict[int, asyncio.Future[Fork]] = {}
        self._living: dict[int, asyncio.Future[int]] = {}

    @property
    def zygote_pid(self) -> int | None:
        """The process that forks, while there is one."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the zygote, which imports its libraries while the rest of the cloud starts."""
        self._loop = asyncio.get_running_loop()
        self._wires, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wires.setblocking(False)
        command = [sys.executable, "-I", zygote.__file__, str(theirs.fileno())]
        self._process = processes.start(command, env=dict(os.environ), log=self._log, pass_fds=(theirs.fileno(),))
        theirs.close()
        self._loop.add_reader(self._wires, self._receive)

    async def fork(
        self, handler: str, *, env: Mapping[str, str], root: Path, log: Path, clock_ahead_s: float = 0.0
    ) -> Fork:
        """Return a new process that runs AWS's runtime client for `handler`, whose clock is ahead by as much [s].

        Raises:
            StartLostError: The zygote has ended.
        """
        if self._process is None:
            self.start()
        order_id = next(self._ids)
        born: asyncio.Future[Fork] = self._loop.create_future()
        self._unborn[order_id] = born
        process = {"handler": handler, "env": dict(env), "root": str(root), "log": str(log)}
        self._send({"id": order_id, **process, "clock_ahead_s": clock_ahead_s})
        return await born

    def stop(self) -> None:
        """End the zygote, and with it all forks."""
        if self._process:
            self._lose()

    def _send(self, order: Mapping[str, object]) -> None:
        self._unsent.append(json.dumps(order).encode())
        self._flush()

    def _flush(self) -> None:
        """Send orders until the socket is full; the rest follow when it has room."""
        try:
            while self._unsent:
                self._wires.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._wires, self._flush)
        except (BrokenPipeError, ConnectionResetError):
            self._unsent.clear()  # the reader sees the end as well
        if not self._unsent:
            self._loop.remove_writer(self._wires)

    def _receive(self) -> None:
        try:
            while packet := self._wires.recv(_PACKET_BYTES):
                self._take(json.loads(packet))
        except BlockingIOError:
            return
        except ConnectionResetError:
            pass
        self._lose()

    def _take(self, answer: dict[str, int]) -> None:
        order_id = answer["id"]
        if "exit" in answer:
            self._living.pop(order_id).set_result(answer["exit"])
            return
        ended = self._living[order_id] = self._loop.create_future()
        fork = Fork(answer["pid"], ended, kill=partial(self._kill, order_id))
        born = self._unborn.pop(order_id)
        if born.cancelled():  # the caller has stopped waiting
            fork.kill()
        else:
            born.set_result(fork)

    def _kill(self, order_id: int) -> None:
        if order_id in self._living:
            self._send({"id": order_id, "kill": True})

    def _lose(self) -> None:
        """Note that the zygote is gone; the kernel has ended its forks."""
        self._loop.remove_reader(self._wires)
        self._loop.remove_writer(self._wires)
        self._wires.close()
        if self._process:
            processes.stop(self._process, grace_s=0)
        self._process = None
        self._unsent.clear()
        living, self._living = self._living, {}
        for ended in living.values():
            ended.set_result(_LOST)
        unborn, self._unborn = self._unborn, {}
        for born in unborn.values():
            if not born.done():
                born.set_exception(StartLostError("the process that functions are forked from has ended"))
