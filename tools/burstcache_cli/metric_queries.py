"""Questions to CloudWatch: any number of metrics in as few calls as it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_QUERIES = 500  # of one call


@dataclass(frozen=True, slots=True)
class Query:
    """One metric, and what of it is asked for."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    stat: str
    period_s: int

    def as_asked(self, id_: str) -> dict[str, Any]:
        """Return it in the terms of CloudWatch's API."""
        listed = [{"Name": dimension, "Value": value} for dimension, value in self.dimensions.items()]
        metric = {"Namespace": self.namespace, "MetricName": self.name, "Dimensions": listed}
        stat = {"Metric": metric, "Period": self.period_s, "Stat": self.stat}
        return {"Id": id_, "MetricStat": stat, "ReturnData": True}


def values_of(
    cloudwatch: Any, queries: Mapping[str, Query], *, since_s: int, until_s: int
) -> dict[str, dict[int, float]]:
    """Return each query's values by the start of their period [s]; a metric without any has none.

    Args:
        cloudwatch: A client of CloudWatch.
        queries: By names of the caller's own.
        since_s: Since 1970, a whole number of periods [s].
        until_s: Likewise; what is later is not asked for [s].
    """
    names = {f"q{number}": name for number, name in enumerate(queries)}
    asked = [queries[name].as_asked(id_) for id_, name in names.items()]
    found: dict[str, dict[int, float]] = {name: {} for name in queries}
    paginator = cloudwatch.get_paginator("get_metric_data")
    for start in range(0, len(asked), _MOST_QUERIES):
        part = asked[start : start + _MOST_QUERIES]
        for page in paginator.paginate(MetricDataQueries=part, StartTime=since_s, EndTime=until_s):
            for result in page["MetricDataResults"]:
                times = (round(at.timestamp()) for at in result["Timestamps"])
                found[names[result["Id"]]].update(zip(times, result["Values"], strict=True))
    return found
