"""What an answer of `burstcache advise` assumes, and what is odd about the log."""

from __future__ import annotations

from math import ceil

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import UNCHECKED
from burstcache_sim.bill.nodes import GIB, node_capacity_bytes
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.samconfig import busiest_second
from burstcache_sim.traces.inspect import ranges_text
from burstcache_sim.traces.select import has_whole_seconds
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import count_text, duration_text

_PROXY_S3_S = 0.08  # a GET from S3: proxy, then scheduler (`burstcache_sim.bill.usage`)
_CONTROL = 1  # a node's start or check
_NEW_ACCOUNT = 10  # concurrent Lambda executions of a new AWS account
_FEW_CANDIDATES = 300


def assumptions(advice: Advice) -> list[str]:
    """Return what the answer assumes, and what is odd about the log."""
    workload, demand, tiers = advice.workload, advice.workload.demand, advice.clock.tiers
    hours = demand.period_us / US_PER_H
    lines = [
        f"Traffic: the log is repeated, once in {duration_text(demand.period_us / US_PER_S)}, {_objects(advice)}."
        " What is always on, or stored, stays warm; under the thesis's policy each repetition starts empty."
        + (" A log shorter than an hour says little about a month: see --period-hours." if hours < 1 else ""),
        f"Latency to the first byte (assumed, in the region): S3 {tiers.s3_ms:g} ms, cache function"
        f" {tiers.lambda_ms:g}, Redis {tiers.redis_ms:g}; S3 Express 5, EFS 3, CloudFront 10 (no measurement was"
        f" found). Bytes come on top: S3's mean answer of this log takes {advice.clock.s3_ms:.3g} ms. A hit is judged"
        f" by its first byte. {_way(advice)}",
        "What cannot hold all objects holds those used last.",
    ]
    lines += _odd(advice)
    unchecked = sorted({line.text for line in advice.ours.system.bill.lines if UNCHECKED in line.source})
    doubts = f"; {UNCHECKED}: {', '.join(unchecked)}" if unchecked else ""
    column = "deducted" if advice.free_tiers else "only in the column of that name"
    lines.append(f"Prices: {workload.prices.name}, free tiers {column}{doubts}.")
    return lines


def _objects(advice: Advice) -> str:
    """Return which objects a repetition asks for."""
    if advice.workload.same_objects:
        return "each time for the same objects (--same-objects)"
    new = count_text(round(advice.confidence.new_objects), "object")
    return f"each time with {new} that nobody has asked for, as the growth of the log's own objects lets expect"


def _way(advice: Advice) -> str:
    """Return how those who read get to what they read."""
    if advice.workload.setup.readers == "aws":
        return "Readers are in the VPC and read everything directly."
    added = f"{advice.clock.front_door_ms:g} ms to all but S3 and CloudFront"
    return f"Readers are on the internet: a front door and a proxy add {added}."


def _odd(advice: Advice) -> list[str]:
    """Return what a person should know about this log and this answer."""
    return [
        line for tell in (_clock, _sizes, _ranges, _redirects, _memory, _concurrency, _search) if (line := tell(advice))
    ]


def _clock(advice: Advice) -> str:
    if not has_whole_seconds(advice.workload.trace):
        return ""
    return "The log's clock has whole seconds, so requests of one second look simultaneous."


def _ranges(advice: Advice) -> str:
    told = ranges_text(advice.workload.trace)
    return f"{told}." if told else ""


def _sizes(advice: Advice) -> str:
    if advice.workload.trace.sizes_bytes is not None:
        return ""
    size = advice.workload.setup.object_bytes
    return f"The log has no sizes: every object counts as {size} bytes (--object-bytes)."


def _redirects(advice: Advice) -> str:
    workload = advice.workload
    if not workload.redirected:
        return ""
    where = f"{100 * workload.redirected / len(workload.trace):.1f} % of the requests are for objects above"
    largest_bytes = LARGEST_OBJECT_BYTES[workload.setup.front_door]
    return f"{where} {largest_bytes / 1024:,.0f} KB, which the live system never caches: it redirects them to S3."


def _memory(advice: Advice) -> str:
    setup, stored_bytes = advice.ours.setup, advice.workload.own_demand.stored_bytes
    if not setup.nodes:
        return ""
    capacity = node_capacity_bytes(setup.instance_type)
    together = f"all objects ({stored_bytes / GIB:.2g} GB)"
    if capacity and stored_bytes > capacity:
        fits = f"The {setup.instance_type} holds {capacity / GIB:.2g} GB and not {together}"
        return f"{fits}: the least recently used ones leave."
    if setup.instance_type == Setup().instance_type:
        return ""
    return f"The {setup.instance_type} holds {together}. A smaller one costs less and may do: try --instance-type."


def _concurrency(advice: Advice) -> str:
    if not advice.ours.setup.decides:
        return ""
    at_once = ceil(busiest_second(advice.workload.trace) * _PROXY_S3_S) + _CONTROL
    if advice.hot_keys + at_once <= _NEW_ACCOUNT:
        return ""
    needed = (
        f"Up to {count_text(advice.hot_keys, 'cache function')} (MaxHotKeys) and about {at_once} others run at once"
    )
    return f"{needed}: the account must allow more concurrent executions than that; a new one has {_NEW_ACCOUNT}."


def _search(advice: Advice) -> str:
    tried = advice.tuned.candidates
    if tried >= _FEW_CANDIDATES or advice.ours.tried is None:
        return ""
    return f"Only {tried} candidates were tried on the whole log. --candidates 1000 searches longer."
