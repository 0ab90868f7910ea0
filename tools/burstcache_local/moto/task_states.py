"""A patch for ECS tasks, which adds the states, failures and events of RunTask and StopTask that moto lacks.

Source:
    Amazon ECS Developer Guide, "Amazon ECS task lifecycle" and "Amazon ECS task state change events".
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from burstcache_local.moto.registry import repair
from burstcache_local.moto.services import TaskAgent, of_region

_UNKNOWN = "The referenced task was not found."
_NO_STRATEGY = "FARGATE"


def set_status(task: Any, status: str, *, exit_code: int | None = None) -> None:
    """Set the last status of a task, and the time of the change."""
    now = datetime.now(UTC)
    if status == "PENDING":
        task.pull_started_at = now
    elif status == "RUNNING":
        task.pull_stopped_at = task.started_at = now
    elif status == "STOPPED":
        task.stopped_at = now
        if exit_code is not None:
            task.containers[0].exitCode = exit_code
    task.last_status = status
    task.containers[0].last_status = {"PROVISIONING": "PENDING", "DEPROVISIONING": "STOPPED"}.get(status, status)
    task.version = getattr(task, "version", 0) + 1


def end_task(task: Any, code: str, reason: str) -> None:
    """Note that a task is asked to stop, and why."""
    task.desired_status, task.stop_code, task.stopped_reason = "STOPPED", code, reason
    task.stopping_at = datetime.now(UTC)
    task.version += 1


def publish_task(task: Any) -> None:
    """Publish a task's state on the default event bus, as ECS does."""
    from moto.events.models import events_backends

    optional = {
        "stopCode": getattr(task, "stop_code", None),
        "stoppedReason": task.stopped_reason,
        **{
            name: at.isoformat() if (at := getattr(task, attribute, None)) else None
            for name, attribute in (
                ("pullStartedAt", "pull_started_at"),
                ("pullStoppedAt", "pull_stopped_at"),
                ("startedAt", "started_at"),
                ("stoppingAt", "stopping_at"),
                ("stoppedAt", "stopped_at"),
            )
        },
    }
    detail = {
        "taskArn": task.task_arn,
        "clusterArn": task.cluster_arn,
        "taskDefinitionArn": task.task_definition_arn,
        "group": task.group,
        "startedBy": task.started_by,
        "capacityProviderName": task.capacity_provider_name,
        "launchType": "FARGATE",
        "lastStatus": task.last_status,
        "desiredStatus": task.desired_status,
        "attachments": [{**each, "type": "eni"} for each in task.attachments],
        "createdAt": task.created_at.isoformat(),
        "version": task.version,
        **{name: value for name, value in optional.items() if value},
    }
    event = {
        "Source": "aws.ecs",
        "DetailType": "ECS Task State Change",
        "Resources": [task.task_arn],
        "Detail": json.dumps(detail),
    }
    events_backends[task._account_id][task.region_name].put_events([event])


@repair
def tasks_pass_through_states() -> None:
    """Add a task's states, addresses, capacity, idempotency, tags and events. moto's tasks run and stop at once."""
    from moto.core.responses import ActionResult
    from moto.ecs.models import EC2ContainerServiceBackend, Task
    from moto.ecs.responses import EC2ContainerServiceResponse

    run_task, stop_task = EC2ContainerServiceResponse.run_task, EC2ContainerServiceBackend.stop_task
    make, requirements = Task.__init__, EC2ContainerServiceBackend._calculate_task_resource_requirements

    def init(self: Any, cluster: Any, task_definition: Any, **kwargs: Any) -> None:
        agent = _agent_of(cluster.region_name)
        if agent:
            # Without its network mode, moto makes no network interface, whose address would not be on this machine.
            parts = {name: getattr(task_definition, name) for name in ("arn", "container_definitions")}
            task_definition = SimpleNamespace(**parts, network_mode="none")
        make(self, cluster, task_definition, **kwargs)
        if agent:
            subnets = kwargs["networking_configuration"]["awsvpcConfiguration"]["subnets"]
            _begin(self, agent.address(), subnets[0])

    def run(self: Any) -> Any:
        agent = _agent_of(self.region)
        if agent is None:
            return run_task(self)
        known = self.ecs_backend.__dict__.setdefault("local_tokens", {})
        token = self._get_param("clientToken")
        if token and token in known:
            return ActionResult({"tasks": known[token], "failures": []})
        (strategy, *_) = self._get_param("capacityProviderStrategy") or [{"capacityProvider": _NO_STRATEGY}]
        if reason := agent.refusal(strategy["capacityProvider"]):
            return ActionResult({"tasks": [], "failures": [{"reason": reason}]})
        result = run_task(self)
        tasks = result.result["tasks"]
        if token:
            known[token] = tasks
        for task in tasks:
            if self._get_param("propagateTags") == "TASK_DEFINITION":
                task.tags = [*self.ecs_backend.describe_task_definition(task.task_definition_arn).tags, *task.tags]
            agent.created(task)
        return result

    def stop(self: Any, cluster_str: str, task_str: str, reason: str) -> Any:
        from moto.ecs.exceptions import InvalidParameterException

        agent = _agent_of(self.region_name)
        if agent is None:
            return stop_task(self, cluster_str, task_str, reason)
        tasks = self.tasks.get(self._get_cluster(cluster_str).name, {})
        task = next((each for arn, each in tasks.items() if arn.endswith(task_str.split("/")[-1])), None)
        if task is None:
            raise InvalidParameterException(_UNKNOWN)
        agent.end(task, "UserInitiated", reason or "Task stopped by user")
        return task

    def required(definition: Any) -> Any:
        """Return the requirements of a definition. On Fargate its containers need no memory of their own."""
        containers = [{"memory": 0, **container} for container in definition.container_definitions]
        return requirements(SimpleNamespace(container_definitions=containers))

    Task.__init__ = init
    EC2ContainerServiceBackend._calculate_task_resource_requirements = staticmethod(required)
    EC2ContainerServiceResponse.run_task = run
    EC2ContainerServiceBackend.stop_task = stop


def _begin(task: Any, address: str, subnet: str) -> None:
    """Put a new task into its first state, with a network interface."""
    task._transitions = []  # the agent drives the states, not the calls of DescribeTasks
    task.created_at = datetime.now(UTC)
    task.local_address = address
    details = {"subnetId": subnet, "networkInterfaceId": f"eni-{task.id[:8]}", "privateIPv4Address": address}
    interface = {
        "id": task.id,
        "type": "ElasticNetworkInterface",
        "status": "ATTACHED",
        "details": [{"name": name, "value": value} for name, value in details.items()],
    }
    task.attachments = [interface]
    set_status(task, "PROVISIONING")


def _agent_of(region: str) -> TaskAgent | None:
    services = of_region(region)
    return services.tasks if services else None
