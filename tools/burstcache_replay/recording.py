"""What a replay leaves: a row per request in `requests.csv`, and what was replayed in `replay.json`.

`docs/use/replay.md` has the columns.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from burstcache.core.errors import InvalidSettingError
from burstcache_replay.schedule import Answer, Outcome

REQUESTS, REPLAY = "requests.csv", "replay.json"
_COLUMNS = ("number", "due_s", "key", "late_ms", "service_ms", "latency_ms", "status", "tier", "body_bytes", "error")


@dataclass(frozen=True, slots=True)
class Replay:
    """What was replayed, and when."""

    traces: list[str]
    target: str  # a URL, or `client`
    stack_name: str  # empty: no stack, or the one of this machine
    speed: float
    began_us: int  # since 1970: when second 0 of the trace was due
    origin_s: float  # of the trace: the second at which the replay began
    requests: int  # in the trace; fewer rows: the replay was ended early
    prefix: str = ""  # before each key of the trace


class Recorder:
    """Writes outcomes as they come, and keeps what a summary needs."""

    def __init__(self, rows: Any, due_s: Sequence[float], keys: Sequence[str]) -> None:
        self._write = csv.writer(rows, lineterminator="\n").writerow
        self._due_s, self._keys = due_s, keys
        self.outcomes: list[Outcome] = []
        self._write(_COLUMNS)

    def __call__(self, outcome: Outcome) -> None:
        """Write one."""
        number, answer = outcome.number, outcome.answer
        times = (f"{1e3 * each_s:.3f}" for each_s in (outcome.late_s, outcome.service_s, outcome.latency_s))
        due = f"{self._due_s[number]:.6f}"
        self._write(
            (number, due, self._keys[number], *times, answer.status, answer.tier, answer.body_bytes, answer.error)
        )
        self.outcomes.append(outcome)


@contextmanager
def recording(folder: Path, due_s: Sequence[float], keys: Sequence[str]) -> Iterator[Recorder]:
    """Open the file of requests in a folder that is made, and is not one of an earlier replay.

    Raises:
        InvalidSettingError: The folder has a replay already.
    """
    if (folder / REQUESTS).exists():
        raise InvalidSettingError(f"--out {folder}: has {REQUESTS} of an earlier replay; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / REQUESTS).open("w", newline="") as rows:
        yield Recorder(rows, due_s, keys)


def write(folder: Path, replay: Replay) -> None:
    """Write what was replayed."""
    (folder / REPLAY).write_text(json.dumps(asdict(replay), indent=2) + "\n")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A replay that was written, its requests in the order of the trace."""

    replay: Replay
    due_s: NDArray[np.float64]
    keys: list[str]
    outcomes: list[Outcome]


def read(folder: Path) -> Recorded:
    """Return what a replay left.

    Raises:
        InvalidSettingError: The folder has no whole replay.
    """
    try:
        replay = Replay(**json.loads((folder / REPLAY).read_text()))
        with (folder / REQUESTS).open(newline="") as lines:
            rows = sorted(csv.DictReader(lines), key=lambda row: int(row["number"]))
        outcomes = [_outcome(row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidSettingError(
            f"{folder}: expected {REQUESTS} and {REPLAY} of `burstcache replay`: {error}"
        ) from error
    return Recorded(replay, np.array([float(row["due_s"]) for row in rows]), [row["key"] for row in rows], outcomes)


def _outcome(row: dict[str, str]) -> Outcome:
    answer = Answer(int(row["status"]), row["tier"], int(row["body_bytes"]), row["error"])
    return Outcome(int(row["number"]), float(row["late_ms"]) / 1e3, float(row["latency_ms"]) / 1e3, answer)
