"""Text about nodes' memory, for `burstcache explain`, `burstcache advise` and the dashboard."""

from __future__ import annotations

from collections.abc import Iterator

from burstcache.core.node_scaling import Scaling
from burstcache.queries.node_memory import NodeFullness, StackMemory
from burstcache_terminal.text import number_text


def memory_lines(memory: StackMemory) -> Iterator[tuple[str, str]]:
    """Yield label and text of each full node, then of the best change."""
    for node in memory.full:
        yield node.node, node_text(node)
    if memory.full:
        yield "change", change_text(memory.change)


def node_text(node: NodeFullness) -> str:
    """Describe a full node."""
    lost = f"at most {number_text(node.lost_per_h)} hits" if node.lost_per_h else "no hit that readers have reported"
    return (
        f"full: {_mb_text(node.used_bytes)} of {_mb_text(node.limit_bytes)} used, objects of"
        f" {_mb_text(node.wanted_bytes)} requested within a day. In an hour of running it evicts"
        f" {number_text(node.evicted_per_h)} entries and loses {lost} by that"
    )


def change_text(change: Scaling | None) -> str:
    """Describe the best change, and what it earns and costs."""
    if change is None:
        return "none: the template has no larger size"
    setting, earns, costs = f"{change.parameter}={change.value}", change.earns_usd_per_h, change.costs_usd_per_h
    money = f"earns at most {number_text(earns)} USD in an hour in which all nodes run, and costs {number_text(costs)}"
    if change.pays:
        return f"{setting} (now {change.now}) {money} more"
    return f"none pays; of all, {setting} (now {change.now}) comes closest: it {money} more"


def _mb_text(size_bytes: int) -> str:
    return f"{number_text(size_bytes / 1024**2)} MB"
