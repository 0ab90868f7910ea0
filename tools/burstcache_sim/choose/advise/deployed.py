"""A deployed stack against the best configuration for the same log, and the parameters to change.

Of configurations that are nearly as good as the best, the one with the fewest changes is recommended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from burstcache.core.node_kinds import NODE_KINDS, NodeKind, node_kind
from burstcache.core.parameters import live_parameters
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.policy_month import policy_month
from burstcache_sim.bill.setup import OriginEvents, Setup, deployed_setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.bill.static_tiers import static_month
from burstcache_sim.choose.advise.advice import Advice, parameters_of
from burstcache_sim.choose.advise.configurations import Choice, setup_text
from burstcache_sim.choose.advise.samconfig import template_of
from burstcache_sim.choose.advise.systems import System, Weighing, month_system, our_system
from burstcache_sim.policies.policy import Options
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import Thesis
from burstcache_terminal.text import usd_text

_NEARLY = 0.01  # of the deployed stack's bill: a gain below this is no reason to change anything
_LEAST_USD = 0.01
# Parameters that the log does not decide: a stack keeps its bucket, front door and limits.
_KEPT = {"OriginBucketName", "FrontDoor", "ApiAuth", "AlbScheme", "CertificateArn"}
_LIMITS = {"ThrottleRatePerS", "ThrottleBurstRequests", "MaxHotKeys"}


@dataclass(frozen=True, slots=True)
class DeployedStack:
    """A stack as it is deployed."""

    name: str
    parameters: Mapping[str, str]  # of the template
    region: str

    @property
    def origin_events(self) -> OriginEvents:
        """The way of S3's events of writes to the stack."""
        return deployed_setup(self.parameters).origin_events

    @property
    def hit_value_usd(self) -> float:
        """The stack's value of a hit [USD]."""
        return float(self.parameters.get("HitValueUsdPerMillion", 10)) / 1e6

    @property
    def kinds(self) -> tuple[NodeKind, ...]:
        """The kinds of nodes to compare: EC2 instances, and the stack's own."""
        own = node_kind(deployed_setup(self.parameters).instance_type)
        return tuple(kind for kind in NODE_KINDS if kind in ("ec2", own))


@dataclass(frozen=True, slots=True)
class Change:
    """A parameter to change."""

    parameter: str
    now: str  # empty: the stack has no such parameter
    value: str


@dataclass(frozen=True, slots=True)
class AgainstDeployed:
    """The deployed stack's results, and the changes that lead to the best configuration."""

    stack: DeployedStack
    deployed: System
    best: System
    deployed_net_usd: float
    best_net_usd: float
    changes: tuple[Change, ...]  # empty: no other configuration is worth more


def against_deployed(advice: Advice, stack: DeployedStack) -> AgainstDeployed:
    """Compare a stack as deployed with the best configuration that the advice has found.

    Raises:
        InvalidSettingError: The policy refuses the stack's parameters.
        PriceMissingError: The sheet lacks the price of the stack's nodes.
    """
    deployed, value = _deployed_system(advice, stack), advice.value
    now_usd, most_usd = deployed.gain.net_usd(value), advice.ours.system.gain.net_usd(value)
    least_usd = max(_LEAST_USD, _NEARLY * deployed.usd_per_month)
    if most_usd - now_usd <= least_usd:
        return AgainstDeployed(stack, deployed, deployed, now_usd, now_usd, ())
    every = [advice.ours, advice.thesis_choice, *advice.further]
    nearly_best = [choice for choice in every if most_usd - choice.system.gain.net_usd(value) <= least_usd]
    changes = [_changes(advice, choice, stack) for choice in nearly_best]
    fewest = min(range(len(changes)), key=lambda number: len(changes[number]))  # of equals, the best one comes first
    best = nearly_best[fewest].system
    return AgainstDeployed(stack, deployed, best, now_usd, best.gain.net_usd(value), changes[fewest])


def deployed_lines(against: AgainstDeployed) -> list[str]:
    """Return the text: the stack as deployed, then the changes."""
    deployed = _text(against.deployed, against.deployed_net_usd)
    lines = [f"The stack {against.stack.name} as deployed: {deployed}"]
    if not against.changes:
        return [*lines, "CHANGE NOTHING: no other configuration of the stack is worth more."]
    changes = ", ".join(
        f'{change.parameter}="{change.value}"' + (f" (now {change.now})" if change.now else "")
        for change in against.changes
    )
    return [*lines, f"CHANGE {changes}: {_text(against.best, against.best_net_usd)}"]


def deployed_fields(against: AgainstDeployed) -> dict[str, Any]:
    """Return the comparison for JSON."""
    return {
        "stack_name": against.stack.name,
        "usd_per_month": against.deployed.usd_per_month,
        "in_memory_pct": against.deployed.in_memory_pct,
        "net_usd_per_month": against.deployed_net_usd,
        "changes": [
            {"parameter": change.parameter, "now": change.now, "value": change.value} for change in against.changes
        ],
        "changed_usd_per_month": against.best.usd_per_month,
        "changed_in_memory_pct": against.best.in_memory_pct,
        "changed_net_usd_per_month": against.best_net_usd,
        "text": deployed_lines(against),
    }


def _text(system: System, net_usd: float) -> str:
    return (
        f"{system.note}. {usd_text(system.usd_per_month)} USD a month, {system.in_memory_pct:.1f} % of the requests"
        f" answered without S3, net value {usd_text(net_usd)} USD."
    )


def _deployed_system(advice: Advice, stack: DeployedStack) -> System:
    """Return the deployed stack as a system that competes for the log."""
    workload, parameters = advice.workload, stack.parameters
    found = deployed_setup(parameters)
    setup = replace(
        workload.setup,
        instance_type=found.instance_type,
        cache_memory_mb=found.cache_memory_mb,
        nodes=found.nodes,
        always_on_nodes=found.always_on_nodes,
        relay=found.relay,
        express=found.express,
        origin_events=found.origin_events,
    )
    weighing = Weighing(workload, advice.clock, advice.value, advice.free_tiers, has_memory=False)
    copied_usd = Fraction(parameters.get("HitValueUsdPerMillion", "10")) / 10**6
    express_usd = copied_usd if setup.express else None
    name = parameters.get("Policy", "breakeven")
    if not setup.decides:
        of_month = partial(static_month, copied_usd=express_usd)
        return month_system(weighing, setup, of_month, note=setup_text(setup))[0]
    if name == Thesis.name:
        return _thesis_system(advice, setup, parameters)
    kind = WORTH_POLICIES[name]
    policy = kind.from_options(
        Options(hit_value_usd=copied_usd, has_relay=setup.relay != "none"), policy_prices(workload.prices, setup)
    )
    scheduled = partial(policy_month, policy=policy, copied_usd=express_usd)
    return month_system(weighing, setup, scheduled, note=f"{setup_text(setup)}; {kind.title} policy")[0]


def _thesis_system(advice: Advice, setup: Setup, parameters: Mapping[str, str]) -> System:
    policy = Thesis(
        live_parameters(
            rate=parameters.get("PolicyRatePerMin", "9"),
            sensitivity=parameters.get("PolicySensitivity", "4"),
            overrides=parameters.get("PolicyOverrides", ""),
        ),
        has_relay=setup.relay != "none",
    )
    workload = advice.workload
    capacity_bytes = None if workload.capacity_bytes is None else node_capacity_bytes(setup.instance_type)
    workload = replace(workload, setup=setup, capacity_bytes=capacity_bytes)
    weighing = Weighing(workload, advice.clock, advice.value, advice.free_tiers, has_memory=False)
    system = our_system(weighing, workload.replay_in_detail(policy), advice.others[0])
    return replace(system, note=f"{setup_text(setup)}; the thesis's policy")


def _changes(advice: Advice, best: Choice, stack: DeployedStack) -> tuple[Change, ...]:
    parameters = stack.parameters
    weighing = Weighing(advice.workload, advice.clock, advice.value, advice.free_tiers, has_memory=False)
    wanted = template_of(best.setup, parameters_of(weighing, best), parameters)
    if wanted.get("ExpressZone") and advice.workload.prices.region != stack.region:
        wanted["ExpressZone"] = parameters.get("ExpressZone") or f"a zone of {stack.region}"
    changes = []
    for name, value in wanted.items():
        now = parameters.get(name, "")
        is_limit_kept = name in _LIMITS and now and float(now) >= float(value)
        if name not in _KEPT and not _is_same(now, value) and not is_limit_kept:
            changes.append(Change(name, now, value))
    return tuple(changes)


def _is_same(now: str, value: str) -> bool:
    try:
        return float(now) == float(value)
    except ValueError:
        return now == value
