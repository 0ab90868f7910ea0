"""Databases of state on a virtual clock: who holds one keeps it awake, and it is saved before its node stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError, LeaseLostError, NodeAbsentError, NodeFailedError, PausedError
from support.functions import GRACE_S
from support.interruptions import after
from support.world import World

_NODE = "state-orders"


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(make_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    """A world with a database, whose machines run as they are deployed."""
    return make_world(runs_machines=True, databases=["orders"], state_on=request.param)


def _ask(world: World, op: str, holder: str = "one", **more: Any) -> Any:
    seconds = {} if op == "release" else {"for_s": 60}
    return world.invoke("state", {"op": op, "database": "orders", "holder": holder, **seconds, **more})


def _phase(world: World) -> str:
    return world.nodes.read(_NODE).phase


def _held(world: World, holder: str = "one", **more: Any) -> None:
    """Let a holder acquire the database, and wait until it is awake."""
    _ask(world, "acquire", holder, **more)
    world.until(lambda: _phase(world) == "running")


def _asleep_after_s(world: World, every_s: float = 5) -> float:
    began_us = world.clock.now_us()
    world.until(
        lambda: _phase(world) == "stopped" and world.machine_state(_NODE) == "stopped",
        every_s=every_s,
    )
    return (world.clock.now_us() - began_us) / 1e6


def test_a_holder_wakes_a_database_up_and_it_falls_asleep_after_the_grace(world: World) -> None:
    _held(world)
    _ask(world, "release")

    after_s = _asleep_after_s(world)

    assert GRACE_S < after_s < GRACE_S + 90  # a look a minute, a save, a stop
    assert world.nodes.leases(_NODE) == []
    assert world.executions_of(world.node_machine, "SUCCEEDED") == [world.nodes.read(_NODE).execution_name]


def test_a_database_is_awake_as_long_as_one_of_its_holders_keeps_it(world: World) -> None:
    _held(world)
    _ask(world, "acquire", "two")
    _ask(world, "release", "two")

    for _ in range(6):
        world.clock.sleep(45)
        assert _ask(world, "keep")["phase"] == "running"


def test_a_holder_that_dies_lets_go_when_its_lease_runs_out(world: World) -> None:
    _held(world)

    assert _asleep_after_s(world) < 60 + 90


def test_a_lease_that_has_run_out_is_not_extended(world: World) -> None:
    _held(world)
    world.clock.sleep(61)

    with pytest.raises(LeaseLostError, match="one does not hold database 'orders' any more"):
        _ask(world, "keep")


@pytest.mark.parametrize("how", ["acquire", "keep"])
def test_a_lease_that_is_put_or_extended_while_a_look_finds_it_run_out_keeps_the_node_on(
    world: World, how: str
) -> None:
    _held(world)
    [lease] = world.nodes.leases(_NODE)
    control, held = world.control, []

    def look() -> None:
        if world.clock.now_us() < lease.held_until_us:
            interrupt()
        elif how == "acquire":
            held.append(_ask(world, "acquire"))
        else:  # by a clock that is behind
            until_us = world.clock.now_us() + 60_000_000
            held.append(world.nodes.extend(lease, held_until_us=until_us, now_us=lease.held_until_us - 1))

    def interrupt() -> None:
        world.control = replace(control, nodes=after(world.nodes, "leases", look))

    interrupt()
    world.until(lambda: bool(held), every_s=1)
    world.clock.sleep(20)

    assert _ask(world, "keep")["phase"] == "running"


def test_the_next_holder_within_the_grace_finds_it_awake(world: World) -> None:
    _held(world)
    generation = world.nodes.read(_NODE).generation
    _ask(world, "release")
    world.clock.sleep(GRACE_S - 5)

    assert _ask(world, "acquire", "two")["phase"] == "running"
    world.clock.sleep(50)
    assert (_phase(world), world.nodes.read(_NODE).generation) == ("running", generation)


def test_two_holders_at_once_start_one_run(world: World) -> None:
    _ask(world, "acquire", "one")
    _ask(world, "acquire", "two")
    world.until(lambda: _phase(world) == "running")

    assert len(world.executions_of(world.node_machine)) == 1
    assert {lease.hash for lease in world.nodes.leases(_NODE)} == {"one", "two"}


def test_a_workflow_waits_with_its_token(world: World) -> None:
    _ask(world, "acquire", token=world.token("cold"))
    world.until(lambda: _phase(world) == "running")
    _ask(world, "acquire", "two", token=world.token("warm"))

    generation = {"generation": world.nodes.read(_NODE).generation}
    assert (world.outcome("cold"), world.outcome("warm")) == (generation, generation)


def test_it_is_saved_before_its_instance_stops(world: World) -> None:
    world.can_save = False
    _held(world)
    _ask(world, "release")
    world.until(lambda: world.nodes.read(_NODE).save_token, every_s=1)
    world.clock.sleep(300)
    assert (world.machine_state(_NODE), _phase(world)) == ("running", "stopping")

    world.can_save = True

    assert _asleep_after_s(world) < 30


@pytest.mark.slow
def test_a_database_that_cannot_be_saved_stops_after_ten_minutes_as_a_failure(world: World) -> None:
    world.can_save = False
    _held(world)
    _ask(world, "release")
    world.until(lambda: world.nodes.read(_NODE).save_token, every_s=1)

    assert 600 < _asleep_after_s(world, every_s=30) < 700
    assert world.executions_of(world.node_machine, "FAILED") == [world.nodes.read(_NODE).execution_name]


def test_the_janitor_leaves_a_database_alone_that_is_being_saved(world: World) -> None:
    world.can_save = False
    _held(world)
    _ask(world, "release")
    world.until(lambda: world.nodes.read(_NODE).save_token, every_s=1)

    world.clock.sleep(500)

    assert world.clean()["nodes"] == []
    assert world.machine_state(_NODE) == "running"


@pytest.mark.parametrize("world", ["ec2"], indirect=True)  # a task has its StopTimeout in any case
def test_a_database_whose_save_a_person_ends_is_stopped_and_not_killed(world: World) -> None:
    forced: list[bool] = []

    def note(params: dict[str, Any], **_: object) -> None:
        forced.append(params["Force"])

    world.can_save = False
    _held(world)
    _ask(world, "release")
    world.until(lambda: world.nodes.read(_NODE).save_token, every_s=1)
    world.clients.ec2.meta.events.register("provide-client-params.ec2.StopInstances", note)
    world.executions.stop(world.node_machine, world.nodes.read(_NODE).execution_name, cause="by hand")

    assert world.clean()["nodes"] == [_NODE]
    world.invoke("redis_control", {"op": "release", "node": _NODE})

    world.clients.ec2.meta.events.unregister("provide-client-params.ec2.StopInstances", note)
    assert forced == [False, False]


def test_a_holder_that_comes_while_it_stops_finds_it_awake_again(world: World) -> None:
    _held(world)
    former = world.nodes.read(_NODE).generation
    _ask(world, "release")
    world.until(lambda: _phase(world) == "stopping", every_s=0.5)

    _ask(world, "acquire", "two")
    world.until(lambda: _ask(world, "keep", "two")["phase"] == "running", every_s=5, acts=True)

    assert world.nodes.read(_NODE).generation > former


def test_a_holder_of_a_database_whose_instance_is_lost_learns_it(world: World) -> None:
    _held(world)
    world.machines(_NODE).stop(world.nodes.read(_NODE))
    world.until(lambda: _phase(world) == "stopped", every_s=1)

    with pytest.raises(LeaseLostError, match="its node"):
        _ask(world, "keep")


def test_a_database_that_does_not_boot_is_barred_and_its_holder_learns_it(world: World) -> None:
    world.redis.is_up = False
    _ask(world, "acquire")
    world.until(lambda: world.nodes.read(_NODE).failures, every_s=5)

    with pytest.raises(NodeFailedError, match="cools down"):
        _ask(world, "keep")
    world.until(lambda: _phase(world) == "stopped", every_s=1)
    with pytest.raises(NodeFailedError, match="cools down"):
        _ask(world, "acquire", "two")
    assert world.nodes.leases(_NODE) == []


def test_an_execution_that_dies_leaves_no_database_on(world: World) -> None:
    _held(world)
    for name in world.executions_of(world.node_machine):
        world.executions.stop(world.node_machine, name, cause="killed")
    world.clock.sleep(400)

    world.clean()

    assert _asleep_after_s(world) < 60


def test_a_clock_that_goes_back_makes_no_older_run(world: World) -> None:
    row = world.nodes.read(_NODE)
    ahead = world.clock.now_us() // 1000 + 3_600_000  # as an hour-fast clock has numbered it
    assert world.nodes.change(row, phase="stopping", generation=ahead, part=1) is not None
    assert world.nodes.change(world.nodes.read(_NODE), phase="stopped") is not None

    _held(world)

    assert world.nodes.read(_NODE).generation == ahead + 1


def test_no_key_has_its_home_on_a_database(world: World) -> None:
    _held(world)

    assert world.nodes.read(_NODE).peers == ()
    assert _NODE not in world.scheduler.node_names


def test_nothing_wakes_up_while_the_stack_is_paused(world: World) -> None:
    world.pauses.begin("the budget is spent")

    with pytest.raises(PausedError, match="state-orders does not boot"):
        _ask(world, "acquire")


@pytest.mark.parametrize(
    ("payload", "kind", "match"),
    [
        ({"database": "carts"}, NodeAbsentError, "no database 'carts'; StateDatabases has: orders"),
        ({"holder": "a b"}, InvalidSettingError, "holder 'a b': expected 1 to 256"),
        ({"holder": 1}, InvalidSettingError, "holder 1: expected 1 to 256"),
        ({"for_s": 0}, InvalidSettingError, "for_s 0: expected whole seconds from 1 to 86400"),
        ({"for_s": True}, InvalidSettingError, "for_s True: expected whole seconds from 1 to 86400"),
        ({"op": "hold"}, InvalidSettingError, "op 'hold': expected one of acquire, keep, release"),
        ({"for_s": ...}, InvalidSettingError, "acquire lacks 'for_s': expected database, holder, for_s"),
    ],
)
def test_what_is_not_accepted_is_named(
    world: World, payload: dict[str, Any], kind: type[Exception], match: str
) -> None:
    asked = {"op": "acquire", "database": "orders", "holder": "one", "for_s": 60} | payload
    event = {name: value for name, value in asked.items() if value is not ...}

    with pytest.raises(kind, match=match):
        world.invoke("state", event)
