"""Steps of observations: what AWS shows of a stack in metrics and traces, and its billed transitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from burstcache_cli.delete import MACHINES, stop_stack
from burstcache_evidence.steps.target import Target

_TRACES = 5  # most ids of one BatchGetTraces
_WITHIN = timedelta(hours=3)


def metrics(target: Target) -> dict[str, Any]:
    """Look up what AWS shows of the stack: metrics of the janitor and of the queue, and the functions in traces."""
    if not target.is_on_aws:
        return {}
    janitor = {"FunctionName": target.stack.functions["JanitorFunction"]}
    found: dict[str, Any] = {}
    for name in ("Errors", "Invocations"):
        found[name.lower()] = len(_sums(target, "AWS/Lambda", name, janitor, period_s=300))
    queues = [each.physical_id for each in target.stack.resources if each.logical_id == "OriginEventsQueue"]
    for url in queues:
        of_queue = {"QueueName": url.rpartition("/")[2]}
        received, empty = (
            _sums(target, "AWS/SQS", name, of_queue, period_s=60)
            for name in ("NumberOfMessagesReceived", "NumberOfEmptyReceives")
        )
        idle = [polls for minute, polls in empty.items() if not received.get(minute)]
        found["idle_polls_per_min"] = round(sum(idle) / len(idle), 1) if idle else None
    if target.plan.parameters.get("Tracing") == "Active":
        found["traced"] = sorted(_traced(target))
    return found


def _sums(
    target: Target, namespace: str, name: str, dimensions: Mapping[str, str], *, period_s: int
) -> dict[datetime, float]:
    now = datetime.now(UTC)
    answer = target.stack.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
        StartTime=now - _WITHIN,
        EndTime=now,
        Period=period_s,
        Statistics=["Sum"],
    )
    return {each["Timestamp"]: each["Sum"] for each in answer["Datapoints"]}


def _traced(target: Target) -> set[str]:
    """Return the functions that have a segment in a trace of a read, which the cache function sends by itself.

    Lambda's own segments of the cache function do not count: they are those of a life.
    """
    xray, now = target.stack.client("xray"), datetime.now(UTC)
    proxy, cache = (target.stack.functions[name] for name in ("ProxyFunction", "CacheFunction"))
    pages = xray.get_paginator("get_trace_summaries").paginate(StartTime=now - _WITHIN, EndTime=now)
    ids = [each["Id"] for page in pages for each in page["TraceSummaries"]]
    found: set[str] = set()
    for first in range(0, len(ids), _TRACES):
        for trace in xray.batch_get_traces(TraceIds=ids[first : first + _TRACES])["Traces"]:
            segments = [json.loads(segment["Document"]) for segment in trace["Segments"]]
            if any(each["name"] == proxy for each in segments):
                found.add(proxy)
                if any(each["name"] == cache and "AWS::" not in each.get("origin", "") for each in segments):
                    found.add(cache)
    return found


def transitions(target: Target) -> dict[str, Any]:
    """Pause the stack, stop its executions, and count their starts, entered states and retries.

    Each retry is billed as a transition (AWS, pricing of Step Functions).
    """
    stop_stack(target.stack)
    states = target.stack.client("stepfunctions")
    found = {"starts": 0, "entered": 0, "retries": 0}
    for machine in (target.stack.outputs[name] for name in MACHINES if name in target.stack.outputs):
        for page in states.get_paginator("list_executions").paginate(stateMachineArn=machine):
            for execution in page["executions"]:
                kinds = list(_kinds(states, execution["executionArn"]))
                tasks = sum(kind == "TaskStateEntered" for kind in kinds)
                found["starts"] += 1
                found["entered"] += sum(kind.endswith("StateEntered") for kind in kinds)
                found["retries"] += max(sum(kind == "TaskScheduled" for kind in kinds) - tasks, 0)
    return found


def _kinds(states: Any, execution: str) -> Iterator[str]:
    for page in states.get_paginator("get_execution_history").paginate(executionArn=execution):
        yield from (event["type"] for event in page["events"])
