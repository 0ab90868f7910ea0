"""The idle bill in the documents is the template's: items are counted, sums add up."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.deployed import deployed


def _table(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table behind a heading, without its first two lines."""
    lines = text[text.index(heading) :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("*") for cell in line.strip("|").split("|")])
    return rows


# The table's columns, and what a month may cost [USD].
_SETUPS = (
    {"Relay": "nlb"},
    {"Relay": "direct"},
    {"Relay": "none"},
    {"Relay": "none", "RedisOn": "ec2"},
    {"Relay": "none", "RedisNodeCount": "0"},
)
_MOST_USD = ("19.10", "3.50", "0.30", "0.55", "0.30")
_FIRST_COLUMN = 3
_WITH_DASHBOARD = "Sum with an account's fourth dashboard (`CreateDashboard`)"
_ITEM_OF = {
    "AWS::ElasticLoadBalancingV2::LoadBalancer": "Network Load Balancer",
    "AWS::ECS::Service": "Relay on Fargate Spot, ARM",
    "AWS::ServiceDiscovery::PrivateDnsNamespace": "Private DNS zone",
    "AWS::EC2::Instance": "Volume of the stopped node",
    "AWS::Lambda::EventSourceMapping": "Polls of the queue of S3's events",
}
# What AWS bills by the hour or month, and what this stack does not have.
_BILLED_BY_TIME = {
    "AWS::CloudWatch::Alarm",
    "AWS::EC2::EIP",
    "AWS::EC2::NatGateway",
    "AWS::EC2::TransitGatewayAttachment",
    "AWS::ElastiCache::ServerlessCache",
    "AWS::KMS::Key",
    "AWS::SecretsManager::Secret",
}


@pytest.fixture(scope="module")
def rows(root: Path) -> dict[str, list[str]]:
    return {row[0]: row for row in _table((root / "docs/operate/costs.md").read_text(), "## Idle")}


@pytest.mark.parametrize("column", range(_FIRST_COLUMN, _FIRST_COLUMN + len(_SETUPS)))
def test_the_sum_is_that_of_the_items(rows: dict[str, list[str]], column: int) -> None:
    prices = {item: Decimal(row[column] or 0) for item, row in rows.items()}
    with_dashboard = prices.pop(_WITH_DASHBOARD)

    assert with_dashboard == prices["Sum"] + 3
    assert prices.pop("Sum") == sum(prices.values())


@pytest.mark.parametrize(("column", "most_usd"), list(enumerate(_MOST_USD, _FIRST_COLUMN)))
def test_an_idle_stack_costs_little(rows: dict[str, list[str]], column: int, most_usd: str) -> None:
    assert Decimal(rows["Sum"][column]) <= Decimal(most_usd)


@pytest.mark.parametrize(("column", "answers"), list(enumerate(_SETUPS, _FIRST_COLUMN)), ids=lambda given: str(given))
def test_what_is_billed_by_the_hour_is_what_the_table_has(
    cloudformation: dict[str, Any], rows: dict[str, list[str]], column: int, answers: dict[str, str]
) -> None:
    resources = deployed(cloudformation, answers)
    types = {part["Type"] for part in resources.values()}

    billed = {_ITEM_OF[type_] for type_ in types & _ITEM_OF.keys()}
    billed |= {"Janitor"} if "JanitorRule" in resources else set()

    assert billed == {item for item, row in rows.items() if row[column]} - {"Sum", _WITH_DASHBOARD}
    assert types & _BILLED_BY_TIME == set()


def test_endpoints_are_those_that_cost_nothing(resources: dict[str, Any]) -> None:
    endpoints = [part["Properties"] for part in resources.values() if part["Type"] == "AWS::EC2::VPCEndpoint"]

    assert {endpoint["VpcEndpointType"] for endpoint in endpoints} == {"Gateway"}


def test_alarms_are_counted(resources: dict[str, Any], root: Path) -> None:
    alarms = [resource for resource in resources.values() if resource["Type"] == "AWS::CloudWatch::Alarm"]

    assert f"{len(alarms)} metrics at 0.10" in (root / "docs/operate/costs.md").read_text()


def test_the_relay_and_the_volume_are_as_priced(cloudformation: dict[str, Any], rows: dict[str, list[str]]) -> None:
    resources = deployed(cloudformation, {"RedisOn": "ec2"})
    task = resources["RelayTask"]["Properties"]
    volume = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]

    assert (task["Cpu"], task["Memory"]) in {("256", "512"), (256, 512)}
    assert task["RuntimePlatform"]["CpuArchitecture"] == "ARM64"
    assert rows["Volume of the stopped node"][1] == f"{volume['VolumeSize']} GB {volume['VolumeType']}"


def test_an_idle_stack_of_the_template_s_defaults_costs_what_its_description_says(
    root: Path, rows: dict[str, list[str]]
) -> None:
    description = " ".join((root / "template.yaml").read_text().split())
    polls_usd, idle_usd = (rows[item][_FIRST_COLUMN + 2] for item in ("Polls of the queue of S3's events", "Sum"))

    assert f"Idle, it costs {idle_usd} USD a month in us-east-1, of which SQS's free requests cover {polls_usd}" in (
        description
    )


def test_a_stack_whose_events_call_the_function_has_no_queue_to_poll(cloudformation: dict[str, Any]) -> None:
    types = {part["Type"] for part in deployed(cloudformation, {"OriginEvents": "direct"}).values()}

    assert "AWS::Lambda::EventSourceMapping" not in types


@pytest.mark.parametrize("document", ["template.yaml", "README.md"])
def test_the_sum_is_rounded_elsewhere(root: Path, rows: dict[str, list[str]], document: str) -> None:
    said = re.search(r"about \$?(\d+)(?: USD)? a month", " ".join((root / document).read_text().split()))

    assert said is not None
    assert Decimal(said[1]) == round(Decimal(rows["Sum"][_FIRST_COLUMN]))


def test_a_write_to_an_object_without_a_copy_wakes_only_a_small_function(cloudformation: dict[str, Any]) -> None:
    function = deployed(cloudformation, {})["OriginFunction"]["Properties"]

    assert function["MemorySize"] == 128
    assert "VpcConfig" not in function
