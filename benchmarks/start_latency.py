"""From the request that crosses the threshold to the first GET served by Lambda: cold and warm, with its parts.

The thesis (5.6, figure 5.15) has 600 ms cold and 20 ms warm. Cold: the environment is new, forked from a process that
has the libraries imported already (`import_time` has what that leaves out). Warm: the same key again after its life has
ended; the environment still has the object, and S3 confirms it by ETag.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

from benchmarks.support.common import Cloud, Getter, Setup, environment, quantiles, running_cloud
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import execution_arn
from burstcache.adapters.key_table import KeyTable
from burstcache.core.keys import key_hash
from burstcache.core.rows import KeyRow

_REPEATS = 30
_POLL_S = 0.005  # requests without a pause would compete with what they wait for
# Redis stays out of it: 98 is the highest threshold that a key's row, the last 100 requests, can serve. A life of 60 s
# keeps each environment busy, so that the next key needs a new one.
_COLD = Setup("tick_s=60,lambda_threshold_s=5,redis_threshold=98", max_hot_keys=_REPEATS + 1)
_WARM = Setup("tick_s=0.2,lambda_threshold_s=5,redis_threshold=98")
SETUPS = (_COLD, _WARM)
_PARTS = ("request to decision", "decision to invocation", "invocation to announce", "announce to first hit", "total")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.start_latency", description=__doc__.splitlines()[0])
    repeats = f"starts of each kind, 2 to {_REPEATS} (default: {_REPEATS})"
    parser.add_argument(
        "--repeats", type=int, choices=range(2, _REPEATS + 1), default=_REPEATS, metavar="N", help=repeats
    )
    starts = range(parser.parse_args().repeats)
    print(environment())
    with running_cloud(_COLD) as cloud:
        _warm_up(cloud)
        _print("cold", [_start(cloud, f"cold-{i}") for i in starts])
    with running_cloud(_WARM) as cloud:
        _warm_up(cloud)
        _start(cloud, "warm")
        _print("warm", [_start(cloud, "warm") for _ in starts])


def _warm_up(cloud: Cloud) -> None:
    """Start proxy and scheduler first: their own cold starts are another figure."""
    cloud.put("warm-up", b"x")
    getter = Getter(cloud.url)
    for _ in range(2):
        getter.get("warm-up")
        time.sleep(6)


def _start(cloud: Cloud, key: str) -> dict[str, float]:
    """Make a cold key hot; return the parts of the time until Lambda serves it [ms]."""
    cloud.put(key, b"x" * 10_000)
    getter, keys = Getter(cloud.url), KeyTable(cloud.stack.output("TableName"), cloud.client("dynamodb"), SystemClock())
    while (row := keys.read(key_hash(key))) is not None and row.phase != "s3":
        time.sleep(0.05)
    if row is not None:  # a request of its own time: older ones lie before the end of the former life
        time.sleep(5.5)
    getter.get(key)
    time.sleep(0.3)  # the first one's event has been handled by then
    crossed_us = time.time_ns() // 1000
    while getter.get(key)[1] != "lambda":
        time.sleep(_POLL_S)
    hit_us = time.time_ns() // 1000
    row = keys.read(key_hash(key))
    assert row is not None
    return _parts(row, crossed_us, _invoked_at_us(cloud, row), hit_us)


def _invoked_at_us(cloud: Cloud, row: KeyRow) -> int:
    """Return when the state machine invoked the cache function; what comes before is Step Functions [us]."""
    arn = execution_arn(cloud.stack.output("KeyLifecycleArn"), row.execution_name)
    events = cloud.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    started = next(event["timestamp"] for event in events if event["type"] == "TaskStarted")
    return round(float(started.timestamp()) * 1e6)


def _parts(row: KeyRow, crossed_us: int, invoked_at_us: int, hit_us: int) -> dict[str, float]:
    instants_us = (crossed_us, row.changed_at_us, invoked_at_us, row.ready_at_us, hit_us)
    parts_ms = [(b - a) / 1000 for a, b in pairwise(instants_us)]
    return dict(zip(_PARTS, [*parts_ms, sum(parts_ms)], strict=True))


def _print(kind: str, samples: list[dict[str, float]]) -> None:
    print(f"\n{kind}, {len(samples)} starts [ms]")
    for part in _PARTS:
        values = [sample[part] for sample in samples]
        print(f"  {part:<24} {quantiles(values)}   (min {min(values):.1f}, mean {statistics.mean(values):.1f})")


if __name__ == "__main__":
    main()
