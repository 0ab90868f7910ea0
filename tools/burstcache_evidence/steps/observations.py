"""Steps of observations: what AWS shows of a stack in metrics, traces and tags."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from burstcache.access import parse_nodes
from burstcache_cli.stack import Stack
from burstcache_evidence.steps.machines import clusters
from burstcache_evidence.steps.target import Target

_TRACES = 5  # most ids of one BatchGetTraces


def metrics(target: Target) -> dict[str, Any]:
    """Look up what AWS shows of the stack: the janitor's metrics, the functions in traces, and tags."""
    function, now = target.stack.functions["JanitorFunction"], datetime.now(UTC)
    found: dict[str, Any] = {"tagged": dict(_tagged(target))}
    cloudwatch = target.stack.client("cloudwatch")
    for name in ("Errors", "Invocations"):
        answer = cloudwatch.get_metric_statistics(
            Namespace="AWS/Lambda",
            MetricName=name,
            Dimensions=[{"Name": "FunctionName", "Value": function}],
            StartTime=now - timedelta(hours=3),
            EndTime=now,
            Period=300,
            Statistics=["Sum"],
        )
        found[name.lower()] = len(answer["Datapoints"])
    if target.plan.parameters.get("Tracing") == "Active" and target.stack.is_deployed:
        found["traced"] = sorted(_traced(target.stack, now))
    return found


def _traced(stack: Stack, now: datetime) -> set[str]:
    """Return the stack's functions that have segments in traces of the last hour in which a cache function served."""
    xray, names = stack.client("xray"), set(stack.functions.values())
    pages = xray.get_paginator("get_trace_summaries").paginate(StartTime=now - timedelta(hours=1), EndTime=now)
    ids = [each["Id"] for page in pages for each in page["TraceSummaries"]]
    found: set[str] = set()
    for first in range(0, len(ids), _TRACES):
        for trace in xray.batch_get_traces(TraceIds=ids[first : first + _TRACES])["Traces"]:
            document = "".join(segment["Document"] for segment in trace["Segments"])
            found |= {name for name in names if name in document}
    return found


def _tagged(target: Target) -> Iterator[tuple[str, bool]]:
    """Yield whether the stack's running tasks and its volumes have a tag of the stack."""
    stack, ecs = target.stack, target.stack.client("ecs")
    for cluster in clusters(stack):
        arns = [arn for page in ecs.get_paginator("list_tasks").paginate(cluster=cluster) for arn in page["taskArns"]]
        tasks = ecs.describe_tasks(cluster=cluster, tasks=arns, include=["TAGS"])["tasks"] if arns else []
        for task in tasks:
            is_relay = task["group"].startswith("service:")
            yield "task of a service" if is_relay else "task of a node", bool(task.get("tags"))
    nodes = [node.instance_id for node in parse_nodes(stack.outputs.get("RedisNodes", "")) if not node.is_task]
    if nodes:
        of_nodes = [{"Name": "attachment.instance-id", "Values": nodes}]
        for volume in stack.client("ec2").describe_volumes(Filters=of_nodes)["Volumes"]:
            yield "volume of a node", bool(volume.get("Tags"))
