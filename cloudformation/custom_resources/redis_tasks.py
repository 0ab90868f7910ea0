"""Handler of the custom resource that ends Redis tasks: ECS deletes no cluster in which a task runs.

It answers every request of CloudFormation, also after a failure. The cluster's name identifies the resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from botocore.config import Config

from custom_resources.stack_answer import fail, succeed

logger = Logger()
_CONFIG = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5})
_POLL_S, _ATTEMPTS = 5, 60  # of the waiter, within the function's timeout
_MOST_TASKS = 100  # of one call of DescribeTasks


def handler(event: dict[str, Any], context: Any) -> None:
    """End all tasks of Family in Cluster, unless the resource is new."""
    properties = event.get("ResourceProperties", {})
    physical_id = str(event.get("PhysicalResourceId") or properties["Cluster"])
    try:
        if event["RequestType"] == "Update":
            physical_id = properties["Cluster"]  # with another cluster, CloudFormation then deletes the former resource
        if event["RequestType"] != "Create":
            end_tasks(boto3.client("ecs", config=_CONFIG), properties)
    except Exception as error:
        logger.exception("tasks are left")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
        return
    succeed(event, physical_id, {"Family": properties["Family"]})


def end_tasks(ecs: Any, properties: Mapping[str, Any]) -> None:
    """Stop the tasks and wait until ECS has released their network interfaces.

    Raises:
        botocore.exceptions.ClientError: ECS refuses.
        botocore.exceptions.WaiterError: A task still runs after five minutes.
    """
    cluster = properties["Cluster"]
    pages = ecs.get_paginator("list_tasks").paginate(cluster=cluster, family=properties["Family"])
    tasks = [task for page in pages for task in page["taskArns"]]
    for task in tasks:
        ecs.stop_task(cluster=cluster, task=task, reason="the stack ends this task or changes its definition")
    for first in range(0, len(tasks), _MOST_TASKS):
        ecs.get_waiter("tasks_stopped").wait(
            cluster=cluster,
            tasks=tasks[first : first + _MOST_TASKS],
            WaiterConfig={"Delay": _POLL_S, "MaxAttempts": _ATTEMPTS},
        )
