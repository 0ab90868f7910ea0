"""50 keys burst at once, Zipf popularity, 20,000 GETs, compressed times. Exit code 1 unless every promise holds.

Promises: no wrong or failed answer, never two live executions of one key, one start of the node, everything off at
the end.
"""

from __future__ import annotations

import asyncio
import collections
import random
import sys
import time
from itertools import pairwise

import aiohttp

from benchmarks.support.common import Cloud, Setup, environment, quantiles, running_cloud

_KEYS, _GETS, _CLIENTS, _SEED = 50, 20_000, 16, 1
_SETUP = Setup(
    "tick_s=3,lambda_threshold_s=3,redis_utilization_s=20,redis_check_s=5", boot_s=3, stop_s=2, max_hot_keys=_KEYS
)
SETUPS = (_SETUP,)


def main() -> int:
    """Run the burst; return the exit code."""
    print(environment())
    with running_cloud(_SETUP) as cloud:
        bodies = {f"key-{rank:02}": random.Random(rank).randbytes(1000 + 37 * rank) for rank in range(1, _KEYS + 1)}
        for key, body in bodies.items():
            cloud.put(key, body)
        weights = [1 / rank for rank in range(1, _KEYS + 1)]
        keys = random.Random(_SEED).choices(list(bodies), weights, k=_GETS)
        began_s = time.monotonic()
        wrong, latencies_ms = asyncio.run(_get_all(cloud.url, keys, bodies))
        lasted_s = time.monotonic() - began_s
        tiers = {tier: len(values) for tier, values in latencies_ms.items()}
        print(
            f"{_GETS} GETs of {_KEYS} keys in {lasted_s:.1f} s ({_GETS / lasted_s:.0f}/s), {_CLIENTS} clients: {tiers}"
        )
        for tier, values in latencies_ms.items():
            print(f"  {tier:<7} {quantiles(values)} ms")
        problems = [f"{count} x {what}" for what, count in wrong.items()]
        problems += _wait_for_the_end(cloud) + _overlaps(cloud) + _node_starts(cloud)
    for problem in problems:
        print(f"FAILED: {problem}")
    print("every promise held" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


async def _get_all(
    url: str, keys: list[str], bodies: dict[str, bytes]
) -> tuple[collections.Counter[str], dict[str, list[float]]]:
    """Return counts of what went wrong, and the latencies by tier [ms]."""
    wrong: collections.Counter[str] = collections.Counter()
    latencies_ms: dict[str, list[float]] = collections.defaultdict(list)
    left = iter(keys)

    async def client(session: aiohttp.ClientSession) -> None:
        for key in left:
            begun = time.perf_counter()
            async with session.get(f"{url.rstrip('/')}/objects/{key}") as answer:
                body = await answer.read()
            latencies_ms[answer.headers.get("X-Cache-Tier", "none")].append((time.perf_counter() - begun) * 1000)
            if answer.status != 200:
                wrong[f"status {answer.status}: {body[:200]!r}"] += 1
            elif body != bodies[key]:
                wrong[f"wrong body of {key}"] += 1

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session) for _ in range(_CLIENTS)))
    return wrong, latencies_ms


def _wait_for_the_end(cloud: Cloud, within_s: float = 120) -> list[str]:
    give_up_s = time.monotonic() + within_s
    while True:
        running = [
            name
            for machine in ("KeyLifecycleArn", "RedisNodeArn")
            for name in cloud.execution_names(machine, statusFilter="RUNNING")
        ]
        nodes = cloud.running_nodes()
        if not running and not nodes:
            return []
        if time.monotonic() > give_up_s:
            return [f"after {within_s} s still running: {running}, nodes {nodes}"]
        time.sleep(0.5)


def _overlaps(cloud: Cloud) -> list[str]:
    """Return the pairs of executions of one key that lived at the same time, and the failed ones."""
    by_key = collections.defaultdict(list)
    problems = []
    pages = cloud.client("stepfunctions").get_paginator("list_executions")
    for page in pages.paginate(stateMachineArn=cloud.stack.output("KeyLifecycleArn")):
        for execution in page["executions"]:
            by_key[execution["name"].partition("-")[0]].append(execution)
            if execution["status"] != "SUCCEEDED":
                steps = cloud.steps("KeyLifecycleArn", execution["name"])
                problems.append(f"execution {execution['name']} is {execution['status']}: {steps[-1].failure}")
    for executions in by_key.values():
        for first, second in pairwise(sorted(executions, key=lambda execution: execution["startDate"])):
            if second["startDate"] < first["stopDate"]:
                problems.append(f"{first['name']} and {second['name']} lived at the same time")
    print(f"{sum(map(len, by_key.values()))} lives of {len(by_key)} keys")
    return problems


def _node_starts(cloud: Cloud) -> list[str]:
    names = cloud.execution_names("RedisNodeArn")
    print(f"{len(names)} start of the node")
    return [] if len(names) == 1 else [f"the node was started {len(names)} times"]


if __name__ == "__main__":
    sys.exit(main())
