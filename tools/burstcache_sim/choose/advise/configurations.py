"""The ways to deploy Burstcache: readers' memory, nodes, S3 Express, in every mixture that could be the best.

That is every size of a reader's memory, with and without S3 Express, without a node and with up to eight of each type,
but for those that are both dearer and smaller than others, up to what holds all objects; the nodes never stop, or a
policy judges each by its use, and bridges boots by cache functions where that could pay for their relay. Where nothing
is decided, a pass or two over the log give the exact answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from burstcache_sim.bill import ladder
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.decided import month_under
from burstcache_sim.bill.express import rule_of
from burstcache_sim.bill.nodes import node_capacity_bytes, worth_trying
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.bill.spending import weighed
from burstcache_sim.bill.usage import idle_usage
from burstcache_sim.choose.advise.samconfig import INSTANCE_TYPES
from burstcache_sim.choose.advise.systems import System, Weighing, month_system
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.policies.policy import Options, WorthPolicy
from burstcache_sim.progress import progress
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.express import CopyRules
from burstcache_sim.world.result import RunResult

_ALWAYS_ON_SHARE = 0.9  # of the month
_LEAST_JUDGED = 8  # that are replayed under the policies, whether or not they could be the best


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to deploy Burstcache, and what it gives."""

    setup: Setup
    result: RunResult  # of the log, with details, under tuned parameters; or of many months
    system: System
    policy: str = ""  # what decides; empty: nothing is decided
    tried: Tried | None = None  # the thesis's policy under its best parameters

    @property
    def node_share(self) -> float:
        """Share of the month that the nodes are billed for (0 to 1)."""
        hours = sum(line.quantity for line in self.system.month.lines if line.item.startswith("ec2:"))
        return float(hours / HOURS_PER_MONTH / max(1, self.setup.nodes))

    @property
    def form(self) -> str:
        """Which of the two things that are deployed it is."""
        has_nodes = self.setup.nodes or self.setup.relay != "none"
        return f"the stack {'with' if has_nodes else 'without'} nodes"

    @property
    def never_stops(self) -> bool:
        """Whether the policy is an always-on node in truth."""
        return bool(self.policy) and self.node_share >= _ALWAYS_ON_SHARE


def standing(weighing: Weighing) -> list[Choice]:
    """Return all ways to deploy Burstcache in which nothing is decided."""
    rule = _rule(weighing, weighing.usd_per_hit)
    setups = list(_setups(weighing, has_express=rule is not None))
    return [_still(weighing, setup, rule) for setup in progress(setups, text="mixtures of tiers")]


def copying(weighing: Weighing, usd_per_hit: Fraction) -> list[Choice]:
    """Return the ways with S3 Express and without a node, had a hit another value: it decides what is copied [USD]."""
    rule = _rule(weighing, usd_per_hit)
    setups = _setups(weighing, has_express=rule is not None)
    return [_still(weighing, setup, rule) for setup in setups if setup.express and not setup.nodes]


def judged(weighing: Weighing, policies: Sequence[type[WorthPolicy]], still: Sequence[Choice]) -> list[Choice]:
    """Return the ways to deploy Burstcache with nodes that a policy starts and stops by their use.

    A node that stops has at most the hits of one that never does, and saves at most what that one takes apart from
    S3 and what stands by the hour: its price, metrics, reports. What cannot be the best even so is left out, but
    for the most promising ones, and the most promising mixture with each size of nodes, with and without S3
    Express: where fewer hits are wanted, a small one may cost least. Cache functions save at most the waits that
    are left without them; where these are not worth the relay, it is left out.

    Args:
        weighing: By what they are weighed; without a value of a hit nothing boots.
        policies: Which policies are tried.
        still: All ways in which nothing is decided (`standing`).
    """
    if not weighing.usd_per_hit:
        return []
    value, rule = weighing.value, _rule(weighing, weighing.usd_per_hit)

    def most_usd(choice: Choice) -> float:
        lines = choice.system.month.lines
        saved = (line.usd for line in lines if not (line.is_fixed or line.item.startswith("s3")))
        return choice.system.gain.net_usd(value) + sum(saved)

    def bridged_usd(choice: Choice) -> float:
        run, clock = choice.result, weighing.clock
        lacking, mean_ms = 1 - clock.hits(run) / run.n, clock.with_burstcache(run).mean_ms
        left_usd = weighing.requests * (value.usd_per_hit * lacking + value.usd_per_ms * mean_ms)
        return choice.system.gain.net_usd(value) + left_usd - relay_usd

    relay, relay_usd = weighing.workload.setup.relay, _relay_usd(weighing)
    best_usd = max(choice.system.gain.net_usd(value) for choice in still)
    found: list[Choice] = []
    sizes: set[tuple[str, int, bool]] = set()

    def judge(setup: Setup, kind: type[WorthPolicy]) -> float:
        found.append(_judged(weighing, setup, kind, rule))
        return max(best_usd, found[-1].system.gain.net_usd(value))

    with_nodes = sorted((one for one in still if one.setup.nodes), key=most_usd, reverse=True)
    for choice in progress(with_nodes, text="nodes that are judged by their use"):
        setup = replace(choice.setup, always_on_nodes=0)
        size = (setup.instance_type, setup.nodes, setup.express)
        if most_usd(choice) <= best_usd and len(found) >= _LEAST_JUDGED and size in sizes:
            continue
        sizes.add(size)
        for kind in policies:
            best_usd = judge(setup, kind)
            if relay != "none" and bridged_usd(found[-1]) > best_usd:
                best_usd = judge(replace(setup, relay=relay), kind)
    return found


def _still(weighing: Weighing, setup: Setup, rule: CopyRules | None) -> Choice:
    of_month = partial(ladder.month_of, rule=rule if setup.express else None)
    system, run = month_system(weighing, setup, of_month, note=setup_text(setup))
    return Choice(setup, run, system)


def _judged(weighing: Weighing, setup: Setup, kind: type[WorthPolicy], rule: CopyRules | None) -> Choice:
    options = Options(hit_value_usd=weighing.usd_per_hit, has_relay=setup.relay != "none")
    policy = kind.from_options(options, weighed(weighing.workload.prices, setup))
    of_month = partial(month_under, policy=policy, rule=rule if setup.express else None)
    system, run = month_system(weighing, setup, of_month, note=f"{setup_text(setup)}; {kind.title} policy")
    return Choice(setup, run, system, kind.name)


def _relay_usd(weighing: Weighing) -> float:
    """Return what the relay that may be had costs a month without a request [USD]."""
    setup, month_us = weighing.workload.setup, HOURS_PER_MONTH * US_PER_H
    with_relay, without = (idle_usage(one, month_us) for one in (setup, replace(setup, relay="none")))
    return bill(with_relay, weighing.workload.prices).usd - bill(without, weighing.workload.prices).usd


def _rule(weighing: Weighing, worth_usd: Fraction) -> CopyRules | None:
    """Return when objects are copied; None where there is no S3 Express."""
    prices, setup = weighing.workload.prices, weighing.workload.setup
    if not prices.kinds("s3-express-get"):
        return None
    is_kept = weighing.locality.objects_bytes <= LARGEST_OBJECT_BYTES[setup.front_door]
    return rule_of(weighing.locality.sizes_bytes, prices, float(worth_usd), is_kept=is_kept)


def setup_text(setup: Setup) -> str:
    """Return what a setup consists of, in words."""
    memory, nodes = setup.reader_memory_bytes // 1024**2, setup.nodes
    several = "" if nodes == 1 else f"{nodes} "
    parts = [
        f"{memory} MB of each reader's memory" if memory else "",
        "" if not nodes else f"{several}{setup.instance_type}{' always on' if setup.always_on_nodes else ''}",
        "" if setup.relay == "none" else "cache functions",
        "S3 Express" if setup.express else "",
    ]
    return ", ".join(filter(None, parts)) or "S3 and nothing else"


def _setups(weighing: Weighing, *, has_express: bool) -> Iterator[Setup]:
    """Yield what could be deployed; setups of one memory size, and of one node, in a row."""
    given = weighing.workload.setup
    bare = replace(given, relay="none", nodes=0, always_on_nodes=0)
    # The proxy's own memory is too small and too short-lived to count.
    has_memory = weighing.has_memory and given.readers == "aws"
    sizes_mb = (0, *_enough(weighing.memory_mb, weighing)) if has_memory else (0,)
    for memory_mb in sizes_mb:
        for type_, nodes in ((bare.instance_type, 0), *_nodes(weighing)):
            for express in (False, True)[: 1 + has_express]:
                yield replace(
                    bare,
                    reader_memory_bytes=memory_mb * 1024**2,
                    nodes=nodes,
                    always_on_nodes=nodes,
                    instance_type=type_,
                    express=express,
                )


def _enough(sizes_mb: Sequence[int], weighing: Weighing) -> list[int]:
    """Return the sizes up to the first that holds every object."""
    locality = weighing.locality
    needed_bytes = locality.working_bytes + ladder.ENTRY_BYTES * float(locality.objects + locality.new_objects)
    smaller = [size_mb for size_mb in sizes_mb if size_mb * 1024**2 < needed_bytes]
    return list(sizes_mb[: len(smaller) + 1])


def _nodes(weighing: Weighing) -> list[tuple[str, int]]:
    """Return the nodes worth trying and how many, as many of each type in a row."""
    prices = weighing.workload.prices
    types = [type_ for type_ in INSTANCE_TYPES if type_ in prices.kinds("ec2:")]
    usd_of = {type_: prices.usd(f"ec2:{type_}") for type_ in types}
    each_bytes = {type_: node_capacity_bytes(type_) or 0 for type_ in types}
    found = worth_trying(usd_of, each_bytes, weighing.locality.working_bytes)
    return [(nodes.type_, nodes.count) for nodes in sorted(found, key=lambda nodes: nodes.count)]
