"""A scripted burst: S3, Lambda, Redis and S3 again, with the executions' histories. Exit code 1 if anything differs.

Times are compressed (TICK 2 s, a check every 5 s, an instance that boots in 3 s); the policy is the deployed one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.common import Cloud, Getter, Setup, environment, running_cloud
from burstcache.core.keys import key_hash

_THRESHOLD_S = 3
_SETUP = Setup(f"tick_s=2,lambda_threshold_s={_THRESHOLD_S},redis_utilization_s=8,redis_check_s=5", boot_s=3, stop_s=2)
SETUPS = (_SETUP,)
_BODY = b"burst " * 2000
_MOST_TRANSITIONS = {"promoted": 8, "unpromoted": 5}


def main() -> int:
    """Run the demo; return the exit code."""
    print(environment())
    with running_cloud(_SETUP) as cloud:
        problems = _burst(cloud, "unpromoted", gets=6) + _burst(cloud, "promoted", gets=None)
        problems += _everything_is_off(cloud)
    for problem in problems:
        print(f"FAILED: {problem}")
    print("all tiers in order, no failed GET, everything off again" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def _burst(cloud: Cloud, kind: str, *, gets: int | None) -> list[str]:
    """GET one key every 0.2 s until Redis has served for 5 s (or `gets` times), then wait until its life is over."""
    key = f"{kind}.bin"
    cloud.put(key, _BODY)
    getter, began_s = Getter(cloud.url), time.monotonic()
    tiers: list[tuple[str, float]] = []
    problems: list[str] = []
    print(f"\n{kind} life of {key}")
    while gets is None or gets > 0:
        status, tier, body, latency_ms = getter.get(key)
        elapsed_s = time.monotonic() - began_s
        if status != 200 or body != _BODY:
            problems.append(f"GET of {key} after {elapsed_s:.1f} s: status {status}, {len(body)} bytes")
        if not tiers or tiers[-1][0] != tier:
            tiers.append((tier, elapsed_s))
            print(f"  {elapsed_s:6.1f} s  tier {tier:<7} {latency_ms:6.1f} ms")
        if (tier == "redis" and elapsed_s - tiers[-1][1] > 5) or elapsed_s > 60:
            break
        gets = None if gets is None else gets - 1
        time.sleep(0.2)
    print("  load ends")
    name = cloud.execution_names("KeyLifecycleArn")[0]
    ended = _until(lambda: name in cloud.execution_names("KeyLifecycleArn", statusFilter="SUCCEEDED"))
    time.sleep(_THRESHOLD_S)  # the next GET would start another life
    _, tier, _, latency_ms = getter.get(key)
    tiers.append((tier, time.monotonic() - began_s))
    print(f"  {tiers[-1][1]:6.1f} s  tier {tier:<7} {latency_ms:6.1f} ms")
    return problems + _judge(cloud, kind, key, name, [tier for tier, _ in tiers], ended)


def _judge(cloud: Cloud, kind: str, key: str, name: str, tiers: list[str], ended: bool) -> list[str]:
    problems = [] if ended else [f"execution {name} has not succeeded"]
    if tiers != {"promoted": ["s3", "lambda", "redis", "s3"], "unpromoted": ["s3", "lambda", "s3"]}[kind]:
        problems.append(f"tiers of {key} came as {' -> '.join(tiers)}")
    if not name.startswith(key_hash(key)):
        problems.append(f"execution {name} is not of {key}")
    steps = _print_history(cloud, "KeyLifecycleArn", name)
    if steps > _MOST_TRANSITIONS[kind]:
        problems.append(f"the {kind} life took {steps} transitions, {_MOST_TRANSITIONS[kind]} are allowed")
    return problems


def _everything_is_off(cloud: Cloud) -> list[str]:
    def running() -> list[str]:
        return [
            name
            for machine in ("KeyLifecycleArn", "RedisNodeArn")
            for name in cloud.execution_names(machine, statusFilter="RUNNING")
        ]

    off = _until(lambda: not running() and set(cloud.instance_states()) <= {"stopped"})
    for name in cloud.execution_names("RedisNodeArn"):
        print("\nnode")
        _print_history(cloud, "RedisNodeArn", name)
    return [] if off else [f"still running: {running()}, instances {cloud.instance_states()}"]


def _print_history(cloud: Cloud, machine_output: str, name: str) -> int:
    """Print an execution's states; return the number of transitions."""
    steps = cloud.steps(machine_output, name)
    states = [step for step in steps if step.state]
    print(f"  execution {name}: {len(states)} transitions")
    for step, following in zip(states, [*steps[1:], None], strict=False):
        lasted = f"{(following.at_us - step.at_us) / 1e6:7.2f} s" if following else "        ?"
        print(f"    {step.state:<22} {lasted}")
    return len(states)


def _until(ask: Callable[[], bool], within_s: float = 60) -> bool:
    give_up_s = time.monotonic() + within_s
    while not ask():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.2)
    return True


if __name__ == "__main__":
    sys.exit(main())
