"""The account function, a custom resource that prepares the account for the stack and checks the account's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache.adapters.account import Account
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.stack_answer import fail, succeed
from burstcache.core.errors import AccountTooSmallError
from burstcache.core.limits import Limits, Needs, busy_concurrency, node_task_vcpus, shortfalls
from burstcache.handlers._init import logs_requests
from burstcache.logs import logger


@logs_requests
def handler(event: dict[str, Any], context: Any) -> None:
    """Create missing resources, check limits, and always answer CloudFormation. Delete nothing."""
    physical_id = str(event.get("PhysicalResourceId") or event["LogicalResourceId"])
    attributes: dict[str, str] = {}
    try:
        if event["RequestType"] != "Delete":
            limits = prepare(event["ResourceProperties"], _account())
            attributes["BusyConcurrency"] = str(busy_concurrency(limits.concurrency))
    except AccountTooSmallError as error:
        fail(event, physical_id, str(error))
    except Exception as error:
        logger().exception("the account cannot be prepared")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
    else:
        succeed(event, physical_id, attributes)


def prepare(properties: Mapping[str, Any], account: Account) -> Limits:
    """Prepare the account for the custom resource's properties, and return the account's limits.

    Raises:
        AccountTooSmallError: Some limits are too low. The message has one sentence for each limit.
        ServiceError: AWS fails.
    """
    if properties["EcsRole"] == "true" and account.make_ecs_role():
        logger().info("the service-linked role of ECS was missing")
    needs = Needs(
        hot_keys=int(properties["HotKeys"]),
        pool_members=int(properties["PoolMembers"]),
        reserved=int(properties["ProxyConcurrency"]),
        node_type=properties["NodeType"],
        nodes=int(properties["Nodes"]) + _count(properties["Databases"]),
        task_vcpus=float(properties["TaskVcpus"]),
        node_task=properties["NodeTask"],
        node_tasks=int(properties["NodeTasks"]),
        state_task=properties["StateTask"],
        state_tasks=_count(properties["StateTasks"]),
    )
    spot_vcpus, on_demand_vcpus = node_task_vcpus(needs)
    limits = Limits(
        concurrency=account.concurrency(),
        node_vcpus=account.node_vcpus() if needs.nodes else None,
        task_vcpus=account.task_vcpus() if needs.task_vcpus + spot_vcpus else None,
        on_demand_task_vcpus=account.on_demand_task_vcpus() if on_demand_vcpus else None,
        zones_without_node_type=(
            account.zones_without(needs.node_type, properties.get("Zones", [])) if needs.nodes else ()
        ),
        subnets_without_ipv6=(
            account.without_ipv6(properties["DualStackSubnets"]) if "DualStackSubnets" in properties else ()
        ),
    )
    if too_low := list(shortfalls(needs, limits)):
        raise AccountTooSmallError(". ".join(too_low))
    return limits


def _count(names: str) -> int:
    """Return the number of names in a list with commas."""
    return len([name for name in names.split(",") if name])


def _account() -> Account:
    clients = Clients("patient")
    return Account(clients.make("iam"), clients.make("service-quotas"), clients.ec2, clients.functions, SystemClock())
