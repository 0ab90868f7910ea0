"""The rate of reads that this machine sustains with every key on S3."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.support.common import NEVER_HOT
from chaos.load import OF_KEYS
from chaos.run import Load, Plan, loaded, staged

RATE_NAME = "rate.json"  # the file in a folder of results
SHARE = 0.7  # of the rate, for a load
_MOST_P99_S, _SHARE_IN_TIME = 0.2, 0.99
_FIRST_PER_S, _LEAST_PER_S, _FACTOR = 20.0, 5.0, 1.2
_STEP_S, _PROOF_S = 10.0, 30.0  # length of a step on the way up, and of the final proof
_TRIES = 2  # of each rate on the way up
_SETTLES_S = 3.0  # after a change of the rate, not counted
_LIKELY_PER_S = 80.0  # sets the rate of writes during the measurement


class TooSlowError(Exception):
    """A machine that does not sustain even the lowest rate."""


def measured_per_s(folder: Path) -> float:
    """Return the rate stored in a folder; measure and store it first if there is none.

    Raises:
        TooSlowError: This machine is too slow, or too busy, for any rate.
    """
    path = folder / RATE_NAME
    if not path.exists():
        if not (rate := sustained_per_s()):
            raise TooSlowError(f"S3 does not sustain even {_LEAST_PER_S:g} reads/s on this machine")
        path.write_text(json.dumps(rate))
    return float(path.read_text())


def sustained_per_s() -> float:
    """Return the highest rate with no failure and 99 of 100 reads in time for half a minute; 0: there is none."""
    with (
        staged("thesis", parameters={"PolicyOverrides": NEVER_HOT}) as stage,
        loaded(stage, Plan(_LIKELY_PER_S)) as load,
    ):
        rate = _FIRST_PER_S
        while any(_is_sustained(load, rate, _STEP_S) for _ in range(_TRIES)):
            rate *= _FACTOR
        while (rate := rate / _FACTOR) >= _LEAST_PER_S:
            load.set(_LEAST_PER_S, 0.0)
            time.sleep(_STEP_S)  # the backlog drains
            if _is_sustained(load, rate, _PROOF_S):
                return rate
    return 0.0


def _is_sustained(load: Load, per_s: float, for_s: float) -> bool:
    load.set(per_s, 0.0)
    ends_s = time.time() + for_s
    time.sleep(for_s + _MOST_P99_S)  # a read without an answer by then is too slow
    counted_s = for_s - _SETTLES_S
    reads = [each for each in load.outcomes.copy() if each.way != "write" and ends_s - counted_s <= each.due_s < ends_s]
    in_time = sum(each.latency_s < _MOST_P99_S for each in reads)
    sent = max(len(reads), per_s * counted_s - len(OF_KEYS))  # the number of each way may be off by one
    return in_time >= _SHARE_IN_TIME * sent and not any(each.is_failed for each in reads)
