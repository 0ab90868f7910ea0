"""The pool's members are kept alive from its first use until nobody wants what it holds, and not longer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.executions import Executions, execution_arn
from burstcache.adapters.pool_table import PoolRows, PoolTable
from burstcache.control.pool_life import CHECK_S, MOST_TICKS, TICK_TAKES_S, start
from burstcache.core.errors import FunctionFailedError, ServiceTransientError
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.retention import REPORT_S
from support.functions import KEEP_S, POOL_MEMBERS
from support.reporting_hub import Hub, end_of, hub_in_use, rows_of, running_in
from support.world import World

_MB = 1 << 20


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed."""
    return make_world(runs_machines=True)


@pytest.fixture
def hub(world: World) -> Hub:
    """A hub that has stored something and reported it."""
    return hub_in_use(world)


# Begin


def test_nothing_runs_while_nothing_is_stored(world: World) -> None:
    Hub(world).report_for(600)

    assert running_in(world) == []
    assert world.members.invoked == []


def test_first_chunk_starts_an_execution_that_invokes_every_member(world: World, hub: Hub) -> None:
    assert len(running_in(world)) == 1
    assert sorted(world.members.invoked) == sorted(world.pool.members)


def test_two_hubs_that_start_at_once_start_one_execution(world: World) -> None:
    hubs = [Hub(world, name) for name in ("hub-1", "hub-2")]
    for hub in hubs:
        hub.store("pool-0")

    for report in [world.clock.start(hub.report) for hub in hubs]:
        world.clock.wait_for(report)

    assert len(running_in(world)) == 1
    seen = rows_of(world).state
    assert not start(world.pool, replace(seen, deadline_at_us=0))


# Keeping


@pytest.mark.slow
def test_members_are_invoked_every_interval_whether_a_hub_reports_or_not(world: World, hub: Hub) -> None:
    warm_s = rows_of(world).state.choice.warm_s  # type: ignore[union-attr]
    first = len(world.members.invoked)

    hub.report_for(10 * warm_s, reads=1)
    with_hub = len(world.members.invoked) - first
    hub.leave()
    world.clock.sleep(CHECK_S + 10 * warm_s)
    alone = len(world.members.invoked) - first - with_hub

    assert with_hub == pytest.approx(10 * POOL_MEMBERS, abs=POOL_MEMBERS)
    assert alone >= 10 * POOL_MEMBERS


def test_machine_takes_few_steps_while_hubs_report(world: World, hub: Hub) -> None:
    hub.report_for(KEEP_S // 2, reads=1)

    arn = execution_arn(world.pool_machine, *running_in(world))
    history = world.states_client.get_execution_history(executionArn=arn, maxResults=1000)
    ticks = [event for event in history["events"] if event["type"] == "TaskStateEntered"]
    assert len(ticks) <= KEEP_S // 2 / CHECK_S + 2


def test_member_that_a_hub_uses_is_not_invoked_a_second_time(world: World, hub: Hub) -> None:
    world.members.invoked.clear()

    for _ in range(10):
        world.clock.sleep(REPORT_S)
        hub.read()
        hub.report({"pool-3": world.members.environment("pool-3")["environment"]})
    world.clock.sleep(1)

    assert "pool-3" not in world.members.invoked
    assert "pool-4" in world.members.invoked


def test_round_that_comes_twice_invokes_nobody_twice(world: World, hub: Hub) -> None:
    world.clock.sleep(60)
    world.members.invoked.clear()

    for _ in range(2):
        world.invoke("pool_control", {"op": "round"})

    assert len(world.members.invoked) == POOL_MEMBERS


def test_two_rounds_at_once_are_one(world: World, hub: Hub) -> None:
    rows = rows_of(world)

    assert world.pool.table.claim_round(rows.state, world.clock.now_us())
    assert not world.pool.table.claim_round(rows.state, world.clock.now_us())


def test_execution_goes_on_in_a_part_of_its_own_before_its_history_is_full(world: World, hub: Hub) -> None:
    state = rows_of(world).state
    tick = {"op": "tick", "generation": state.generation, "part": 1, "ticks": MOST_TICKS - 1}

    assert world.invoke("pool_control", tick)["outcome"] == "superseded"

    assert f"pool-{state.generation}-2" in running_in(world)
    assert world.invoke("pool_control", {**tick, "ticks": 0})["outcome"] == "superseded"


# Failures


def test_member_that_does_not_answer_holds_nobody_up(world: World, hub: Hub) -> None:
    world.members.silent = {"pool-3"}

    hub.report_for(600, reads=1)

    assert [name for name, member in rows_of(world).members.items() if member.is_silent] == ["pool-3"]
    assert len(running_in(world)) == 1


def test_pool_of_which_no_member_answers_fails_visibly_and_is_tried_again(world: World, hub: Hub) -> None:
    world.members.silent = set(world.pool.members)

    hub.report_for(CHECK_S + REPORT_S, reads=1)
    failed = end_of(world)
    assert (failed["status"], failed["error"]) == ("FAILED", FunctionFailedError.__name__)

    world.members.silent.clear()
    world.clock.sleep(CHECK_S + TICK_TAKES_S)
    hub.read()
    hub.report()
    world.clock.sleep(1)
    assert len(running_in(world)) == 1


def test_execution_that_dies_is_replaced_by_the_next_use_after_its_deadline(world: World, hub: Hub) -> None:
    name = rows_of(world).state.execution_name
    world.executions.stop(world.pool_machine, name, cause="test")

    hub.report_for(CHECK_S + TICK_TAKES_S + REPORT_S, reads=1)

    assert running_in(world) == [rows_of(world).state.execution_name]
    assert rows_of(world).state.execution_name != name


def test_throttled_control_function_is_asked_again(world: World, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [ServiceTransientError("throttled", code="ThrottlingException")] * 3
    read = PoolTable.read

    def fails_first(table: PoolTable) -> PoolRows:
        if errors:
            raise errors.pop()
        return read(table)

    hub.leave()
    monkeypatch.setattr(PoolTable, "read", fails_first)
    world.clock.sleep(2 * CHECK_S)

    assert errors == []
    assert len(running_in(world)) == 1


def test_start_that_fails_is_repeated_by_the_next_report(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, start = Hub(world), Executions.start
    errors = [ServiceTransientError("throttled", code="ThrottlingException")]

    def fails_first(executions: Executions, *args: Any) -> bool:
        if errors:
            raise errors.pop()
        return start(executions, *args)

    monkeypatch.setattr(Executions, "start", fails_first)
    hub.store("pool-3")
    with pytest.raises(ServiceTransientError):
        hub.report()
    assert running_in(world) == []

    hub.report()

    assert len(running_in(world)) == 1


def test_next_part_is_started_although_the_tick_that_ended_the_former_died(
    world: World, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = rows_of(world).state
    tick = {"op": "tick", "generation": state.generation, "part": 1, "ticks": MOST_TICKS - 1}
    with monkeypatch.context() as patch:
        patch.setattr(Executions, "start", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.invoke("pool_control", tick)
    assert f"pool-{state.generation}-2" not in running_in(world)

    assert world.invoke("pool_control", tick)["outcome"] == "superseded"

    assert f"pool-{state.generation}-2" in running_in(world)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["claim_round", "finish_round", "change", "put_hub"])
def test_write_that_the_table_refuses_is_made_again(
    world: World, hub: Hub, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write, errors = getattr(PoolTable, call), [ServiceTransientError("busy", code="InternalServerError")]

    def fails_first(*args: Any, **changes: Any) -> Any:
        if errors:
            raise errors.pop()
        return write(*args, **changes)

    if call != "put_hub":  # the machine's alone
        hub.leave()
    monkeypatch.setattr(PoolTable, call, fails_first)
    with contextlib.suppress(ServiceTransientError):
        hub.report() if call == "put_hub" else world.clock.sleep(2 * CHECK_S)
    hub.report_for(2 * CHECK_S, reads=1)

    assert errors == []
    assert len(running_in(world)) == 1
    rows = rows_of(world)
    assert world.clock.now_us() - rows.state.warmed_at_us <= 2 * CHECK_S * US_PER_S
    assert not any(member.is_silent for member in rows.members.values())


def test_reader_of_a_paused_stack_gets_no_members(world: World, hub: Hub) -> None:
    world.pauses.begin("a test")

    assert hub.report()["members"] == []
    assert end_of(world)["status"] == "SUCCEEDED"

    hub.report_for(300, reads=1)
    assert running_in(world) == []


def test_pool_goes_on_when_the_pause_is_over(world: World, hub: Hub) -> None:
    world.pauses.begin("a test")
    end_of(world)
    world.pauses.end()

    hub.read()

    assert hub.report()["members"]
    assert len(running_in(world)) == 1


# End


@pytest.mark.slow
def test_nobody_reads_for_long_and_nothing_is_invoked_any_more(world: World, hub: Hub) -> None:
    hub.report_for(2 * REPORT_S, reads=1)

    hub.report_for(KEEP_S - 2 * REPORT_S)
    assert len(running_in(world)) == 1
    hub.report_for(3 * REPORT_S)

    assert running_in(world) == []
    world.members.invoked.clear()
    hub.report_for(KEEP_S)
    assert world.members.invoked == []


@pytest.mark.slow
def test_pool_whose_hub_vanished_ends_as_well(world: World, hub: Hub) -> None:
    ended = end_of(world)

    assert ended["status"] == "SUCCEEDED"
    assert "nobody read" in ended["output"]
    assert [each.is_counted for each in rows_of(world).hubs] == [True]


@pytest.mark.slow
def test_what_hubs_saw_outlives_them(world: World, hub: Hub) -> None:
    hub.read(7)
    hub.report()
    hub.leave()

    end_of(world)

    totals = rows_of(world).state.totals
    assert (totals.hits, totals.stored_bytes) == (7, _MB)


@pytest.mark.slow
def test_reading_keeps_the_pool(world: World, hub: Hub) -> None:
    hub.report_for(2 * KEEP_S, reads=1)

    assert len(running_in(world)) == 1


def test_pool_in_which_nothing_is_stored_ends_at_once(world: World, hub: Hub) -> None:
    hub.leave()
    world.members.store("pool-3", 0)

    ended = end_of(world, within_s=2 * CHECK_S)

    assert "nothing was stored" in ended["output"]


def test_hub_reads_again_after_the_end_and_the_pool_is_kept_again(world: World, hub: Hub) -> None:
    former = rows_of(world).state.execution_name
    end_of(world)

    hub.store("pool-3")
    hub.report()

    assert running_in(world) != [former]
    assert len(running_in(world)) == 1
