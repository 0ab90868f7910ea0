"""Configurations of Burstcache: readers' memory, nodes and S3 Express, in every combination that could be the best.

The combinations cover each size of a reader's memory, with and without S3 Express, and with zero to eight nodes of
each type. The largest size is the first that holds all objects. Nodes that cost more than others for less memory are
left out. Nodes are always on, or a policy boots and stops them by use. Cache functions serve during boots if they
could pay for their relay. Without a policy, one or two passes over the log yield exact results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from burstcache.core.node_kinds import node_items, node_names, node_usd_per_h
from burstcache_sim.bill import static_tiers
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.nodes import NodeGroup, candidate_nodes, node_capacity_bytes
from burstcache_sim.bill.policy_month import policy_month
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.bill.usage import idle_usage
from burstcache_sim.choose.advise.samconfig import INSTANCE_TYPES
from burstcache_sim.choose.advise.systems import System, Weighing, month_system
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.policies.policy import Options, WorthPolicy
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.progress import progress
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.result import RunResult
from burstcache_terminal.text import number_text

_ALWAYS_ON_SHARE = 0.9  # share of the month from which nodes count as always on
_LEAST_REPLAYED = 8  # minimum number of configurations replayed under the policies


@dataclass(frozen=True, slots=True)
class Choice:
    """A deployment of Burstcache and its results."""

    setup: Setup
    result: RunResult  # the log replayed in detail under tuned parameters, or a run of many months
    system: System
    policy: str = ""  # policy that boots and stops nodes or cache functions (empty if none)
    tried: Tried | None = None  # the thesis's policy with its best parameters (None for other deployments)

    @property
    def node_share(self) -> float:
        """Share of the month for which the nodes are billed (0 to 1)."""
        item, units = node_items(self.setup.instance_type)[0]
        node = f"Redis node {self.setup.instance_type}"
        lines = self.system.month.lines
        hours = sum(line.quantity / units for line in lines if line.item == item and line.text.startswith(node))
        return float(hours / HOURS_PER_MONTH / max(1, self.setup.nodes))

    @property
    def form(self) -> str:
        """The form of the deployment: the stack with or without nodes."""
        has_nodes = self.setup.nodes or self.setup.relay != "none"
        return "the stack with nodes" if has_nodes else "the stack without Redis nodes"

    @property
    def never_stops(self) -> bool:
        """Whether the policy keeps its nodes on for nearly the whole month."""
        return bool(self.policy) and self.node_share >= _ALWAYS_ON_SHARE


def static_choices(weighing: Weighing) -> list[Choice]:
    """Return all deployments without a policy."""
    has_express = _has_express(weighing)
    setups = list(_setups(weighing, has_express=has_express))
    return [_static(weighing, setup, weighing.usd_per_hit) for setup in progress(setups, text="combinations of tiers")]


def express_choices(weighing: Weighing, usd_per_hit: Fraction) -> list[Choice]:
    """Return the deployments with S3 Express and without nodes. Copies are made for this hit value [USD]."""
    setups = _setups(weighing, has_express=_has_express(weighing))
    return [_static(weighing, setup, usd_per_hit) for setup in setups if setup.express and not setup.nodes]


def scheduled_choices(
    weighing: Weighing, policies: Sequence[type[WorthPolicy]], static: Sequence[Choice]
) -> list[Choice]:
    """Return the deployments with nodes that a policy boots and stops by use.

    Upper bounds prune the search. A node that stops has at most the hits of an always-on node. It saves at most the
    always-on node's variable costs other than S3 (price, metrics and reports). Deployments that cannot win under these
    bounds are skipped, except for the most promising ones. The best deployment of each node size is also replayed,
    with and without S3 Express, because a small node may cost least when fewer hits are wanted. Cache functions save
    at most the waits that remain without them. If these waits are worth less than the relay costs, the relay is left
    out.

    Args:
        weighing: Conditions of the comparison. Without a hit value, no node boots.
        policies: Policies to try.
        static: All deployments without a policy (`static_choices`).
    """
    if not weighing.usd_per_hit:
        return []
    value = weighing.value

    def most_usd(choice: Choice) -> float:
        lines = choice.system.month.lines
        saved = (line.usd for line in lines if not (line.is_fixed or line.item.startswith("s3")))
        return choice.system.gain.net_usd(value) + sum(saved)

    def bridged_usd(choice: Choice) -> float:
        run, clock = choice.result, weighing.clock
        miss_share, mean_ms = 1 - clock.hits(run) / run.n, clock.with_burstcache(run).mean_ms
        left_usd = weighing.requests * (value.usd_per_hit * miss_share + value.usd_per_ms * mean_ms)
        return choice.system.gain.net_usd(value) + left_usd - relay_usd

    relay, relay_usd = weighing.workload.setup.relay, _relay_usd(weighing)
    best_usd = max(choice.system.gain.net_usd(value) for choice in static)
    scheduled: list[Choice] = []
    sizes: set[tuple[str, int, bool]] = set()

    def replay(setup: Setup, policy: type[WorthPolicy]) -> float:
        scheduled.append(_scheduled(weighing, setup, policy))
        return max(best_usd, scheduled[-1].system.gain.net_usd(value))

    with_nodes = sorted((choice for choice in static if choice.setup.nodes), key=most_usd, reverse=True)
    for choice in progress(with_nodes, text="nodes that a policy boots and stops"):
        setup = replace(choice.setup, always_on_nodes=0)
        size = (setup.instance_type, setup.nodes, setup.express)
        if most_usd(choice) <= best_usd and len(scheduled) >= _LEAST_REPLAYED and size in sizes:
            continue
        sizes.add(size)
        for policy in policies:
            best_usd = replay(setup, policy)
            if relay != "none" and bridged_usd(scheduled[-1]) > best_usd:
                best_usd = replay(replace(setup, relay=relay), policy)
    return scheduled


def recompute(weighing: Weighing, choice: Choice) -> Choice:
    """Return a deployment's results under other conditions: other requests, or another number of readers."""
    setup = replace(choice.setup, reader_processes=weighing.workload.setup.reader_processes)
    if choice.policy:
        return _scheduled(weighing, setup, WORTH_POLICIES[choice.policy])
    return _static(weighing, setup, weighing.usd_per_hit)


def _static(weighing: Weighing, setup: Setup, copied_usd: Fraction) -> Choice:
    of_month = partial(static_tiers.static_month, copied_usd=copied_usd if setup.express else None)
    system, run = month_system(weighing, setup, of_month, note=setup_text(setup))
    return Choice(setup, run, system)


def _scheduled(weighing: Weighing, setup: Setup, kind: type[WorthPolicy]) -> Choice:
    options = Options(hit_value_usd=weighing.usd_per_hit, has_relay=setup.relay != "none")
    policy = kind.from_options(options, policy_prices(weighing.workload.prices, setup))
    copied_usd = weighing.usd_per_hit if setup.express else None
    of_month = partial(policy_month, policy=policy, copied_usd=copied_usd)
    system, run = month_system(weighing, setup, of_month, note=f"{setup_text(setup)}; {kind.title} policy")
    return Choice(setup, run, system, kind.name)


def _relay_usd(weighing: Weighing) -> float:
    """Return the monthly cost of the relay without requests [USD]."""
    setup, month_us = weighing.workload.setup, HOURS_PER_MONTH * US_PER_H
    with_relay, without = (idle_usage(one, month_us) for one in (setup, replace(setup, relay="none")))
    return bill(with_relay, weighing.workload.prices).usd - bill(without, weighing.workload.prices).usd


def _has_express(weighing: Weighing) -> bool:
    """Return whether the region has S3 Express."""
    return bool(weighing.workload.prices.kinds("s3-express-get"))


def setup_text(setup: Setup) -> str:
    """Describe the parts of a setup."""
    memory, nodes = setup.reader_memory_bytes // 1024**2, setup.nodes
    several = "" if nodes == 1 else f"{nodes} "
    parts = [
        reader_memory_text(memory, setup.reader_processes) if memory else "",
        "" if not nodes else f"{several}{setup.instance_type}{' always on' if setup.always_on_nodes else ''}",
        "" if setup.relay == "none" else "cache functions",
        "S3 Express" if setup.express else "",
    ]
    return ", ".join(filter(None, parts)) or "S3 and nothing else"


def reader_memory_text(memory_mb: float, processes: int) -> str:
    """Describe the memory of each reader, and of all if there are several [MB]."""
    each = f"{number_text(memory_mb)} MB of memory per reader"
    all_mb = memory_mb * processes
    in_all = f"{number_text(all_mb)} MB" if all_mb < 1024 else f"{number_text(all_mb / 1024, digits=3)} GB"
    return each if processes == 1 else f"{each} ({in_all} in all)"


def _setups(weighing: Weighing, *, has_express: bool) -> Iterator[Setup]:
    """Yield the candidate setups, grouped by memory size, then by node."""
    base = weighing.workload.setup
    bare = replace(base, relay="none", nodes=0, always_on_nodes=0)
    # The proxy's own memory is too small and too short-lived to count.
    has_memory = weighing.has_memory and base.readers == "aws"
    sizes_mb = (0, *_enough(weighing.memory_mb, weighing)) if has_memory else (0,)
    for memory_mb in sizes_mb:
        for type_, nodes in ((bare.instance_type, 0), *_nodes(weighing)):
            for express in (False, True)[: 1 + has_express]:
                is_s3_alone = not (memory_mb or nodes or express)  # without copies, so it needs no queue
                yield replace(
                    bare,
                    reader_memory_bytes=memory_mb * 1024**2,
                    nodes=nodes,
                    always_on_nodes=nodes,
                    instance_type=type_,
                    express=express,
                    origin_events="direct" if is_s3_alone else base.origin_events,
                )


def _enough(sizes_mb: Sequence[int], weighing: Weighing) -> list[int]:
    """Return the memory sizes up to the first that holds all objects [MB]."""
    locality = weighing.locality
    needed_bytes = locality.working_bytes + static_tiers.ENTRY_BYTES * float(locality.objects + locality.new_objects)
    smaller = [size_mb for size_mb in sizes_mb if size_mb * 1024**2 < needed_bytes]
    return list(sizes_mb[: len(smaller) + 1])


def _nodes(weighing: Weighing) -> list[tuple[str, int]]:
    """Return the node types and counts worth trying of each kind, by ascending count."""
    prices = weighing.workload.prices
    candidates: list[NodeGroup] = []
    for kind in weighing.node_kinds:
        types = [type_ for type_ in node_names(prices, kind) if kind != "ec2" or type_ in INSTANCE_TYPES]
        usd_of = {type_: node_usd_per_h(prices, type_) for type_ in types}
        each_bytes = {type_: node_capacity_bytes(type_) or 0 for type_ in types}
        candidates += candidate_nodes(usd_of, each_bytes, weighing.locality.working_bytes)
    return [(nodes.type_, nodes.count) for nodes in sorted(candidates, key=lambda nodes: nodes.count)]
