"""The pool's members are kept alive from its first use until nobody wants what it holds, and not longer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.executions import Executions, execution_arn
from burstcache.adapters.pool_table import PoolRows, PoolTable
from burstcache.control.pool_life import LOOK_S, MOST_TICKS, TICK_TAKES_S, start
from burstcache.core.errors import FunctionFailedError, InvalidSettingError, ServiceTransientError, SupersededError
from burstcache.core.messages.pool_control import HubTotals, KnownHub, PoolPlan
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.kept import NO_TOTALS, REPORT_S, PoolChoice
from burstcache.core.pool.slices import Redundancy
from support.functions import KEEP_S, POOL_MEMBERS
from support.world import World

_MB = 1 << 20


class Hub:
    """A hub, as far as pool control sees one."""

    def __init__(self, world: World, name: str = "hub-1") -> None:
        self.totals = HubTotals(**NO_TOTALS)
        self.address = KnownHub(id=name, host="10.0.0.5", port=4_000, token="ab" * 32, certificate="")
        self._world = world

    def report(self, used: Mapping[str, str] | None = None) -> PoolPlan:
        event = {"op": "hub", "hub": self.address, "totals": {**self.totals}, "used": used or {}}
        plan: PoolPlan = self._world.invoke("pool_control", event)
        if plan["is_round_due"]:
            self._world.invoke("pool_control", {"op": "round"})
        return plan

    def report_for(self, duration_s: int, *, reads: int = 0) -> None:
        """Report every minute, with that number of hits in each."""
        for _ in range(duration_s // REPORT_S):
            self._world.clock.sleep(REPORT_S)
            self.read(reads)
            self.report()

    def store(self, member: str, stored_bytes: int = _MB) -> None:
        self._world.members.store(member, stored_bytes)
        self.totals["stored_bytes"] += stored_bytes

    def read(self, hits: int = 1) -> None:
        self.totals["requests"] += hits
        self.totals["hits"] += hits

    def leave(self) -> None:
        self._world.invoke("pool_control", {"op": "leave", "id": self.address["id"], "totals": self.totals})


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed."""
    return make_world(runs_machines=True)


@pytest.fixture
def hub(world: World) -> Hub:
    """A hub that has stored something and reported it."""
    hub = Hub(world)
    hub.report()
    hub.store("pool-3")
    hub.report()
    world.clock.sleep(1)
    return hub


def _rows(world: World) -> PoolRows:
    return world.pool.table.read()


def _running(world: World) -> list[str]:
    return world.executions_of(world.pool_machine)


def _ended(world: World, *, within_s: float = 2 * KEEP_S) -> Any:
    """Wait until no execution runs; return the description of the last one."""
    name = _rows(world).state.execution_name
    world.until(lambda: not _running(world), within_s=within_s, every_s=10)
    return world.states_client.describe_execution(executionArn=execution_arn(world.pool_machine, name))


# Begin


def test_hub_learns_members_and_code_at_its_start(world: World) -> None:
    plan = Hub(world).report()

    assert plan["members"] == [f"pool-{number}" for number in range(POOL_MEMBERS)]
    assert plan["redundancy"]["data"] + plan["redundancy"]["parity"] <= POOL_MEMBERS
    assert (plan["former"], plan["hubs"], plan["report_s"]) == ([], [], REPORT_S)


def test_nothing_runs_while_nothing_is_stored(world: World) -> None:
    Hub(world).report_for(600)

    assert _running(world) == []
    assert world.members.asked == []


def test_first_chunk_starts_an_execution_that_invokes_every_member(world: World, hub: Hub) -> None:
    assert len(_running(world)) == 1
    assert sorted(world.members.asked) == sorted(world.pool.members)


def test_two_hubs_that_start_at_once_start_one_execution(world: World) -> None:
    hubs = [Hub(world, name) for name in ("hub-1", "hub-2")]
    for hub in hubs:
        hub.store("pool-0")

    for report in [world.clock.start(hub.report) for hub in hubs]:
        world.clock.wait_for(report)

    assert len(_running(world)) == 1
    seen = _rows(world).state
    assert not start(world.pool, replace(seen, deadline_at_us=0))


def test_of_two_hubs_that_begin_at_once_one_learns_of_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Hub(world, "hub-1"), Hub(world, "hub-2")
    meanwhile, read = [other.report], PoolTable.read

    def read_and_lose_time(table: PoolTable) -> PoolRows:
        rows = read(table)
        while meanwhile:
            meanwhile.pop()()
        return rows

    monkeypatch.setattr(PoolTable, "read", read_and_lose_time)

    assert one.report()["hubs"] == [other.address]


def test_hubs_learn_of_each_other_until_one_is_gone(world: World) -> None:
    one, other = Hub(world, "hub-1"), Hub(world, "hub-2")
    one.report()

    assert other.report()["hubs"] == [one.address]
    assert one.report()["hubs"] == [other.address]

    other.leave()
    assert one.report()["hubs"] == []


def test_hub_that_vanishes_is_forgotten_after_three_minutes(world: World) -> None:
    one, other = Hub(world, "hub-1"), Hub(world, "hub-2")
    other.report()
    world.clock.sleep(179)
    assert one.report()["hubs"] == [other.address]

    world.clock.sleep(2)

    assert one.report()["hubs"] == []


def _requests(world: World) -> int:
    rows = _rows(world)
    totals = rows.state.totals
    for each in rows.hubs:
        totals = totals.plus(each)
    return totals.requests


@pytest.mark.slow
def test_what_a_hub_has_seen_is_added_up_once_however_often_it_falls_silent(world: World, hub: Hub) -> None:
    other = Hub(world, "hub-2")
    for silent_s in (200, 400, 60):
        other.totals["requests"] += 10
        other.report()
        hub.report_for(silent_s)
        assert _requests(world) == other.totals["requests"]

    other.totals["requests"] += 1
    other.leave()
    hub.report_for(120)

    assert [each.address["id"] for each in _rows(world).hubs] == ["hub-1"]
    assert _requests(world) == other.totals["requests"] == 31


def test_pool_control_counts_what_it_is_billed_for(world: World, hub: Hub) -> None:
    with world.pool.billed.invocation():
        world.clock.sleep(0.5)
    hub.report_for(120)

    rows = _rows(world)
    (totals,) = [rows.state.totals.plus(each) for each in rows.hubs]
    assert totals.control_ms == 500  # virtual time stands still in all others
    assert totals.control_requests > 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hub": {"id": "no such name"}}, "'no such name'"),
        ({"hub": {"token": "abc"}}, "token of hub hub-1"),
        ({"hub": {"port": 70_000}}, "port 70000"),
        ({"totals": {"hits": -1}}, "totals of hub hub-1"),
        ({"used": {"pool-1": 7}}, "used members of hub hub-1"),
    ],
    ids=["id", "token", "port", "totals", "used"],
)
def test_report_that_is_not_accepted_says_what_is(world: World, change: dict[str, Any], named: str) -> None:
    event: dict[str, Any] = {"op": "hub", "hub": Hub(world).address, "totals": {**NO_TOTALS}, "used": {}}
    for part, values in change.items():
        event[part] = {**event[part], **values}

    with pytest.raises(InvalidSettingError, match=named):
        world.invoke("pool_control", event)

    assert _rows(world).hubs == ()


# Keeping


def test_members_are_invoked_every_interval_whether_a_hub_reports_or_not(world: World, hub: Hub) -> None:
    warm_s = _rows(world).state.choice.warm_s  # type: ignore[union-attr]
    first = len(world.members.asked)

    hub.report_for(10 * warm_s, reads=1)
    with_hub = len(world.members.asked) - first
    hub.leave()
    world.clock.sleep(LOOK_S + 10 * warm_s)
    alone = len(world.members.asked) - first - with_hub

    assert with_hub == pytest.approx(10 * POOL_MEMBERS, abs=POOL_MEMBERS)
    assert alone >= 10 * POOL_MEMBERS


def test_machine_takes_few_steps_while_hubs_report(world: World, hub: Hub) -> None:
    hub.report_for(KEEP_S // 2, reads=1)

    arn = execution_arn(world.pool_machine, *_running(world))
    history = world.states_client.get_execution_history(executionArn=arn, maxResults=1000)
    ticks = [event for event in history["events"] if event["type"] == "TaskStateEntered"]
    assert len(ticks) <= KEEP_S // 2 / LOOK_S + 2


def test_member_that_a_hub_uses_is_not_invoked_a_second_time(world: World, hub: Hub) -> None:
    world.members.asked.clear()

    for _ in range(10):
        world.clock.sleep(REPORT_S)
        hub.read()
        hub.report({"pool-3": world.members.environment("pool-3")["environment"]})
    world.clock.sleep(1)

    assert "pool-3" not in world.members.asked
    assert "pool-4" in world.members.asked


def test_round_that_comes_twice_invokes_nobody_twice(world: World, hub: Hub) -> None:
    world.clock.sleep(60)
    world.members.asked.clear()

    for _ in range(2):
        world.invoke("pool_control", {"op": "round"})

    assert len(world.members.asked) == POOL_MEMBERS


def test_two_rounds_at_once_are_one(world: World, hub: Hub) -> None:
    rows = _rows(world)

    assert world.pool.table.claim_round(rows.state, world.clock.now_us())
    assert not world.pool.table.claim_round(rows.state, world.clock.now_us())


def test_execution_goes_on_in_a_part_of_its_own_before_its_history_is_full(world: World, hub: Hub) -> None:
    state = _rows(world).state
    tick = {"op": "tick", "generation": state.generation, "part": 1, "ticks": MOST_TICKS - 1}

    with pytest.raises(SupersededError, match="goes on"):
        world.invoke("pool_control", tick)

    assert f"pool-{state.generation}-2" in _running(world)
    with pytest.raises(SupersededError):
        world.invoke("pool_control", {**tick, "ticks": 0})


# Reclaims


def test_reclaims_are_counted_once_each(world: World, hub: Hub) -> None:
    world.members.reclaim("pool-1", "pool-2")
    hub.report_for(180, reads=1)
    world.members.reclaim("pool-3")
    hub.report_for(180, reads=1)

    reclaims = _rows(world).reclaims
    assert [count for _, count in reclaims.recent] == [2, 1]
    assert reclaims.per_minute * reclaims.watched_minutes == pytest.approx(3)


def test_reclaims_of_members_in_use_are_counted_by_what_hubs_report(world: World, hub: Hub) -> None:
    known = world.members.environment("pool-3")["environment"]
    world.members.asked.clear()
    for environment in (known, known, "copy", known, "third"):
        hub.read()
        world.clock.sleep(REPORT_S)
        hub.report({"pool-3": environment})
    world.clock.sleep(1)

    assert "pool-3" not in world.members.asked
    assert [count for _, count in _rows(world).reclaims.recent] == [1]


def test_environment_that_a_hub_met_long_ago_is_no_news(world: World, hub: Hub) -> None:
    world.clock.sleep(REPORT_S)
    hub.report({"pool-3": world.members.environment("pool-3")["environment"]})
    for _ in range(2):
        world.members.reclaim("pool-3")
        hub.report_for(3 * REPORT_S, reads=1)
    hub.report_for(3 * REPORT_S, reads=1)

    assert [count for _, count in _rows(world).reclaims.recent] == [1, 1]


def test_environment_with_chunks_is_a_copy_and_no_reclaim(world: World, hub: Hub) -> None:
    world.members.reclaim("pool-3")
    world.members.store("pool-3", _MB)

    hub.report_for(180, reads=1)

    assert _rows(world).reclaims.per_minute == 0


def test_copy_of_a_member_that_answers_again_is_no_reclaim(world: World, hub: Hub) -> None:
    source = world.members.environment("pool-5")
    for environment in ("another", source["environment"], "another"):
        source["environment"] = environment
        source["chunks"] = int(environment == "another")
        hub.report_for(60, reads=1)
    world.clock.sleep(1)

    assert _rows(world).reclaims.per_minute == 0


def test_many_reclaims_change_how_slices_are_written_and_old_ones_stay_readable(world: World, hub: Hub) -> None:
    first = hub.report()["redundancy"]
    numbers = iter(range(10_000))
    for _ in range(20):
        world.clock.sleep(REPORT_S)
        world.members.reclaim(f"pool-{next(numbers) % POOL_MEMBERS}")
        hub.read(500)
        plan = hub.report()

    assert plan["redundancy"] != first or plan["backup_s"]
    assert plan["redundancy"] == first or first in plan["former"]
    choice = _rows(world).state.choice
    assert choice is not None
    assert choice.reasons


def test_a_choice_that_returns_to_a_former_code_names_it_once() -> None:
    one, other = Redundancy(10, 2), Redundancy(10, 4)
    choice = PoolChoice(one)
    for redundancy in (other, one, other):
        choice = PoolChoice(redundancy).after(choice)

    assert (choice.redundancy, choice.former) == (other, (one,))


# Failures


def test_member_that_does_not_answer_holds_nobody_up(world: World, hub: Hub) -> None:
    world.members.silent = {"pool-3"}

    hub.report_for(600, reads=1)

    assert [name for name, member in _rows(world).members.items() if member.is_silent] == ["pool-3"]
    assert len(_running(world)) == 1


def test_pool_of_which_no_member_answers_fails_visibly_and_is_tried_again(world: World, hub: Hub) -> None:
    world.members.silent = set(world.pool.members)

    hub.report_for(LOOK_S + REPORT_S, reads=1)
    failed = _ended(world)
    assert (failed["status"], failed["error"]) == ("FAILED", FunctionFailedError.__name__)

    world.members.silent.clear()
    world.clock.sleep(LOOK_S + TICK_TAKES_S)
    hub.read()
    hub.report()
    world.clock.sleep(1)
    assert len(_running(world)) == 1


def test_execution_that_dies_is_replaced_by_the_next_use_after_its_deadline(world: World, hub: Hub) -> None:
    name = _rows(world).state.execution_name
    world.executions.stop(world.pool_machine, name, cause="test")

    hub.report_for(LOOK_S + TICK_TAKES_S + REPORT_S, reads=1)

    assert _running(world) == [_rows(world).state.execution_name]
    assert _rows(world).state.execution_name != name


def test_throttled_control_function_is_asked_again(world: World, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [ServiceTransientError("throttled", code="ThrottlingException")] * 3
    read = PoolTable.read

    def fails_first(table: PoolTable) -> PoolRows:
        if errors:
            raise errors.pop()
        return read(table)

    hub.leave()
    monkeypatch.setattr(PoolTable, "read", fails_first)
    world.clock.sleep(2 * LOOK_S)

    assert errors == []
    assert len(_running(world)) == 1


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
    assert _running(world) == []

    hub.report()

    assert len(_running(world)) == 1


def test_next_part_is_started_although_the_tick_that_ended_the_former_died(
    world: World, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = _rows(world).state
    tick = {"op": "tick", "generation": state.generation, "part": 1, "ticks": MOST_TICKS - 1}
    with monkeypatch.context() as patch:
        patch.setattr(Executions, "start", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.invoke("pool_control", tick)
    assert f"pool-{state.generation}-2" not in _running(world)

    with pytest.raises(SupersededError):
        world.invoke("pool_control", tick)

    assert f"pool-{state.generation}-2" in _running(world)


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
        hub.report() if call == "put_hub" else world.clock.sleep(2 * LOOK_S)
    hub.report_for(2 * LOOK_S, reads=1)

    assert errors == []
    assert len(_running(world)) == 1
    rows = _rows(world)
    assert world.clock.now_us() - rows.state.warmed_at_us <= 2 * LOOK_S * US_PER_S
    assert not any(member.is_silent for member in rows.members.values())


def test_reader_of_a_paused_stack_gets_no_members(world: World, hub: Hub) -> None:
    world.pauses.begin("a test")

    assert hub.report()["members"] == []
    assert _ended(world)["status"] == "SUCCEEDED"

    hub.report_for(300, reads=1)
    assert _running(world) == []


def test_pool_goes_on_when_the_pause_is_over(world: World, hub: Hub) -> None:
    world.pauses.begin("a test")
    _ended(world)
    world.pauses.end()

    hub.read()

    assert hub.report()["members"]
    assert len(_running(world)) == 1


# End


def test_nobody_reads_for_long_and_nothing_is_invoked_any_more(world: World, hub: Hub) -> None:
    hub.report_for(2 * REPORT_S, reads=1)

    hub.report_for(KEEP_S - 2 * REPORT_S)
    assert len(_running(world)) == 1
    hub.report_for(3 * REPORT_S)

    assert _running(world) == []
    world.members.asked.clear()
    hub.report_for(KEEP_S)
    assert world.members.asked == []


def test_pool_whose_hub_vanished_ends_as_well(world: World, hub: Hub) -> None:
    ended = _ended(world)

    assert ended["status"] == "SUCCEEDED"
    assert "nobody read" in ended["output"]
    assert [each.is_counted for each in _rows(world).hubs] == [True]


def test_what_hubs_saw_outlives_them(world: World, hub: Hub) -> None:
    hub.read(7)
    hub.report()
    hub.leave()

    _ended(world)

    totals = _rows(world).state.totals
    assert (totals.hits, totals.stored_bytes) == (7, _MB)


@pytest.mark.slow
def test_reading_keeps_the_pool(world: World, hub: Hub) -> None:
    hub.report_for(2 * KEEP_S, reads=1)

    assert len(_running(world)) == 1


def test_pool_in_which_nothing_is_stored_ends_at_once(world: World, hub: Hub) -> None:
    hub.leave()
    world.members.store("pool-3", 0)

    ended = _ended(world, within_s=2 * LOOK_S)

    assert "nothing was stored" in ended["output"]


def test_hub_reads_again_after_the_end_and_the_pool_is_kept_again(world: World, hub: Hub) -> None:
    former = _rows(world).state.execution_name
    _ended(world)

    hub.store("pool-3")
    hub.report()

    assert _running(world) != [former]
    assert len(_running(world)) == 1
