"""The steps that each client runs, in Python, without any library but the client's.

A step's result is a list of digests. The names of the steps are the keys of the result.
"""

from __future__ import annotations

import abc
import hashlib
import json
from pathlib import Path
from typing import Any

READS = 3  # of the same bytes, so that a cache has what the last one reads
RANGE_START, RANGE_BYTES = 5_000_000, 1_000_000
COLUMN = "c3"


class StepClient(abc.ABC):
    """A client of objects, whose names are relative to its folder in the bucket.

    A client that can has `read_range`, `read_column`, `list_names`, `copy` and `delete`, too.

    Attributes:
        version: The client's version.
        suffix: End of the names of objects, by the form in which the client reads and writes.
        missing: Errors of a read of an object that is not there.
        takes_any_name: Whether names may have signs that a URL escapes.
    """

    version: str
    suffix = ".bin"
    missing: type[Exception] | tuple[type[Exception], ...] = ()
    takes_any_name = True

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """Return an object's content."""

    @abc.abstractmethod
    def write(self, path: Path, name: str) -> object:
        """Write a file as an object."""

    def fetch(self, name: str, path: Path) -> object:
        """Download a large object to a file."""
        return path.write_bytes(self.read(name))

    def send(self, path: Path, name: str) -> object:
        """Upload a large file."""
        return self.write(path, name)


def run(client: StepClient, folder: Path) -> dict[str, Any]:
    """Run the steps that a client can do.

    Args:
        client: The client.
        folder: The files to write: `first.bin`, `second.bin` and `large.bin`. Downloads go there, too.
    """
    result: dict[str, Any] = {"version": client.version}

    def name(stem: str) -> str:
        return f"{stem}{client.suffix}"

    def read(stem: str, times: int = READS) -> list[str]:
        return [digest(client.read(name(stem))) for _ in range(times)]

    if hasattr(client, "read_range"):
        ranges = (client.read_range("table.bin", RANGE_START, RANGE_BYTES) for _ in range(READS))
        result["range"] = [digest(each) for each in ranges]
    if hasattr(client, "read_column"):
        result["column"] = [digest(client.read_column("table.parquet", COLUMN)) for _ in range(READS)]
    if client.takes_any_name:
        result["odd"] = read("odd/a b+c=ä%41")
    result["large"] = read("large")
    client.send(folder / "large.bin", name("large"))
    client.fetch(name("large"), folder / "fetched")
    result["large"].append(digest((folder / "fetched").read_bytes()))
    result["written"] = []
    for file in ("first", "second"):
        client.write(folder / f"{file}.bin", name("written"))
        result["written"] += read("written")
    if hasattr(client, "copy"):
        result["copied"] = read("copied")
        client.copy(name("written"), name("copied"))
        result["copied"] += read("copied")
    if hasattr(client, "list_names"):
        result["listed"] = sorted(client.list_names("odd/"))
    if hasattr(client, "delete"):
        client.delete(name("written"))
        result["deleted"] = [_is_missing(client, name("written")) for _ in range(READS)]
    return result


def show(client: StepClient, folder: str) -> None:
    """Run the steps, and print the result as a line of JSON."""
    print(json.dumps(run(client, Path(folder))))


def digest(content: bytes) -> str:
    """Return the SHA-256 of some content."""
    return hashlib.sha256(content).hexdigest()


def _is_missing(client: StepClient, name: str) -> bool:
    try:
        client.read(name)
    except client.missing:
        return True
    return False
