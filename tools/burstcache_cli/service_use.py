"""What AWS's services count of a stack's use of them, in metrics that every account has without a price.

Metrics are delivered on a best effort: they lack a point at times, and are no bill. What no service counts by stack is
not here: Step Functions counts the transitions of the whole account alone, S3 requests only with metrics that cost
extra.

Source:
    Amazon DynamoDB Developer Guide, "DynamoDB metrics and dimensions"; Amazon EventBridge User Guide, "Monitoring
    Amazon EventBridge"; AWS Step Functions Developer Guide, "Monitoring Step Functions metrics using Amazon
    CloudWatch"; Amazon CloudWatch Logs User Guide, "CloudWatch Logs usage metrics"; Amazon API Gateway Developer Guide,
    "Working with metrics for HTTP APIs"; Elastic Load Balancing, "CloudWatch metrics" of both kinds of balancers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burstcache_cli.metric_queries import Query
from burstcache_cli.stack import Resource


@dataclass(frozen=True, slots=True)
class ServiceUse:
    """What services counted of a stack in a time; 0 of what it does not have. CloudWatch's values are floats."""

    table_reads: float = 0.0  # units of DynamoDB
    table_writes: float = 0.0
    events: float = 0.0  # of the stack's own bus, that a rule matched
    lives: float = 0.0  # executions begun: of keys
    node_parts: float = 0.0  # of nodes, of which a long run has several
    log_bytes: float = 0.0
    door_requests: float = 0.0  # of the HTTP API
    door_bytes: float = 0.0
    alb_lcu_h: float = 0.0
    nlb_lcu_h: float = 0.0


# Resource type → field, namespace, metric, dimension; all are sums.
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
_BALANCERS = {"app": ("alb_lcu_h", "AWS/ApplicationELB"), "net": ("nlb_lcu_h", "AWS/NetworkELB")}
OWN_RULES = ("SchedulerRule", "CacheFailureRule")  # of the stack's own bus; all others match events of AWS
_FIELDS = tuple(ServiceUse.__dataclass_fields__)


def queries_of(resources: Sequence[Resource], period_s: int) -> dict[str, Query]:
    """Return the queries of what a stack's resources are billed for, by names that `use_of` knows."""
    bus = next((each.physical_id for each in resources if each.type == "AWS::Events::EventBus"), "")
    found = (
        (field, Query(namespace, metric, dimensions, "Sum", period_s))
        for resource in resources
        for field, namespace, metric, dimensions in _metrics_of(resource, bus)
    )
    return {f"{field} {number}": query for number, (field, query) in enumerate(found)}


def use_of(values: Mapping[str, Mapping[int, float]]) -> ServiceUse:
    """Return what the values of those queries add up to; others are left aside."""
    sums = dict.fromkeys(_FIELDS, 0.0)
    for name, points in values.items():
        if (field := name.partition(" ")[0]) in sums:
            sums[field] += sum(points.values())
    return ServiceUse(**sums)


def _metrics_of(resource: Resource, bus: str) -> Iterator[tuple[str, str, str, Mapping[str, str]]]:
    """Yield field, namespace, metric and dimensions."""
    physical_id = resource.physical_id
    for field, namespace, metric, dimension in _COUNTED.get(resource.type, ()):
        yield field, namespace, metric, {dimension: physical_id}
    if resource.type == "AWS::StepFunctions::StateMachine" and (field := _MACHINES.get(resource.logical_id, "")):
        yield field, "AWS/States", "ExecutionsStarted", {"StateMachineArn": physical_id}
    if resource.logical_id in OWN_RULES:
        rule = physical_id.rpartition("|")[2]  # CloudFormation puts the bus in front of it
        yield "events", "AWS/Events", "MatchedEvents", {"EventBusName": bus, "RuleName": rule}
    if resource.type == "AWS::ElasticLoadBalancingV2::LoadBalancer":
        name = physical_id.partition(":loadbalancer/")[2]
        field, namespace = _BALANCERS[name.partition("/")[0]]
        yield field, namespace, "ConsumedLCUs", {"LoadBalancer": name}
