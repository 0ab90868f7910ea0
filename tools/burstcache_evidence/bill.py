"""The bill of a run by Cost Explorer: usage and cost by usage type. It is complete a day after the run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any


def billed(session: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the account's usage and cost on the run's days in its region.

    The tag of the run is no cost allocation tag, so other use of the account in these days is included.
    """
    began_s = float(content["began_s"])
    ended_s = max([began_s, *(step["began_s"] + step["took_s"] for step in content["steps"].values())])
    first, last = (datetime.fromtimestamp(at_s, UTC).date() for at_s in (began_s, ended_s))
    costs = session.client("ce", region_name="us-east-1")
    request: dict[str, Any] = {
        "TimePeriod": {"Start": first.isoformat(), "End": (last + timedelta(days=1)).isoformat()},
        "Granularity": "DAILY",
        "Metrics": ["UnblendedCost", "UsageQuantity"],
        "GroupBy": [{"Type": "DIMENSION", "Key": "SERVICE"}, {"Type": "DIMENSION", "Key": "USAGE_TYPE"}],
        "Filter": {"Dimensions": {"Key": "REGION", "Values": [content["region"]]}},
    }
    lines: dict[tuple[str, str], list[float]] = {}
    while True:
        answer = costs.get_cost_and_usage(**request)
        for day in answer["ResultsByTime"]:
            for group in day["Groups"]:
                line = lines.setdefault((group["Keys"][0], group["Keys"][1]), [0.0, 0.0])
                line[0] += float(group["Metrics"]["UnblendedCost"]["Amount"])
                line[1] += float(group["Metrics"]["UsageQuantity"]["Amount"])
        if not (token := answer.get("NextPageToken")):
            break
        request["NextPageToken"] = token
    rows = [
        {"service": service, "usage_type": usage_type, "usd": round(usd, 10), "usage": round(usage, 6)}
        for (service, usage_type), (usd, usage) in sorted(lines.items())
    ]
    return {
        "days": [first.isoformat(), last.isoformat()],
        "usd": round(sum(usd for usd, _ in lines.values()), 4),
        "rows": rows,
    }
