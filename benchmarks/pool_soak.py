"""Mixed PUTs, GETs and deletes through a stack's pool on the local run, while members and hubs come and go.

Members are reclaimed and killed at random, and the hub restarts. Every byte is compared; what the pool lacks comes from
the origin. In the end nothing may run, and what members were billed for is held to the prediction. Exit code 1 if not.
What is done depends on the seed alone, so a run that was interrupted goes on with `--begin` where it was.

    python -m benchmarks.pool_soak [--operations 20000] [--seed 1] [--largest-mb 64] [--begin 0] [--minutes 10]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil, inf
from pathlib import Path

import boto3

from benchmarks.pool_ranges import peak_bytes
from benchmarks.support.common import environment
from benchmarks.support.growth import family
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.pool_table import PoolTable
from burstcache.client.configuration import configure
from burstcache.core.keys import key_hash
from burstcache.core.pool.admission import SliceAdmission
from burstcache.core.pool.retention import PoolTotals
from burstcache.core.pool.slices import extents, pooled
from burstcache.core.slices import Version
from burstcache.core.worth import sheet_of_region
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.read_through import ReadThrough
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_sim.bill.pool import CONTROL_MB, PoolUse, counted_use, pool_bill

MEMBERS, MEMORY_MB = 16, 512
_AT_ONCE = 12
_SMALLEST_BYTES = 1_000
_SHIFTS = 1 << 20  # an object begins somewhere in the first megabyte of what all objects are parts of
_MEMBER, _CONTROL = "PoolMemberFunction", "PoolControlFunction"
_REPORT = re.compile(r"^REPORT .*\tDuration: ([\d.]+) ms\t(?:.*\tInit Duration: ([\d.]+) ms)?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done next: `put`, `get` or `delete` of a version of an object, or a fault."""

    kind: str
    key: int = 0
    version: int = 0
    size_bytes: int = 0


def operations(seed: int, largest_bytes: int, *, keys: int, fault_every: int) -> Iterator[Operation]:
    """Yield operations without end; of faults, a tenth are restarts of the hub, a fifth kills, the rest reclaims."""
    chance, known, versions = random.Random(seed), dict[int, Operation](), Counter[int]()
    while True:
        if chance.random() < 1 / fault_every:
            yield Operation(chance.choices(["hub", "kill", "reclaim"], [1, 2, 7])[0])
        kind, key = chance.choices(["put", "get", "delete"], [3, 6, 1])[0], chance.randrange(keys)
        if kind == "put" or key not in known:
            versions[key] += 1
            size_bytes = round(_SMALLEST_BYTES * (largest_bytes / _SMALLEST_BYTES) ** (chance.random() ** 3))
            known[key] = Operation("put", key, versions[key], size_bytes)
            yield known[key]
        else:  # what was deleted may be asked for again: S3 has it
            yield replace(known[key], kind=kind)


class Soak:
    """One run.

    Attributes:
        counts: Operations by kind, faults, bytes, slices from the pool (`hits`) and from the origin (`s3`).
        problems: Wrong bytes, and errors.
        done: How many operations have begun, those of earlier runs included: the next run may begin there.
    """

    def __init__(self, cloud: LocalCloud, largest_bytes: int, *, done: int, until_s: float) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.done = done
        self._until_s = until_s
        self._restarts = False  # the hub is to
        self._cloud = cloud
        self._content = memoryview(random.Random(0).randbytes(largest_bytes + _SHIFTS))
        s3 = cloud.client("s3")
        session = boto3.Session("local", "local", region_name=s3.meta.region_name)
        self._configuration = configure(
            stack_name=cloud.stack_name, bucket="", session=session, endpoint_urls={"": s3.meta.endpoint_url}
        )

    async def run(self, work: Iterator[Operation]) -> None:
        """Do everything, with one hub after the other."""
        self._restarts = True
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            while self._restarts:
                self._restarts = False
                async with self._open() as pool:
                    heat = SliceAdmission(pays_within_s=pool.pays_within_s)
                    through = ReadThrough(pool.reader, pool.redundancies, heat, threads, SystemClock(), pool.counters)
                    await asyncio.gather(*(self._work(work, pool, through) for _ in range(_AT_ONCE)))
                    await through.settle()
                print(f"after {self.done:,} operations: {dict(self.counts)}, {self.problems}", file=sys.stderr)

    def _open(self) -> AbstractAsyncContextManager[OpenPool]:
        assert self._configuration.pool
        return self._configuration.pool()

    async def _work(self, work: Iterator[Operation], pool: OpenPool, through: ReadThrough) -> None:
        """Do one operation after the other, until the hub is to restart or nothing is left."""
        while not self._restarts and time.monotonic() < self._until_s and (operation := next(work, None)):
            self.done += 1
            self.counts[operation.kind] += 1
            self._restarts |= operation.kind == "hub"
            try:
                await self._do(operation, pool, through)
            except Exception as error:  # each is a finding
                self.problems.append(f"{operation}: {error!r}")

    async def _do(self, operation: Operation, pool: OpenPool, through: ReadThrough) -> None:
        key, etag = f"key-{operation.key}", f'"v{operation.version}"'
        version = Version(key, key_hash(key), etag, operation.size_bytes)
        shift = random.Random(f"{key} {etag}").randrange(_SHIFTS)
        body = self._content[shift : shift + operation.size_bytes]
        match operation.kind:
            case "reclaim":
                self.counts["reclaimed"] += len(await asyncio.to_thread(self._cloud.reclaim, 1))
            case "kill":
                self.counts["killed"] += await asyncio.to_thread(self._cloud.kill, _MEMBER, 1)
            case "delete":
                await pool.reader.delete(pooled(version, pool.redundancies()[0]))
            case "put":
                for slice_ in pooled(version, pool.redundancies()[0]).slices():
                    if await pool.reader.write_slice(slice_, body[slice_.start : slice_.start + slice_.size_bytes]):
                        pool.counters.stored_bytes += slice_.redundancy.chunks * slice_.chunk_bytes
                    else:
                        self.counts["not_stored"] += 1
            case "get":
                await self._get(version, body, through)
        self.counts["bytes"] += operation.size_bytes

    async def _get(self, version: Version, body: memoryview, through: ReadThrough) -> None:
        def fetch(start: int, into: memoryview) -> None:
            self.counts["s3"] += 1
            into[:] = body[start : start + len(into)]

        into = memoryview(bytearray(len(body)))
        for start, end in extents(0, len(body)):
            is_hit = await through.read(version, start, into[start:end], fetch)
            self.counts["hits"] += is_hit
        if into != body:
            self.problems.append(f"wrong bytes: {version}")


def billed(members: Path, control: Path) -> PoolUse:
    """Return the billed time of the invocations in two functions' logs, initialisations included."""
    (requests, serve_s, environments), (control_requests, control_s, _) = map(_reported, (members, control))
    memory_gb = Fraction(MEMORY_MB, 1024)
    return PoolUse(
        serve_gb_s=memory_gb * serve_s,
        serve_requests=requests,
        environments_gb=memory_gb * environments,
        control_gb_s=Fraction(CONTROL_MB, 1024) * control_s,
        control_requests=control_requests,
    )


def _reported(log: Path) -> tuple[int, Fraction, int]:
    """Return the invocations that a log reports, their billed time [s], and the number of new environments."""
    reports = _REPORT.findall(log.read_text())
    billed_ms = sum(ceil(float(duration) + float(init or 0)) for duration, init in reports)
    return len(reports), Fraction(billed_ms, 1000), sum(1 for _, init in reports if init)


def soak(
    *, count: int, seed: int, largest_bytes: int, begin: int = 0, limit_s: float = inf, fault_every: int = 20
) -> dict[str, object]:
    """Run operations and return the figures; whatever is under `problems` must not be."""
    parameters = {
        "PoolMembers": str(MEMBERS),
        "PoolMemoryMb": str(MEMORY_MB),
        "HitValueUsdPerMillion": "100",  # members stay for most of a second: a busy machine wakes them slowly
        "Relay": "none",
        "RedisNodeCount": "0",
    }
    began_s, before = time.monotonic(), {*family(os.getpid())}
    with LocalCloud(LocalOptions(parameters=parameters)) as cloud:
        run = Soak(cloud, largest_bytes, done=begin, until_s=began_s + limit_s)
        work = islice(operations(seed, largest_bytes, keys=max(20, count // 50), fault_every=fault_every), begin, count)
        asyncio.run(run.run(work))
        log, control_log = (cloud.run_dir / f"{cloud.physical_ids[name]}.log" for name in (_MEMBER, _CONTROL))
        if not _ends(log):
            run.problems.append("invocations that never end")
        rows = PoolTable(cloud.outputs["TableName"], cloud.client("dynamodb")).read()
        used, totals = billed(log, control_log), rows.state.totals
    if left := {*family(os.getpid())} - before:
        run.problems.append(f"processes that are left: {left}")
    for hub in rows.hubs:
        totals = totals.plus(hub)
    figures = {
        "done": run.done,
        **run.counts,
        "took_s": round(time.monotonic() - began_s),
        "peak_mb": round(peak_bytes() / 1e6),
    }
    return {
        **figures,
        "bill": _compared(used, totals, MEMBERS + run.counts["reclaimed"] + run.counts["killed"]),
        "counted": asdict(totals),
        "problems": run.problems,
    }


def _ends(log: Path, limit_s: float = 60) -> bool:
    """Return whether every invocation in a log ends soon."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        text = log.read_text()
        if text.count("START RequestId") == text.count("END RequestId"):
            return True
        time.sleep(0.1)
    return False


def _compared(used: PoolUse, totals: PoolTotals, made: int) -> dict[str, object]:
    """Return the bill next to its prediction by the counts of hubs, pool control and the run.

    Rounds come once a minute, and as many faults as here befall no pool: the run knows how many environments have
    taken the place of others.
    """
    prices = sheet_of_region("eu-central-1")
    all_of_it = counted_use(totals, members=MEMBERS, memory_mb=MEMORY_MB, minutes=Fraction(0))
    predicted = PoolUse(
        serve_gb_s=Fraction(all_of_it.serve_gb_s) + all_of_it.warm_gb_s,
        serve_requests=Fraction(all_of_it.serve_requests) + all_of_it.warm_requests,
        environments_gb=Fraction(MEMORY_MB, 1024) * made,
        control_gb_s=all_of_it.control_gb_s,
        control_requests=all_of_it.control_requests,
    )
    usd = [float(sum(line.usd for line in pool_bill(use, prices).lines)) for use in (used, predicted)]
    fields = ("serve_gb_s", "serve_requests", "environments_gb", "control_gb_s", "control_requests")
    return {
        **{name: [round(float(getattr(use, name)), 1) for use in (used, predicted)] for name in fields},
        "usd": [round(each, 6) for each in usd],
        "predicted_share": round(usd[1] / usd[0], 4) if usd[0] else 1.0,
    }


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest-mb", type=int, default=64)
    parser.add_argument("--begin", type=int, default=0, help="the first operation that is done")
    parser.add_argument(
        "--minutes", type=float, default=inf, help="ends then; `done` in the figures says where to begin"
    )
    arguments = parser.parse_args()
    print(environment(), f"seed {arguments.seed}", file=sys.stderr)
    figures = soak(
        count=arguments.operations,
        seed=arguments.seed,
        largest_bytes=arguments.largest_mb * 1_000_000,
        begin=arguments.begin,
        limit_s=arguments.minutes * 60,
    )
    print(json.dumps(figures, indent=1))
    return 1 if figures["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
