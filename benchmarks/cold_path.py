"""What a cold function costs its first caller: the proxy's first GETs, and a cache function's way to its announcement.

Each measurement is a new process of AWS's runtime client that imports the package from nothing. INIT has the whole
machine; then a CPU quota is put on the process, as Lambda gives it by memory: 1,769 MB are one vCPU. AWS's services are
moto behind TLS, the relay is a NATS server with TLS, and both have a certificate that no other process has seen. The
trust of the process is what the package ships, or botocore's own bundle if it ships none, and that authority.

A GET counts from the invocation to the answer, an announcement from there to the digest that shows it. CPU time is the
process's own and hardly depends on what else runs; wall time does. The quota needs root and a cgroup.

    python -m benchmarks.cold_path [--runs 5] [--memory 256 512 1024] [--source src …]

Several sources, such as that of another checkout, are measured in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore

from benchmarks.support.common import environment
from benchmarks.support.tls import Terminator, authority
from benchmarks.support.variables import VARIABLES
from burstcache.adapters.items import to_values
from burstcache.core.digest import MAX_AGE_S
from burstcache.core.keys import key_hash
from burstcache.core.policy import RecordedRequest
from burstcache.core.table import DigestColumns, KeyColumns, key_item, shown_route_item
from burstcache_local.functions import ACCOUNT, FunctionSpec
from burstcache_local.lambdas.forks import Fork
from burstcache_local.lambdas.runtime import Environment
from burstcache_local.machines import processes
from burstcache_local.moto.server import moto_server
from burstcache_local.moto.services import Services
from burstcache_local.ports import listen

_ONE_VCPU_MB = 1769
_PERIOD_US = 20_000
_SOURCE = Path(__file__).parents[1] / "src"
_KEY = "cold/object"
_BODY = b"x" * 10_000
_POLL_S = 0.002
_SETTLES_S = 0.3  # a process that ends within a request has moto complain
_LIMIT_S = 60
_DIGEST_AGES_S = MAX_AGE_S + 0.5  # then all services are asked
_CGROUPS = Path("/sys/fs/cgroup")
_PASSWORD = "/relay/password"
_NODE = "node-1"
# nats-py imports aiohttp if it finds it; the deployed package does not have it.
_NO_AIOHTTP = 'raise ImportError("not in the package")\n'


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one step."""

    wall_ms: float
    cpu_ms: float


class Quota:
    """A group of one process, whose CPU can be limited and is counted; cgroup v1 or v2."""

    def __init__(self) -> None:
        self._is_v2 = (_CGROUPS / "cgroup.controllers").exists()
        name = f"burstcache-cold-{os.getpid()}"
        self._cpu = _CGROUPS / name if self._is_v2 else _CGROUPS / "cpu" / name
        self._count = self._cpu if self._is_v2 else _CGROUPS / "cpuacct" / name
        self._folders = {self._cpu, self._count}

    def __enter__(self) -> Quota:
        for folder in self._folders:
            folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._folders:
            folder.rmdir()

    def take(self, pid: int) -> None:
        """Count a process and limit nothing yet."""
        self._limit(None)
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, memory_mb: int) -> None:
        """Give the process what Lambda gives a function of that memory once INIT is over."""
        self._limit(round(_PERIOD_US * min(1.0, memory_mb / _ONE_VCPU_MB)))

    def used_ms(self) -> float:
        """Return the CPU time that the process has taken [ms]."""
        if self._is_v2:
            lines = dict(line.split() for line in (self._count / "cpu.stat").read_text().splitlines())
            return int(lines["usage_usec"]) / 1000
        return int((self._count / "cpuacct.usage").read_text()) / 1e6

    def _limit(self, quota_us: int | None) -> None:
        if self._is_v2:
            (self._cpu / "cpu.max").write_text(f"{quota_us or 'max'} {_PERIOD_US}")
        else:
            (self._cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self._cpu / "cpu.cfs_quota_us").write_text(str(quota_us or -1))


class Fresh:
    """Starts each environment as a process that has imported nothing: unlike the local run's, which are forked."""

    async def fork(
        self, handler: str, *, env: Mapping[str, str], root: Path, log: Path, clock_ahead_s: float = 0.0
    ) -> Fork:
        """Return a new process under AWS's runtime client, on the machine's own clock."""
        process = processes.start([sys.executable, "-m", "awslambdaric", handler], env=env, cwd=root, log=log)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        loop.run_in_executor(None, process.wait).add_done_callback(lambda done: ended.set_result(done.result()))
        return Fork(process.pid, ended, kill=lambda: processes.kill_group(process.pid))


@dataclass(frozen=True, slots=True)
class Bench:
    """What the measured processes work with."""

    folder: Path
    services: Services
    terminator: Terminator
    relay_port: int
    ca_pem: str
    quota: Quota

    @contextlib.asynccontextmanager
    async def function(self, name: str, source: Path, memory_mb: int) -> AsyncIterator[tuple[Environment, Cost]]:
        """Start one function under its quota; yield it and the cost of its INIT."""
        arn = f"arn:aws:lambda:{self.services.region}:{ACCOUNT}:function:{name}"
        handler = f"burstcache.handlers.{name}.handler"
        spec = FunctionSpec(name, arn, handler, 900, memory_mb, source, self._variables(source, memory_mb))
        fresh = _Counted(self.quota)
        env = Environment(spec, fresh, self.folder / "function.log")  # type: ignore[arg-type]
        began_s = time.perf_counter()
        await env.start()
        await env.ready()
        init = Cost((time.perf_counter() - began_s) * 1000, self.quota.used_ms() - fresh.used_before_ms)
        self.quota.limit(memory_mb)
        try:
            yield env, init
        finally:
            await env.close()

    async def cost(self, work: Any) -> Cost:
        """Return the cost of `work`."""
        used_ms, began_s = self.quota.used_ms(), time.perf_counter()
        await work
        return Cost((time.perf_counter() - began_s) * 1000, self.quota.used_ms() - used_ms)

    def _variables(self, source: Path, memory_mb: int) -> dict[str, str]:
        shipped = source / "burstcache" / "adapters" / "amazon_roots.pem"
        trusted = shipped if shipped.exists() else Path(botocore.__file__).with_name("cacert.pem")
        bundle = self.folder / f"trusted-{trusted.stem}.pem"
        bundle.write_text(trusted.read_text() + self.ca_pem)
        return {
            **VARIABLES,
            "PYTHONPATH": f"{source}:{self.folder}",
            "AWS_CA_BUNDLE": str(bundle),
            "AWS_ENDPOINT_URL": self.terminator.url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "POLICY": "breakeven",
            "TAKES_GUESTS": "true",
            "RELAY_URL": f"tls://127.0.0.1:{self.relay_port}",
            "RELAY_USER": "cache",
            "RELAY_PASSWORD_PARAMETER": _PASSWORD,
            "RELAY_CA_PEM": self.ca_pem,
            "REDIS_INSTANCE_TYPE": "t4g.micro",
            "CACHE_MEMORY_MB": str(memory_mb),
            "REDIS_ALWAYS_ON_NODES": "0",
            "REDIS_NODES": f"{_NODE}=i-0123456789abcdef0@127.0.0.1:6379",
            "AWS_REGION": self.services.region,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
        }


class _Counted(Fresh):
    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self.used_before_ms = quota.used_ms()

    async def fork(
        self, handler: str, *, env: Mapping[str, str], root: Path, log: Path, clock_ahead_s: float = 0.0
    ) -> Fork:
        fork = await super().fork(handler, env=env, root=root, log=log)
        self._quota.take(fork.pid)
        return fork


async def proxy(bench: Bench, source: Path, memory_mb: int) -> dict[str, Cost]:
    """Return the costs of INIT and of GETs: the first, the next, and one whose connections have to be made anew."""
    async with bench.function("proxy", source, memory_mb) as (env, init):
        costs = {"INIT": init, "first GET": await bench.cost(_get(env)), "second GET": await bench.cost(_get(env))}
        bench.terminator.drop()
        await asyncio.sleep(_DIGEST_AGES_S)
        return costs | {"GET, new connections": await bench.cost(_get(env))}


async def proxy_in_a_burst(bench: Bench, source: Path, memory_mb: int) -> dict[str, Cost]:
    """Return the costs of a proxy that starts while a cache function has the key; it does not answer, and S3 does."""
    now_us = time.time_ns() // 1000
    columns = DigestColumns(life=1, phase_rank=1, tier="lambda", deadline_at_us=now_us + _LIMIT_S * 1_000_000)
    item, table = shown_route_item(key_hash(_KEY)), bench.services.client("dynamodb")
    table.put_item(TableName=VARIABLES["TABLE_NAME"], Item=to_values({**item, **columns}))
    try:
        async with bench.function("proxy", source, memory_mb) as (env, init):
            return {"INIT": init, "first GET": await bench.cost(_get(env))}
    finally:
        table.delete_item(TableName=VARIABLES["TABLE_NAME"], Key=to_values(item))


async def _get(env: Environment) -> None:
    context = {"http": {"method": "GET"}, "requestId": "1", "stage": "$default"}
    event = {"version": "2.0", "rawPath": f"/objects/{_KEY}", "headers": {}, "requestContext": context}
    outcome = await env.invoke("1", json.dumps(event).encode())
    assert json.loads(outcome.body).get("statusCode") == 200, outcome


async def cache(bench: Bench, source: Path, memory_mb: int) -> dict[str, Cost]:
    """Return the costs of a cache function's INIT and of its way to the announcement."""
    table, hash_ = bench.services.client("dynamodb"), key_hash(_KEY)
    shown = {"TableName": VARIABLES["TABLE_NAME"], "Key": to_values(shown_route_item(hash_))}
    table.put_item(TableName=VARIABLES["TABLE_NAME"], Item=_hot_row(hash_))
    task = {"key": _KEY, "key_hash": hash_, "epoch": 1, "attempt": 0, "token": "token"}

    async def announced() -> None:
        life = asyncio.ensure_future(env.invoke("1", json.dumps(task).encode()))
        async with asyncio.timeout(_LIMIT_S):
            while "Item" not in await asyncio.to_thread(table.get_item, **shown):
                assert not life.done(), life.result()
                await asyncio.sleep(_POLL_S)
        life.cancel()

    try:
        async with bench.function("cache", source, memory_mb) as (env, init):
            costs = {"INIT": init, "announcement": await bench.cost(announced())}
            await asyncio.sleep(_SETTLES_S)
            return costs
    finally:
        table.delete_item(**shown)


async def scheduler(bench: Bench, source: Path, memory_mb: int) -> dict[str, Cost]:
    """Return the costs of the scheduler's INIT and of its first event."""
    detail = {"key": _KEY, "request_id": "1", "at_us": time.time_ns() // 1000, "size_bytes": len(_BODY), "etag": '"1"'}
    event = {"detail-type": "ObjectRequested", "detail": detail}

    async def decided() -> None:
        outcome = await env.invoke("1", json.dumps(event).encode())
        assert not outcome.error, outcome

    async with bench.function("scheduler", source, memory_mb) as (env, init):
        return {"INIT": init, "first event": await bench.cost(decided())}


async def redis_control(bench: Bench, source: Path, memory_mb: int) -> dict[str, Cost]:
    """Return the costs of Redis control's INIT and of its first step, a look at a run that is over."""
    look = {"op": "check_node", "node": _NODE, "generation": 1, "part": 1, "check_at_us": "0", "checks": 0}

    async with bench.function("redis_control", source, memory_mb) as (env, init):
        return {"INIT": init, "first step": await bench.cost(env.invoke("1", json.dumps(look).encode()))}


_MEASURED = {
    "proxy": proxy,
    "proxy in a burst": proxy_in_a_burst,
    "cache function": cache,
    "redis control": redis_control,
    "scheduler": scheduler,
}


def _hot_row(hash_: str) -> dict[str, Any]:
    """Return the row of a key whose life has just begun."""
    now_us = time.time_ns() // 1000
    columns = KeyColumns(
        key=_KEY,
        phase="lambda",
        epoch=1,
        node=_NODE,
        size_bytes=len(_BODY),
        trigger=RecordedRequest(now_us, "1").encode(),
        changed_at_us=now_us,
        deadline_at_us=now_us + _LIMIT_S * 1_000_000,
    )
    return to_values({**key_item(hash_), **columns})


@contextlib.contextmanager
def _relay(folder: Path) -> Iterator[int]:
    with listen(0) as free:
        port = free.getsockname()[1]
    (folder / "nats.conf").write_text(
        f"listen: 127.0.0.1:{port}\nauthorization: {{user: cache, password: secret}}\n"
        f'tls: {{cert_file: "{folder}/server.pem", key_file: "{folder}/server.key"}}\n'
    )
    command = [str(Path(sys.executable).with_name("nats-server")), "-c", str(folder / "nats.conf")]
    process = processes.start(command, env=dict(os.environ), log=folder / "nats.log")
    try:
        yield port
    finally:
        processes.stop(process, grace_s=5)


@contextlib.contextmanager
def _bench(folder: Path) -> Iterator[Bench]:
    (folder / "aiohttp.py").write_text(_NO_AIOHTTP)
    ca_pem = authority(folder)
    with moto_server() as services, _relay(folder) as port, Terminator(services.cloud_url, folder) as tls:
        _fill(services)
        with Quota() as quota:
            yield Bench(folder, services, tls, port, ca_pem, quota)


def _fill(services: Services) -> None:
    s3, names = services.client("s3"), ("pk", "sk")
    s3.create_bucket(Bucket=VARIABLES["BUCKET_NAME"], CreateBucketConfiguration={"LocationConstraint": services.region})
    s3.put_object(Bucket=VARIABLES["BUCKET_NAME"], Key=_KEY, Body=_BODY)
    services.client("events").create_event_bus(Name=VARIABLES["BUS_NAME"])
    services.client("ssm").put_parameter(Name=_PASSWORD, Value="secret", Type="SecureString")
    services.client("dynamodb").create_table(
        TableName=VARIABLES["TABLE_NAME"],
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": n, "KeyType": t} for n, t in zip(names, ("HASH", "RANGE"), strict=True)],
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in names],
    )


async def _measure(
    bench: Bench, sources: list[Path], memories_mb: list[int], runs: int
) -> dict[tuple[int, str], dict[Path, list[Cost]]]:
    costs: dict[tuple[int, str], dict[Path, list[Cost]]] = defaultdict(lambda: defaultdict(list))
    for measure, source in itertools.product(_MEASURED.values(), sources):
        await measure(bench, source, _ONE_VCPU_MB)
    for _ in range(runs):
        for memory_mb, (name, measure), source in itertools.product(memories_mb, _MEASURED.items(), sources):
            for step, cost in (await measure(bench, source, memory_mb)).items():
                costs[memory_mb, f"{name}: {step}"][source].append(cost)
    return costs


def main() -> None:
    """Print medians, and of the wall time the least, by memory and step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="rounds, each with new processes (default 5)")
    parser.add_argument("--memory", type=int, nargs="+", default=[256, 512, 1024], help="memories [MB]")
    parser.add_argument("--source", type=Path, nargs="+", default=[_SOURCE], help="folders with the package")
    arguments = parser.parse_args()
    sources = [source.resolve() for source in arguments.source]
    with tempfile.TemporaryDirectory() as folder, _bench(Path(folder)) as bench:
        costs = asyncio.run(_measure(bench, sources, arguments.memory, arguments.runs))
    print(f"{environment()}; of {arguments.runs} rounds the median of CPU and wall time, and the least wall time [ms]")
    for (memory_mb, step), by_source in costs.items():
        figures = "   ".join(_figures(by_source[source]) for source in sources)
        print(f"{memory_mb:5} MB  {step:38} {figures}")


def _figures(costs: list[Cost]) -> str:
    cpu_ms, wall_ms = statistics.median(c.cpu_ms for c in costs), statistics.median(c.wall_ms for c in costs)
    return f"CPU {cpu_ms:5.0f}, wall {wall_ms:5.0f} ({min(c.wall_ms for c in costs):5.0f})"


if __name__ == "__main__":
    main()
