"""A stack's use of AWS services, from free CloudWatch metrics.

CloudWatch delivers metrics on a best-effort basis. Data points may be missing, so the metrics are not a bill. Step
Functions transitions are omitted because they are counted only per account. S3 requests are omitted because they need
paid metrics.

Source:
    Amazon DynamoDB Developer Guide, "DynamoDB metrics and dimensions"; Amazon EventBridge User Guide, "Monitoring
    Amazon EventBridge"; AWS Step Functions Developer Guide, "Monitoring Step Functions metrics using Amazon
    CloudWatch"; Amazon CloudWatch Logs User Guide, "CloudWatch Logs usage metrics"; Amazon API Gateway Developer Guide,
    "Working with metrics for HTTP APIs"; Amazon SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS";
    Elastic Load Balancing, "CloudWatch metrics" for both kinds of balancers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burstcache_cli.metric_queries import Query
from burstcache_cli.stack import Resource


@dataclass(frozen=True, slots=True)
class ServiceUse:
    """A stack's usage in a time range, with 0 for unused services. Values are floats, as in CloudWatch."""

    table_reads: float = 0.0  # DynamoDB read units
    table_writes: float = 0.0
    events: float = 0.0  # events on the stack's own bus that matched a rule
    queued_events: float = 0.0  # S3's events of writes, sent to their queue
    lives: float = 0.0  # executions started for keys
    node_parts: float = 0.0  # executions started for nodes; a long run has several executions
    log_bytes: float = 0.0
    door_requests: float = 0.0  # requests to the HTTP API
    door_bytes: float = 0.0
    alb_lcu_h: float = 0.0
    nlb_lcu_h: float = 0.0


# Resource type → field, namespace, metric, dimension. The statistic is always Sum.
_COUNTED = {
    "AWS::DynamoDB::Table": (
        ("table_reads", "AWS/DynamoDB", "ConsumedReadCapacityUnits", "TableName"),
        ("table_writes", "AWS/DynamoDB", "ConsumedWriteCapacityUnits", "TableName"),
    ),
    "AWS::Logs::LogGroup": (("log_bytes", "AWS/Logs", "IncomingBytes", "LogGroupName"),),
    "AWS::ApiGatewayV2::Api": (
        ("door_requests", "AWS/ApiGateway", "Count", "ApiId"),
        ("door_bytes", "AWS/ApiGateway", "DataProcessed", "ApiId"),
    ),
}
_MACHINES = {"KeyLifecycle": "lives", "RedisNode": "node_parts"}
_QUEUE = "OriginEventsQueue"  # other queues are empty unless something fails
_BALANCERS = {"app": ("alb_lcu_h", "AWS/ApplicationELB"), "net": ("nlb_lcu_h", "AWS/NetworkELB")}
OWN_RULES = ("SchedulerRule", "CacheFailureRule")  # on the stack's own bus; other rules match AWS events
_FIELDS = tuple(ServiceUse.__dataclass_fields__)


def queries_of(resources: Sequence[Resource], period_s: int) -> dict[str, Query]:
    """Return queries for the billed usage of a stack's resources. `use_of` depends on the query names."""
    bus = next((each.physical_id for each in resources if each.type == "AWS::Events::EventBus"), "")
    metrics = (
        (field, Query(namespace, metric, dimensions, "Sum", period_s))
        for resource in resources
        for field, namespace, metric, dimensions in _metrics_of(resource, bus)
    )
    return {f"{field} {number}": query for number, (field, query) in enumerate(metrics)}


def use_of(values: Mapping[str, Mapping[int, float]]) -> ServiceUse:
    """Sum the values of queries from `queries_of`. Values of other queries are ignored."""
    sums = dict.fromkeys(_FIELDS, 0.0)
    for name, points in values.items():
        if (field := name.partition(" ")[0]) in sums:
            sums[field] += sum(points.values())
    return ServiceUse(**sums)


def _metrics_of(resource: Resource, bus: str) -> Iterator[tuple[str, str, str, Mapping[str, str]]]:
    """Yield field, namespace, metric name and dimensions for each metric of a resource."""
    physical_id = resource.physical_id
    for field, namespace, metric, dimension in _COUNTED.get(resource.type, ()):
        yield field, namespace, metric, {dimension: physical_id}
    if resource.type == "AWS::StepFunctions::StateMachine" and (field := _MACHINES.get(resource.logical_id, "")):
        yield field, "AWS/States", "ExecutionsStarted", {"StateMachineArn": physical_id}
    if resource.logical_id in OWN_RULES:
        rule = physical_id.rpartition("|")[2]  # the physical id is `bus|rule`
        yield "events", "AWS/Events", "MatchedEvents", {"EventBusName": bus, "RuleName": rule}
    if resource.logical_id == _QUEUE:
        yield "queued_events", "AWS/SQS", "NumberOfMessagesSent", {"QueueName": physical_id.rpartition("/")[2]}
    if resource.type == "AWS::ElasticLoadBalancingV2::LoadBalancer":
        name = physical_id.partition(":loadbalancer/")[2]
        field, namespace = _BALANCERS[name.partition("/")[0]]
        yield field, namespace, "ConsumedLCUs", {"LoadBalancer": name}
