"""Pool reports of hubs, each counted once: reads, members met, members reclaimed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.items import to_plain, to_values
from burstcache.adapters.pool_table import PoolRows, PoolTable
from burstcache.control.pool_rounds import _invoke_all
from burstcache.core.errors import FunctionFailedError, InvalidSettingError, ServiceTransientError
from burstcache.core.messages.pool import MemberState
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.retention import NO_TOTALS, REPORT_S, PoolChoice
from burstcache.core.pool.slices import Redundancy
from burstcache.core.table import hub_item
from support.clock import ManualClock
from support.functions import POOL_MEMBERS
from support.reporting_hub import Hub, hub_in_use, rows_of
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


def test_hub_learns_members_and_code_at_its_start(world: World) -> None:
    plan = Hub(world).report()

    assert plan["members"] == [f"pool-{number}" for number in range(POOL_MEMBERS)]
    assert plan["redundancy"]["data"] + plan["redundancy"]["parity"] <= POOL_MEMBERS
    assert (plan["former"], plan["hubs"], plan["report_s"]) == ([], [], REPORT_S)


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


@pytest.mark.parametrize("has_left", [False, True])
def test_the_row_of_a_hub_is_dynamodbs_to_delete_a_day_later(world: World, has_left: bool) -> None:
    hub, table = Hub(world), world.pool.table
    hub.report()
    if has_left:
        hub.leave()

    key = to_values(hub_item(hub.address["id"]))
    row = to_plain(table.client.get_item(TableName=table.table_name, Key=key)["Item"])

    assert row["expires_at"] == world.clock.now_us() // US_PER_S + 24 * 3600


def _requests(world: World) -> int:
    rows = rows_of(world)
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

    assert [each.address["id"] for each in rows_of(world).hubs] == ["hub-1"]
    assert _requests(world) == other.totals["requests"] == 31


def test_what_a_hub_saw_that_has_left_outlives_a_round_that_fails(
    world: World, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, fails = Hub(world, "hub-2"), iter([ServiceTransientError("busy", code="InternalServerError")])
    finish_round = PoolTable.finish_round

    def fails_first(*args: Any) -> None:
        for error in fails:
            raise error
        finish_round(*args)

    monkeypatch.setattr(PoolTable, "finish_round", fails_first)
    other.totals["requests"] = 10
    other.report()
    other.leave()
    with pytest.raises(ServiceTransientError):
        hub.report_for(2 * REPORT_S)

    assert _requests(world) == 10
    hub.report_for(2 * REPORT_S)

    assert [each.address["id"] for each in rows_of(world).hubs] == ["hub-1"]
    assert _requests(world) == 10


def test_a_round_asks_nobody_when_silent_members_have_taken_its_time(world: World) -> None:
    clock, asked = ManualClock(), list[str]()

    def warm(name: str) -> MemberState:
        asked.append(name)
        clock.sleep(20)
        raise FunctionFailedError("silent")

    answers = _invoke_all(replace(world.pool, clock=clock, warm=warm), [f"pool-{number}" for number in range(400)])

    assert answers == [None] * 400
    assert 0 < len(asked) < 100


def test_pool_control_counts_what_it_is_billed_for(world: World, hub: Hub) -> None:
    with world.pool.billed.invocation():
        world.clock.sleep(0.5)
    hub.report_for(120)

    rows = rows_of(world)
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
        ({"totals": {"hits": True}}, "totals of hub hub-1"),
        ({"used": {"pool-1": 7}}, "used members of hub hub-1"),
    ],
    ids=["id", "token", "port", "negative", "boolean", "used"],
)
def test_report_that_is_not_accepted_says_what_is(world: World, change: dict[str, Any], named: str) -> None:
    event: dict[str, Any] = {"op": "hub", "hub": Hub(world).address, "totals": {**NO_TOTALS}, "used": {}}
    for part, values in change.items():
        event[part] = {**event[part], **values}

    with pytest.raises(InvalidSettingError, match=named):
        world.invoke("pool_control", event)

    assert rows_of(world).hubs == ()


def test_reclaims_are_counted_once_each(world: World, hub: Hub) -> None:
    world.members.reclaim("pool-1", "pool-2")
    hub.report_for(180, reads=1)
    world.members.reclaim("pool-3")
    hub.report_for(180, reads=1)

    reclaims = rows_of(world).reclaims
    assert [count for _, count in reclaims.recent] == [2, 1]
    assert reclaims.per_minute * reclaims.watched_minutes == pytest.approx(3)


def test_reclaims_of_members_in_use_are_counted_by_what_hubs_report(world: World, hub: Hub) -> None:
    known = world.members.environment("pool-3")["environment"]
    world.members.invoked.clear()
    for environment in (known, known, "copy", known, "third"):
        hub.read()
        world.clock.sleep(REPORT_S)
        hub.report({"pool-3": environment})
    world.clock.sleep(1)

    assert "pool-3" not in world.members.invoked
    assert [count for _, count in rows_of(world).reclaims.recent] == [1]


@pytest.mark.slow
def test_environment_that_a_hub_met_long_ago_is_no_news(world: World, hub: Hub) -> None:
    world.clock.sleep(REPORT_S)
    hub.report({"pool-3": world.members.environment("pool-3")["environment"]})
    for _ in range(2):
        world.members.reclaim("pool-3")
        hub.report_for(3 * REPORT_S, reads=1)
    hub.report_for(3 * REPORT_S, reads=1)

    assert [count for _, count in rows_of(world).reclaims.recent] == [1, 1]


def test_environment_with_chunks_is_a_copy_and_no_reclaim(world: World, hub: Hub) -> None:
    world.members.reclaim("pool-3")
    world.members.store("pool-3", _MB)

    hub.report_for(180, reads=1)

    assert rows_of(world).reclaims.per_minute == 0


def test_copy_of_a_member_that_answers_again_is_no_reclaim(world: World, hub: Hub) -> None:
    source = world.members.environment("pool-5")
    for environment in ("another", source["environment"], "another"):
        source["environment"] = environment
        source["chunks"] = int(environment == "another")
        hub.report_for(60, reads=1)
    world.clock.sleep(1)

    assert rows_of(world).reclaims.per_minute == 0


@pytest.mark.slow
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
    choice = rows_of(world).state.choice
    assert choice is not None
    assert choice.reasons


def test_a_choice_that_returns_to_a_former_code_names_it_once() -> None:
    one, other = Redundancy(10, 2), Redundancy(10, 4)
    choice = PoolChoice(one)
    for redundancy in (other, one, other):
        choice = PoolChoice(redundancy).after(choice)

    assert (choice.redundancy, choice.former) == (other, (one,))
