"""The idle bill in the documents is the template's: items are counted, sums add up."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest


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


@pytest.fixture
def months(root: Path) -> dict[str, Decimal]:
    rows = _table((root / "docs/operate/costs.md").read_text(), "## Idle")
    return {row[0]: Decimal(row[3]) for row in rows}


@pytest.fixture
def quantities(root: Path) -> dict[str, str]:
    return {row[0]: row[1] for row in _table((root / "docs/operate/costs.md").read_text(), "## Idle")}


def test_the_sum_is_that_of_the_items(months: dict[str, Decimal]) -> None:
    assert months["Sum"] == sum(price for item, price in months.items() if item != "Sum")


def test_alarms_are_counted(resources: dict[str, Any], root: Path) -> None:
    alarms = [resource for resource in resources.values() if resource["Type"] == "AWS::CloudWatch::Alarm"]
    metrics = [
        metric
        for alarm in alarms
        for metric in alarm["Properties"].get("Metrics", [{"MetricStat": {}}])
        if "MetricStat" in metric
    ]

    assert f"{len(metrics)} metrics at 0.10" in (root / "docs/operate/costs.md").read_text()


def test_the_relay_and_the_volume_are_as_priced(resources: dict[str, Any], quantities: dict[str, str]) -> None:
    task = resources["RelayTask"]["Properties"]
    volume = resources["RedisInstance"]["Properties"]["BlockDeviceMappings"][0]["Ebs"]

    assert (task["Cpu"], task["Memory"]) in {("256", "512"), (256, 512)}
    assert task["RuntimePlatform"]["CpuArchitecture"] == "ARM64"
    assert quantities["Volume of the stopped node"] == f"{volume['VolumeSize']} GB {volume['VolumeType']}"


@pytest.mark.parametrize("document", ["template.yaml", "README.md"])
def test_the_sum_is_rounded_elsewhere(root: Path, months: dict[str, Decimal], document: str) -> None:
    said = re.search(r"about \$?(\d+)(?: USD)? a month", " ".join((root / document).read_text().split()))

    assert said is not None
    assert Decimal(said[1]) == round(months["Sum"])
