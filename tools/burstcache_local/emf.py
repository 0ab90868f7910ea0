"""EMF metrics in function output, extracted as by CloudWatch Logs.

Source:
    Amazon CloudWatch User Guide, "Specification: Embedded metric format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BEGINNING = '{"_aws"'


@dataclass(frozen=True, slots=True)
class MetricId:
    """A metric's identity in CloudWatch."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric."""

    metric: MetricId
    unit: str
    value: float
    at_ms: int


def samples(printed: str) -> list[Sample]:
    """Parse the metrics in function output, skipping lines that are not EMF."""
    lines = (json.loads(line) for line in printed.split("\n") if line.startswith(_BEGINNING))
    return [sample for line in lines for sample in _samples(line)]


def samples_of_run(log_dir: Path) -> list[Sample]:
    """Return the metrics that a local run's functions have logged."""
    return [sample for path in sorted(log_dir.glob("*.log")) for sample in samples(path.read_text(errors="replace"))]


def _samples(line: dict[str, Any]) -> Iterator[Sample]:
    for directive in line["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = frozenset((name, line[name]) for name in names)
            for metric in directive["Metrics"]:
                id_ = MetricId(directive["Namespace"], metric["Name"], dimensions)
                values = line[metric["Name"]]
                for value in values if isinstance(values, list) else [values]:
                    yield Sample(id_, metric["Unit"], value, line["_aws"]["Timestamp"])
