"""Steps of machines: boot, interruption, and a database of state."""

from __future__ import annotations

import time
from typing import Any

from burstcache_cli.operate import ping_redis
from burstcache_cli.stack import Stack
from burstcache_evidence.steps.target import BODY_BYTES, HOT_KEY, PAUSE_S, NotReachedError, Target

_STACK_TAG = "aws:cloudformation:stack-name"  # that of the budget in the template
_IN_A_ROW = 10  # reads that the interrupted node did not serve, before the fallback counts as complete


def first_boot(target: Target) -> dict[str, Any]:
    """Read a key through every tier while the node's instance is in its first boot, if it still is."""
    if not target.instance or "lambda" not in target.plan.tiers:
        return {}
    found = {"instance": _instance_state(target)}
    if found["instance"] not in ("pending", "running"):  # its set-up has ended, and switched it off
        return found
    key, statuses, tiers = "evidence/first-boot.txt", list[int](), list[str]()
    target.put(key, b"f" * BODY_BYTES)

    def is_in_redis() -> bool:
        reply = target.ask(key)
        statuses.append(reply.status)
        if not tiers or tiers[-1] != reply.tier:
            tiers.append(reply.tier)
        return reply.tier == "redis"

    took_s = target.await_("Redis after the first boot", is_in_redis, PAUSE_S)
    failed = sum(status != 200 for status in statuses)
    return {**found, "redis_s": took_s, "tiers": tiers, "failed": failed, "stop_s": target.release_node()}


def _instance_state(target: Target) -> str:
    (reservation,) = target.stack.client("ec2").describe_instances(InstanceIds=[target.instance])["Reservations"]
    return str(reservation["Instances"][0]["State"]["Name"])


def boot(target: Target) -> dict[str, Any]:
    """Boot the Redis node and stop it, by hand."""
    boot_s = target.hold_node()
    answer = ping_redis(target.stack, target.node).answer
    found = {"machine": answer["machine"], "task_kind": answer["task_kind"], "boot_s": boot_s}
    found["tags"] = tags_of(target)
    if answer["machine"] == "instance":
        return {**found, "stop_s": target.release_node()}
    cluster, task = _task(target)
    released_s, ecs = target.release_node(), target.stack.client("ecs")  # an ending task counts as off at once

    def has_stopped() -> bool:
        tasks = ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"]
        return not tasks or tasks[0]["lastStatus"] == "STOPPED"

    return {**found, "stop_s": round(released_s + target.await_(f"stop of the task of {target.node}", has_stopped), 2)}


def interrupt(target: Target) -> dict[str, Any]:
    """Stop the running node by its service, as a failure would, and read on."""
    target.hold_node()
    target.put(HOT_KEY, b"i" * BODY_BYTES)
    target.await_("Redis before the interruption", lambda: target.ask(HOT_KEY).tier == "redis", PAUSE_S)
    _stop_machine(target)
    statuses: list[int] = []
    tiers: list[str] = []
    began_s, fallback_s, elsewhere = time.monotonic(), 0.0, 0

    def is_over() -> bool:
        nonlocal fallback_s, elsewhere
        reply = target.ask(HOT_KEY)
        statuses.append(reply.status)
        if not tiers or tiers[-1] != reply.tier:
            tiers.append(reply.tier)
        if reply.tier == "redis":
            fallback_s, elsewhere = round(time.monotonic() - began_s, 2), 0
        else:
            elsewhere += 1
        return elsewhere >= _IN_A_ROW

    target.await_("a fallback after the interruption", is_over, PAUSE_S)
    failed = sum(status != 200 for status in statuses)
    found = {"fallback_s": fallback_s, "reads": len(statuses), "failed": failed, "tiers": tiers}
    return {**found, "stop_s": target.release_node()}


def _stop_machine(target: Target) -> None:
    if not target.instance:
        cluster, task = _task(target)
        target.stack.client("ecs").stop_task(cluster=cluster, task=task, reason="evidence: an interruption")
    else:
        target.stack.client("ec2").stop_instances(InstanceIds=[target.instance])


def _task(target: Target) -> tuple[str, str]:
    """Return cluster and ARN of the task on which the node runs."""
    ecs = target.stack.client("ecs")
    for cluster in clusters(target.stack):
        arns = [arn for page in ecs.get_paginator("list_tasks").paginate(cluster=cluster) for arn in page["taskArns"]]
        for task in ecs.describe_tasks(cluster=cluster, tasks=arns)["tasks"] if arns else ():
            if task.get("startedBy", "").startswith(f"{target.node}/") and task["desiredStatus"] == "RUNNING":
                return cluster, task["taskArn"]
    raise NotReachedError(f"{target.stack.name} has no running task of {target.node}")


def clusters(stack: Stack) -> list[str]:
    return [each.physical_id for each in stack.resources if each.type == "AWS::ECS::Cluster"]


def tags_of(target: Target) -> dict[str, bool]:
    """Return whether the stack's running tasks and its node's volumes have the tag that the budget counts, by kind."""
    ecs, found = target.stack.client("ecs"), dict[str, bool]()
    for cluster in clusters(target.stack):
        arns = [arn for page in ecs.get_paginator("list_tasks").paginate(cluster=cluster) for arn in page["taskArns"]]
        for task in ecs.describe_tasks(cluster=cluster, tasks=arns, include=["TAGS"])["tasks"] if arns else []:
            kind = "task of a service" if task["group"].startswith("service:") else "task of a node"
            found[kind] = found.get(kind, True) and _STACK_TAG in {tag["key"] for tag in task.get("tags", [])}
    if target.instance:
        of_node = [{"Name": "attachment.instance-id", "Values": [target.instance]}]
        for volume in target.stack.client("ec2").describe_volumes(Filters=of_node)["Volumes"]:
            found["volume of a node"] = _STACK_TAG in {tag["Key"] for tag in volume.get("Tags", [])}
    return found
