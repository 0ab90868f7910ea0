"""A scripted burst: S3, Lambda, Redis and S3 again, with the executions' histories. Exit code 1 if anything differs.

Under the template's defaults and in real time, but for a node that boots in 10 s; it takes two to three minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.support.common import Cloud, Getter, Setup, environment, running_cloud

_SETUP = Setup(boot_s=10, stop_s=2)
SETUPS = (_SETUP,)
_KEY, _BODY = "burst.bin", b"burst " * 2000
_MOST_TRANSITIONS = 5  # of a key in a cache function


def main() -> int:
    """Run the demo; return the exit code."""
    print(environment())
    with running_cloud(_SETUP) as cloud:
        problems = _burst(cloud)
    for problem in problems:
        print(f"FAILED: {problem}")
    print("all tiers in order, no failed GET, everything off again" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def _burst(cloud: Cloud) -> list[str]:
    """GET one key every 0.2 s until Redis has served for 5 s, then wait until everything is off."""
    cloud.put(_KEY, _BODY)
    getter, began_s = Getter(cloud.url), time.monotonic()
    tiers: list[tuple[str, float]] = []
    problems: list[str] = []
    while not tiers or (tiers[-1][0] != "redis" and time.monotonic() - began_s < 60) or _since_s(tiers, began_s) < 5:
        problems += _get(getter, tiers, began_s)
        time.sleep(0.2)
    print("  load ends")
    problems += _everything_is_off(cloud)
    problems += _get(getter, tiers, began_s)
    if [tier for tier, _ in tiers] != ["s3", "lambda", "redis", "s3"]:
        problems.append(f"the tiers came as {' -> '.join(tier for tier, _ in tiers)}")
    return problems


def _since_s(tiers: list[tuple[str, float]], began_s: float) -> float:
    """Return for how long the present tier has served [s]."""
    return time.monotonic() - began_s - tiers[-1][1]


def _get(getter: Getter, tiers: list[tuple[str, float]], began_s: float) -> list[str]:
    """GET the key, note and print a change of the tier, and return what is wrong with the answer."""
    status, tier, body, latency_ms = getter.get(_KEY)
    elapsed_s = time.monotonic() - began_s
    if not tiers or tiers[-1][0] != tier:
        tiers.append((tier, elapsed_s))
        print(f"  {elapsed_s:6.1f} s  tier {tier:<7} {latency_ms:6.1f} ms")
    return [] if (status, body) == (200, _BODY) else [f"GET after {elapsed_s:.1f} s: {status}, {len(body)} bytes"]


def _everything_is_off(cloud: Cloud) -> list[str]:
    """Wait until nothing runs; print the executions, and return what is wrong with them."""

    def running() -> list[str]:
        return [
            name
            for machine in ("KeyLifecycleArn", "RedisNodeArn")
            for name in cloud.execution_names(machine, statusFilter="RUNNING")
        ]

    is_off = _until(lambda: not running() and not cloud.running_nodes())
    problems = [] if is_off else [f"still running: {running()}, nodes {cloud.running_nodes()}"]
    for name in cloud.execution_names("RedisNodeArn"):
        print("\nnode")
        _print_history(cloud, "RedisNodeArn", name)
    for name in cloud.execution_names("KeyLifecycleArn"):
        print("\nkey")
        if (steps := _print_history(cloud, "KeyLifecycleArn", name)) > _MOST_TRANSITIONS:
            problems.append(f"execution {name} took {steps} transitions, {_MOST_TRANSITIONS} are allowed")
    return problems


def _print_history(cloud: Cloud, machine_output: str, name: str) -> int:
    """Print an execution's states; return the number of transitions."""
    steps = cloud.steps(machine_output, name)
    states = [step for step in steps if step.state]
    print(f"  execution {name}: {len(states)} transitions")
    for step, following in zip(states, [*steps[1:], None], strict=False):
        lasted = f"{(following.at_us - step.at_us) / 1e6:7.2f} s" if following else "        ?"
        print(f"    {step.state:<22} {lasted}")
    return len(states)


def _until(ask: Callable[[], bool], within_s: float = 300) -> bool:
    give_up_s = time.monotonic() + within_s
    while not ask():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.2)
    return True


if __name__ == "__main__":
    sys.exit(main())
