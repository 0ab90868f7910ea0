"""The run of one fault in one local run: load, fault, recovery and quiescence.

python -m chaos.run FAULT POLICY PLAN RESULT ENDED

It writes a byte to the descriptor ENDED when the load has ended and the next load may have the machine. Environments
for reads end before that, since stopping a hundred of them keeps the cores busy.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import IO
from urllib.request import urlopen

from benchmarks.support.common import environment
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.machines import processes
from burstcache_local.moto.quicker import freeze_garbage_collector
from chaos.code import code_of
from chaos.faults import FAULTS, Fault
from chaos.leftovers import executions, running, undelivered
from chaos.load import (
    ALL_COLD,
    COLD_KEYS,
    HOT_KEYS,
    HOT_SHARE,
    KEYS,
    LARGE_KEYS,
    OF_KEYS,
    Outcome,
    Target,
    versions,
)
from chaos.stage import Part, Stage

# Keys get hot within seconds and return to S3 within two minutes: the thesis's times are shorter than by default, a hit
# is worth more to break-even. Each hit adds a tick to the deadline of a cache function that no node replaces.
POLICIES = {
    "thesis": {
        "Policy": "thesis",
        "PolicyOverrides": "tick_s=1.5,lambda_threshold_s=5,redis_utilization_s=10,redis_check_s=5",
    },
    "breakeven": {"HitValueUsdPerMillion": "20"},
}
CACHED_PER_S, BEFORE_S, FAULT_S = 200.0, 15.0, 30.0
_POOL_KEEP_S = 60  # after the last use; a hub reports uses once a minute
_POOL = {"PoolMembers": "8", "PoolMemoryMb": "512", "PoolKeepS": f"{_POOL_KEEP_S}"}
_TASK_IDLE_S = 120  # break-even keeps an unused node for longer the less it costs
_PARTS: dict[Part, dict[str, str]] = {"results": {}, "pool": _POOL, "hub": {**_POOL, "PoolHub": "fargate"}}
_LARGES_PER_S, _RANGES_PER_S, _RESULTS_PER_S = 0.25, 2.0, 2.0  # 9 MB, 64 KB, 10 KB each
RETRY_DELAYS_S = (60.0, 120.0)  # as on AWS, so that an event outlives a fault
_WRITES_PER_READ = 0.05
# Provisioned environments of functions that are busier during faults.
_READY = {"SchedulerFunction": 16, "OriginFunction": 16, "RedisControlFunction": 16}
_HEAT_SHARE = 0.5  # of the load, while keys get hot: promotions take CPU too
_HOT, _SHARE_S = 0.8, 3.0  # share of hits, and for how long, before keys count as hot
_STEP_S, _STEPS_S = 1.5, 15.0  # least and greatest length of a step while a load grows
_RECENT = 5_000  # outcomes in which hits are counted
_LOOK_EVERY_S = 0.25
_REST_LOOK_EVERY_S = 3.0  # seldom, as another fault may have the machine
_TESTS = Path(__file__).parents[1]


def module_environment() -> dict[str, str]:
    """Return the environment of a process that runs a module of this suite."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (_TESTS, _TESTS.parent)))}


@dataclass(frozen=True, slots=True)
class Turn:
    """A fault, and the policies that run it at the same time."""

    fault: Fault
    policies: tuple[str, ...]


def turns(faults: Iterable[Fault]) -> Iterator[Turn]:
    """Yield the turns of these faults, one after the other.

    Both policies run at the same time, unless a cached tier survives: then the load exceeds S3's, and two runs on a few
    cores would slow down each other's tiers and send each other's readers to S3.
    """
    for fault in faults:
        for policies in [(policy,) for policy in POLICIES] if fault.stands else [tuple(POLICIES)]:
            yield Turn(fault, policies)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run: its load, and the lengths of its phases."""

    reads_per_s: float  # of all runs at once
    cached_per_s: float = CACHED_PER_S  # where a cached tier survives
    hot_keys: int = HOT_KEYS
    heat_s: float = 90.0  # at most, until caches serve hot keys
    before_s: float = BEFORE_S
    fault_s: float = FAULT_S
    back_s: float = 90.0  # at most, until hits are back: a key whose execution failed stays on S3 for a minute
    rest_s: float = 120.0  # at most, until the stack is at rest

    def of_each(self, runs: int) -> Plan:
        """Return the plan of each of several simultaneous runs."""
        return replace(self, reads_per_s=self.reads_per_s / runs, cached_per_s=self.cached_per_s / runs)


@dataclass(slots=True)
class Run:
    """The result of a fault; instants are since 1970 [s]."""

    fault: str
    policy: str
    reads_per_s: float
    hot_s: float | None = None  # time until caches served hot keys; None: they did not, or were not meant to
    began_s: float = 0.0
    fault_began_s: float = 0.0
    fault_ended_s: float = 0.0
    ended_s: float = 0.0  # the load
    hits_back_s: float | None = None  # after the fault's end; None: they were not within `Plan.back_s`
    rest_s: float | None = None  # after the load's end; None: not within `Plan.rest_s`
    left: list[str] = field(default_factory=list)  # what still ran after that
    undelivered: int = 0  # events in the queues of failed and undelivered events
    counts: dict[str, int] = field(default_factory=dict)  # the effects of the fault
    outcomes: list[Outcome] = field(default_factory=list)
    machine: str = ""  # and the date
    code: str = ""  # as `code_of` names it
    load: float = 0.0  # of the machine, the mean of the load's last minute

    @property
    def reads(self) -> list[Outcome]:
        """The reads of objects, in any way, and of results."""
        return [each for each in self.outcomes if each.way != "write"]


class Load:
    """A load in a process of its own."""

    def __init__(self, target: Target) -> None:
        self.outcomes: list[Outcome] = []
        self._hot_keys = frozenset(KEYS[: target.hot_keys])
        self._process = processes.SPAWNER.submit(
            subprocess.Popen,
            [sys.executable, "-m", "chaos.load"],
            env=module_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=processes.leash(os.getpid()),
        ).result()
        assert self._process.stdin
        assert self._process.stdout
        self._commands: IO[str] = self._process.stdin
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), name="outcomes")
        self._reader.start()
        print(json.dumps(asdict(target)), file=self._commands, flush=True)

    def set(self, reads_per_s: float, hot_share: float, first_hot: int = 0) -> None:
        """Set the rate of reads, the share of hot keys, and the number of the first hot key."""
        print(reads_per_s, hot_share, first_hot, file=self._commands, flush=True)

    def stop(self) -> None:
        """Stop sending, and wait for all answers."""
        self._commands.close()
        self._reader.join()
        if status := self._process.wait():
            raise RuntimeError(f"the load ended with {status}")

    def kill(self) -> None:
        """Kill the load, with requests under way."""
        self._process.kill()
        with suppress(OSError):
            self._commands.close()
        self._reader.join()
        self._process.wait()

    def take(self) -> list[Outcome]:
        """Return and remove the outcomes so far."""
        taken = self.outcomes[:]  # more may come meanwhile
        del self.outcomes[: len(taken)]
        return taken

    def are_hits_back(self, after_s: float, tiers: Collection[str] = ("lambda", "redis")) -> bool:
        """Return whether these tiers answer nearly all recent reads of hot keys that were due after a time."""
        since_s = max(after_s, time.time() - _SHARE_S)
        reads = [
            each
            for each in self.outcomes[-_RECENT:]
            if each.due_s >= since_s and each.key in self._hot_keys and each.way in OF_KEYS
        ]
        return sum(each.tier in tiers for each in reads) >= max(1, _HOT * len(reads))

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self.outcomes.append(Outcome(*json.loads(line)))


@contextmanager
def staged(
    policy: str,
    run_dir: Path | None = None,
    *,
    parts: Collection[Part] = (),
    parameters: Mapping[str, str] | None = None,
    retry_delays_s: tuple[float, ...] = RETRY_DELAYS_S,
    proxies: int = 32,
    boot_s: float = 1.0,
) -> Iterator[Stage]:
    """Run a local cloud with all objects for the duration of a `with`."""
    named = {**POLICIES[policy], "MaxHotKeys": str(HOT_KEYS), **(parameters or {})}
    for part in parts:
        named |= _PARTS[part]
    limits = LambdaLimits(environments=proxies, retry_delays_s=retry_delays_s)
    with LocalCloud(LocalOptions(boot_s=boot_s, stop_s=0.5, parameters=named, limits=limits, run_dir=run_dir)) as cloud:
        stage = Stage(policy, cloud, Random(policy), frozenset(parts), proxies)
        _put(stage, (*KEYS, *(LARGE_KEYS if stage.has_pool else ())))
        freeze_garbage_collector()
        yield stage


def _put(stage: Stage, keys: Iterable[str]) -> None:
    objects, s3 = versions(), stage.client("s3")
    for key in keys:
        s3.put_object(Bucket=stage.cloud.bucket_name, Key=key, Body=objects.value(key))


def _warm(stage: Stage, plan: Plan) -> None:
    """Provision environments: cold starts on a few cores delay each other, and are no part of a fault."""
    wanted = {**_READY, "ProxyFunction": stage.proxies}
    wanted["CacheFunction"] = 2 * plan.hot_keys  # a key's last execution may end while the next one starts
    with ThreadPoolExecutor(len(wanted)) as threads:
        [*threads.map(stage.cloud.provision, wanted, wanted.values())]


def _use_all(stage: Stage) -> None:
    """Connect each proxy environment to the tiers of hot keys: during the load, that would take a core a second."""
    with ThreadPoolExecutor(stage.proxies) as readers:
        [*readers.map(lambda key: urlopen(f"{stage.cloud.front_url}/objects/{key}").read(), stage.proxies * KEYS[:2])]


@contextmanager
def loaded(stage: Stage, plan: Plan) -> Iterator[Load]:
    """Load a local run for the duration of a `with`."""
    load = Load(
        Target(
            front_url=stage.cloud.front_url,
            bucket_name=stage.cloud.bucket_name,
            variables=stage.cloud.variables,
            reads=plan.reads_per_s,
            writes=_WRITES_PER_READ * plan.reads_per_s,
            hot_keys=plan.hot_keys,
            larges=_LARGES_PER_S * stage.has_pool,
            ranges=_RANGES_PER_S * stage.has_pool,
            results=_RESULTS_PER_S * ("results" in stage.parts),
            newest=dict(stage.newest),
        )
    )
    try:
        yield load
    except BaseException:
        load.kill()
        raise
    load.stop()
    stage.newest.update(each.key for each in load.outcomes if each.way == "write")


def hot_keys(reads_per_s: float) -> int:
    """Return the number of hot keys at a rate, so that each is read about once a second."""
    return min(HOT_KEYS, max(2, round(reads_per_s)))


def cached_per_s(s3_per_s: float) -> float:
    """Return the reads per second where a cached tier survives: more than S3 alone serves.

    It follows S3's rate, since other work on the machine slows down S3 and the tiers alike.
    """
    return min(CACHED_PER_S, 2 * s3_per_s)


def befall(stage: Stage, fault: Fault, plan: Plan, load_ended: Callable[[], object]) -> Run:
    """Load a local run, inject a fault, and return the result when the stack is at rest.

    Args:
        stage: The local run.
        fault: The fault.
        plan: The load, and the lengths of the phases.
        load_ended: Called when the load has ended.
    """
    reads_per_s = max(plan.reads_per_s, plan.cached_per_s) if fault.stands else plan.reads_per_s
    run = Run(fault.name, stage.policy, reads_per_s)
    stage.counts.clear()
    _warm(stage, plan)
    if not fault.begins:
        _put(stage, COLD_KEYS)
    # While nodes do not answer, keys stay on their cache functions.
    with stage.cloud.faults.silence_nodes() if fault.begins == "lambda" else nullcontext(), loaded(stage, plan) as load:
        if fault.begins:
            load.set(_HEAT_SHARE * plan.reads_per_s, HOT_SHARE)
            run.hot_s = waited(lambda: load.are_hits_back(0, [fault.begins]), plan.heat_s)
            _use_all(stage)
            _grow(load, _HEAT_SHARE * plan.reads_per_s, reads_per_s)
        else:
            load.set(reads_per_s, ALL_COLD)
            waited(lambda: load.outcomes, plan.heat_s)
        if fault.needs:
            waited(lambda: any(executions(stage, stage.cloud.outputs[fault.needs])), plan.heat_s)
        run.began_s = time.time()
        time.sleep(plan.before_s)
        with fault.breaks(stage):
            if fault.settles_s:
                _warm(stage, plan)
                time.sleep(fault.settles_s)
            load.set(reads_per_s, HOT_SHARE)
            run.fault_began_s = time.time()
            time.sleep(plan.fault_s)
        run.fault_ended_s = time.time()
        run.hits_back_s = waited(lambda: load.are_hits_back(run.fault_ended_s), plan.back_s)
    run.ended_s = time.time()
    run.load = os.getloadavg()[0]
    stage.cloud.end_free("ProxyFunction", "CacheFunction")
    load_ended()
    run.outcomes = load.outcomes
    rest_s = plan.rest_s + _POOL_KEEP_S * stage.has_pool + _TASK_IDLE_S * (fault.redis_on != "ec2")
    run.rest_s = waited(lambda: not any(running(stage)), rest_s, _REST_LOOK_EVERY_S)
    owed = [*undelivered(stage)]
    print(*owed, sep="\n", end="", file=sys.stderr)
    run.left, run.undelivered, run.counts = [*running(stage)], len(owed), dict(stage.counts)
    return run


def _grow(load: Load, from_per_s: float, to_per_s: float) -> None:
    """Double the reads of hot keys up to a rate, each time after caches serve the current load.

    On a few cores, readers that connect to a node all at once would delay each other and go to S3.
    """
    while from_per_s < to_per_s:
        from_per_s = min(2 * from_per_s, to_per_s)
        load.set(from_per_s, HOT_SHARE)
        time.sleep(_STEP_S)
        waited(lambda: load.are_hits_back(0), _STEPS_S)


def waited(holds: Callable[[], object], limit_s: float, look_every_s: float = _LOOK_EVERY_S) -> float | None:
    """Wait until a condition holds; return how long it took [s], or None beyond the limit."""
    began_s = time.monotonic()
    while not holds():
        if time.monotonic() - began_s > limit_s:
            return None
        time.sleep(look_every_s)
    return time.monotonic() - began_s


def main() -> None:
    """Run a fault and write its result."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends child processes first
    name, policy, plan, path, ended = sys.argv[1:]
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    code = code_of()
    nodes = {"RedisOn": fault.redis_on, "RedisTaskMemoryGb": str(fault.task_gb)}
    with staged(policy, parts=fault.parts, parameters=nodes, proxies=fault.proxies, boot_s=fault.boot_s) as stage:
        run = befall(stage, fault, Plan(**json.loads(plan)), load_ended=lambda: os.write(int(ended), b"."))
    run.machine, run.code = environment(), code
    Path(path).write_text(json.dumps(asdict(run)))


if __name__ == "__main__":
    main()
