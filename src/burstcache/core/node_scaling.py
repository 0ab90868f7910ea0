"""Scaling of nodes: whether more memory would earn more than it costs, and the parameter to change.

A full node loses hits on objects that it has evicted. Their number is measured (`core.node_memory`), an upper bound.
The share that more memory brings back is estimated from the sizes of the objects requested within a day: requests are
taken as spread evenly over the bytes that do not fit. Unknown are the requests for slices of large objects, which take
memory, too, and the hours that larger nodes would run, since their price also decides about boots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from burstcache.core.node_kinds import (
    EC2_GIB,
    FARGATE_SIZES,
    MAX_NODES,
    NODE_TYPES,
    has_address,
    node_kind,
    task_size,
    with_address,
    without_address,
)
from burstcache.core.node_memory import NodeMemory
from burstcache.core.worth import Worth

ENTRY_BYTES = 256  # of Redis for each entry, besides the body: its name, headers and tables

Parameter = Literal["RedisInstanceType", "RedisTaskMemoryGb", "RedisNodeCount"]


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node's memory, and the size of what it should hold."""

    node: str
    memory: NodeMemory
    wanted_bytes: int  # of objects requested within a day, with their entries

    @property
    def is_full(self) -> bool:
        """Whether the node evicted entries between its last two checks."""
        return self.memory.is_evicting

    def regained(self, growth: Fraction) -> Fraction:
        """Return the share of the lost hits that memory of `growth` times the size brings back, estimated (0 to 1)."""
        more_bytes = (growth - 1) * self.memory.limit_bytes
        lacking_bytes = self.wanted_bytes - self.memory.limit_bytes
        return Fraction(1) if lacking_bytes <= more_bytes else more_bytes / lacking_bytes


@dataclass(frozen=True, slots=True)
class Scaling:
    """A change of one parameter that gives full nodes more memory, for an hour in which all nodes run."""

    parameter: Parameter
    now: str
    value: str
    lost_usd_per_h: float  # value of all hits lost to memory, at most [USD]
    earns_usd_per_h: float  # value of the hits brought back, at most [USD]
    costs_usd_per_h: float  # of the change [USD]

    @property
    def pays(self) -> bool:
        """Whether the change may earn more than it costs."""
        return self.earns_usd_per_h > self.costs_usd_per_h


def best_scaling(
    loads: Sequence[NodeLoad], node_type: str, worth: Worth, usd_per_h: Callable[[str], Fraction]
) -> Scaling | None:
    """Return the change with the highest net value, or None if no node is full or no size is left.

    Args:
        loads: All nodes of the stack.
        node_type: Their name, such as `t4g.micro` or `fargate-spot:2GB`.
        worth: Worth of hits.
        usd_per_h: Returns the price of an hour of a node by its name [USD].
    """
    full = [load for load in loads if load.is_full]
    if not full:
        return None
    lost_usd = worth.hit_usd * sum(load.memory.lost_per_h for load in full)

    def scaling(parameter: Parameter, now: str, value: str, growth: Fraction, costs_usd: Fraction) -> Scaling:
        regained = sum((load.memory.lost_per_h * load.regained(growth) for load in full), Fraction(0))
        earns_usd = float(worth.hit_usd * regained)
        return Scaling(parameter, now, value, float(lost_usd), earns_usd, float(costs_usd))

    nodes, now_usd = len(loads), usd_per_h(node_type)
    changes = [
        scaling(parameter, _value(node_type), _value(name), growth, nodes * (usd_per_h(name) - now_usd))
        for parameter, name, growth in _larger(node_type)
    ]
    changes += [
        scaling("RedisNodeCount", str(nodes), str(more), Fraction(more, nodes), (more - nodes) * now_usd)
        for more in range(nodes + 1, MAX_NODES + 1)
    ]
    return max(changes, key=lambda change: change.earns_usd_per_h - change.costs_usd_per_h, default=None)


def _larger(node_type: str) -> Iterator[tuple[Parameter, str, Fraction]]:
    """Yield larger nodes of the same kind: parameter, name, and growth of the memory."""
    kind = node_kind(node_type)
    if kind == "ec2":
        now = Fraction(EC2_GIB[node_type]) if node_type in EC2_GIB else None
        for name in NODE_TYPES:
            if now is not None and EC2_GIB[name] > now:
                yield "RedisInstanceType", name, Fraction(EC2_GIB[name]) / now
        return
    _, now_gb = task_size(node_type)
    for size, (_, gb) in FARGATE_SIZES.items():
        if gb > now_gb:
            name = f"{kind}:{size}"
            yield "RedisTaskMemoryGb", with_address(name) if has_address(node_type) else name, gb / now_gb


def _value(name: str) -> str:
    """Return the parameter's value for a node's name."""
    return without_address(name).partition(":")[2].removesuffix("GB") or name
