"""The limits of the advice: its assumptions, and peculiarities of the log."""

from __future__ import annotations

from math import ceil

from burstcache.core.node_kinds import node_kind
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

_PROXY_S3_S = 0.08  # proxy and scheduler time of a GET from S3 (`burstcache_sim.bill.usage`)
_CONTROL = 1  # concurrent executions that boot or check a node
_NEW_ACCOUNT = 10  # limit of concurrent Lambda executions in a new AWS account
_FEW_CANDIDATES = 300


def assumptions(advice: Advice) -> list[str]:
    """Return the assumptions behind the advice, and peculiarities of the log."""
    workload, demand, tiers = advice.workload, advice.workload.demand, advice.clock.tiers
    hours = demand.period_us / US_PER_H
    lines = [
        f"Traffic: the log repeats once per {duration_text(demand.period_us / US_PER_S)}, {_objects(advice)}."
        " Always-on nodes and stored copies stay warm. Under the thesis's policy each repetition starts cold."
        + (" A log shorter than an hour says little about a month: see --period-hours." if hours < 1 else ""),
        f"Latency to the first byte (assumed, in the region): S3 {tiers.s3_ms:g} ms, cache function"
        f" {tiers.lambda_ms:g}, Redis {tiers.redis_ms:g}; S3 Express 5, EFS 3, CloudFront 10 (no measurement was"
        f" found). Transfer comes on top: S3's mean answer for this log takes {advice.clock.s3_ms:.3g} ms. A hit is"
        f" judged by its first byte. {_way(advice)}",
        "Caches too small for all objects evict by LRU.",
    ]
    if advice.ours.setup.nodes and node_kind(advice.ours.setup.instance_type) == "fargate-spot":
        rate = f"{float(advice.ours.setup.interruptions_per_h):g} interruptions an hour (assumed: AWS publishes none)"
        lines.append(
            f"Spot: {rate} end the runs of nodes that a policy boots, but not always-on nodes, ours or others'."
        )
    lines += _odd(advice)
    unchecked = sorted({line.text for line in advice.ours.system.bill.lines if UNCHECKED in line.source})
    doubts = f"; {UNCHECKED}: {', '.join(unchecked)}" if unchecked else ""
    column = "deducted" if advice.free_tiers else "only in the column of that name"
    lines.append(f"Prices: {workload.prices.name}, free tiers {column}{doubts}.")
    return lines


def _objects(advice: Advice) -> str:
    """Describe the objects that a repetition reads."""
    if advice.workload.same_objects:
        return "with the same objects each time (--same-objects)"
    new = count_text(round(advice.confidence.new_objects), "new object")
    return f"with {new} each time, estimated from how the number of objects grows within the log"


def _way(advice: Advice) -> str:
    """Describe the path from readers to caches."""
    if advice.workload.setup.readers == "aws":
        return "Readers are in the VPC and read everything directly."
    added = f"{advice.clock.front_door_ms:g} ms to all but S3 and CloudFront"
    return f"Readers are on the internet: a front door and a proxy add {added}."


def _odd(advice: Advice) -> list[str]:
    """Return notes on peculiarities of this log and its advice."""
    notes = (_clock, _sizes, _ranges, _redirects, _memory, _concurrency, _search)
    return [line for note in notes if (line := note(advice))]


def _clock(advice: Advice) -> str:
    if not has_whole_seconds(advice.workload.trace):
        return ""
    return "The log's clock has whole seconds, so requests within a second look simultaneous."


def _ranges(advice: Advice) -> str:
    text = ranges_text(advice.workload.trace)
    return f"{text}." if text else ""


def _sizes(advice: Advice) -> str:
    if advice.workload.trace.sizes_bytes is not None:
        return ""
    size = advice.workload.setup.object_bytes
    return f"The log has no sizes: every object counts as {size} bytes (--object-bytes)."


def _redirects(advice: Advice) -> str:
    workload = advice.workload
    if not workload.redirected:
        return ""
    share = f"{100 * workload.redirected / len(workload.trace):.1f} % of the requests are for objects above"
    largest_bytes = LARGEST_OBJECT_BYTES[workload.setup.front_door]
    where = f"{share} {largest_bytes / 1024:,.0f} KiB, which the stack's API redirects to S3."
    if not advice.ours.setup.reader_memory_bytes:
        return where
    return f"{where} Readers with the library read them past the API and keep their slices in memory."


def _memory(advice: Advice) -> str:
    setup, stored_bytes = advice.ours.setup, advice.workload.own_demand.stored_bytes
    if not setup.nodes:
        return ""
    capacity = node_capacity_bytes(setup.instance_type)
    objects = f"all objects ({stored_bytes / GIB:.2g} GiB)"
    if capacity and stored_bytes > capacity:
        holds = f"The {setup.instance_type} holds {capacity / GIB:.2g} GiB and not {objects}"
        return f"{holds}: it evicts the least recently used ones."
    if setup.instance_type == Setup().instance_type or setup.has_tasks:
        return ""
    return f"The {setup.instance_type} holds {objects}. A smaller node costs less and may do: try --instance-type."


def _concurrency(advice: Advice) -> str:
    if not advice.ours.setup.decides:
        return ""
    at_once = ceil(busiest_second(advice.workload.trace) * _PROXY_S3_S) + _CONTROL
    if advice.hot_keys + at_once <= _NEW_ACCOUNT:
        return ""
    running = (
        f"Up to {count_text(advice.hot_keys, 'cache function')} (MaxHotKeys) and about {at_once} other functions run"
        " at once"
    )
    return f"{running}: the account needs more concurrent executions than that; a new account has {_NEW_ACCOUNT}."


def _search(advice: Advice) -> str:
    candidates = advice.tuned.candidates
    if candidates >= _FEW_CANDIDATES or advice.ours.tried is None:
        return ""
    return f"Only {candidates} candidates were tried on the whole log. --candidates 1000 searches longer."
