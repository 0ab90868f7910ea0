"""What benchmarks share: a local cloud in a process of its own, GETs, and figures."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burstcache.adapters.executions import execution_arn
from burstcache.core.node_kinds import NodeKind
from burstcache.queries.history import History, Step
from burstcache_cli.stack import Stack, find_stack

PROJECT = Path(__file__).parents[2]
# As overrides of the thesis policy: four GETs of a key never come within a microsecond, though two may.
NEVER_HOT = "lambda_window_elements=4,lambda_threshold_s=0.000001"


def environment() -> str:
    """Return machine and date in one line; a figure without them means little."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{today}, {model}, {os.cpu_count()} cores, Python {platform.python_version()}"


@dataclass(frozen=True, slots=True)
class Cloud:
    """A local cloud that runs in another process."""

    url: str
    stack: Stack
    process_id: int
    log_dir: Path

    def client(self, service: str) -> Any:
        """Return a boto3 client of a service of this cloud."""
        return self.stack.client(service)

    def put(self, key: str, body: bytes) -> None:
        """Put an object into the origin."""
        self.client("s3").put_object(Bucket=self.stack.output("BucketName"), Key=key, Body=body)

    def steps(self, machine_output: str, name: str) -> list[Step]:
        """Return the states that an execution has entered."""
        arn = execution_arn(self.stack.output(machine_output), name)
        return History(self.client("stepfunctions"), arn).read_new() or []

    def execution_names(self, machine_output: str, **filters: Any) -> list[str]:
        """Return the names of a machine's executions, the newest first."""
        pages = self.client("stepfunctions").get_paginator("list_executions")
        found = pages.paginate(stateMachineArn=self.stack.output(machine_output), **filters)
        return [execution["name"] for page in found for execution in page["executions"]]

    def running_nodes(self) -> list[str]:
        """Return the instances and tasks of nodes that have not stopped."""
        groups, ecs = self.client("ec2").describe_instances()["Reservations"], self.client("ecs")
        instances = [instance for group in groups for instance in group["Instances"]]
        running = [each["InstanceId"] for each in instances if each["State"]["Name"] != "stopped"]
        for cluster in ecs.list_clusters()["clusterArns"]:
            if arns := ecs.list_tasks(cluster=cluster)["taskArns"]:
                tasks = ecs.describe_tasks(cluster=cluster, tasks=arns)["tasks"]
                running += (task["taskArn"] for task in tasks if task["lastStatus"] != "STOPPED")
        return running


@dataclass(frozen=True, slots=True)
class Setup:
    """How a benchmark starts its local cloud. Each benchmark lists its own in `SETUPS`, and a test starts them all."""

    overrides: str = ""  # of the thesis policy's parameters; without any, the template's policy decides
    boot_s: float = 1.0
    stop_s: float = 0.5
    max_hot_keys: int | None = None  # None: the template's default
    is_traced: bool = False
    takes_writes: bool = False  # at the front door
    redis_on: NodeKind | None = None  # what nodes run on; None: the template's default

    @property
    def parameters(self) -> dict[str, str]:
        """The template's parameters."""
        hot_keys = {} if self.max_hot_keys is None else {"MaxHotKeys": str(self.max_hot_keys)}
        policy = {"Policy": "thesis", "PolicyOverrides": self.overrides} if self.overrides else {}
        tracing = {"Tracing": "Active"} if self.is_traced else {}
        kind = {} if self.redis_on is None else {"RedisOn": self.redis_on}
        return {**policy, **hot_keys, **tracing, **kind, **({"Writes": "iam"} if self.takes_writes else {})}

    def options(self) -> list[str]:
        """Return the options of `local up`."""
        options = ["--port", "0", "--endpoint-port", "0", "--boot-s", str(self.boot_s), "--stop-s", str(self.stop_s)]
        for name, value in self.parameters.items():
            options += ["--parameter", f"{name}={value}"]
        return options


@contextlib.contextmanager
def running_cloud(setup: Setup) -> Iterator[Cloud]:
    """Run a local cloud for the duration of a `with`."""
    with tempfile.TemporaryDirectory() as state_dir:
        command = [sys.executable, "-m", "burstcache_cli.cli", "local", "up", "--state-dir", state_dir]
        command += setup.options()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield _ready(process, Path(state_dir))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _ready(process: subprocess.Popen[str], state_dir: Path) -> Cloud:
    while not (state_dir / "local.json").exists():
        if process.poll() is not None:
            sys.exit(process.returncode)
        time.sleep(0.05)
    stack = find_stack(state_dir=state_dir)
    return Cloud(stack.output("ApiUrl"), stack, process.pid, state_dir / "logs")


class Getter:
    """GETs on one connection."""

    def __init__(self, url: str) -> None:
        self._address = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(self._address.netloc, timeout=35)

    def get(self, key: str) -> tuple[int, str, bytes, float]:
        """Return status, tier, body and latency [ms] of one GET."""
        begun = time.perf_counter()
        self._connection.request("GET", f"{self._address.path.rstrip('/')}/objects/{urllib.parse.quote(key)}")
        answer = self._connection.getresponse()
        body = answer.read()
        latency_ms = (time.perf_counter() - begun) * 1000
        return answer.status, answer.headers.get("X-Cache-Tier", ""), body, latency_ms


def quantiles(values: Sequence[float]) -> str:
    """Return median, 5th and 95th percentile of at least two values as text."""
    cuts = statistics.quantiles(values, n=20)
    return f"median {statistics.median(values):.1f}, 5-95 % {cuts[0]:.1f}-{cuts[-1]:.1f}"
