"""Draw the template's dashboard from the metrics that the functions of a local run emit.

    python -m benchmarks.dashboard docs/images/dashboard.png            # record some bursts, and draw them
    python -m benchmarks.dashboard FILE.png .burstcache/logs            # draw a local run that has been, or is on

Widgets, metrics, statistics and expressions are the template's; only periods are shorter, as the run is. What AWS
counts by itself, such as running instances, no local run has.
"""

from __future__ import annotations

import ast
import json
import operator
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.support.common import PROJECT, Cloud, Getter, Setup, environment, running_cloud
from burstcache_local.emf import MetricId, Sample, samples_of_run
from burstcache_local.template.read import read
from burstcache_sim.report.drawing import LINE_COLOURS, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SETUP = Setup(
    "tick_s=2,lambda_threshold_s=3,redis_utilization_s=8,redis_check_s=5",
    boot_s=10,
    stop_s=3,
    max_hot_keys=4,
    redis_on="ec2",
)
SETUPS = (_SETUP,)
_PERIOD_S = 10
_STACK = "burstcache"
_KEYS = [f"burst-{number}.bin" for number in range(4)]
_BODY = b"burst " * 2000
_CLIENTS = 8
# Until when [s], GETs a second of how many of the keys. Quiet means further apart than the threshold.
_LOAD = ((20.0, 0.25, 1), (70.0, 12.0, 2), (110.0, 20.0, 4), (150.0, 0.25, 1))
_NODE_FAILS_AFTER_S = 90.0

Series = dict[float, float]  # by the period's start [s]


def main() -> int:
    """Record unless a folder of logs is given, and draw; return the exit code."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/dashboard.png")
    emitted = samples_of_run(Path(sys.argv[2])) if len(sys.argv) > 2 else _recorded()
    if not emitted:
        print("FAILED: no metric has been emitted")
        return 1
    draw([Widget.of(each) for each in template_widgets()], emitted, target)
    print(f"{target}: {len(emitted)} values, {target.stat().st_size / 1000:.0f} kB")
    return 0


@dataclass(frozen=True, slots=True)
class Line:
    """A metric, or an expression over others, of a widget."""

    label: str
    id: str
    metric: MetricId | None
    expression: str
    stat: str
    colour: str
    is_visible: bool


@dataclass(frozen=True, slots=True)
class Widget:
    """One widget of the dashboard, as far as functions emit what it shows."""

    title: str
    is_stacked: bool
    lines: Sequence[Line]
    place: tuple[int, int, int, int]  # x, y, width, height in CloudWatch's 24 columns

    @classmethod
    def of(cls, widget: Mapping[str, Any]) -> Widget:
        """Return the widget in a dashboard's body."""
        properties = widget["properties"]
        lines = [_line(parts, properties.get("stat", "Sum")) for parts in properties["metrics"]]
        place = widget["x"], widget["y"], widget["width"], widget["height"]
        return cls(properties["title"], properties["stacked"], [line for line in lines if line is not None], place)

    def series(self, emitted: Mapping[MetricId, Sequence[Sample]]) -> Iterator[tuple[Line, Series]]:
        """Return the drawing of the widget."""
        by_id = {
            line.id or line.label: _series(emitted.get(line.metric, ()), line.stat)
            for line in self.lines
            if line.metric
        }
        for line in self.lines:
            if line.is_visible:
                yield line, evaluated(line.expression, by_id) if line.expression else by_id[line.id or line.label]


def _line(parts: Sequence[Any], stat: str) -> Line | None:
    """Return a line; None for what only AWS knows."""
    options: dict[str, Any] = parts[-1] if isinstance(parts[-1], dict) else {}
    names = [part for part in parts if isinstance(part, str)]
    expression = options.get("expression", "")
    if expression.startswith("SEARCH") or (names and names[0].startswith("AWS/")):
        return None
    metric = MetricId(names[0], names[1], frozenset(zip(names[2::2], names[3::2], strict=True))) if names else None
    return Line(
        label=options.get("label", ""),
        id=options.get("id", ""),
        metric=metric,
        expression=expression,
        stat=options.get("stat", stat),
        colour=options.get("color", ""),
        is_visible=options.get("visible", True),
    )


_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "SampleCount": len,
    "Sum": sum,
    "Average": fmean,
    "Maximum": max,
    "p50": median,
}


def _series(emitted: Sequence[Sample], stat: str) -> Series:
    periods: defaultdict[float, list[float]] = defaultdict(list)
    for sample in emitted:
        periods[sample.at_ms // 1000 // _PERIOD_S * _PERIOD_S].append(sample.value)
    return {period: _STATISTICS[stat](values) for period, values in sorted(periods.items())}


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def evaluated(expression: str, series: Mapping[str, Series]) -> Series:
    """Return a metric math expression of sums, products and FILL, at each period that one of the series has.

    Source:
        Amazon CloudWatch User Guide, "Using math expressions with CloudWatch metrics".
    """
    periods = sorted({period for each in series.values() for period in each})

    def value(node: ast.expr) -> Series:
        match node:
            case ast.Constant(value=int() | float() as number):
                return dict.fromkeys(periods, float(number))
            case ast.Name(id=name):
                return series[name]
            case ast.BinOp(left=left, op=op, right=right):
                one, other = value(left), value(right)
                return {each: _OPERATORS[type(op)](one[each], other[each]) for each in one.keys() & other.keys()}
            case ast.Call(func=ast.Name(id="FILL"), args=[filled, ast.Name(id="REPEAT")]):
                return _repeated(value(filled), periods)
            case ast.Call(func=ast.Name(id="FILL"), args=[filled, ast.Constant(value=instead)]):
                return dict.fromkeys(periods, float(str(instead))) | value(filled)
        raise ValueError(f"expression {expression!r}: {ast.dump(node)} is none of + - * / FILL")

    return dict(sorted(value(ast.parse(expression, mode="eval").body).items()))


def _repeated(series: Series, periods: Sequence[float]) -> Series:
    filled: Series = {}
    for period in periods:
        if period in series:
            filled[period] = series[period]
        elif filled:
            filled[period] = filled[max(filled)]
    return filled


def template_widgets() -> list[dict[str, Any]]:
    """Return the widgets of the template's dashboard."""
    body: str = read(PROJECT / "template.yaml")["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]
    widgets: list[dict[str, Any]] = json.loads(body.replace("${AWS::StackName}", _STACK))["widgets"]
    return widgets


def draw(widgets: Sequence[Widget], emitted: Sequence[Sample], target: Path) -> None:
    """Write the dashboard as PNG."""
    by_metric: defaultdict[MetricId, list[Sample]] = defaultdict(list)
    for sample in emitted:
        by_metric[sample.metric].append(sample)
    began_s = min(sample.at_ms for sample in emitted) // 1000 // _PERIOD_S * _PERIOD_S
    ended_s = max(sample.at_ms for sample in emitted) / 1000
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(14, 9), layout="constrained")
        grid = figure.add_gridspec(3, 24)
        for widget in widgets:
            x, y, width, _ = widget.place
            axes = figure.add_subplot(grid[y // 6, x : x + width])
            _draw(axes, widget, by_metric, began_s)
            axes.set_xlim(0, ended_s - began_s + _PERIOD_S)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=110, facecolor="white", metadata={"Software": None})


def _draw(axes: Axes, widget: Widget, emitted: Mapping[MetricId, Sequence[Sample]], began_s: float) -> None:
    axes.set_title(widget.title, loc="left", fontweight="bold")
    bottom: defaultdict[float, float] = defaultdict(float)
    colours = iter(LINE_COLOURS)
    for line, series in widget.series(emitted):
        if not series:
            continue
        colour = line.colour or next(colours)
        at_s = [period - began_s for period in series]
        if widget.is_stacked:
            below = [bottom[period] for period in series]
            axes.bar(
                at_s, list(series.values()), _PERIOD_S, below, align="edge", color=colour, label=line.label, linewidth=0
            )
            for period, value in series.items():
                bottom[period] += value
        else:
            axes.plot(at_s, list(series.values()), color=colour, label=line.label, marker="o", markersize=3)
    axes.margins(y=0.3)  # for the legend
    axes.set_ylim(bottom=0)
    axes.spines["right"].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, loc="upper left")
    axes.set_xlabel("seconds", fontsize=7)


def _recorded() -> list[Sample]:
    print(environment())
    with running_cloud(_SETUP) as cloud:
        for key in _KEYS:
            cloud.put(key, _BODY)
        _load(cloud)
        while any(cloud.execution_names(name, statusFilter="RUNNING") for name in ("KeyLifecycleArn", "RedisNodeArn")):
            time.sleep(0.2)
        _last_batches(cloud)
        return samples_of_run(cloud.log_dir)


def _load(cloud: Cloud) -> None:
    """GET at the load's rate from several clients; in the middle of it the node is switched off."""
    clients = threading.local()
    began_s = time.monotonic()
    stop = threading.Timer(_NODE_FAILS_AFTER_S, lambda: _switch_off(cloud))
    stop.start()

    def get(key: str) -> None:
        if not hasattr(clients, "getter"):
            clients.getter = Getter(cloud.url)
        status, _, body, _ = clients.getter.get(key)
        if (status, body) != (200, _BODY):
            sys.exit(f"GET of {key}: status {status}, {len(body)} bytes")

    with ThreadPoolExecutor(_CLIENTS) as pool:
        answers = []
        for number, (due_s, keys) in enumerate(_due()):
            time.sleep(max(0.0, began_s + due_s - time.monotonic()))
            answers.append(pool.submit(get, _KEYS[number % keys]))
        for answer in answers:
            answer.result()
    stop.join()


def _due() -> Iterator[tuple[float, int]]:
    due_s = 0.0
    for until_s, per_s, keys in _LOAD:
        while due_s < until_s:
            yield due_s, keys
            due_s += 1 / per_s


def _switch_off(cloud: Cloud) -> None:
    """Stop the node's instance behind everybody's back."""
    instances = [
        instance["InstanceId"]
        for group in cloud.client("ec2").describe_instances()["Reservations"]
        for instance in group["Instances"]
    ]
    cloud.client("ec2").stop_instances(InstanceIds=instances)


def _last_batches(cloud: Cloud) -> None:
    """Flush the pending metrics of each environment of the proxy by a read ten seconds later."""
    time.sleep(10)
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(lambda _: Getter(cloud.url).get(_KEYS[0]), range(4 * _CLIENTS)))


if __name__ == "__main__":
    sys.exit(main())
