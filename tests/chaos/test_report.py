"""What a report finds in a run, and what it lets pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.code import code_of
from chaos.evidence import draw_all, with_results
from chaos.excuses import PastFault, unexcused
from chaos.faults import FAULTS
from chaos.load import Outcome
from chaos.report import deeds, draw, figures, findings, table
from chaos.results import Results
from chaos.run import Plan, Run

_FAULTS = {fault.name: fault for fault in FAULTS}
_HIT = Outcome("front door", "key-00", 10.0, 0.01, 200, "redis", "")
_GOOD = Run(
    "redis-killed", "thesis", 20.0, 3.0, 0.0, 10.0, 40.0, 42.0, 1.5, 20.0, outcomes=[_HIT] * 100, counts={"killed": 1}
)


def found(run: Run) -> str:
    return "; ".join(findings(_FAULTS[run.fault], run))


def test_nothing_is_found_in_a_run_without_a_fault_that_readers_notice() -> None:
    assert found(_GOOD) == ""


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"outcomes": [_HIT._replace(error="wrong: version 7, of which 3 is the newest")]}, "1 wrong"),
        ({"outcomes": [_HIT, _HIT._replace(status=500)]}, "1 failed: {'front door: 500': 1}"),
        ({"outcomes": [_HIT] * 9 + [_HIT._replace(latency_s=0.5)]}, "p99 500 ms during the fault, more than 400"),
        ({"hot_s": None}, "hot keys were not in redis when it began"),
        ({"hits_back_s": None}, "hits did not come back"),
        ({"rest_s": None, "left": ["execution a"]}, "ran after two minutes, or was owed: ['execution a']"),
        ({"undelivered": 2}, "2 events are in the queues for a person"),
        ({"counts": {}}, "the fault did nothing"),
        ({"counts": {"stopped in Lambda": 0}}, "the fault did nothing"),
        ({"outcomes": [_HIT, _HIT._replace(way="write", status=0)]}, "1 writes were refused"),
    ],
)
def test_a_finding_is_named(changes: dict[str, Any], finding: str) -> None:
    assert finding in found(replace(_GOOD, **changes))


def test_what_is_slow_outside_the_fault_or_by_another_way_is_none() -> None:
    slow = [_HIT._replace(due_s=9.0, latency_s=5.0), _HIT._replace(way="pool", latency_s=5.0)]

    assert found(replace(_GOOD, outcomes=[_HIT, *slow])) == ""


def test_an_error_of_s3_is_excused_while_s3_fails_and_its_delay_while_it_is_slow() -> None:
    error = _HIT._replace(status=503, tier="", error="")
    failing = replace(_GOOD, fault="s3-failing", outcomes=[_HIT, error])
    slow = replace(_GOOD, fault="s3-slow", outcomes=[_HIT._replace(latency_s=2.04)])

    assert (found(failing), found(slow)) == ("", "")
    assert figures(_FAULTS["s3-failing"], failing).excused == 1
    assert "1 failed" in found(replace(failing, fault="redis-killed"))
    assert "1 failed" in found(replace(failing, outcomes=[_HIT, error._replace(due_s=43.0)]))


def test_one_request_of_the_front_door_is_excused_for_each_killed_proxy_and_none_of_the_library() -> None:
    inside = _HIT._replace(status=500)
    killed = replace(_GOOD, fault="proxy-killed", counts={"ProxyFunction killed": 1})

    assert found(replace(killed, outcomes=[inside])) == ""
    assert "1 failed" in found(replace(killed, outcomes=[inside, inside]))
    assert "1 failed" in found(replace(killed, outcomes=[inside._replace(way="library", status=0)]))


def test_a_soak_excuses_what_a_fault_causes_while_it_lasts_and_no_more() -> None:
    inside = _HIT._replace(status=500)
    killed = PastFault(_FAULTS["proxy-killed"], began_s=5.0, ended_s=15.0, done=1)
    later = inside._replace(due_s=30.0)

    assert unexcused([inside], [killed]) == []
    assert unexcused([inside._replace(due_s=1.0, latency_s=4.5)], [killed]) == []
    assert unexcused([inside._replace(due_s=1.0)], [killed]) != []
    assert unexcused([inside, later], [killed]) == [later]
    assert unexcused([inside, inside._replace(due_s=11.0)], [killed]) == [inside._replace(due_s=11.0)]
    assert unexcused([inside], []) == [inside]


def test_a_write_that_is_refused_while_dynamodb_fails_is_counted_and_no_finding() -> None:
    refused = _HIT._replace(way="write", status=0, error="CopiesNotDroppedError")
    run = replace(_GOOD, fault="dynamodb-failing", outcomes=[_HIT, refused])
    later = replace(run, outcomes=[_HIT, refused._replace(due_s=43.0)])

    assert found(run) == ""
    assert (figures(_FAULTS[run.fault], run).writes, figures(_FAULTS[run.fault], run).refused) == (1, 1)
    assert "1 writes were refused" in found(later)


def test_states_in_which_nothing_was_stopped_are_named() -> None:
    run = replace(_GOOD, counts={"stopped in Lambda": 1, "stopped in SeedRedis": 0, "stopped in ReturnToS3": 0})

    assert deeds(run) == "stopped in Lambda: 1; never in SeedRedis, in ReturnToS3"


def test_a_table_has_a_line_for_each_run_and_a_picture_is_drawn(tmp_path: Path) -> None:
    fault, others = _FAULTS["redis-killed"], replace(_GOOD, policy="breakeven", rest_s=None)

    lines = table([(fault, _GOOD), (fault, others)]).splitlines()
    draw(fault, [_GOOD, others], tmp_path / "picture.png")

    assert [line.split()[:2] for line in lines[-2:]] == [["redis-killed", "thesis"], ["redis-killed", "breakeven"]]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_results_are_kept_for_the_plan_that_they_were_got_by(tmp_path: Path) -> None:
    fault, plan = _FAULTS["redis-killed"], Plan(10.0)
    results = Results(tmp_path, plan)
    results.begin()
    results.keep(fault, [_GOOD])

    assert Results.of_folder(tmp_path).rows() == [(fault, _GOOD)]
    assert Results(tmp_path, replace(plan, fault_s=3.0)).runs(fault) == []
    assert not results.are_current(fault)
    results.keep(fault, [replace(_GOOD, code=code_of())])
    assert results.are_current(fault)
    results.forget([fault.name])
    assert results.rows() == []


def test_a_page_gets_its_results_once_and_a_picture(tmp_path: Path) -> None:
    results = Results(tmp_path, Plan(10.0))
    results.keep(_FAULTS["redis-killed"], [_GOOD, replace(_GOOD, policy="breakeven", rest_s=None)])
    page = "before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n"

    written = with_results(page, results)
    draw_all(results, tmp_path / "all.png")

    assert with_results(written, results) == written
    assert "| redis-killed | thesis | 100 | 0 |" in written
    assert "- redis-killed, breakeven: something still ran" in written
    assert "Of another state of the code: redis-killed." in written
    assert "(thesis: killed: 1 / breakeven: killed: 1)" in written
    assert "old" not in written
    assert written.endswith("<!-- end of results -->\nafter\n")
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
