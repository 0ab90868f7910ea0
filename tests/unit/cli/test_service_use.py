"""Service use of a stack, from the metrics of AWS's services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from burstcache_cli.metric_queries import values_of
from burstcache_cli.service_use import OWN_RULES, ServiceUse, queries_of, use_of
from burstcache_cli.stack import Resource
from support.project import template

SINCE_S = 1_700_000_100
_ARN = "arn:aws:states:us-east-1:123456789012:stateMachine:lives"
_BALANCERS = "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer"
RESOURCES = (
    Resource("CacheTable", "table-1", "AWS::DynamoDB::Table"),
    Resource("ProxyLogs", "logs-1", "AWS::Logs::LogGroup"),
    Resource("CacheLogs", "logs-2", "AWS::Logs::LogGroup"),
    Resource("EventBus", "bus-1", "AWS::Events::EventBus"),
    Resource("SchedulerRule", "bus-1|rule-1", "AWS::Events::Rule"),
    Resource("OriginChangedRule", "rule-2", "AWS::Events::Rule"),
    Resource("KeyLifecycle", _ARN, "AWS::StepFunctions::StateMachine"),
    Resource("HttpApi", "api-1", "AWS::ApiGatewayV2::Api"),
    Resource("Alb", f"{_BALANCERS}/app/burst/50dc", "AWS::ElasticLoadBalancingV2::LoadBalancer"),
    Resource("RelayBalancer", f"{_BALANCERS}/net/relay/60ec", "AWS::ElasticLoadBalancingV2::LoadBalancer"),
    Resource("OriginEventsQueue", "https://sqs.us-east-1.amazonaws.com/123456789012/events", "AWS::SQS::Queue"),
    Resource("UndeliveredEvents", "https://sqs.us-east-1.amazonaws.com/123456789012/failed", "AWS::SQS::Queue"),
)
# Namespace, metric, dimensions, value.
COUNTED = (
    ("AWS/DynamoDB", "ConsumedReadCapacityUnits", {"TableName": "table-1"}, 10.5),
    ("AWS/DynamoDB", "ConsumedWriteCapacityUnits", {"TableName": "table-1"}, 3.0),
    ("AWS/Logs", "IncomingBytes", {"LogGroupName": "logs-1"}, 500.0),
    ("AWS/Logs", "IncomingBytes", {"LogGroupName": "logs-2"}, 700.0),
    ("AWS/Events", "MatchedEvents", {"EventBusName": "bus-1", "RuleName": "rule-1"}, 4.0),
    ("AWS/Events", "MatchedEvents", {"RuleName": "rule-2"}, 99.0),
    ("AWS/States", "ExecutionsStarted", {"StateMachineArn": _ARN}, 2.0),
    ("AWS/ApiGateway", "Count", {"ApiId": "api-1"}, 40.0),
    ("AWS/ApiGateway", "DataProcessed", {"ApiId": "api-1"}, 4000.0),
    ("AWS/ApplicationELB", "ConsumedLCUs", {"LoadBalancer": "app/burst/50dc"}, 0.25),
    ("AWS/SQS", "NumberOfMessagesSent", {"QueueName": "events"}, 6.0),
    ("AWS/SQS", "NumberOfMessagesSent", {"QueueName": "failed"}, 99.0),
    ("AWS/NetworkELB", "ConsumedLCUs", {"LoadBalancer": "net/relay/60ec"}, 0.5),
)


@pytest.fixture
def cloudwatch() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("cloudwatch", region_name="us-east-1")


def put(cloudwatch: Any, *, at_s: int) -> None:
    for namespace, name, dimensions, value in COUNTED:
        listed = [{"Name": dimension, "Value": of} for dimension, of in dimensions.items()]
        point = {"MetricName": name, "Dimensions": listed, "Value": value, "Timestamp": at_s}
        cloudwatch.put_metric_data(Namespace=namespace, MetricData=[point])


def test_what_services_count_in_a_time_is_added_up(cloudwatch: Any) -> None:
    for after_s in (-60, 0, 60, 120):
        put(cloudwatch, at_s=SINCE_S + after_s)

    values = values_of(cloudwatch, queries_of(RESOURCES, 60), since_s=SINCE_S, until_s=SINCE_S + 120)

    assert use_of(values) == ServiceUse(
        table_reads=21.0, table_writes=6.0, events=8, queued_events=12, lives=4, log_bytes=2400, door_requests=80,
        door_bytes=8000, alb_lcu_h=0.5, nlb_lcu_h=1.0,
    )  # fmt: skip


def test_a_stack_of_which_nothing_is_counted_used_nothing(cloudwatch: Any) -> None:
    values = values_of(cloudwatch, queries_of(RESOURCES, 60), since_s=SINCE_S, until_s=SINCE_S + 120)

    assert use_of(values) == ServiceUse()


def test_events_are_counted_by_the_rules_of_the_stacks_own_bus() -> None:
    resources = template()["Resources"].items()
    own = [
        name for name, part in resources if part["Type"] == "AWS::Events::Rule" and "EventBusName" in part["Properties"]
    ]

    assert sorted(own) == sorted(OWN_RULES)
