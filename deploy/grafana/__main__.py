"""Write the CloudWatch dashboard in template.yaml as a Grafana dashboard: burstcache.json in this folder.

`python -m deploy.grafana` writes it, and `python -m deploy.grafana --check` fails if it differs from the template.

Source:
    Grafana documentation, "Dashboard JSON model", "CloudWatch query editor", "CloudWatch template variables".
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from burstcache_local.template.read import read

FILE = Path(__file__).with_name("burstcache.json")
_TEMPLATE = FILE.parents[2] / "template.yaml"
_SOURCE = {"type": "cloudwatch", "uid": "${datasource}"}
_UNITS = {"ms": "ms", "s": "s", "bytes": "bytes", "USD": "currencyUSD"}
_STACK_TAG = "aws:cloudformation:stack-name"

# The template's references as variables of the dashboard. Those that follow the proxy may be without a value, which
# CloudWatch refuses in a query. So their metrics are in a row of their own, which queries nothing until it is opened.
_VARIABLES = {
    "AWS::StackName": "stack",
    "AWS::Region": "region",
    "ProxyFunction": "proxy",
    "CacheFunctionName": "cache_function",
    "KeyLifecycleArn": "key_lifecycle",
    "RedisNodeArn": "redis_node",
    "Instances": "instances",
}
_PARTS = tuple(_VARIABLES.values())[3:]
_SEARCH = re.compile(r"""SEARCH\('\{(\S+),(\w+)\} MetricName="(\w+)" \("(\$\w+)"\)', '(\w+)', (\d+)\)""")
_HEIGHT = 8  # of a widget of six units, which are higher in CloudWatch


def dashboard(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model."""
    body: str = template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]
    widgets = json.loads(re.sub(r"\$\{([\w:]+)\}", lambda name: f"${_VARIABLES[name[1]]}", body))["widgets"]
    panels = [_panel(widget, _metrics(widget, is_part=False)) for widget in widgets]
    height = max(panel["gridPos"]["y"] for panel in panels) + _HEIGHT
    parts = [
        _panel(widget, [metric], title=metric[-1]["label"])
        for widget in widgets
        for metric in _metrics(widget, is_part=True)
    ]
    for column, part in enumerate(parts):
        part["gridPos"] = {"x": 6 * (column % 4), "y": height + 1 + _HEIGHT * (column // 4), "w": 6, "h": _HEIGHT}
    row = {
        "type": "row",
        "title": "Parts that not every stack has",
        "collapsed": True,
        "gridPos": {"x": 0, "y": height, "w": 24, "h": 1},
        "panels": parts,
    }
    for number, panel in enumerate([*panels, row, *parts], 1):
        panel["id"] = number
    return {
        "uid": "burstcache",
        "title": "Burstcache",
        "tags": ["burstcache"],
        "schemaVersion": 38,
        "editable": True,
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "",  # each look costs requests to CloudWatch
        "templating": {"list": list(_variables())},
        "panels": [*panels, row],
    }


def _metrics(widget: Mapping[str, Any], *, is_part: bool) -> list[list[Any]]:
    """Return a widget's metrics of parts that not every stack has, or else its other metrics."""
    return [
        metric
        for metric in widget["properties"]["metrics"]
        if any(f"${name}" in json.dumps(metric) for name in _PARTS) == is_part
    ]


def _panel(widget: Mapping[str, Any], metrics: Sequence[Sequence[Any]], *, title: str = "") -> dict[str, Any]:
    properties = widget["properties"]
    unit = re.search(r"\[(\w+)\]$", properties["title"])
    return {
        "type": "timeseries",
        "title": title or properties["title"],
        "datasource": _SOURCE,
        "options": {"tooltip": {"mode": "multi", "sort": "none"}},
        "gridPos": {"x": widget["x"], "y": widget["y"] // 6 * _HEIGHT, "w": widget["width"], "h": _HEIGHT},
        "targets": [_target(number, metric, properties) for number, metric in enumerate(metrics)],
        "fieldConfig": {
            "defaults": {
                "unit": _UNITS[unit[1]] if unit else "short",
                "min": 0,
                "custom": {
                    "fillOpacity": 20 if properties["stacked"] else 0,
                    "stacking": {"mode": "normal" if properties["stacked"] else "none", "group": "A"},
                },
            },
            "overrides": [override for metric in metrics for override in _overrides(metric[-1])],
        },
    }


def _target(number: int, metric: Sequence[Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    *words, options = metric
    target = {
        "refId": chr(ord("A") + number),
        "datasource": _SOURCE,
        "queryMode": "Metrics",
        "metricQueryType": 0,  # a search, no query in SQL
        "metricEditorMode": 0,  # fields, no expression
        "id": options.get("id", ""),
        "label": options.get("label", ""),
        "region": "$region",
        "hide": not options.get("visible", True),
        "matchExact": True,
        "statistic": options.get("stat", properties.get("stat", "")),
        "period": str(properties["period"]),
    }
    if words:
        namespace, name, *dimensions = words
        return target | _metric(namespace, name, dict(zip(dimensions[::2], dimensions[1::2], strict=True)))
    if search := _SEARCH.fullmatch(options["expression"]):
        namespace, dimension, name, value, statistic, period = search.groups()
        return target | _metric(namespace, name, {dimension: value}) | {"statistic": statistic, "period": period}
    return target | {"metricEditorMode": 1, "namespace": "", "expression": options["expression"]}


def _metric(namespace: str, name: str, dimensions: Mapping[str, str]) -> dict[str, Any]:
    return {"namespace": namespace, "metricName": name, "dimensions": dict(dimensions)}


def _overrides(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    properties = []
    if "color" in options:
        properties.append({"id": "color", "value": {"mode": "fixed", "fixedColor": options["color"]}})
    if options.get("yAxis") == "right":
        properties.append({"id": "custom.axisPlacement", "value": "right"})
    if properties:
        yield {"matcher": {"id": "byName", "options": options["label"]}, "properties": properties}


def _variables() -> Iterator[dict[str, Any]]:
    yield {"type": "datasource", "name": "datasource", "label": "Data source", "query": "cloudwatch", "refresh": 1}
    yield _variable("region", "Region", queryType="regions")
    yield _variable(
        "stack",
        "Stack",
        queryType="dimensionValues",
        region="$region",
        namespace="Burstcache",
        metricName="LatencyMs",
        dimensionKey="Stack",
    )
    yield _resource("proxy", "lambda:function", "ProxyFunction")
    yield _resource("cache_function", "lambda:function", "CacheFunction")
    yield _resource("key_lifecycle", "states:stateMachine", "KeyLifecycle")
    yield _resource("redis_node", "states:stateMachine", "RedisNode")
    instances = _variable(
        "instances",
        "",
        queryType="ec2InstanceAttributes",
        region="$region",
        attributeName="InstanceId",
        ec2Filters={f"tag:{_STACK_TAG}": ["$stack"]},
    )
    yield instances | {"multi": True, "includeAll": True}


def _resource(name: str, kind: str, logical_id: str) -> dict[str, Any]:
    """Return a hidden variable with a resource's dimension: an ARN, of a function the name at its end."""
    tags = {_STACK_TAG: ["$stack"], "aws:cloudformation:logical-id": [logical_id]}
    found = _variable(name, "", queryType="resourceARNs", region="$region", resourceType=kind, tags=tags)
    return found | ({"regex": "/([^:]+)$/"} if kind == "lambda:function" else {})


def _variable(name: str, label: str, **query: Any) -> dict[str, Any]:
    shown = {"label": label} if label else {"hide": 2}
    fields = {"type": "query", "name": name, "datasource": _SOURCE, "refresh": 1, "sort": 1}
    return {**fields, **shown, "query": {"refId": name, **query}}


def main(arguments: list[str], path: Path = FILE) -> str | None:
    """Write or check the dashboard, and return an error message, None for success."""
    text = json.dumps(dashboard(read(_TEMPLATE)), indent=1) + "\n"
    if not path.exists() or path.read_text("utf-8") != text:
        if arguments == ["--check"]:
            return f"{path.name} differs from template.yaml: `make template` writes it"
        path.write_text(text, "utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
