"""Memory of a stack's nodes: how full each is, what it loses by that, and the parameter whose change would pay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from burstcache.access import names_of
from burstcache.adapters.use_table import UseTable
from burstcache.core.node_memory import NodeMemory
from burstcache.core.node_scaling import ENTRY_BYTES, NodeLoad, Scaling, best_scaling
from burstcache.core.worth import node_price_usd_per_h, sheet_of_region
from burstcache.queries.system import System
from burstcache.queries.transitions import StackRules


@dataclass(frozen=True, slots=True)
class NodeFullness:
    """The memory of one node by its latest checks."""

    node: str
    is_full: bool  # it evicted entries between its last two checks
    used_bytes: int
    limit_bytes: int
    wanted_bytes: int  # of the objects requested within a day; 0 if the node is not full
    evicted_per_h: float  # entries, in an hour of running
    lost_per_h: float  # hits, in an hour of running, at most


@dataclass(frozen=True, slots=True)
class StackMemory:
    """The memory of a stack's checked nodes, and the best change if one is full."""

    nodes: tuple[NodeFullness, ...]
    change: Scaling | None  # None: no node is full, or there is no larger size

    @property
    def full(self) -> list[NodeFullness]:
        """The full nodes."""
        return [node for node in self.nodes if node.is_full]


def stack_memory(system: System, rules: StackRules) -> StackMemory | None:
    """Return the memory of a stack's nodes. None under the thesis's policy, whose nodes keep no use.

    Raises:
        ServiceError: DynamoDB fails.
    """
    if not rules.settings.policy.takes_guests:
        return None
    names = names_of(rules.settings.redis_nodes)
    memories = {name: system.uses.read(name).memory for name in names}
    now_us = system.clock.now_us()
    wanted = {name: _wanted_bytes(system.uses, name, now_us) for name in names if memories[name].is_evicting}
    return memory_view(memories, wanted, rules)


def memory_view(memories: Mapping[str, NodeMemory], wanted: Mapping[str, int], rules: StackRules) -> StackMemory:
    """Build the view from the nodes' memory, and the bytes that each full node should hold."""
    settings = rules.settings
    loads = [NodeLoad(name, memory, wanted.get(name, 0)) for name, memory in memories.items()]
    usd_per_h = partial(node_price_usd_per_h, sheet_of_region(settings.region))
    change = best_scaling(loads, settings.node_type, rules.worth, usd_per_h)
    return StackMemory(tuple(_fullness(load) for load in loads if load.memory.watched_us), change)


def wanted_bytes_of(sizes_bytes: Iterable[int]) -> int:
    """Return the memory that objects of these sizes take on a node [bytes]."""
    return sum(size_bytes + ENTRY_BYTES for size_bytes in sizes_bytes)


def _wanted_bytes(uses: UseTable, node: str, now_us: int) -> int:
    return wanted_bytes_of(key.size_bytes for key in uses.newest_seen(node, now_us=now_us))


def _fullness(load: NodeLoad) -> NodeFullness:
    memory = load.memory
    return NodeFullness(
        node=load.node,
        is_full=load.is_full,
        used_bytes=memory.used_bytes,
        limit_bytes=memory.limit_bytes,
        wanted_bytes=load.wanted_bytes,
        evicted_per_h=float(memory.evicted_per_h),
        lost_per_h=float(memory.lost_per_h),
    )
