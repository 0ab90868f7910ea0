"""An account's limits, compared with a stack's peak needs. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burstcache.core.node_kinds import node_kind, task_size

# A hot key in a cache function occupies a unit of Lambda's concurrency for minutes. Three of four units remain for
# reads and control. In an account with ten units, a proxy that takes 60 ms and a scheduler that takes 20 ms then serve
# a hundred reads per second.
_SHARE_OF_HOT_KEYS = 4
# A member of the pool occupies a unit while it serves, for up to 15 minutes. With half of all units, the pool stays far
# below the tenant limit of 2,500 environments per 1,000 units (Lambda Developer Guide, "Tenant isolation mode").
_SHARE_OF_POOL = 2
# Units that Lambda keeps for functions without reserved concurrency (Lambda Developer Guide, "Configuring reserved
# concurrency").
_LEAST_UNRESERVED = 100


@dataclass(frozen=True, slots=True)
class Needs:
    """The maximum resources that a stack uses at the same time."""

    hot_keys: int = 0  # each in a cache function; 0 without a relay
    pool_members: int = 0
    reserved: int = 0  # concurrency that the stack reserves for its proxy
    node_type: str = ""
    nodes: int = 0  # on EC2, including the nodes of state databases
    task_vcpus: float = 0  # for relay and hub, on Fargate Spot
    node_task: str = ""  # name of the nodes that run as tasks, such as `fargate-spot:2GB`
    node_tasks: int = 0  # number of these nodes
    state_task: str = ""  # name of the state databases that run as tasks
    state_tasks: int = 0  # number of these databases


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum resources that an account may use at the same time in a region. None means unknown."""

    concurrency: int
    node_vcpus: float | None = None
    task_vcpus: float | None = None  # of Fargate Spot
    on_demand_task_vcpus: float | None = None  # of Fargate on demand
    zones_without_node_type: Sequence[str] = ()
    subnets_without_ipv6: Sequence[str] = ()  # of those that need it


def most_hot_keys(concurrency: int) -> int:
    """Return the maximum number of keys in cache functions that leaves most of Lambda's concurrency to reads."""
    return max(1, concurrency // _SHARE_OF_HOT_KEYS)


def busy_concurrency(concurrency: int) -> int:
    """Return the concurrency at which an account is close to its limit: four fifths of the limit."""
    return concurrency * 4 // 5


def vcpus_of(node_type: str) -> int:
    """Return the vCPUs of a Graviton instance type up to `large`: one for each `medium` except t4g, otherwise two.

    Source:
        Amazon EC2 Instance Types, "General purpose" and "Memory optimized", 2026-11.
    """
    family, _, size = node_type.partition(".")
    return 1 if size == "medium" and not family.startswith("t") else 2


def node_task_vcpus(needs: Needs) -> tuple[float, float]:
    """Return the vCPUs of all nodes and databases that run as tasks, on Fargate Spot and on demand.

    Those on Spot need both, since they run on demand where Spot has no capacity.
    """
    vcpus = [(node_kind(name), count * float(task_size(name)[0])) for name, count in _node_tasks(needs)]
    return sum(each for kind, each in vcpus if kind == "fargate-spot"), sum(each for _, each in vcpus)


def _node_tasks(needs: Needs) -> list[tuple[str, int]]:
    """Return the names and numbers of nodes and databases that run as tasks."""
    tasks = ((needs.node_task, needs.node_tasks), (needs.state_task, needs.state_tasks))
    return [(name, count) for name, count in tasks if count]


def shortfalls(needs: Needs, limits: Limits) -> Iterator[str]:
    """Yield a sentence with a remedy for each need that exceeds its limit."""
    unreserved = limits.concurrency - needs.reserved
    if needs.reserved and unreserved < _LEAST_UNRESERVED:
        yield (
            f"ProxyConcurrency {needs.reserved} of the account's {limits.concurrency} concurrent Lambda executions"
            f" leaves less than the {_LEAST_UNRESERVED} that Lambda keeps for other functions: use a lower value, 0 for"
            " none, or ask for more under Service Quotas, AWS Lambda, Concurrent executions"
        )
    elif needs.hot_keys > (most := most_hot_keys(unreserved)):
        yield (
            f"MaxHotKeys {needs.hot_keys} is too much for the account's {unreserved} concurrent Lambda executions, of"
            f" which each hot key holds one: use {most} at most, or ask for more under Service Quotas, AWS Lambda,"
            " Concurrent executions"
        )
    if needs.pool_members > (most := max(0, unreserved) // _SHARE_OF_POOL):
        yield (
            f"PoolMembers {needs.pool_members} is too much for the account's {unreserved} concurrent Lambda executions,"
            f" of which each member that serves holds one: use {most} at most, 0 for no pool, or ask for more under"
            " Service Quotas, AWS Lambda, Concurrent executions"
        )
    vcpus = needs.nodes * vcpus_of(needs.node_type)
    if limits.node_vcpus is not None and vcpus > limits.node_vcpus:
        yield (
            f"{needs.nodes} x {needs.node_type} have {vcpus} vCPUs and the account may run {limits.node_vcpus:g}: use"
            " fewer or smaller nodes and databases, or ask for more under Service Quotas, Amazon EC2, Running On-Demand"
            " Standard instances"
        )
    yield from _task_shortfalls(needs, limits)
    for zone in limits.zones_without_node_type:
        yield f"EC2 has no {needs.node_type} in zone {zone}: use another RedisInstanceType or another zone"
    if limits.subnets_without_ipv6:
        yield (
            f"no IPv6 block in {', '.join(limits.subnets_without_ipv6)}, which functions need to reach AWS: add one with a"
            " route out, or set Network to ipv4"
        )


def _task_shortfalls(needs: Needs, limits: Limits) -> Iterator[str]:
    spot_vcpus, on_demand_vcpus = node_task_vcpus(needs)
    of_nodes = [f"{count} x {name}" for name, count in _node_tasks(needs)]
    of_spot = [text for text in of_nodes if "fargate-spot:" in text]
    fewer = " or ".join(
        ["a lower RedisNodeCount"] * bool(needs.node_tasks)
        + ["fewer StateDatabases"] * bool(needs.state_tasks)
        + ["a lower RedisTaskMemoryGb"]
    )
    vcpus = needs.task_vcpus + spot_vcpus
    if limits.task_vcpus is not None and vcpus > limits.task_vcpus:
        tasks = ", ".join(of_spot + ["relay and hub"] * bool(needs.task_vcpus))
        remedies = [fewer] * bool(of_spot) + ["Relay and PoolHub none"] * bool(needs.task_vcpus)
        yield (
            f"the tasks ({tasks}) take {vcpus:g} vCPU of Fargate Spot and the account may run {limits.task_vcpus:g}:"
            f" use {', '.join(remedies)}, or ask for more under Service Quotas, AWS Fargate, Fargate Spot vCPU resource"
            " count"
        )
    if limits.on_demand_task_vcpus is not None and on_demand_vcpus > limits.on_demand_task_vcpus:
        reason = " where Spot has no capacity" if spot_vcpus else ""
        yield (
            f"{', '.join(of_nodes)} take {on_demand_vcpus:g} vCPU of Fargate on demand{reason} and the account may run"
            f" {limits.on_demand_task_vcpus:g}: use {fewer}, or ask for more under Service Quotas, AWS Fargate, Fargate"
            " On-Demand vCPU resource count"
        )
