"""From the first request to the first hit of a Redis node that runs as a task on Fargate, by parts of its boot.

In a local run whose tasks are provisioned and pulled in stated times; on AWS these take longer, which is untried.

    python -m benchmarks.task_boot [--boots 5]
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import urlopen

from benchmarks.support.common import environment
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.machines.tasks import TaskTimes
from burstcache_terminal.text import table_text

TIMES = TaskTimes(provision_s=0.5, pull_s=0.5)
_PARAMETERS = {
    "RedisOn": "fargate-spot",
    "RedisTaskMemoryGb": "0.5",
    "Relay": "none",
    "HitValueUsdPerMillion": "10000",
}
# Each part ends with the named moment.
PARTS = {
    "start": "reports, until the execution of the node starts",
    "task": "`BootNode`, until ECS shows the task",
    "running": f"PROVISIONING and PENDING, of which {TIMES.provision_s + TIMES.pull_s:g} s are stated",
    "ready": "event, Redis' answer and the token, until `NodeReady`",
    "routed": "`NodeReady`, until the check is planned",
    "hit": "readers' next digest, and the first hit",
}
_EVERY_S = 0.02
_LIMIT_S = 90


def parts_of(moments: Mapping[str, float], began_s: float) -> dict[str, float]:
    """Return the duration of each part [s]."""
    ends = [began_s, *(moments[name] for name in PARTS)]
    return {name: end - begin for name, begin, end in zip(PARTS, ends, ends[1:], strict=False)}


def await_true(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    until_s = time.perf_counter() + _LIMIT_S
    while not condition():
        if time.perf_counter() > until_s:
            raise TimeoutError
        time.sleep(_EVERY_S)


def boot() -> dict[str, float]:
    """Return the parts of the boot of a new stack's node [s]."""
    with LocalCloud(LocalOptions(parameters=_PARAMETERS, task_times=TIMES)) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="k", Body=b"x" * 10_000)
        ecs, cluster = cloud.client("ecs"), cloud.function_variables("RedisControlFunction")["TASK_CLUSTER"]
        moments: dict[str, float] = {}
        states = {"BootNode": "start", "NodeReady": "ready", "RedisNodeRunning": "routed"}

        def enter(_: Any, state: str) -> None:
            if state in states:
                moments.setdefault(states[state], time.perf_counter())

        def watch() -> None:
            await_true(lambda: bool(ecs.list_tasks(cluster=cluster)["taskArns"]))
            moments["task"] = time.perf_counter()
            tasks = ecs.list_tasks(cluster=cluster)["taskArns"]
            await_true(lambda: ecs.describe_tasks(cluster=cluster, tasks=tasks)["tasks"][0]["lastStatus"] == "RUNNING")
            moments["running"] = time.perf_counter()

        def is_hit() -> bool:
            with urlopen(f"{cloud.front_url}/objects/k", timeout=30) as answer:
                return bool(answer.headers["x-cache-tier"] == "redis")

        watcher = threading.Thread(target=watch, daemon=True)
        with cloud.entering(enter):
            watcher.start()
            began_s = time.perf_counter()
            await_true(is_hit)
            moments["hit"] = time.perf_counter()
            watcher.join()
    return parts_of(moments, began_s)


def main() -> None:
    """Print the median and the range of each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=5)
    boots = [boot() for _ in range(parser.parse_args().boots)]
    rows = []
    for name, text in PARTS.items():
        values = [each[name] for each in boots]
        rows.append((text, f"{statistics.median(values):.2f}", f"{min(values):.2f} to {max(values):.2f}"))
    print(environment())
    print(table_text(("part", "median s", "range s"), rows))


if __name__ == "__main__":
    main()
