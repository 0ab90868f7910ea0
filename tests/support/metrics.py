"""What functions tell in metrics, and what alarms make of it: EMF lines read as CloudWatch reads them.

A test that drives handlers sets `STACK_NAME`, and takes what they print from pytest's `capsys`:

    monkeypatch.setenv("STACK_NAME", STACK)
    world.clean()
    assert goes_off("OverdueNodesAlarm", samples(capsys.readouterr().out))
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from burstcache.control.meter import Meter
from burstcache.core.worth import sheet_of_region, tier_prices
from burstcache.metrics import NAMESPACE
from support.project import ROOT

STACK = "burstcache"
METER = Meter(tier_prices(sheet_of_region("us-east-1"), node_type="t4g.micro", cache_memory_mb=256))

_BREACHES = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
}
_STATISTICS: dict[str, Callable[[list[float]], float]] = {"Sum": sum, "Maximum": max, "SampleCount": len}


@dataclass(frozen=True, slots=True)
class MetricId:
    """What CloudWatch knows a metric by."""

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
    """Return the metrics in what functions have printed; what is no EMF is left out, as CloudWatch does."""
    lines = (json.loads(line) for line in printed.splitlines() if line.startswith('{"_aws"'))
    return [sample for line in lines for sample in _samples(line)]


def _samples(line: dict[str, Any]) -> Iterator[Sample]:
    for directive in line["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = frozenset((name, line[name]) for name in names)
            for metric in directive["Metrics"]:
                id_ = MetricId(directive["Namespace"], metric["Name"], dimensions)
                values = line[metric["Name"]]
                for value in values if isinstance(values, list) else [values]:
                    yield Sample(id_, metric["Unit"], value, line["_aws"]["Timestamp"])


@functools.cache
def template() -> dict[str, Any]:
    """Return the template as SAM reads it."""
    return yaml_parse((ROOT / "template.yaml").read_text())  # type: ignore[no-any-return]


def alarms() -> dict[str, dict[str, Any]]:
    """Return the properties of each alarm in the template, by its logical id."""
    resources = template()["Resources"].items()
    return {name: part["Properties"] for name, part in resources if part["Type"] == "AWS::CloudWatch::Alarm"}


def metrics_of(alarm: dict[str, Any]) -> list[MetricId]:
    """Return what an alarm watches; a reference stands as JSON, the stack's name as `STACK`."""
    stats = [metric["MetricStat"]["Metric"] for metric in alarm.get("Metrics", ()) if "MetricStat" in metric]
    return [_metric_id(metric) for metric in stats or [alarm]]


def _metric_id(metric: dict[str, Any]) -> MetricId:
    dimensions = ((each["Name"], _text(each["Value"])) for each in metric.get("Dimensions", ()))
    return MetricId(metric["Namespace"], metric["MetricName"], frozenset(dimensions))


def _text(value: Any) -> str:
    if value == {"Ref": "AWS::StackName"}:
        return STACK
    return value if isinstance(value, str) else json.dumps(value)


def goes_off(alarm: str, told: Iterable[Sample]) -> bool:
    """Whether an alarm on one of the stack's own metrics goes off if each of its periods brings these samples.

    Raises:
        AssertionError: It watches something else.
    """
    properties = alarms()[alarm]
    (metric,) = metrics_of(properties)
    assert metric.namespace == NAMESPACE, f"{alarm} watches {metric}"
    values = [sample.value for sample in told if sample.metric == metric]
    if not values:
        return bool(properties["TreatMissingData"] == "breaching")
    value = _STATISTICS[properties["Statistic"]](values)
    return bool(_BREACHES[properties["ComparisonOperator"]](value, properties["Threshold"]))
