"""The figures of a deployed stack, from CloudWatch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from burstcache import metrics
from burstcache.metrics import Metric
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
    redis = metrics.LATENCY_MS.values.index("redis")
    series = {f"n{redis}": {0: 2.0, 300: 1.0}, f"s{redis}": {0: 3.0, 300: 3.0}, f"b{redis}": {0: 60.0}}

    found = measured_of(series | {f"p50_{redis}": {0: 1.5}}, {}, 600)

    assert found.tiers == {"redis": TierUse(3, 60, 2.0, 1.5, None, None)}
    assert found.series == ((0, {"redis": 2}), (300, {"redis": 1}))


def test_functions_are_those_of_the_stack_with_their_memory() -> None:
    found = measured_of({"i0": {0: 5.0}, "d0": {0: 70.4}}, {"ProxyFunction": 512}, 600)

    assert found.functions == {"ProxyFunction": FunctionUse(5, 70, 512)}


def test_lives_failures_and_node_time_are_those_of_the_stack(stack: Stack) -> None:
    put(stack, metrics.LIVES, 4, value_of_dimension="idle")
    put(stack, metrics.NODE_SECONDS, 60.5)
    put(stack, metrics.FAILED_READS, 2)
    put(stack, metrics.FAILED_READS, 9, of="another")

    found = CloudWatch(stack).read()

    assert (found.lives, found.node_s, found.failed_reads) == ({"idle": 4}, 60.5, 2)


def test_stack_without_metrics_has_no_figures(stack: Stack) -> None:
    found = CloudWatch(stack).read()

    assert (found.reads, found.saved_ms, dict(found.fallbacks)) == (0, None, {})


def test_cloudwatch_is_asked_at_most_once_a_minute(stack: Stack) -> None:
    source = CloudWatch(stack)
    first = source.read()
    put(stack, metrics.FAILED_READS, 2)

    assert source.read() is first
