"""Account function: a custom resource that makes sure of the account before the stack is made in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache.adapters.account import Account
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.stack_answer import fail, succeed
from burstcache.core.errors import AccountTooSmallError
from burstcache.core.limits import Limits, Needs, busy_concurrency, shortfalls
from burstcache.handlers._init import logs_requests
from burstcache.logs import logger


@logs_requests
def handler(event: dict[str, Any], context: Any) -> None:
    """Make what is missing, check limits, and answer CloudFormation, whatever happens. Nothing is ever deleted."""
    physical_id = str(event.get("PhysicalResourceId") or event["LogicalResourceId"])
    attributes: dict[str, str] = {}
    try:
        if event["RequestType"] != "Delete":
            limits = prepare(event["ResourceProperties"], _account())
            attributes["BusyConcurrency"] = str(busy_concurrency(limits.concurrency))
    except AccountTooSmallError as error:
        fail(event, physical_id, str(error))
    except Exception as error:
        logger().exception("account not as wanted")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
    else:
        succeed(event, physical_id, attributes)


def prepare(asked: Mapping[str, Any], account: Account) -> Limits:
    """Do what the properties of the custom resource ask for, and return the account's limits.

    Raises:
        AccountTooSmallError: With one sentence for each limit that is too low.
        ServiceError: AWS fails.
    """
    if asked["EcsRole"] == "true" and account.make_ecs_role():
        logger().info("the service-linked role of ECS was missing")
    needs = Needs(
        hot_keys=int(asked["HotKeys"]),
        pool_members=int(asked["PoolMembers"]),
        reserved=int(asked["ProxyConcurrency"]),
        node_type=asked["NodeType"],
        nodes=int(asked["Nodes"]) + len([name for name in asked["Databases"].split(",") if name]),
        task_vcpus=float(asked["TaskVcpus"]),
    )
    limits = Limits(
        concurrency=account.concurrency(),
        node_vcpus=account.node_vcpus() if needs.nodes else None,
        task_vcpus=account.task_vcpus() if needs.task_vcpus else None,
        zones_without_node_type=account.zones_without(needs.node_type, asked.get("Zones", [])) if needs.nodes else (),
    )
    if too_low := list(shortfalls(needs, limits)):
        raise AccountTooSmallError(". ".join(too_low))
    return limits


def _account() -> Account:
    clients = Clients("patient")
    return Account(clients.make("iam"), clients.make("service-quotas"), clients.ec2, clients.functions, SystemClock())
