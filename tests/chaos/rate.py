"""Which rate of reads this machine sustains with every key served by S3."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.support.common import NEVER_HOT
from chaos.load import OF_KEYS
from chaos.run import Load, Plan, loaded, staged

RATE_NAME = "rate.json"  # of the file in a results' folder
SHARE = 0.7  # of it that a load makes
_MOST_P99_S, _SHARE_IN_TIME = 0.2, 0.99
_FIRST_PER_S, _LEAST_PER_S, _FACTOR = 20.0, 5.0, 1.2
_STEP_S, _PROOF_S = 10.0, 30.0  # how long a rate lasts on the way up, and how long one has to that counts
_TRIES = 2  # of a rate that is too high, on the way up
_SETTLES_S = 3.0  # after a change of the rate, not counted
_LIKELY_PER_S = 80.0  # for as many writes as the load will have


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
            raise TooSlowError(f"S3 does not even serve {_LEAST_PER_S:g} reads a second in time on this machine")
        path.write_text(json.dumps(rate))
    return float(path.read_text())


def sustained_per_s() -> float:
    """Return the highest rate at which for half a minute no read fails and 99 of 100 come in time; 0: none is."""
    with (
        staged("thesis", parameters={"PolicyOverrides": NEVER_HOT}) as stage,
        loaded(stage, Plan(_LIKELY_PER_S)) as load,
    ):
        rate = _FIRST_PER_S
        while any(_is_sustained(load, rate, _STEP_S) for _ in range(_TRIES)):
            rate *= _FACTOR
        while (rate := rate / _FACTOR) >= _LEAST_PER_S:
            load.set(_LEAST_PER_S, 0.0)
            time.sleep(_STEP_S)  # what has piled up is answered
            if _is_sustained(load, rate, _PROOF_S):
                return rate
    return 0.0


def _is_sustained(load: Load, per_s: float, for_s: float) -> bool:
    load.set(per_s, 0.0)
    ends_s = time.time() + for_s
    time.sleep(for_s + _MOST_P99_S)  # what is not answered by then is too slow
    counted_s = for_s - _SETTLES_S
    reads = [each for each in load.outcomes.copy() if each.way != "write" and ends_s - counted_s <= each.due_s < ends_s]
    in_time = sum(each.latency_s < _MOST_P99_S for each in reads)
    sent = max(len(reads), per_s * counted_s - len(OF_KEYS))  # each way may have one more or less in such a time
    return in_time >= _SHARE_IN_TIME * sent and not any(each.is_failed for each in reads)
