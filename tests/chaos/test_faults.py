"""A few faults, shortened and in one local run; `make chaos` has all of them, with latencies."""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache.core.node_kinds import NodeKind
from chaos.breaks import RELAY
from chaos.excuses import unexcused
from chaos.faults import FAULTS
from chaos.leftovers import running, undelivered
from chaos.load import HOT_SHARE
from chaos.run import Plan, loaded, staged
from chaos.soak import broken
from support.processes import REDIS
from support.waiting import until

_PLAN = Plan(reads_per_s=8, hot_keys=3)
_FAULT_S = 2.5
_RETRY_DELAYS_S = (5.0, 10.0)  # an event outlives a fault
_SHORT: dict[NodeKind, tuple[str, ...]] = {
    "ec2": ("relay-killed-redis-serves", "dynamodb-failing", "events-doubled", "s3-cut", "redis-killed"),
    "fargate-spot": ("task-redis-full", "task-interrupted"),
}
_EFFECTS: dict[NodeKind, set[str]] = {
    "ec2": {f"{RELAY} killed", f"{REDIS} killed"},
    "fargate-spot": {"fillers written", "tasks interrupted"},
}


@pytest.mark.parametrize("redis_on", _SHORT)
def test_no_read_fails_or_is_wrong_during_faults_and_nothing_is_left(tmp_path: Path, redis_on: NodeKind) -> None:
    faults = [fault for name in _SHORT[redis_on] for fault in FAULTS if fault.name == name]
    kind = {"RedisOn": redis_on}
    with staged("thesis", tmp_path, parameters=kind, retry_delays_s=_RETRY_DELAYS_S) as stage:
        breaks = []
        with loaded(stage, _PLAN) as load:
            load.set(_PLAN.reads_per_s, HOT_SHARE)
            for fault in faults:
                until(lambda: load.are_hits_back(0, ["redis"]))
                breaks.append(broken(stage, fault, _FAULT_S))
        until(lambda: not any(running(stage)))
        owed = [*undelivered(stage)]

    reads = [each for each in load.outcomes if each.way != "write"]
    assert [each for each in reads if each.is_wrong] == []
    assert unexcused([each for each in reads if each.is_failed], breaks) == []
    assert [past.fault.name for past in breaks if not any(map(past.meets, reads))] == []
    assert owed == []
    assert _EFFECTS[redis_on] <= {name for name, times in stage.counts.items() if times}
