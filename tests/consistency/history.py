"""A history: one operation a line of JSON, as any client of the system saw it.

    {"client": "front-2", "kind": "read", "key": "a", "value": 17, "start_us": 5, "end_us": 9, "is_known": true,
     "tier": "redis", "path": "api"}

Each write of a key stores a number of its own; `value` is that number, null for an object that is not there. A write
that ended without an answer (`is_known` is false) may have happened at any time after its start, or never; a read
without an answer says nothing. `client` is the process that read, whose memory the tier `memory` is. A conditional
write names what it may be written over (`only_over`): the number of an object by its ETag, 0 for none. One whose
condition does not hold is `refused`: it has written nothing, and at some instant something else was there.
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
    """One operation of one client, between its call and its answer [us, all of one clock]."""

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
        """Whether it has changed the object, or may have."""
        return self.kind in ("write", "delete")


@dataclass(frozen=True, slots=True)
class Event:
    """What happened in the stack at an instant, to one key or to none."""

    at_us: int
    what: str
    key: str = ""


_NAMES = {field.name for field in fields(Operation)}


class Recorder:
    """Collects the operations of many threads."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._numbers = 0
        self._lock = threading.Lock()

    def number(self) -> int:
        """Return the number that the next write stores."""
        with self._lock:
            self._numbers += 1
            return self._numbers

    def add(self, operation: Operation) -> None:
        """Note an operation that has ended."""
        self.operations.append(operation)  # atomic


def overlapping(operations: Iterable[Operation]) -> int:
    """Return during how many writes another one of the same key was under way."""
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
    """Write a history, in the order in which its operations began."""
    with path.open("w") as file:
        for operation in sorted(operations, key=lambda each: each.start_us):
            print(json.dumps(asdict(operation)), file=file)


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write what happened in a stack, one event a line of JSON."""
    path.write_text("".join(f"{json.dumps(asdict(event))}\n" for event in events))


def read_history(path: Path) -> Iterator[Operation]:
    """Yield the operations of a history.

    Raises:
        ValueError: A line is not an operation; names the line.
    """
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                columns = json.loads(line)
                if unknown := columns.keys() - _NAMES:
                    raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
                yield Operation(**columns)
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"{path}:{number}: {line.strip()!r} is no operation ({error})") from error
