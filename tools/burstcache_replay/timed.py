"""Timed starts of functions and nodes in a replay, as inputs for the simulator."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace

from burstcache.core.keys import key_execution_name, key_hash
from burstcache.core.parameters import US_PER_S
from burstcache_replay.function_use import FunctionUse
from burstcache_replay.measured import Measured
from burstcache_replay.recording import Recorded
from burstcache_sim.world.timings import Timings


def as_measured(timings: Timings, recorded: Recorded, measured: Measured) -> Timings:
    """Replace start and boot times with a replay's means. Timings that the replay lacks stay unchanged."""
    timings = with_starts(timings, recorded, measured)
    boot_us = booted_us(measured)
    return timings if boot_us is None else replace(timings, redis_boot_us=boot_us)


def with_starts(timings: Timings, recorded: Recorded, measured: Measured) -> Timings:
    """Replace cache function start times with a replay's means. A cold start adds the INIT of a new environment."""
    if (call_us := started_us(recorded, measured)) is None:
        return timings
    cache = measured.functions.get("CacheFunction", FunctionUse())
    init_us = 1_000 * cache.init_ms // max(1, cache.cold_starts)
    return replace(timings, warm_start_us=call_us, cold_start_us=call_us + init_us)


def booted_us(measured: Measured) -> int | None:
    """Return the mean time from a boot to Redis's first response [us], or None if no node became ready."""
    boots_us = [run.ready_us - run.boot_us for run in measured.executions.node_runs if run.ready_us]
    return sum(boots_us) // len(boots_us) if boots_us else None


def started_us(recorded: Recorded, measured: Measured) -> int | None:
    """Return the mean time from a request to the call of its key's cache function [us], or None without calls."""
    replay = recorded.replay
    due_us: dict[str, list[float]] = {}
    for key, due_s in zip(recorded.keys, recorded.due_s.tolist(), strict=True):
        at_us = replay.began_us + (due_s - replay.origin_s) / replay.speed * US_PER_S
        due_us.setdefault(key_execution_name(key, key_hash(key), 0)[:-1], []).append(at_us)
    waits_us = [
        called_us - requests_us[before - 1]
        for name, called_us in measured.executions.lives.functions_us
        if (requests_us := due_us.get(name.rpartition("-")[0] + "-")) and (before := bisect(requests_us, called_us))
    ]
    return round(sum(waits_us) / len(waits_us)) if waits_us else None
