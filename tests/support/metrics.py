"""The metrics that functions emit, and the alarms on them: EMF lines evaluated as CloudWatch does.

A test that drives handlers reads their output from the fixture `told`:

    def test_…(world: World, told: Callable[[], list[Sample]]) -> None:
        world.clean()
        assert goes_off("OverdueNodesAlarm", told())
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from burstcache.control.meter import Meter
from burstcache.core.worth import sheet_of_region, tier_prices
from burstcache_local.emf import MetricId, Sample, samples
from support.project import STACK, template

__all__ = ["METER", "SPOT_METER", "STACK", "MetricId", "Sample", "goes_off", "metric_id", "samples", "went_off"]

METER = Meter(tier_prices(sheet_of_region("us-east-1"), node_type="t4g.micro", cache_memory_mb=256))
SPOT_METER = Meter(tier_prices(sheet_of_region("us-east-1"), node_type="fargate-spot:2GB", cache_memory_mb=256))

_BREACHES = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
}
_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "SampleCount": len,
    "p90": lambda values: sorted(values)[int(0.9 * (len(values) - 1))],
}

_NOTHING: Mapping[str, float] = {}


def alarms() -> dict[str, dict[str, Any]]:
    """Return the properties of each alarm in the template, by its logical id."""
    resources = template()["Resources"].items()
    return {name: part["Properties"] for name, part in resources if part["Type"] == "AWS::CloudWatch::Alarm"}


def metric_id(alarm: dict[str, Any]) -> MetricId:
    """Return the id of an alarm's metric. The stack's name is `STACK`, other references appear as JSON."""
    dimensions = ((each["Name"], _text(each["Value"])) for each in alarm.get("Dimensions", ()))
    return MetricId(alarm["Namespace"], alarm["MetricName"], frozenset(dimensions))


def _text(value: Any) -> str:
    if value == {"Ref": "AWS::StackName"}:
        return STACK
    return value if isinstance(value, str) else json.dumps(value)


def goes_off(alarm: str, told: Iterable[Sample], of_aws: float | None = None) -> bool:
    """Return whether an alarm fires if each of its periods has the same samples.

    Args:
        alarm: Its logical id.
        told: Samples that functions emit in a period.
        of_aws: The statistic of a metric that AWS itself publishes. None: no data.
    """
    properties = alarms()[alarm]
    return _breaches(properties, _value(properties, told) if of_aws is None else of_aws)


def period_s(alarm: str) -> int:
    """Return the length of an alarm's periods [s]."""
    return int(alarms()[alarm]["Period"])


def went_off(alarm: str, periods: Sequence[Sequence[Sample]], *, thresholds: Mapping[str, float] = _NOTHING) -> bool:
    """Return whether an alarm fired.

    Args:
        alarm: Its logical id.
        periods: Samples that CloudWatch received in each period, from functions and from AWS, oldest first.
        thresholds: Thresholds of alarms that take theirs from another resource, by logical id.
    """
    properties = dict(alarms()[alarm])
    properties["Threshold"] = thresholds.get(alarm, properties["Threshold"])
    looks_back = properties["EvaluationPeriods"]
    needed = properties.get("DatapointsToAlarm", looks_back)
    breaches = [_breaches(properties, _value(properties, told)) for told in periods]
    return any(sum(breaches[at : at + looks_back]) >= needed for at in range(len(breaches) - looks_back + 1))


def _breaches(properties: dict[str, Any], value: float | None) -> bool:
    """Return whether one period's value breaches an alarm's threshold. None: the period has no data."""
    if value is None:
        return bool(properties["TreatMissingData"] == "breaching")
    return bool(_BREACHES[properties["ComparisonOperator"]](value, properties["Threshold"]))


def _value(alarm: dict[str, Any], told: Iterable[Sample]) -> float | None:
    watched = metric_id(alarm)
    values = [sample.value for sample in told if sample.metric == watched]
    return _STATISTICS[alarm.get("Statistic") or alarm["ExtendedStatistic"]](values) if values else None


def widgets() -> list[dict[str, Any]]:
    """Return the properties of the dashboard's widgets. References other than the stack's name remain text."""
    body: str = template()["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]
    widgets = json.loads(body.replace("${AWS::StackName}", STACK))["widgets"]
    return [widget["properties"] for widget in widgets]


def shown(widget: dict[str, Any]) -> list[MetricId]:
    """Return the metrics that a widget names."""
    named = [[part for part in metric if isinstance(part, str)] for metric in widget["metrics"]]
    return [
        MetricId(names[0], names[1], frozenset(zip(names[2::2], names[3::2], strict=True))) for names in named if names
    ]
