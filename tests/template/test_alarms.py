"""Alarms and dashboard watch metrics that exist: the code's own, or ones that AWS publishes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from burstcache.metrics import METRICS, NAMESPACE, STACK
from burstcache_cli.monthly import idle_items
from burstcache_local.template.parameters import declared_values
from support.deployed import decided, deployed, kept
from support.metrics import MetricId, Sample, alarms, goes_off, metric_id, shown, went_off, widgets

Translate = Callable[[Mapping[str, str]], dict[str, Any]]

# What AWS publishes, by namespace and the names of dimensions. Amazon CloudWatch User Guide, "AWS services that publish
# CloudWatch metrics", which leads to: Lambda Developer Guide, "Types of metrics for Lambda functions"; Step Functions
# Developer Guide, "Monitoring Step Functions metrics"; SQS Developer Guide, "Available CloudWatch metrics"; ECS
# Developer Guide, "Amazon ECS CloudWatch metrics"; EC2 User Guide, "CloudWatch metrics that are available for your
# instances"; API Gateway Developer Guide, "Monitor CloudWatch metrics for HTTP APIs"; User Guide for Application Load
# Balancers, "CloudWatch metrics".
OF_AWS = {
    ("AWS/Lambda", frozenset({"FunctionName"})): {
        "Invocations", "Errors", "Throttles", "Duration", "ConcurrentExecutions",
    },
    ("AWS/Lambda", frozenset[str]()): {"ConcurrentExecutions"},
    ("AWS/States", frozenset({"StateMachineArn"})): {
        "ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted",
    },
    ("AWS/SQS", frozenset({"QueueName"})): {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"},
    ("AWS/ECS", frozenset({"ClusterName", "ServiceName"})): {"CPUUtilization"},
    ("AWS/EC2", frozenset({"InstanceId"})): {"CPUUtilization"},
    ("AWS/ApiGateway", frozenset({"ApiId"})): {"Count", "4xx", "5xx", "Latency"},
    ("AWS/ApplicationELB", frozenset({"LoadBalancer"})): {
        "RequestCount", "HTTPCode_Target_5XX_Count", "HTTPCode_ELB_5XX_Count", "TargetResponseTime",
    },
}  # fmt: skip


def is_published(metric: MetricId) -> bool:
    """Return whether the code or AWS publishes a metric with this name and these dimensions."""
    dimensions = dict(metric.dimensions)
    if metric.namespace != NAMESPACE:
        return metric.name in OF_AWS.get((metric.namespace, frozenset(dimensions)), set())
    ours = next((each for each in METRICS if each.name == metric.name), None)
    if ours is None or not dimensions.pop(STACK, ""):
        return False
    return dimensions == {} if not ours.dimension else dimensions in [{ours.dimension: each} for each in ours.values]


def test_alarms_watch_metrics_that_are_published() -> None:
    for name, alarm in alarms().items():
        assert is_published(metric_id(alarm)), f"{name} watches {metric_id(alarm)}"


def test_no_alarm_adds_metrics_up() -> None:
    # A sum has no value at a time at which one of its parts has none, and FILL is documented for gaps in a series only.
    assert [name for name, alarm in alarms().items() if "Metrics" in alarm] == []


def test_every_alarm_says_what_missing_data_means() -> None:
    silent = {name for name, alarm in alarms().items() if goes_off(name, [])}

    assert silent == {"JanitorAlarm", "RelayAlarm"}
    assert {alarm["TreatMissingData"] for alarm in alarms().values()} == {"breaching", "notBreaching"}


@pytest.mark.parametrize("parameter", ["AlarmEmail", "AlarmTopicArn"])
def test_alarms_exist_with_an_address(cloudformation: dict[str, Any], parameter: str) -> None:
    value = {"AlarmEmail": "me@example.com", "AlarmTopicArn": "arn:aws:sns:eu-central-1:123456789012:mine"}[parameter]

    made = deployed(
        cloudformation, {parameter: value, "StateDatabases": "orders", "PoolMembers": "16", "Writes": "iam"}
    )

    assert {name for name, part in made.items() if part["Type"] == "AWS::CloudWatch::Alarm"} == set(alarms())
    assert ("AlarmTopic" in made) == (parameter == "AlarmEmail")
    topic = {"AlarmEmail": "AlarmTopic", "AlarmTopicArn": "AlarmTopicArn"}[parameter]
    for name in alarms():
        assert made[name]["Properties"]["AlarmActions"] == [{"Ref": topic}], name


def test_without_an_address_there_are_no_alarms(cloudformation: dict[str, Any]) -> None:
    made = deployed(cloudformation, {})

    assert set(alarms()) & made.keys() == set()


def test_a_janitor_that_nobody_hears_of_is_an_alarm() -> None:
    metric = metric_id(alarms()["JanitorAlarm"])
    failed, succeeded = ([Sample(metric, "Count", value, 0)] for value in (1, 0))

    assert went_off("JanitorAlarm", [[], [], []])
    assert went_off("JanitorAlarm", [failed, failed, failed])
    assert went_off("JanitorAlarm", [failed, [], failed])
    assert not went_off("JanitorAlarm", [failed, [], succeeded, failed, []])
    assert not went_off("JanitorAlarm", [failed + succeeded] * 3)  # a retry succeeded


@pytest.mark.parametrize(
    ("answered", "crashed"), [("FailedReadsAlarm", "ProxyCrashesAlarm"), ("FailedWritesAlarm", "WriterCrashesAlarm")]
)
def test_five_failures_of_a_function_in_any_mix_are_an_alarm(answered: str, crashed: str) -> None:
    for count in range(6):
        assert goes_off(answered, [], count) or goes_off(crashed, [], 5 - count)
    assert not goes_off(answered, [], 2)
    assert not goes_off(crashed, [], 2)


@pytest.mark.parametrize("machine", ["KeyLifecycle", "RedisNode", "Pool"])
def test_an_execution_that_fails_is_an_alarm(machine: str, root: Path, resources: dict[str, Any]) -> None:
    dimensions = frozenset({("StateMachineArn", f'{{"Ref": "{machine}"}}')})

    assert metric_id(alarms()[f"{machine}Alarm"]) == MetricId("AWS/States", "ExecutionsFailed", dimensions)
    assert goes_off(f"{machine}Alarm", [], 1)
    assert not goes_off(f"{machine}Alarm", [])
    # An execution that exceeds a limit of its machine is counted by ExecutionsTimedOut instead.
    definition = json.loads((root / resources[machine]["Properties"]["DefinitionUri"]).read_text())
    assert "TimeoutSeconds" not in definition


@pytest.mark.parametrize(
    ("alarm", "bad", "good"), [("SlowReadsAlarm", 1001, 999), ("ThrottledReadsAlarm", 1, 0)], ids=str
)
def test_reads_that_are_slow_or_refused_are_an_alarm(alarm: str, bad: float, good: float) -> None:
    assert goes_off(alarm, [], bad)
    assert not goes_off(alarm, [], good)


def test_events_that_wait_for_minutes_are_an_alarm() -> None:
    metric = metric_id(alarms()["WaitingEventsAlarm"])
    ages = {age_s: [Sample(metric, "Seconds", age_s, 0)] for age_s in (0, 60, 61, 95, 125)}

    assert dict(metric.dimensions) == {"QueueName": '{"Fn::GetAtt": ["OriginEventsQueue", "QueueName"]}'}
    assert went_off("WaitingEventsAlarm", [ages[61], ages[95], ages[125]])
    assert not went_off("WaitingEventsAlarm", [ages[60]] * 3)
    assert not went_off("WaitingEventsAlarm", [ages[61], ages[95], ages[0]])  # a batch that came again after 90 s
    assert not went_off("WaitingEventsAlarm", [[], [], []])  # an empty queue has no age


def test_without_the_queue_no_alarm_watches_it(cloudformation: dict[str, Any]) -> None:
    made = deployed(cloudformation, {"AlarmEmail": "me@example.com", "OriginEvents": "direct"})

    assert set(alarms()) & made.keys() >= {"FailedEventsAlarm"}
    assert "WaitingEventsAlarm" not in made


def test_concurrency_that_is_nearly_used_up_is_an_alarm() -> None:
    alarm = alarms()["ConcurrencyAlarm"]

    assert metric_id(alarm) == MetricId("AWS/Lambda", "ConcurrentExecutions", frozenset())
    assert (alarm["Statistic"], alarm["ComparisonOperator"]) == ("Maximum", "GreaterThanOrEqualToThreshold")
    assert alarm["Threshold"] == {"Fn::GetAtt": ["Account", "BusyConcurrency"]}


def test_the_dashboard_shows_metrics_that_are_published() -> None:
    for widget in widgets():
        assert widget["metrics"]
        for metric in shown(widget):
            assert is_published(metric), f"{widget['title']}: {metric}"


def test_the_dashboard_shows_every_metric_of_ours() -> None:
    named = {metric.name for widget in widgets() for metric in shown(widget) if metric.namespace == NAMESPACE}

    assert named == {metric.name for metric in METRICS}


def test_the_dashboard_is_one_of_those_that_are_free() -> None:
    assert sum(len(widget["metrics"]) for widget in widgets()) <= 50  # with one node, which a search finds


def test_expressions_use_metrics_of_their_widget() -> None:
    expressions = 0
    for widget in widgets():
        options = [metric[-1] for metric in widget["metrics"] if isinstance(metric[-1], dict)]
        ids = {option["id"] for option in options if "id" in option}
        for expression in (option["expression"] for option in options if "expression" in option):
            if not expression.startswith("SEARCH"):
                expressions += 1
                assert set(re.findall(r"\b[a-z]\w*\b", expression)) <= ids

    assert expressions


def test_the_dashboard_finds_the_instances_of_all_nodes(cloudformation: dict[str, Any]) -> None:
    def instances(count: str) -> object:
        relay = "none" if count == "0" else "nlb"
        made = deployed(cloudformation, {"RedisOn": "ec2", "RedisNodeCount": count, "Relay": relay})
        return made["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][1]["Instances"]

    assert instances("0") == "none"
    # Each quoted, or CloudWatch takes the parts of an id for words to look for.
    assert instances("2") == {"Fn::Join": [r"\" OR \"", [{"Ref": "RedisInstance1"}, {"Ref": "RedisInstance2"}]]}
    assert (
        r"(\"${Instances}\")" in cloudformation["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]
    )


@pytest.mark.parametrize(("answer", "is_made"), [("yes", True), ("no", False)])
def test_a_dashboard_and_its_output_are_made_if_wanted(
    cloudformation: dict[str, Any], answer: str, is_made: bool
) -> None:
    conditions = decided(cloudformation, {"CreateDashboard": answer})

    sections = [kept(cloudformation, section, conditions) for section in ("Resources", "Outputs")]

    assert ["Dashboard" in section for section in sections] == [is_made, is_made]


def test_what_alarms_cost_is_the_same_in_the_wizard_the_template_and_the_documents(
    template: dict[str, Any], root: Path
) -> None:
    def cents(**changed: str) -> int:
        values = declared_values(template["Parameters"], {"AlarmEmail": "me@example.com", **changed})
        return sum(round(item.usd * 100) for item in idle_items(template, values, "us-east-1") if item.name == "alarms")

    parts = {
        "a relay": {"Relay": "nlb"},
        "state": {"StateDatabases": "a", "StatePersistence": "rdb"},
        "a pool": {"PoolMembers": "8", "Relay": "none"},
        "writes": {"Writes": "iam"},
    }
    default = cents()
    more = {name: cents(**changed) - default for name, changed in parts.items()}

    assert (default, more) == (120, {"a relay": 10, "state": 10, "a pool": 10, "writes": 20})
    description = template["Parameters"]["AlarmEmail"]["Description"]
    assert f"{default // 10} metrics (one more each with a relay, state and a pool, two with writes)" in description
    costs = " ".join((root / "docs/operate/costs.md").read_text().split())
    assert f"**Alarms** add {default / 100:.2f}; a relay, saved databases of state and a pool 0.10 each" in costs
    assert f"`Writes` 0.20: {(default + sum(more.values())) // 10} metrics at 0.10" in costs
