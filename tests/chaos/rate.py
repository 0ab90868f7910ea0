"""Which rate of reads this machine sustains with every key served by S3."""

from __future__ import annotations

import json
import time
from pathlib import Path

from chaos.load import OF_KEYS
from chaos.run import Load, Plan, loaded, staged

RATE_NAME = "rate.json"  # of the file in a results' folder
SHARE = 0.7  # of it that a load makes
_MOST_P99_S, _SHARE_IN_TIME = 0.2, 0.99
_NEVER_HOT = {"PolicyOverrides": "lambda_threshold_s=0.000001"}
_FIRST_PER_S, _FACTOR = 5.0, 1.2
_STEP_S, _COUNTED_S = 10.0, 7.0
_TRIES = 2  # of a rate that is too high


class TooSlowError(Exception):
    """No rate is low enough."""


def measured_per_s(folder: Path) -> float:
    """Return the rate that is noted in a folder; it is measured once.

    Raises:
        TooSlowError: This machine is too slow, or too busy, for any.
    """
    path = folder / RATE_NAME
    if not path.exists():
        if not (rate := sustained_per_s()):
            raise TooSlowError(f"S3 does not even serve {_FIRST_PER_S:g} reads a second in time on this machine")
        path.write_text(json.dumps(rate))
    return float(path.read_text())


def sustained_per_s() -> float:
    """Return the highest rate at which no read fails and 99 of 100 come in time; 0 if the lowest is too high."""
    with staged("thesis", parameters=_NEVER_HOT) as stage, loaded(stage, Plan(_FIRST_PER_S)) as load:
        rate, highest = _FIRST_PER_S, 0.0
        while any(_is_sustained(load, rate) for _ in range(_TRIES)):
            rate, highest = rate * _FACTOR, rate
    return highest


def _is_sustained(load: Load, per_s: float) -> bool:
    load.set(per_s, 0.0)
    ends_s = time.time() + _STEP_S
    time.sleep(_STEP_S + _MOST_P99_S)  # what is not answered by then is too slow
    reads = [
        each for each in load.outcomes.copy() if each.way != "write" and ends_s - _COUNTED_S <= each.due_s < ends_s
    ]
    in_time = sum(each.latency_s < _MOST_P99_S for each in reads)
    sent = max(len(reads), per_s * _COUNTED_S - len(OF_KEYS))  # each way may have one more or less in such a time
    return in_time >= _SHARE_IN_TIME * sent and not any(each.is_failed for each in reads)
