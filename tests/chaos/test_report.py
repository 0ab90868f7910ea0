"""The report on faults: its findings, its excuses and its files."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos import __main__ as command
from chaos.__main__ import Ended
from chaos.code import code_of
from chaos.evidence import draw_all, with_results
from chaos.excuses import PastFault, unexcused
from chaos.faults import FAULTS
from chaos.load import Outcome
from chaos.report import draw, figures, findings, table
from chaos.results import Results
from chaos.run import Plan, Run, Turn, turns
from chaos.sheet import draw_sheet

_FAULTS = {fault.name: fault for fault in FAULTS}
_HIT = Outcome("front door", "key-00", 10.0, 0.01, 200, "redis", "")
_GOOD = Run(
    "redis-killed", "thesis", 20.0, 3.0, 0.0, 10.0, 40.0, 42.0, 1.5, 20.0, outcomes=[_HIT] * 100, counts={"killed": 1}
)


def found(run: Run) -> str:
    return "; ".join(findings(_FAULTS[run.fault], run))


def test_a_run_whose_fault_readers_do_not_notice_has_no_finding() -> None:
    assert found(_GOOD) == ""


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"outcomes": [_HIT._replace(error="wrong: version 7, of which 3 is the newest")]},
            "1 of 1 reads were wrong (1 front door: wrong: version 7, of which 3 is the newest)",
        ),
        ({"outcomes": [_HIT, _HIT._replace(status=500)]}, "1 of 2 reads failed (1 front door: 500)"),
        (
            {"outcomes": [_HIT] * 9 + [_HIT._replace(latency_s=0.5)]},
            "the p99 during the fault was 500 ms instead of 400",
        ),
        ({"hot_s": None}, "hot keys were not in redis when the fault began"),
        ({"hits_back_s": None}, "hits were not back 2 s after the fault"),
        (
            {"rest_s": None, "left": ["execution a"]},
            "the stack did not come to rest in time, 1 left (execution a)",
        ),
        ({"undelivered": 2}, "2 events were left in the queues for a person"),
        ({"counts": {}}, "the fault had no effect"),
        ({"counts": {"stopped in Lambda": 0}}, "the fault had no effect"),
        ({"outcomes": [_HIT, _HIT._replace(way="write", status=0)]}, "1 of 1 writes were refused"),
    ],
)
def test_a_finding_is_named(changes: dict[str, Any], finding: str) -> None:
    assert finding in found(replace(_GOOD, **changes))


def test_a_read_that_is_slow_outside_the_fault_or_through_the_pool_is_no_finding() -> None:
    slow = [_HIT._replace(due_s=9.0, latency_s=5.0), _HIT._replace(way="pool", latency_s=5.0)]

    assert found(replace(_GOOD, outcomes=[_HIT, *slow])) == ""


def test_an_error_of_s3_is_excused_while_s3_fails_and_its_delay_while_it_is_slow() -> None:
    error = _HIT._replace(status=503, tier="", error="")
    failing = replace(_GOOD, fault="s3-failing", outcomes=[_HIT, error])
    slow = replace(_GOOD, fault="s3-slow", outcomes=[_HIT._replace(latency_s=2.04)])

    assert (found(failing), found(slow)) == ("", "")
    assert figures(_FAULTS["s3-failing"], failing).excused == 1
    assert "1 of 2 reads failed" in found(replace(failing, fault="redis-killed"))
    assert "1 of 2 reads failed" in found(replace(failing, outcomes=[_HIT, error._replace(due_s=43.0)]))


def test_one_request_of_the_front_door_is_excused_for_each_killed_proxy_and_none_of_the_library() -> None:
    inside = _HIT._replace(status=500)
    killed = replace(_GOOD, fault="proxy-killed", counts={"ProxyFunction killed": 1})

    assert found(replace(killed, outcomes=[inside])) == ""
    assert "1 of 2 reads failed" in found(replace(killed, outcomes=[inside, inside]))
    assert "1 of 1 reads failed" in found(replace(killed, outcomes=[inside._replace(way="library", status=0)]))


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
    assert "1 of 1 writes were refused" in found(later)


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
    results.forget([fault.name])
    assert results.rows() == []


def test_a_turn_is_done_anew_unless_all_its_policies_have_results_of_the_code_as_it_is(tmp_path: Path) -> None:
    results, (both,) = Results(tmp_path, Plan(10.0)), turns([_FAULTS["redis-killed"]])
    thesis, breakeven = (replace(_GOOD, policy=policy, code=code_of()) for policy in both.policies)

    assert not results.are_current(both)
    results.keep(both.fault, [thesis])
    assert not results.are_current(both)
    results.keep(both.fault, [thesis, breakeven])
    assert results.are_current(both)
    results.keep(both.fault, [replace(thesis, code="another")])
    assert not results.are_current(both)


def test_where_a_tier_stands_policies_have_the_machine_in_turn_and_the_later_result_joins_the_former(
    tmp_path: Path,
) -> None:
    results = Results(tmp_path, Plan(10.0))
    first, second = turns([_FAULTS["proxy-killed"]])
    thesis, breakeven = (
        replace(_GOOD, fault="proxy-killed", policy=policy, code=code_of())
        for policy in (*first.policies, *second.policies)
    )

    results.keep(second.fault, [breakeven])
    assert [results.are_current(turn) for turn in (first, second)] == [False, True]
    results.keep(first.fault, [thesis])

    assert results.rows() == [(first.fault, thesis), (first.fault, breakeven)]
    assert [results.of_turn(turn) for turn in (first, second)] == [[thesis], [breakeven]]


def test_the_next_turn_is_loaded_while_one_rests_and_no_more_than_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def begun(turn: Turn, _results: Results, _running: ExitStack) -> Ended:
        name = f"{turn.fault.name} {' '.join(turn.policies)}"
        happened.append(f"loaded {name}")

        def rested() -> list[Run]:
            happened.append(f"rested {name}")
            return []

        return rested

    monkeypatch.setattr(command, "_begun", begun)
    results = Results(tmp_path, Plan(10.0))
    results.keep(_FAULTS["events-lost"], [replace(_GOOD, fault="events-lost", code=code_of())])
    wanted = turns([_FAULTS["redis-killed"], _FAULTS["events-lost"], _FAULTS["proxy-killed"]])

    for _, ended in command._in_turn(wanted, results):
        ended()

    assert happened == [
        "loaded redis-killed thesis breakeven",
        "rested redis-killed thesis breakeven",
        "loaded events-lost breakeven",
        "loaded proxy-killed thesis",
        "rested events-lost breakeven",
        "loaded proxy-killed breakeven",
        "rested proxy-killed thesis",
        "rested proxy-killed breakeven",
    ]


def test_runs_at_once_share_the_load_of_one() -> None:
    plan = Plan(64.0, 200.0).of_each(2)

    assert (plan.reads_per_s, plan.cached_per_s) == (32.0, 100.0)


def test_a_page_gets_its_results_once_and_a_picture(tmp_path: Path) -> None:
    results = Results(tmp_path, Plan(10.0))
    failed = replace(
        _GOOD,
        outcomes=[_HIT] * 99 + [_HIT._replace(way="library", status=503)],
        counts={"stopped in Lambda": 1, "stopped in SeedRedis": 0},
    )
    results.keep(_FAULTS["redis-killed"], [failed, replace(_GOOD, policy="breakeven", rest_s=None)])
    page = "before\n<!-- results -->\nformer\n<!-- end of results -->\nafter\n"

    written = with_results(page, results)
    draw_all(results, tmp_path / "all.png")
    draw_sheet(results, tmp_path / "sheet.png")

    assert with_results(written, results) == written
    assert "Each pair is thesis / breakeven." in written
    assert "| redis-killed | Redis is killed | 10 / 10 | 10 / 10 | 1.5 / 1.5 |" in written
    assert "100 / 100 reads, 0 / 0 writes. p50: 10 to 10 ms. At rest: 20.0 to 20.0 s." in written
    assert "Executions were stopped in `Lambda`, and in no other state." in written
    assert "`failed`: redis-killed 1 / 0. 0 in each run: `excused`, `wrong`, `left`, `refused`." in written
    assert "**1 of 1 faults fail the criteria:**" in written
    assert (
        "- `redis-killed`: under thesis, 1 of 100 reads failed (1 library: 503); under breakeven, the stack" in written
    )
    assert "From another version of the code: redis-killed." in written
    assert "former" not in written
    assert written.endswith("<!-- end of results -->\nafter\n")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("all.png", "sheet.png"))
