"""The leftovers of a stack without load: what still runs, and which events are undelivered."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chaos.stage import Stage

_QUEUES = ("FailedEventsQueueUrl", "UndeliveredEventsQueueUrl")
_AT_REST = ("s3", "stopped")


def running(stage: Stage) -> Iterator[str]:
    """Yield running executions, machines, invocations, and rows of active keys and nodes; rows take longest."""
    for found in (_executions, _instances, _tasks, _invocations, _rows):
        yield from found(stage)


def executions(stage: Stage, machine_arn: str) -> Iterator[str]:
    """Yield the names of a machine's running executions."""
    pages = stage.client("stepfunctions").get_paginator("list_executions")
    for page in pages.paginate(stateMachineArn=machine_arn, statusFilter="RUNNING"):
        yield from (execution["name"] for execution in page["executions"])


def rows(stage: Stage) -> int:
    """Return the number of rows of the table."""
    pages = stage.client("dynamodb").get_paginator("scan")
    return sum(page["Count"] for page in pages.paginate(TableName=stage.cloud.outputs["TableName"], Select="COUNT"))


def undelivered(stage: Stage) -> Iterator[str]:
    """Yield the events in the queues of failed and undelivered events."""
    sqs = stage.client("sqs")
    for name in _QUEUES:
        take = partial(sqs.receive_message, QueueUrl=stage.cloud.outputs[name], MaxNumberOfMessages=10)
        while messages := take().get("Messages"):
            yield from (f"{name}: {message['Body']}" for message in messages)


def _executions(stage: Stage) -> Iterator[str]:
    for arn in stage.machines:
        yield from (f"execution {name}" for name in executions(stage, arn))


def _instances(stage: Stage) -> Iterator[str]:
    found = stage.client("ec2").describe_instances()["Reservations"]
    for instance in (each for group in found for each in group["Instances"]):
        if (state := instance["State"]["Name"]) not in ("stopped", "terminated"):
            yield f"instance {instance['InstanceId']} is {state}"


def _tasks(stage: Stage) -> Iterator[str]:
    ecs = stage.client("ecs")
    for cluster in ecs.list_clusters()["clusterArns"]:
        if arns := ecs.list_tasks(cluster=cluster)["taskArns"]:
            for task in ecs.describe_tasks(cluster=cluster, tasks=arns)["tasks"]:
                if task["lastStatus"] != "STOPPED":
                    yield f"task {task['taskArn']} is {task['lastStatus']}"


def _rows(stage: Stage) -> Iterator[str]:
    pages = stage.client("dynamodb").get_paginator("scan")
    for page in pages.paginate(TableName=stage.cloud.outputs["TableName"]):
        for item in page["Items"]:
            sk, phase = item["sk"]["S"], item.get("phase", {}).get("S", "")
            if sk in ("ROUTE", "NODE") and phase and phase not in _AT_REST:
                yield f"row {item['pk']['S']} is {phase}"
            elif sk.startswith("LEASE#"):
                yield f"lease {item['pk']['S']} {sk}"


def _invocations(stage: Stage) -> Iterator[str]:
    if count := stage.cloud.invocations_under_way:
        yield f"{count} invocations"
