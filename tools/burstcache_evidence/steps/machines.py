"""Steps of machines: boot, interruption, and a database of state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from burstcache.access import parse_nodes
from burstcache_cli.operate import invoke, ping_redis
from burstcache_cli.stack import Stack
from burstcache_evidence.steps.target import BODY_BYTES, HOT_KEY, PAUSE_S, NotReachedError, Target

_IN_A_ROW = 10  # reads that the interrupted node did not serve, before the fallback counts as complete


def boot(target: Target) -> dict[str, Any]:
    """Boot the Redis node and stop it, by hand."""
    boot_s = target.hold_node()
    answer = ping_redis(target.stack, target.node).answer
    found = {"machine": answer["machine"], "task_kind": answer["task_kind"], "boot_s": boot_s}
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
    (node,) = (each for each in parse_nodes(target.stack.output("RedisNodes")) if each.name == target.node)
    if node.is_task:
        cluster, task = _task(target)
        target.stack.client("ecs").stop_task(cluster=cluster, task=task, reason="evidence: an interruption")
    else:
        target.stack.client("ec2").stop_instances(InstanceIds=[node.instance_id])


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


def state(target: Target) -> dict[str, Any]:
    """Wake a database of state, release it, and look for its snapshot."""
    name = target.plan.parameters.get("StateDatabases", "")
    if not name:
        return {}

    def held(operation: str) -> Mapping[str, Any]:
        event = {"op": operation, "database": name, "holder": "evidence", "for_s": 300}
        answer: Mapping[str, Any] = invoke(target.stack, "StateFunctionArn", event)
        return answer

    began_s = time.monotonic()
    held("acquire")
    target.await_(f"database {name}", lambda: held("look")["phase"] == "running")
    awake_s = round(time.monotonic() - began_s, 2)
    held("release")
    asleep_s = target.await_(f"sleep of database {name}", lambda: held("look")["phase"] == "stopped")
    listed = target.stack.client("s3").list_objects_v2(Bucket=target.stack.output("StateBucketName"))
    return {"awake_s": awake_s, "asleep_s": asleep_s, "snapshots": listed.get("KeyCount", 0)}
