"""X-Ray: the daemon that functions send their segments to, and the segments that Lambda itself makes of invocations.

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
_MOST_BYTES = 65_536  # of a datagram
_FILE = "traces.jsonl"


class TraceDaemon:
    """A UDP port of loopback; what arrives is kept in a file of the run's folder, a segment a line."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / _FILE).open("a", buffering=1, encoding="utf-8")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._receive, name="x-ray", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """What functions get as `AWS_XRAY_DAEMON_ADDRESS`."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Keep what has arrived, and end."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())  # no segment is empty
        self._thread.join()
        self._socket.close()
        self._file.close()

    @contextmanager
    def invocation(self, name: str, caller: str) -> Iterator[Invocation]:
        """Show what is done within as a function's invocation: every one is sampled unless its caller's is not."""
        invocation = Invocation.of(caller)
        began_s = time.time()
        try:
            yield invocation
        finally:
            if invocation.is_sampled:
                self._write(invocation.segment(name, began_s, time.time()))

    def _receive(self) -> None:
        while datagram := self._socket.recv(_MOST_BYTES):
            _, _, document = datagram.partition(b"\n")  # the first line names the protocol
            self._write(json.loads(document))

    def _write(self, segment: dict[str, Any]) -> None:
        with self._writing:
            self._file.write(json.dumps(segment) + "\n")


@dataclass(slots=True)
class Invocation:
    """A function's invocation as a part of a trace."""

    root: str
    parent: str  # empty: nothing called it that is in the trace
    is_sampled: bool
    id: str = field(default_factory=lambda: os.urandom(8).hex())
    is_failed: bool = False

    @classmethod
    def of(cls, caller: str) -> Invocation:
        """Return the invocation that a caller with this header begins; an empty one begins a trace."""
        names = dict(part.strip().partition("=")[::2] for part in caller.split(";"))
        root = names.get("Root") or f"1-{int(time.time()):08x}-{os.urandom(12).hex()}"
        return cls(root, names.get("Parent", ""), names.get("Sampled") != "0")

    @property
    def header(self) -> str:
        """What the function goes on with."""
        return f"Root={self.root};Parent={self.id};Sampled={int(self.is_sampled)}"

    def segment(self, name: str, start_s: float, end_s: float) -> dict[str, Any]:
        """Return what Lambda tells X-Ray; AWS makes two of it, of the service and of the function."""
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
    """Return the segments and subsegments that the functions of a local run have sent, in the order of arrival."""
    whole, _, _ = (folder / _FILE).read_text("utf-8").rpartition("\n")  # a line may just be being written
    return [json.loads(line) for line in whole.splitlines()]
