"""A history of operations, one a line of JSON, as the clients of the system saw them.

    {"client": "front-2", "kind": "read", "key": "a", "value": 17, "start_us": 5, "end_us": 9, "is_known": true,
     "tier": "redis", "path": "api"}

Each write of a key stores a unique number: `value`, null if there is no object. A write without an answer (`is_known`
is false) may have taken effect at any time after its start, or never. A read without an answer says nothing. `client`
is the reading process, also for the tier `memory`. A conditional write names the value that it may replace
(`only_over`): an object's number by its ETag, 0 for no object. If the condition fails the write is `refused`: it has
written nothing, and at some instant another value was current.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Literal

Kind = Literal["read", "write", "delete", "refused"]
Way = Literal["api", "direct"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one client, from its call to its answer [us, all of one clock]."""

    client: str
    kind: Kind
    key: str
    value: int | None
    start_us: int
    end_us: int
    is_known: bool = True
    tier: str = ""
    path: Way = "api"
    only_over: int | None = None

    @property
    def is_write(self) -> bool:
        """Return whether the operation changed the object or may have."""
        return self.kind in ("write", "delete")


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the stack at an instant, of one key or of none."""

    at_us: int
    what: str
    key: str = ""


_NAMES = {field.name for field in fields(Operation)}


class Recorder:
    """A recorder of the operations of many threads."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._numbers = 0
        self._lock = threading.Lock()

    def number(self) -> int:
        """Return the number for the next write."""
        with self._lock:
            self._numbers += 1
            return self._numbers

    def add(self, operation: Operation) -> None:
        """Record a completed operation."""
        self.operations.append(operation)  # atomic


def overlapping(operations: Iterable[Operation]) -> int:
    """Return the number of writes that overlap another write of the same key."""
    count = 0
    for _, writes in groupby(
        sorted((each for each in operations if each.is_write), key=lambda each: (each.key, each.start_us)),
        key=lambda each: each.key,
    ):
        of_key, busy_until_us = list(writes), -1
        for write, later in zip_longest(of_key, of_key[1:]):
            count += write.start_us < busy_until_us or (later is not None and later.start_us < write.end_us)
            busy_until_us = max(busy_until_us, write.end_us)
    return count


def write_history(path: Path, operations: Iterable[Operation]) -> None:
    """Write a history in the order of its operations' starts."""
    with path.open("w") as file:
        for operation in sorted(operations, key=lambda each: each.start_us):
            print(json.dumps(asdict(operation)), file=file)


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write the events of a stack, one a line of JSON."""
    path.write_text("".join(f"{json.dumps(asdict(event))}\n" for event in events))


def read_history(path: Path) -> Iterator[Operation]:
    """Yield the operations of a history.

    Raises:
        ValueError: A line is not an operation; the message names it.
    """
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                columns = json.loads(line)
                if unknown := columns.keys() - _NAMES:
                    raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
                yield Operation(**columns)
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"{path}:{number}: {line.strip()!r} is not an operation ({error})") from error
