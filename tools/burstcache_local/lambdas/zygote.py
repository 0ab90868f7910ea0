"""The zygote, a process with preloaded libraries that is forked into execution environments.

The zygote runs isolated (`python -I`), imports nothing from this package, and receives JSON requests on a socket:

    {"id": 7, "handler": …, "env": …, "root": …, "log": …, "clock_ahead_s": 0}    fork, and run AWS's runtime client in
                                                              the fork, with its clock ahead by `clock_ahead_s` [s]
    {"id": 7, "kill": true}                                   kill that fork and its process group

It reports each fork with the request's id: {"id": 7, "pid": 4711} at the start and {"id": 7, "exit": -9} at the end.
Only the parent can kill a fork without a race, because the fork's pid is not reused before the parent waits for the
fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

_PRELOADED = (
    "boto3",
    "botocore.auth",
    "botocore.endpoint",
    "botocore.handlers",
    "botocore.httpsession",
    "botocore.parsers",
    "botocore.regions",
    "botocore.signers",
    "botocore.waiter",
    "aws_lambda_powertools",
    "aws_lambda_powertools.logging",
    "cryptography.x509",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "nats",
    "nats.aio.client",
    "redis",
)
_MAX_PACKET_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> None:
    """Serve the socket with the file descriptor in `sys.argv[1]` until the socket closes."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # memory pages stay shared with the forks
    orders = socket.socket(fileno=int(sys.argv[1]))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    forks = _Forks(orders)
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == woken:
                    os.read(woken, 512)
                    forks.report_ended()
                elif packet := orders.recv(_MAX_PACKET_BYTES):
                    forks.execute(json.loads(packet))
                else:
                    return


class _Forks:
    """The running forks, by request id."""

    def __init__(self, orders: socket.socket) -> None:
        self._socket = orders
        self._ids: dict[int, int] = {}  # process id → request id
        self._pids: dict[int, int] = {}  # request id → process id

    def execute(self, order: dict[str, Any]) -> None:
        if order.get("kill"):
            self._kill(order["id"])
        else:
            self._fork(order)

    def report_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                order_id = self._ids.pop(ended[0])
                del self._pids[order_id]
                self._reply({"id": order_id, "exit": os.waitstatus_to_exitcode(ended[1])})

    def _fork(self, order: dict[str, Any]) -> None:
        parent = os.getpid()
        if pid := os.fork():
            self._ids[pid], self._pids[order["id"]] = order["id"], pid
            self._reply({"id": order["id"], "pid": pid})
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._socket.close()
            _detach(order, parent)
            status = _run(order["handler"])
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _kill(self, order_id: int) -> None:
        if pid := self._pids.get(order_id):
            with contextlib.suppress(ProcessLookupError):  # not yet a group leader
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)

    def _reply(self, reply: dict[str, int]) -> None:
        self._socket.send(json.dumps(reply).encode())


def _detach(order: dict[str, Any], parent: int) -> None:
    """Detach this fork into its own session, and let the kernel kill the fork when its parent ends."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.chdir(order["root"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    if order["clock_ahead_s"]:
        _set_clock(order["clock_ahead_s"])
    sys.path.insert(0, order["root"])


def _set_clock(ahead_s: float) -> None:
    time_ns, ahead_ns = time.time_ns, round(ahead_s * 1e9)
    time.time_ns = lambda: time_ns() + ahead_ns
    time.time = lambda: time.time_ns() / 1e9


def _run(handler: str) -> int:
    sys.argv = ["awslambdaric", handler]
    try:
        # Imported late, because the runtime client reads the environment at import.
        from awslambdaric.__main__ import main as serve

        serve(sys.argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


if __name__ == "__main__":
    main()
