"""X-Ray traces, with a daemon that receives segments from functions, and Lambda's own segments for invocations.

Source:
    AWS X-Ray Developer Guide, "X-Ray segment documents", "Sending trace data to X-Ray" and "Tracing header".
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADER = "X-Amzn-Trace-Id"
_MOST_BYTES = 65_536  # maximum size of a datagram
_FILE = "traces.jsonl"


class TraceDaemon:
    """An X-Ray daemon on a loopback UDP port, which appends segments to a file in the run's folder, one per line."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / _FILE).open("a", buffering=1, encoding="utf-8")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._receive, name="x-ray", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The value of `AWS_XRAY_DAEMON_ADDRESS` for the functions."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Write the segments received so far, and stop."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())  # an empty datagram stops the receiver
        self._thread.join()
        self._socket.close()
        self._file.close()

    @contextmanager
    def invocation(self, name: str, caller: str) -> Iterator[Invocation]:
        """Record a segment for a function's invocation if the caller is sampled."""
        invocation = Invocation.of(caller)
        began_s = time.time()
        try:
            yield invocation
        finally:
            if invocation.is_sampled:
                self._write(invocation.segment(name, began_s, time.time()))

    def _receive(self) -> None:
        while datagram := self._socket.recv(_MOST_BYTES):
            _, _, document = datagram.partition(b"\n")  # the first line is the protocol's name and version
            self._write(json.loads(document))

    def _write(self, segment: dict[str, Any]) -> None:
        with self._writing:
            self._file.write(json.dumps(segment) + "\n")


@dataclass(slots=True)
class Invocation:
    """A function's invocation as part of a trace."""

    root: str
    parent: str  # the caller's segment id, or empty if the caller has no trace
    is_sampled: bool
    id: str = field(default_factory=lambda: os.urandom(8).hex())
    is_failed: bool = False

    @classmethod
    def of(cls, caller: str) -> Invocation:
        """Build the invocation from a caller's trace header. An empty header starts a new trace."""
        names = dict(part.strip().partition("=")[::2] for part in caller.split(";"))
        root = names.get("Root") or f"1-{int(time.time()):08x}-{os.urandom(12).hex()}"
        return cls(root, names.get("Parent", ""), names.get("Sampled") != "0")

    @property
    def header(self) -> str:
        """The trace header to pass to the function."""
        return f"Root={self.root};Parent={self.id};Sampled={int(self.is_sampled)}"

    def segment(self, name: str, start_s: float, end_s: float) -> dict[str, Any]:
        """Return Lambda's segment for the invocation. AWS has separate segments for the service and the function."""
        parent = {"parent_id": self.parent} if self.parent else {}
        fault = {"fault": True} if self.is_failed else {}
        return {
            "trace_id": self.root,
            "id": self.id,
            "name": name,
            "origin": "AWS::Lambda::Function",
            "start_time": start_s,
            "end_time": end_s,
            **parent,
            **fault,
        }


def segments_of_run(folder: Path) -> list[dict[str, Any]]:
    """Return all segments and subsegments recorded in a local run, in arrival order."""
    whole, _, _ = (folder / _FILE).read_text("utf-8").rpartition("\n")  # the last line may be incomplete
    return [json.loads(line) for line in whole.splitlines()]
