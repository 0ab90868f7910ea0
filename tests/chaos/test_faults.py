"""A few of the faults, in a short form and in one local run: `make chaos` has all of them, and their latencies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.faults import FAULTS
from chaos.leftovers import running, undelivered
from chaos.run import Plan, befall, staged
from chaos.stage import Stage
from support.waiting import LIMIT_S, until

_PLAN = Plan(reads_per_s=5, cached_per_s=10, hot_keys=3, heat_s=LIMIT_S, before_s=0, fault_s=3, back_s=0, rest_s=0)
_SHORT = ("relay-killed-redis-serves", "dynamodb-failing", "events-doubled", "s3-cut", "redis-killed")
_BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged("thesis", tmp_path_factory.mktemp("logs")) as running_stage:
        yield running_stage


@pytest.mark.parametrize("name", _SHORT)
def test_no_read_fails_or_is_wrong_while(stage: Stage, name: str) -> None:
    fault = _BY_NAME[name]

    run = befall(stage, fault, _PLAN)

    assert any(run.fault_began_s <= each.due_s < run.fault_ended_s for each in run.reads)
    assert [each for each in run.reads if each.is_wrong] == []
    assert [each for each in run.reads if each.is_failed and not fault.excuses(each)] == []


def test_nothing_runs_or_is_owed_in_the_end(stage: Stage) -> None:
    until(lambda: not running(stage))

    assert undelivered(stage) == 0
