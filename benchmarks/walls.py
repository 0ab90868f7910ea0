"""Two walls of the control plane, reached in a local run, next to where `burstcache research scale` predicts them.

    python -m benchmarks.walls [--seconds 10] [--s3-ms 250] [--changing-seconds 20]

*Concurrency*: an account of ten units and a proxy whose reads from S3 take a stated time. Reads come at rates below and
above the predicted wall, evenly apart and at random (a Poisson process). The prediction takes the measured duration of
a lone read.

*The digest's log*: a reader with a memory reads one key while other keys change, a batch in each announcement. Its
memory is kept while the log reaches back to its last look at the digest.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

import boto3

from benchmarks.support.common import environment
from burstcache.adapters.digest_table import DigestTable
from burstcache.client import Client
from burstcache.core.change_log import NEEDED_S
from burstcache.core.digest import MAX_AGE_S, REFRESH_AT
from burstcache.core.keys import key_hash
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.faults import CallFault
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_replay.schedule import Outcome, replay
from burstcache_replay.targets import front_door
from burstcache_sim.scale.change_log import replay_log
from burstcache_sim.scale.load import Quotas, StackLoad
from burstcache_sim.scale.losses import evenly_refused_share, refused_share
from burstcache_sim.scale.walls import first_wall, walls_of
from burstcache_terminal.text import table_text

UNITS = 10  # of a new account
# Of the predicted rate. Evenly spaced reads hold whole intervals, so 1.1 would be as 1.0 or as 1.2.
SHARES = (0.5, 0.8, 0.95, 1.05, 1.25, 1.55, 2.05)
APPENDS_PER_S = 30  # announcements, each of some keys
KEYS_PER_APPEND = (1, 10, 15, 30, 60)
_KEY, _LONE_READS, _LIMIT_S = "k", 8, 30.0


@dataclass(frozen=True, slots=True)
class Offered:
    """Reads at one rate: evenly apart, or at random.

    Attributes:
        share: The rate as a share of the predicted wall.
        per_s: The rate.
        is_random: Whether the reads are a Poisson process.
        refused: Share of the reads that got a 503.
        predicted: The same by the prediction.
    """

    share: float
    per_s: float
    is_random: bool
    refused: float
    predicted: float


@dataclass(frozen=True, slots=True)
class Changing:
    """A reader with a memory while other keys change.

    Attributes:
        keys: Keys in each announcement.
        per_s: Changes a second, as announced.
        looks: The most looks at the digest.
        emptied: Reads that found an empty memory.
        covers_s: The time that the log reaches back, by the prediction.
    """

    keys: int
    per_s: float
    looks: int
    emptied: int
    covers_s: float


def due_s(per_s: float, lasts_s: float, *, is_random: bool, seed: int = 1) -> list[float]:
    """Return the times of all reads [s]."""
    count = max(1, round(per_s * lasts_s))
    if not is_random:
        return [number / per_s for number in range(count)]
    random = Random(seed)
    return list(accumulate(random.expovariate(per_s) for _ in range(count)))


def predicted_per_s(proxy_ms: float) -> tuple[float, str]:
    """Return the rate at which an account of ten units refuses reads, and the wall's name."""
    one = StackLoad(
        keys=1,
        reads_per_s=1,
        writes_per_s=0,
        nodes=0,
        throttle_per_s=1_000_000,
        proxy_ms=proxy_ms,
        quotas=Quotas(concurrency=UNITS),
    )
    wall = first_wall(walls_of(one), "refused")
    assert wall is not None
    return 1 / wall.used, wall.part


def _send(url: str, due: Sequence[float]) -> list[Outcome]:
    outcomes: list[Outcome] = []

    async def main() -> None:
        async with front_door(f"{url}/objects", [_KEY], {}, _LIMIT_S) as send:
            await replay(due, lambda _: send(0), outcomes.append)

    asyncio.run(main())
    return outcomes


def concurrency(s3_ms: float, lasts_s: float) -> tuple[float, str, list[Offered]]:
    """Return the duration of a lone read [ms], the predicted wall, and the outcome of each rate."""
    limits = LambdaLimits(concurrency=UNITS, environments=UNITS + 2)
    options = LocalOptions(parameters={"Relay": "none", "RedisNodeCount": "0"}, limits=limits)
    with LocalCloud(options) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_KEY, Body=b"x" * 1_000)
        cloud.provision("ProxyFunction", UNITS)
        with cloud.faults.inject_call_fault(CallFault("s3", frozenset({"GetObject"}), delay_s=s3_ms / 1_000)):
            _send(cloud.front_url, due_s(0.7 * UNITS * 1_000 / s3_ms, 2.0, is_random=False))  # opens connections
            alone = _send(cloud.front_url, due_s(500 / s3_ms, _LONE_READS * s3_ms / 500, is_random=False))
            proxy_ms = 1_000 * statistics.median(outcome.service_s for outcome in alone)
            wall_per_s, part = predicted_per_s(proxy_ms)
            found = [
                _offered(cloud, share, share * wall_per_s, proxy_ms, lasts_s, is_random=is_random)
                for is_random in (False, True)
                for share in SHARES
            ]
    return proxy_ms, f"{part}: {wall_per_s:.1f} reads/s", found


def _offered(
    cloud: LocalCloud, share: float, per_s: float, proxy_ms: float, lasts_s: float, *, is_random: bool
) -> Offered:
    outcomes = _send(cloud.front_url, due_s(per_s, lasts_s, is_random=is_random))
    statuses = [outcome.answer.status for outcome in outcomes]
    assert set(statuses) <= {200, 503}, statuses
    predicted = (refused_share if is_random else evenly_refused_share)(per_s * proxy_ms / 1_000, UNITS)
    return Offered(share, per_s, is_random, statuses.count(503) / len(statuses), predicted)


def changes(lasts_s: float) -> Iterator[Changing]:
    """Yield what became of a reader's memory, by the number of keys in each announcement."""
    options = LocalOptions(parameters={"Relay": "none", "RedisNodeCount": "0"})
    with LocalCloud(options) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_KEY, Body=b"x" * 1_000)
        for keys in KEYS_PER_APPEND:
            yield _changing(cloud, keys, lasts_s)


def _changing(cloud: LocalCloud, keys: int, lasts_s: float) -> Changing:
    where: dict[str, Any] = {
        "stack_name": cloud.stack_name,
        "session": boto3.Session("local", "local", region_name=cloud.region),
        "endpoint_urls": {"": cloud.endpoint_url},
    }
    digest = DigestTable(cloud.outputs["TableName"], cloud.client("dynamodb"))
    others = [key_hash(f"other-{number}") for number in range(keys)]
    with Client(**where, memory_bytes=1 << 20) as client:
        # Longer than the log reaches back at any of these rates, so that it is as it stays.
        emptied, appends, began_s = 0, 0, time.perf_counter()
        settles_s = began_s + NEEDED_S + MAX_AGE_S
        while (now_s := time.perf_counter()) < settles_s + lasts_s:
            digest.announce(others, now_us=time.time_ns() // 1_000)
            appends += 1
            emptied += client.get(_KEY).tier != "memory" and now_s > settles_s
            time.sleep(max(0.0, began_s + appends / APPENDS_PER_S - time.perf_counter()))
        per_s = appends / (time.perf_counter() - began_s)
    replayed = replay_log(round(per_s), keys_per_append=keys)
    return Changing(keys, per_s * keys, int(lasts_s / (MAX_AGE_S * REFRESH_AT)), emptied, replayed.covers_s)


def main() -> None:
    """Reach both walls and print them."""
    parser = argparse.ArgumentParser("python -m benchmarks.walls", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each rate")
    parser.add_argument("--s3-ms", type=float, default=250.0, help="duration of a read in S3")
    parser.add_argument("--changing-seconds", type=float, default=20.0, help="length of each rate of changes")
    args = parser.parse_args()
    print(environment())
    proxy_ms, wall, found = concurrency(args.s3_ms, args.seconds)
    print(f"\nA lone read takes {proxy_ms:.0f} ms. Predicted: {wall}.")
    rows = [
        (
            "random" if each.is_random else "even",
            f"{each.share:.2f}",
            f"{each.per_s:.1f}",
            f"{each.refused:.1%}",
            f"{each.predicted:.1%}",
        )
        for each in found
    ]
    print(table_text(("reads", "of the wall", "reads/s", "503", "predicted"), rows, right=(1, 2, 3, 4)))
    print(f"\nPredicted: a memory is kept while the log reaches back {MAX_AGE_S:g} s, a digest's age.")
    change_rows = [
        (
            f"{each.per_s:.0f}",
            f"{each.keys}",
            f"{each.covers_s:.1f} s",
            "kept" if each.covers_s >= MAX_AGE_S else "emptied",
            f"{each.emptied} of {each.looks}",
        )
        for each in changes(args.changing_seconds)
    ]
    header = ("changes/s", "keys each", "log reaches", "predicted", "emptied")
    print(table_text(header, change_rows, right=(0, 1, 2, 4)))


if __name__ == "__main__":
    main()
