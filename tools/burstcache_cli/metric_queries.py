"""Metric queries to CloudWatch, batched into as few calls as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_QUERIES = 500  # CloudWatch's limit per call


@dataclass(frozen=True, slots=True)
class Query:
    """A metric with a statistic and a period."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    stat: str
    period_s: int

    def as_request(self, id_: str) -> dict[str, Any]:
        """Return the query as a parameter of GetMetricData."""
        listed = [{"Name": dimension, "Value": value} for dimension, value in self.dimensions.items()]
        metric = {"Namespace": self.namespace, "MetricName": self.name, "Dimensions": listed}
        stat = {"Metric": metric, "Period": self.period_s, "Stat": self.stat}
        return {"Id": id_, "MetricStat": stat, "ReturnData": True}


def values_of(
    cloudwatch: Any, queries: Mapping[str, Query], *, since_s: int, until_s: int
) -> dict[str, dict[int, float]]:
    """Return each query's values by the start of the value's period [s]. A metric without data has an empty mapping.

    Args:
        cloudwatch: A CloudWatch client.
        queries: Queries by name. The names are arbitrary.
        since_s: Start of the time range since 1970 [s], a multiple of the period.
        until_s: End of the time range since 1970 [s], a multiple of the period.
    """
    names = {f"q{number}": name for number, name in enumerate(queries)}
    requests = [queries[name].as_request(id_) for id_, name in names.items()]
    values: dict[str, dict[int, float]] = {name: {} for name in queries}
    paginator = cloudwatch.get_paginator("get_metric_data")
    for start in range(0, len(requests), _MOST_QUERIES):
        batch = requests[start : start + _MOST_QUERIES]
        for page in paginator.paginate(MetricDataQueries=batch, StartTime=since_s, EndTime=until_s):
            for result in page["MetricDataResults"]:
                times = (round(at.timestamp()) for at in result["Timestamps"])
                values[names[result["Id"]]].update(zip(times, result["Values"], strict=True))
    return values
