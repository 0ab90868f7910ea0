"""The program that execution environments are forks of: it has imported what a function's cold start would wait for.

It runs isolated (`python -I`), knows nothing of this package, and is told by packets of JSON on a socket what to run
in a fork. It answers with the fork's process id, and later with how that ended.
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
    """Serve the socket whose file descriptor is the only argument, until it closes."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what forks share stays shared
    wires = socket.socket(fileno=int(sys.argv[1]))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with selectors.DefaultSelector() as selector:
        selector.register(wires, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == woken:
                    os.read(woken, 512)
                    _report_ended(wires)
                elif packet := wires.recv(_MAX_PACKET_BYTES):
                    _fork(json.loads(packet), wires)
                else:
                    return


def _report_ended(wires: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            wires.send(json.dumps({"pid": ended[0], "exit": os.waitstatus_to_exitcode(ended[1])}).encode())


def _fork(order: dict[str, Any], wires: socket.socket) -> None:
    parent = os.getpid()
    if pid := os.fork():
        wires.send(json.dumps({"pid": pid}).encode())
        return
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wires.close()
        _become(order, parent)
        status = _run(order["handler"])
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _become(order: dict[str, Any], parent: int) -> None:
    """Make this fork a process of its own, that dies with its parent."""
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
    sys.path.insert(0, order["root"])


def _run(handler: str) -> int:
    sys.argv = ["awslambdaric", handler]
    try:
        # Only now: the runtime client reads the environment when it is imported.
        from awslambdaric.__main__ import main as serve

        serve(sys.argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


if __name__ == "__main__":
    main()
