"""The figures of a deployed stack, from CloudWatch."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from burstcache import metrics
from burstcache.metrics import Metric
from burstcache_cli.service_use import ServiceUse
from burstcache_cli.stack import Stack
from burstcache_dashboard.cloudwatch import CloudWatch, measured_of
from burstcache_dashboard.measured import FunctionUse, TierUse


@pytest.fixture
def stack() -> Iterator[Stack]:
    """A stack of which nothing but its metrics exists."""
    with mock_aws():
        session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1")
        body = '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}'
        session.client("cloudformation").create_stack(StackName="burstcache", TemplateBody=body)
        yield Stack("burstcache", session, {})


def put(stack: Stack, metric: Metric, *values: float, value_of_dimension: str = "", of: str = "burstcache") -> None:
    dimensions = [{"Name": metrics.STACK, "Value": of}]
    if value_of_dimension:
        dimensions.append({"Name": metric.dimension, "Value": value_of_dimension})
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=20)
    data: list[Any] = [
        {"MetricName": metric.name, "Dimensions": dimensions, "Value": value, "Unit": metric.unit, "Timestamp": at}
        for value in values
    ]
    stack.client("cloudwatch").put_metric_data(Namespace=metrics.NAMESPACE, MetricData=data)


def test_reads_are_counted_by_tier_and_time() -> None:
    series = {"reads redis": {0: 2.0, 300: 1.0}, "LatencyMs redis": {0: 3.0, 300: 3.0}, "ReadBytes redis": {0: 60.0}}

    found = measured_of(series | {"p50 redis": {0: 1.5}}, {}, 600)

    assert found.tiers == {"redis": TierUse(3, 60, 2.0, 1.5, None, None)}
    assert found.series == ((0, {"redis": 2}), (300, {"redis": 1}))


def test_the_newest_failure_of_a_function_has_a_time() -> None:
    series = {"Errors ProxyFunction": {0: 2.0, 300: 1.0, 600: 0.0}}

    found = measured_of(series, {"ProxyFunction": 512, "CacheFunction": 256}, 900)

    assert [(use.errors, use.failed_at_s) for use in found.functions.values()] == [(3, 300), (0, 0)]


def test_functions_are_those_of_the_stack_with_their_memory() -> None:
    series = {"Invocations ProxyFunction": {0: 5.0}, "Duration ProxyFunction": {0: 70.4}}

    found = measured_of(series, {"ProxyFunction": 512}, 600)

    assert found.functions == {"ProxyFunction": FunctionUse(5, 70, 512)}


def test_errors_and_throttles_are_those_of_the_stacks_functions(stack: Stack) -> None:
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=20)
    for of, name, value in (("mine", "Errors", 4.0), ("mine", "Throttles", 2.0), ("another", "Errors", 9.0)):
        dimensions = [{"Name": "FunctionName", "Value": of}]
        point: Any = {"MetricName": name, "Dimensions": dimensions, "Value": value, "Timestamp": at}
        stack.client("cloudwatch").put_metric_data(Namespace="AWS/Lambda", MetricData=[point])

    found = CloudWatch(stack, _functions={"SchedulerFunction": ("mine", 256)}).read()

    failed_at_s = int(at.timestamp()) // 300 * 300
    assert found.functions == {"SchedulerFunction": FunctionUse(0, 0, 256, 4, failed_at_s, 2)}


def test_failed_reads_and_fallbacks_have_the_time_of_their_newest_period() -> None:
    series = {"FailedReads ": {300: 1.0, 600: 0.0}, "Fallbacks redis_down": {300: 2.0, 600: 1.0, 900: 0.0}}

    found = measured_of(series, {}, 1200)

    assert (found.failed_reads, found.failed_read_at_s) == (1, 300)
    assert (found.fallbacks, found.fell_back_at_s["redis_down"]) == ({"redis_down": 3}, 600)


def test_lives_failures_and_node_time_are_those_of_the_stack(stack: Stack) -> None:
    put(stack, metrics.LIVES, 4, value_of_dimension="idle")
    put(stack, metrics.NODE_SECONDS, 60.5)
    put(stack, metrics.FAILED_READS, 2)
    put(stack, metrics.FAILED_READS, 9, of="another")

    found = CloudWatch(stack).read()

    assert (found.lives, found.node_s, found.failed_reads) == ({"idle": 4}, 60.5, 2)


def test_a_stack_younger_than_a_day_has_figures_since_it_was_made(stack: Stack) -> None:
    assert CloudWatch(stack).read().since_us == int(stack.created_s) * 1_000_000
    assert measured_of({}, {}, 100_000, created_s=1_000).since_us == (100_000 - 24 * 3600) * 1_000_000


def test_a_metric_is_counted_in_each_hour_that_has_it() -> None:
    series = {
        "Lives idle": {0: 1.0, 300: 1.0, 7200: 1.0},
        "Promotions ": {300: 2.0},
        "Duration ProxyFunction": {0: 1.0},
    }

    assert measured_of(series, {}, 9000).metric_h == 3


def test_what_services_count_belongs_to_the_stack(stack: Stack) -> None:
    body = {"Resources": {"CacheTable": {"Type": "AWS::DynamoDB::Table", "Properties": {
        "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    }}}}  # fmt: skip
    stack.client("cloudformation").update_stack(StackName="burstcache", TemplateBody=json.dumps(body))
    (table,) = stack.client("dynamodb").list_tables()["TableNames"]
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=20)
    for of, units in ((table, 12.5), ("another", 99.0)):
        dimensions = [{"Name": "TableName", "Value": of}]
        point: Any = {
            "MetricName": "ConsumedReadCapacityUnits",
            "Dimensions": dimensions,
            "Value": units,
            "Timestamp": at,
        }
        stack.client("cloudwatch").put_metric_data(Namespace="AWS/DynamoDB", MetricData=[point])

    assert CloudWatch(stack).read().services == ServiceUse(table_reads=12.5)


def test_stack_without_metrics_has_no_figures(stack: Stack) -> None:
    found = CloudWatch(stack).read()

    assert (found.reads, found.saved_ms, dict(found.fallbacks)) == (0, None, {})


def test_cloudwatch_is_asked_at_most_once_a_minute(stack: Stack) -> None:
    source = CloudWatch(stack)
    first = source.read()
    put(stack, metrics.FAILED_READS, 2)

    assert source.read() is first
