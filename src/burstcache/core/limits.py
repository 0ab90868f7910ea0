"""What a stack needs at once of what its account may have at once: pure, in numbers that AWS gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A hot key in a cache function holds a unit of Lambda's concurrency for minutes. Three of four units stay for reads and
# control: in an account with ten, a proxy of 60 ms and a scheduler of 20 ms then answer a hundred reads a second.
_SHARE_OF_HOT_KEYS = 4
# A member of the pool holds a unit while it serves, for up to 15 minutes. By half of all units the pool stays far below
# its limit of tenants, 2,500 environments per 1,000 units (Lambda Developer Guide, "Tenant isolation mode").
_SHARE_OF_POOL = 2
# What Lambda leaves for functions without a reservation (Lambda Developer Guide, "Configuring reserved concurrency").
_LEAST_UNRESERVED = 100


@dataclass(frozen=True, slots=True)
class Needs:
    """What a stack has running at the same time at most."""

    hot_keys: int = 0  # each in a cache function; 0 without a relay
    pool_members: int = 0
    reserved: int = 0  # concurrency that the stack reserves for its proxy
    node_type: str = ""
    nodes: int = 0  # with those of databases of state
    task_vcpus: float = 0  # of relay and hub


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account may have running at the same time in a region; None where AWS does not say."""

    concurrency: int
    node_vcpus: float | None = None
    task_vcpus: float | None = None
    zones_without_node_type: Sequence[str] = ()


def most_hot_keys(concurrency: int) -> int:
    """Return how many keys may be in cache functions at once, so that reads keep most of Lambda's concurrency."""
    return max(1, concurrency // _SHARE_OF_HOT_KEYS)


def busy_concurrency(concurrency: int) -> int:
    """Return from how many functions at once an account is nearly out of Lambda's concurrency: four fifths of it."""
    return concurrency * 4 // 5


def vcpus_of(node_type: str) -> int:
    """Return the vCPUs of a Graviton instance type up to `large`: two, of a `medium` that is no t4g one.

    Source:
        Amazon EC2 Instance Types, "General purpose" and "Memory optimized", 2026-11.
    """
    family, _, size = node_type.partition(".")
    return 1 if size == "medium" and not family.startswith("t") else 2


def shortfalls(needs: Needs, limits: Limits) -> Iterator[str]:
    """Return what does not fit, each as a sentence with what to do; nothing if all does."""
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
    if limits.task_vcpus is not None and needs.task_vcpus > limits.task_vcpus:
        yield (
            f"the tasks take {needs.task_vcpus:g} vCPU and the account may run {limits.task_vcpus:g}: use Relay and"
            " PoolHub none, or ask for more under Service Quotas, AWS Fargate, Fargate Spot vCPU resource count"
        )
    for zone in limits.zones_without_node_type:
        yield f"EC2 has no {needs.node_type} in zone {zone}: use another RedisInstanceType or another zone"
