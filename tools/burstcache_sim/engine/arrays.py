"""Arrays that pass a scenario to the compiled engines: arrivals, keys, sizes, timings, counts, spans."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.engine.books import (
    COUNTS,
    FOREVER_US,
    MAX_TIME_US,
    SPAN_COLUMNS,
    Integers,
    Records,
    TimingsRow,
    validate,
)
from burstcache_sim.world.scenario import Scenario

Keys = NDArray[np.int32]
Letters = NDArray[np.uint8]


def checked_arrivals(scenario: Scenario) -> tuple[Integers, int]:
    """Validate and return the arrivals up to the horizon, and the horizon [us].

    Raises:
        InvalidSettingError: The arrivals are unsorted, or a time is too large for 64-bit sums.
    """
    until_us = scenario.until_us
    t = np.ascontiguousarray(scenario.trace.arrivals_us, dtype=np.int64)
    if len(t) and (t[0] < 0 or t[-1] > MAX_TIME_US):
        raise InvalidSettingError(f"arrivals from {t[0]} to {t[-1]} us: expected times from 0 to {MAX_TIME_US} us")
    if np.any(t[1:] < t[:-1]):
        raise InvalidSettingError(f"arrival {int(np.argmax(t[1:] < t[:-1])) + 2} precedes the one before it: sort them")
    if until_us is None:
        return t, FOREVER_US
    if not 0 <= until_us <= MAX_TIME_US:
        raise InvalidSettingError(f"horizon {until_us} us: expected a time from 0 to {MAX_TIME_US} us")
    return t[: np.searchsorted(t, until_us, side="right")], until_us


def keys_and_homes(scenario: Scenario, requests: int) -> tuple[Keys, Integers]:
    """Return the key of each of the first requests, and the home node of each key.

    Raises:
        InvalidSettingError: A key has no name.
    """
    key_ids = scenario.trace.key_ids
    key_ids = np.zeros(requests, np.int32) if key_ids is None else key_ids[:requests].astype(np.int32)
    homes = np.array(scenario.homes(), np.int64)
    if requests and not 0 <= key_ids.min() <= key_ids.max() < len(homes):
        numbers = f"key numbers from {key_ids.min()} to {key_ids.max()}"
        raise InvalidSettingError(f"{numbers}: expected numbers from 0, and a name in `keys` for each ({len(homes)})")
    return key_ids, homes


def sizes_and_capacity(scenario: Scenario, requests: int) -> tuple[Integers, int]:
    """Return the object sizes of the first requests and the capacity of a node [bytes].

    Without a capacity limit, the array is empty and the capacity is `FOREVER_US`.
    """
    sizes_bytes = scenario.trace.sizes_bytes
    if scenario.capacity_bytes is None or sizes_bytes is None:
        return np.zeros(0, np.int64), FOREVER_US
    return sizes_bytes[:requests].astype(np.int64), min(scenario.capacity_bytes, MAX_TIME_US)


def all_sizes(scenario: Scenario, requests: int) -> Integers:
    """Return the object sizes of the first requests, or zeros if the trace has no sizes [bytes]."""
    sizes_bytes = scenario.trace.sizes_bytes
    return np.zeros(requests, np.int64) if sizes_bytes is None else sizes_bytes[:requests].astype(np.int64)


def timings_row(scenario: Scenario) -> TimingsRow:
    """Return the timings as a row. Raises `InvalidSettingError` if adding a value to a time could overflow."""
    timings = TimingsRow(*astuple(scenario.timings))
    validate(timings)
    return timings


def new_totals(t: Integers) -> Records:
    """Return zeroed counts, except that the run ends no earlier than the last request."""
    totals = np.zeros(1, COUNTS)
    totals["end_us"] = t[-1] if len(t) else 0
    return totals


def new_spans(rows: int) -> Integers:
    """Return an array for up to `rows` spans. Engines count further spans but do not record them."""
    return np.zeros((rows, SPAN_COLUMNS), np.int64)
