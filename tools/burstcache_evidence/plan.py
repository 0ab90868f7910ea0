"""The plan of a run: as few stacks as have every kind of part, and an estimate of their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from burstcache_cli.monthly import MONTH_H, Item, Prices, database_name, idle_items, node_name
from burstcache_local.template.parameters import declared_values
from burstcache_local.template.read import read

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
MOST_USD = 1

# Assumptions of the estimate. Each is above what a run takes.
_STACK_H = Fraction(1)  # lifetime of a stack
_NODE_H = Fraction(1, 2)  # a node's runs, and those of a database or a hub
_READS = 6_000  # reads of a stack at the front door, also the Lambda requests
_READ_GB_S = Fraction(1, 10)  # one read by the proxy
_CACHE_GB_S = 900 * Fraction(1, 4) * 2  # two full lives of a cache function
_MEMBER_GB_S = Fraction(1769, 1024) * 120  # a pool member
_TRANSITIONS = 400
_CUSTOM_CODE_GB_S = 600  # self-tests and custom resources
_NAT_USD_PER_H = Fraction("0.11")  # a NAT gateway with its address, above the list price of every region
_PUTS, _PUT_USD = 1_000, Fraction("0.00001")  # writes of a stack, above the list price of every region
_POOLED_USD = Fraction("0.16")  # 1 GB from S3 to this machine, above the list price of every region
_COST_EXPLORER_USD = Fraction("0.01")  # a request of --bill (AWS, pricing of Cost Explorer)


@dataclass(frozen=True, slots=True)
class StackPlan:
    """One stack of a run.

    Attributes:
        kind: A short name, also part of the stack's name.
        parameters: Template parameters that differ from the defaults.
        tiers: The tiers above S3 that a burst of reads has to reach.
        update: Parameters of an update at the end, which replaces resources.
        is_swept: Whether its functions are measured with several sizes of memory.
    """

    kind: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    tiers: tuple[str, ...] = ("redis",)
    update: Mapping[str, str] = field(default_factory=dict)
    is_swept: bool = False


_PLANS = (
    StackPlan("default", {"LogRetentionDays": "1"}, is_swept=True),
    StackPlan(
        "nlb",
        {
            "Relay": "nlb",
            "RedisOn": "ec2",
            "Policy": "thesis",
            "Writes": "iam",
            "Tracing": "Active",
            "StateDatabases": "orders",
            "StateOn": "ec2",
            "StateGraceS": "10",
            "LogRetentionDays": "1",
        },
        ("lambda", "redis"),
        # The relay's subnet, target group and listener, and the routes in the HTTP API's body.
        {"RelayAddress": "public-ipv4", "Writes": "none"},
    ),
    StackPlan(
        "direct",
        {
            "Relay": "direct",
            "RedisOn": "fargate",
            "Policy": "thesis",
            "FrontDoor": "alb",
            "AlbScheme": "internet-facing",
            "PoolMembers": "8",
            "PoolHub": "fargate",
            "StateDatabases": "orders",
            "StateOn": "fargate-spot",
            "StateGraceS": "10",
            "LogRetentionDays": "1",
        },
        ("lambda", "redis"),
        {"AlbScheme": "internal"},  # another balancer, with its target group and listener
    ),
    StackPlan(
        "company",  # the run adds `VpcId` and subnets of a VPC without IPv6
        {
            "Network": "ipv4",
            "Relay": "direct",
            "RedisOn": "ec2",
            "Policy": "thesis",
            "FunctionsInVpc": "all",
            "ResourceTags": "evidence=company",
            "CreateDashboard": "no",
            "LogRetentionDays": "1",
        },
        ("lambda", "redis"),
    ),
)


def plans_of(kinds: Sequence[str], *, express_zone: str = "") -> list[StackPlan]:
    """Return the plans of these kinds, the first of them with S3 Express if a zone is named."""
    chosen = [plan for plan in _PLANS if plan.kind in kinds]
    if express_zone and chosen:
        first = chosen[0]
        chosen[0] = replace(first, parameters={**first.parameters, "ExpressZone": express_zone})
    return chosen


def estimated_items(plans: Sequence[StackPlan], region: str) -> list[Item]:
    """Return the bill that a run cannot exceed by its assumptions, item by item, from the project's price sheets."""
    template, prices = read(TEMPLATE), Prices(region)
    items = []
    for plan in plans:
        values = declared_values(template["Parameters"], {**plan.parameters, **_stand_ins(plan)})
        idle_usd = sum((item.usd for item in idle_items(template, values, region)), Fraction(0)) / MONTH_H * _STACK_H
        items.append(Item(f"{plan.kind}: idle for an hour", idle_usd))
        node_usd = prices.node_usd_per_h(node_name(template, values, region)) * _NODE_H
        items.append(Item(f"{plan.kind}: Redis node for half an hour", node_usd))
        if plan.parameters.get("StateDatabases"):
            database_usd = prices.node_usd_per_h(database_name(template, values, region)) * _NODE_H
            items.append(Item(f"{plan.kind}: database for half an hour", database_usd))
        if needs_network(plan):
            items.append(Item(f"{plan.kind}: NAT gateway for an hour", _NAT_USD_PER_H * _STACK_H))
        members = int(plan.parameters.get("PoolMembers", "0"))
        if members:
            hub_usd = (prices.usd("fargate-vcpu:arm") + 2 * prices.usd("fargate-memory:arm")) * _NODE_H
            items.append(Item(f"{plan.kind}: pool's hub for half an hour", hub_usd))
            items.append(Item(f"{plan.kind}: reads of a large object, 1 GB", _POOLED_USD))
        gb_s = _READS * _READ_GB_S + _CACHE_GB_S + members * _MEMBER_GB_S + _CUSTOM_CODE_GB_S
        items.append(Item(f"{plan.kind}: Lambda", gb_s * prices.usd("lambda-duration:arm")))
        requests_usd = _READS * (
            prices.usd("http-api-request") + prices.usd("lambda-request") + prices.usd("s3-get") + prices.usd("event")
        )
        items.append(Item(f"{plan.kind}: {_READS:,} reads", requests_usd))
        items.append(Item(f"{plan.kind}: {_PUTS:,} writes", _PUTS * (_PUT_USD + prices.usd("event"))))
        items.append(Item(f"{plan.kind}: {_TRANSITIONS} transitions", _TRANSITIONS * prices.usd("transition")))
    return [*items, Item("Cost Explorer, one request of --bill", _COST_EXPLORER_USD)]


def usd_of(items: Sequence[Item]) -> float:
    """Return the sum of a bill [USD]."""
    return float(sum((item.usd for item in items), Fraction(0)))


def needs_network(plan: StackPlan) -> bool:
    """Return whether a stack needs a VPC that the run makes."""
    return plan.parameters.get("Network") == "ipv4"


def _stand_ins(plan: StackPlan) -> dict[str, str]:
    """Return values of the parameters that a deployment adds to a plan's own."""
    certificate = "arn:aws:acm:us-east-1:123456789012:certificate/stand-in"
    subnets = dict.fromkeys(("SubnetIds", "RelaySubnetIds"), "subnet-00000001")
    return {
        **({"CertificateArn": certificate} if plan.parameters.get("FrontDoor") == "alb" else {}),
        **({"VpcId": "vpc-00000001", **subnets} if needs_network(plan) else {}),
    }
