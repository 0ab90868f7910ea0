"""Recording of a replay, with one row per request in `requests.csv` and the settings in `replay.json`.

`docs/use/replay.md` describes the columns.
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
    """A replay's settings and start time."""

    traces: list[str]
    target: str  # a URL, or `client`
    stack_name: str  # empty for a local run or if there is no stack
    speed: float
    began_us: int  # due time of the trace's first request, since 1970
    origin_s: float  # timestamp of the first request in the trace
    requests: int  # in the trace; `requests.csv` has fewer rows if the replay ended early
    prefix: str = ""  # prepended to each key of the trace


class Recorder:
    """A writer of outcomes, which also collects the outcomes for the summary."""

    def __init__(self, rows: Any, due_s: Sequence[float], keys: Sequence[str]) -> None:
        self._write = csv.writer(rows, lineterminator="\n").writerow
        self._due_s, self._keys = due_s, keys
        self.outcomes: list[Outcome] = []
        self._write(_COLUMNS)

    def __call__(self, outcome: Outcome) -> None:
        """Write one outcome."""
        number, answer = outcome.number, outcome.answer
        times = (f"{1e3 * each_s:.3f}" for each_s in (outcome.late_s, outcome.service_s, outcome.latency_s))
        due = f"{self._due_s[number]:.6f}"
        self._write(
            (number, due, self._keys[number], *times, answer.status, answer.tier, answer.body_bytes, answer.error)
        )
        self.outcomes.append(outcome)


@contextmanager
def recording(folder: Path, due_s: Sequence[float], keys: Sequence[str]) -> Iterator[Recorder]:
    """Create `requests.csv` in a folder, and the folder if necessary.

    Raises:
        InvalidSettingError: The folder already contains a replay.
    """
    if (folder / REQUESTS).exists():
        raise InvalidSettingError(f"--out {folder}: has {REQUESTS} of an earlier replay; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / REQUESTS).open("w", newline="") as rows:
        yield Recorder(rows, due_s, keys)


def write(folder: Path, replay: Replay) -> None:
    """Write `replay.json`."""
    (folder / REPLAY).write_text(json.dumps(asdict(replay), indent=2) + "\n")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded replay, with requests in trace order."""

    replay: Replay
    due_s: NDArray[np.float64]
    keys: list[str]
    outcomes: list[Outcome]


def read(folder: Path) -> Recorded:
    """Read a replay's recording.

    Raises:
        InvalidSettingError: The folder does not contain a complete replay.
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
