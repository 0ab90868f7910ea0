"""Kumar's tables: 1,000 strings written, read and deleted by a function, 100 times; one by one and pipelined.

    python -m benchmarks.state_operations docs/images/state-operations.png

The function is that of `examples/case_studies`, in a local run, and the database one of `burstcache.state`. It talks to
the Redis of the database itself, as what speaks TLS in front of it here is a stand-in in Python, whose time is not that
of Redis (`benchmarks.redis_tls` has what TLS costs). In turns with it, redis-py does the same in this process.

Source:
    Kumar 2022, tables 2 and 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
import redis

from benchmarks.results_places import redis_on_this_machine
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.outcome import Progress, Table, add_options, leave
from burstcache.state import state
from burstcache_local.machines.nodes import REDIS_PORT, SERVER_PORT
from burstcache_sim.report.drawing import INK, LINE_COLOURS, ticks_1_2_5

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_local.cloud import LocalCloud
    from burstcache_local.stack import Stack

sys.path.insert(0, str(PROJECT / "examples" / "case_studies" / "src"))  # as Lambda has it

DATABASE = "kumar"
PARAMETERS = {"Relay": "none", "StateDatabases": DATABASE, "StateGraceS": "1", "PolicyOverrides": "redis_check_s=1"}
_INVOCATIONS = 100
OPERATIONS = ("write", "read", "delete")
# Who → operation → mean [ms]; of his deletes he gives deviations far above the means.
KUMAR_MS = {
    "Kumar: OpenWhisk and Redis": {"write": 178.56, "read": 168.78, "delete": 9.76, "function": 538.93},
    "Kumar: Lambda and ElastiCache": {"write": 3136.24, "read": 372.56, "delete": 165.81, "function": 6394.37},
}
ONE_BY_ONE, PIPELINED, BARE, BARE_PIPELINED = (
    "one by one", "pipelined", "redis-py one by one", "redis-py pipelined",
)  # fmt: skip


@dataclass(slots=True)
class Side:
    """Times of one side [ms], by operation; `function` is the whole invocation as its caller sees it."""

    times_ms: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in (*OPERATIONS, "function")})

    def add(self, times: Any, function_ms: float | None = None) -> None:
        """Add one invocation."""
        for operation in OPERATIONS:
            self.times_ms[operation].append(times[f"{operation}_ms"])
        if function_ms is not None:
            self.times_ms["function"].append(function_ms)

    def cell(self, operation: str) -> str:
        """Return mean and deviation; empty if the operation was not measured."""
        values = self.times_ms[operation]
        return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if values else ""

    def text(self, operation: str) -> str:
        """Return mean and deviation, and the median."""
        values = self.times_ms[operation]
        if not values:
            return f"{'':>24}"
        return f"{statistics.mean(values):>8.1f} ± {statistics.stdev(values):<5.1f} {statistics.median(values):>7.1f}"


def access_of(cloud: LocalCloud) -> dict[str, Any]:
    """Return the arguments by which a holder finds the cloud's databases."""
    session = boto3.Session("local", "local", region_name=cloud.region)
    return {"stack": cloud.stack_name, "session": session, "endpoint_urls": {"": cloud.endpoint_url}}


def settings_without_tls(cloud: LocalCloud) -> str:
    """Return the output StateSettings with the servers' own ports, which nothing but this machine reaches."""
    settings = json.loads(cloud.outputs["StateSettings"])
    nodes = settings["STATE_NODES"].replace(f":{REDIS_PORT}", f":{SERVER_PORT}")
    return json.dumps(settings | {"STATE_NODES": nodes, "STATE_CA_PEM": ""})


def measure(
    cloud: LocalCloud, application: Stack, bare: redis.Redis, invocations: int, progress: Progress
) -> dict[str, Side]:
    """Return the times of all sides, which take turns."""
    import strings

    functions = cloud.client("lambda")
    sides = {name: Side() for name in (ONE_BY_ONE, PIPELINED, BARE, BARE_PIPELINED)}

    def invoke(way: str) -> tuple[Any, float]:
        began_s = time.perf_counter()
        payload = json.dumps({"database": DATABASE, "ways": [way]})
        answer = functions.invoke(FunctionName=application.physical_ids["StringsFunction"], Payload=payload)
        result = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise RuntimeError(f"the function failed: {result}")
        return result[way], (time.perf_counter() - began_s) * 1000

    with state(DATABASE, **access_of(cloud)):
        for way in strings.WAYS:
            invoke(way)  # the environment is new
        for _ in range(invocations):
            sides[ONE_BY_ONE].add(*invoke("one_by_one"))
            sides[PIPELINED].add(*invoke("pipelined"))
            texts = strings.random_strings()
            sides[BARE].add(strings.one_by_one(bare, texts))
            sides[BARE_PIPELINED].add(strings.pipelined(bare, texts))
            progress.step("1,000 strings in each way")
    return sides


def table_of(sides: dict[str, Side]) -> Table:
    """Return his values and ours."""
    columns = (*OPERATIONS, "function")
    published = [[name, *(f"{means_ms[column]:,.1f}" for column in columns)] for name, means_ms in KUMAR_MS.items()]
    measured = [[name, *(side.cell(column) for column in columns)] for name, side in sides.items()]
    note = "1,000 strings, in ms, mean ± deviation. The function is the whole invocation, as its caller sees it."
    return Table(("Who and how", *map(str.capitalize, columns)), 1, published + measured, note)


def figure_of(sides: dict[str, Side]) -> Figure:
    """Return the picture, for use within `drawing()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    rows: list[tuple[str, dict[str, float], Any]] = [
        (name, {operation: means_ms[operation] for operation in OPERATIONS}, {"color": INK, "alpha": alpha})
        for (name, means_ms), alpha in zip(KUMAR_MS.items(), (0.75, 0.45), strict=True)
    ]
    for (name, side), colour in zip(sides.items(), LINE_COLOURS, strict=False):
        means_ms = {operation: statistics.mean(side.times_ms[operation]) for operation in OPERATIONS}
        rows.append((name, means_ms, {"color": colour}))
    width = 0.8 / len(rows)
    for number, (name, means_ms, style) in enumerate(rows):
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(OPERATIONS))]
        bars = axes.bar(places, list(means_ms.values()), width, label=name, **style)
        axes.bar_label(bars, fmt="{:.0f}", fontsize=7, padding=1)
    ticks_1_2_5(axes)
    axes.set_xticks(range(len(OPERATIONS)), OPERATIONS)
    axes.set_ylabel("1,000 strings, mean [ms]")
    axes.spines["right"].set_visible(False)
    axes.legend(fontsize=7.5, loc="upper right")
    return figure


def main() -> int:
    """Measure, print and draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--invocations", type=int, default=_INVOCATIONS, help="of each way, at least 2 (default: 100)")
    arguments = parser.parse_args()
    from burstcache_local.cloud import LocalCloud, LocalOptions  # a second, which drawing alone does not take

    print(environment())
    with (
        redis_on_this_machine() as (_, port),
        redis.Redis(port=port) as bare,
        LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, parameters=PARAMETERS)) as cloud,
    ):
        application = cloud.deploy(
            PROJECT / "examples" / "case_studies" / "template.yaml",
            "case-studies",
            {"StateSettings": settings_without_tls(cloud)},
        )
        progress = Progress(arguments.invocations, is_printed=arguments.page is not None)
        sides = measure(cloud, application, bare, arguments.invocations, progress)
    columns = (*OPERATIONS, "function")
    print(f"\n{'ms: mean ± deviation, median':<30}" + "".join(f"{name:>24}" for name in columns))
    for name, means_ms in KUMAR_MS.items():
        print(f"{name:<30}" + "".join(f"{means_ms[column]:>8.1f}{'':>16}" for column in columns))
    for name, side in sides.items():
        print(f"{name:<30}" + "".join(side.text(column) for column in columns))
    leave(arguments, table_of(sides), lambda: figure_of(sides))
    return 0


if __name__ == "__main__":
    sys.exit(main())
