"""What an answer of `burstcache advise` takes for granted, and what is odd about the log."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import UNCHECKED
from burstcache.sim.advise.advice import Advice
from burstcache.sim.advise.systems import node_capacity_bytes
from burstcache.sim.costs.usage import US_PER_H, Setup

_LARGEST_BYTES = {"http-api": 4_000_000, "alb": 700_000}  # larger objects are answered with a redirect to S3
_NEW_ACCOUNT = 10  # concurrent Lambda executions of a new AWS account
_FEW_CANDIDATES = 300
_UNITS = (("days", 86_400, 2), ("h", 3_600, 1), ("min", 60, 2))  # from how many of them on a time is said so


def assumptions(advice: Advice) -> list[str]:
    """Return what the answer takes for granted, and what is odd about the log."""
    workload, demand, tiers = advice.workload, advice.workload.demand, advice.clock.tiers
    hours = demand.period_us / US_PER_H
    lines = [
        f"Traffic: the log is repeated, once in {duration_text(demand.period_us / US_PER_S)}, and nothing is in memory"
        " when it starts anew."
        + (" A log shorter than an hour says little about a month: see --period-hours." if hours < 1 else ""),
        f"Latency (assumed, in the region): S3 {tiers.s3_ms:g} ms, cache function {tiers.lambda_ms:g}, Redis"
        f" {tiers.redis_ms:g}; Burstcache's front door and proxy add {advice.clock.front_door_ms:g} ms to each request,"
        " what else one could buy is read directly.",
        "A competitor keeps each object that was asked for once. CloudFront's hit is taken as 10 ms (no figure found).",
    ]
    lines += _odd(advice)
    simulated = advice.simulated
    lines.append(
        f"Not in the live system yet: the break-even policy ({simulated.tried.text} USD a hit) would serve"
        f" {simulated.system.in_memory_pct:.1f} % from memory for {simulated.system.usd_per_month:.2f} USD a month."
    )
    unchecked = sorted({line.text for line in advice.ours.system.bill.lines if UNCHECKED in line.source})
    doubts = f"; {UNCHECKED}: {', '.join(unchecked)}" if unchecked else ""
    lines.append(f"Prices: {workload.prices.name}, free tiers not taken off{doubts}.")
    return lines


def _odd(advice: Advice) -> list[str]:
    """Return what a person should know about this log and this answer."""
    return [line for tell in (_clock, _sizes, _memory, _concurrency, _search) if (line := tell(advice))]


def _clock(advice: Advice) -> str:
    arrivals_us = advice.workload.trace.arrivals_us
    if len(arrivals_us) < 2 or (arrivals_us % US_PER_S).any():
        return ""
    return "The log's clock has whole seconds: requests of one second look simultaneous."


def _sizes(advice: Advice) -> str:
    trace, setup = advice.workload.trace, advice.workload.setup
    if trace.sizes_bytes is None:
        return f"The log has no sizes: every object is taken as {setup.object_bytes} bytes (--object-bytes)."
    largest_bytes = _LARGEST_BYTES[setup.front_door]
    large_pct = 100 * float((trace.sizes_bytes > largest_bytes).mean())
    if not large_pct:
        return ""
    where = f"{large_pct:.1f} % of the requests are for objects above {largest_bytes / 1e6:g} MB"
    return f"{where}: the live system redirects them to S3, here they count as cached."


def _memory(advice: Advice) -> str:
    setup, stored_bytes = advice.workload.setup, advice.workload.demand.stored_bytes
    capacity = node_capacity_bytes(setup.instance_type)
    together = f"all objects ({stored_bytes / 1e9:.2g} GB)"
    if capacity and stored_bytes > capacity:
        fits = f"The {setup.instance_type} holds {capacity / 1e9:.2g} GB and not {together}"
        return f"{fits}: the least recently used ones leave."
    if setup.instance_type == Setup().instance_type:
        return ""
    return f"The {setup.instance_type} holds {together}. A smaller node costs less and may do: try --instance-type."


def _concurrency(advice: Advice) -> str:
    if advice.hot_keys + 1 <= _NEW_ACCOUNT:
        return ""
    needed = f"Up to {advice.hot_keys} cache functions live at once (MaxHotKeys)"
    return f"{needed}: the account must allow more concurrent executions than that; a new one has {_NEW_ACCOUNT}."


def _search(advice: Advice) -> str:
    tried = advice.tuned.candidates
    if tried >= _FEW_CANDIDATES:
        return ""
    return f"Only {tried} candidates were tried on the whole log. --candidates 1000 searches longer."


def duration_text(seconds: float) -> str:
    """Return a time as a person says it."""
    for unit, size_s, least in _UNITS:
        if seconds >= least * size_s:
            return f"{seconds / size_s:.3g} {unit}"
    return f"{seconds:.3g} s"
