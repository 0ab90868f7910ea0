"""The entries of `docs/understand/lifecycle.md`, "Interleavings", that are about nodes and their keys, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from burstcache.adapters.instances import Instances
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import RedisDownError, ServiceError, SupersededError
from burstcache.core.keys import key_hash
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.core.policy import CHECKS_PER_PART
from burstcache.core.rows import Lease
from burstcache.core.table import NodeColumns
from support.faults import Died, DyingExecutions, RefusingExecutions
from support.functions import NODE
from support.interruptions import after
from support.world import World

_S = 1_000_000

# The stop of a task is complete at once. `test_nodes_as_tasks.py` has its interleavings.
on_ec2 = pytest.mark.parametrize("world", ["ec2"], indirect=True)


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines stop at their first task, once with the node on EC2 and once as a task."""
    return make_world(redis_on=request.param)


def test_janitor_stops_a_node_whose_execution_died(world: World) -> None:
    name = world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")

    assert world.clean()["nodes"] == [NODE]

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.stopped() == {"phase": "stopped"}
    assert world.machine_state() == "stopped"


def test_join_against_node_ready(world: World) -> None:
    waiter = world.joined("k")
    world.started("late")
    control = world.control

    def join_late() -> None:
        world.control = control
        world.join("late")

    world.control = replace(control, nodes=after(world.nodes, "change", join_late))  # the row says `running` by then
    world.ready()

    generation = world.node().generation
    assert world.outcome(f"join-{key_hash('late')}") == {"generation": generation}
    assert world.outcome(waiter) == {"generation": generation}


def test_abandonment_against_node_ready(world: World) -> None:
    waiter = world.joined("k")
    world.boot()
    control = world.control

    def get_ready() -> None:
        world.control = control
        world.ready()

    world.control = replace(control, nodes=after(world.nodes, "read", get_ready))  # a person stops a node that boots
    world.node_step("abandon_node")

    assert world.outcome(waiter) == {"generation": world.node().generation}
    assert world.stopped() == {"phase": "stopped"}
    assert world.machine_state() == "stopped"
    assert world.nodes.leases(NODE) == []
    assert not world.digest.read().nodes[NODE].is_running


def test_node_becomes_ready_twice(world: World) -> None:
    waiter = world.joined("k")

    plans = [world.ready() for _ in range(2)]

    assert plans[0] == plans[1]
    assert world.outcome(waiter) == {"generation": world.node().generation}


def test_join_against_the_last_keys_idle(world: World) -> None:
    name = world.running("k")
    world.store.add_older_times(key_hash("k"), [world.clock.now_us()])
    seen = world.node()
    world.started("late")
    control = world.control

    def join_late() -> None:
        world.control = control
        world.join("late")

    world.control = replace(control, nodes=after(world.nodes, "leases", join_late))  # the check does not see it
    plan = world.check()

    assert int(plan["check_at_us"]) > world.clock.now_us()
    assert world.node().phase == "running"
    assert world.outcome(name)["outcome"] == "idle"
    assert world.outcome(f"join-{key_hash('late')}") == {"generation": seen.generation}


@on_ec2
def test_last_keys_idle_stops_the_node(world: World) -> None:
    name = world.running("k")
    world.store.add_older_times(key_hash("k"), [world.clock.now_us()])

    assert world.check() == {"outcome": "unused", "ended": "nobody used it any more"}

    assert world.outcome(name)["outcome"] == "idle"
    assert world.node_step("stop_node")["phase"] == "stopping"
    assert world.stopped() == {"phase": "stopped"}
    assert world.machine_state() == "stopped"


@on_ec2
def test_event_of_a_stop_comes_late_or_twice(world: World) -> None:
    world.running("k")
    _stops(world)

    assert [world.stopped()["phase"] for _ in range(2)] == ["stopped", "stopped"]

    world.running("late")  # the next run
    assert world.stopped() == {"phase": "running"}
    assert world.node().phase == "running"


@on_ec2
def test_event_of_a_stop_is_lost(world: World) -> None:
    world.running("k")
    _stops(world)
    late = world.joined("late")

    assert world.clean()["nodes"] == [NODE]

    assert world.node().phase == "booting"
    world.boot()
    world.ready()
    assert world.outcome(late) == {"generation": world.node().generation}


@on_ec2
def test_instance_that_still_stops_is_started_once_it_has_stopped(world: World) -> None:
    world.joined("k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Instances, "start", lambda *_, **__: NodeColumns())  # what EC2 does with one that stops
        world.boot()
    assert world.machine_state() == "stopped"

    assert world.stopped()["phase"] == "booting"

    assert world.machine_state() == "running"


@on_ec2
def test_instance_stops_by_itself_while_the_node_runs(world: World) -> None:
    name = world.running("k")
    generation = world.node().generation
    world.instances.stop(world.nodes.read(NODE))

    assert world.stopped() == {"phase": "stopped"}

    assert (world.node().lost_at_us, world.node().lost_by) == (world.clock.now_us(), "its machine stopped")
    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.node_step("check_node", generation, part=1, check_at_us="0", checks=0)["outcome"] == "unused"


def test_run_whose_history_is_full_goes_on_in_its_next_part(world: World) -> None:
    world.running("k")
    first = world.node()

    over = world.node_step("check_node", part=1, check_at_us=str(world.clock.now_us()), checks=CHECKS_PER_PART - 1)

    assert over["outcome"] == "superseded"
    assert "goes on in part 2" in over["ended"]

    second = world.node()
    assert (second.generation, second.part) == (first.generation, 2)
    assert second.execution_name in world.executions_of(world.node_machine)
    world.boot()
    assert world.ready()["checks"] == 0


def test_a_run_whose_checks_are_far_apart_goes_on_in_its_next_part_before_its_year_is_over(world: World) -> None:
    world.running("k")
    at_us = world.clock.now_us()
    in_a_day_us = at_us + 24 * 3600 * 1_000_000
    world.store.note({key_hash("k"): [in_a_day_us - world.parameters.redis_utilization_us] * QUEUE_LENGTH})

    plan = world.node_step("check_node", part=1, check_at_us=str(at_us), checks=0)

    assert int(plan["check_at_us"]) > in_a_day_us
    assert 365 > CHECKS_PER_PART / plan["checks"] > 250  # days, if each check waits for one


def test_run_that_dies_while_it_hands_over_is_taken_up_by_a_repeat(world: World) -> None:
    world.running("k")
    working, world.control = world.control, replace(world.control, executions=RefusingExecutions(world.states_client))
    step = functools.partial(world.node_step, "check_node", part=1, check_at_us=str(world.clock.now_us()))
    with pytest.raises(ServiceError, match="slow down"):
        step(checks=CHECKS_PER_PART - 1)

    world.control = working
    assert step(checks=CHECKS_PER_PART - 1)["outcome"] == "superseded"

    assert world.node().execution_name in world.executions_of(world.node_machine)


def _stops(world: World) -> None:
    """Let the node be unused, up to where EC2 tells that its instance has stopped."""
    assert world.check()["outcome"] == "unused"
    world.node_step("stop_node")


@on_ec2
def test_join_while_stopping_boots_the_node_again(world: World) -> None:
    world.running("k")
    _stops(world)
    stopping = world.node()
    assert stopping.phase == "stopping"
    late = world.joined("late")
    assert world.node().phase == "stopping"

    assert world.stopped()["phase"] == "booting"

    row = world.node()
    assert row.generation > stopping.generation
    assert row.execution_name in world.executions_of(world.node_machine)
    world.boot()
    world.ready()
    assert world.outcome(late) == {"generation": row.generation}


@on_ec2
def test_key_that_gets_hot_while_the_node_stops_enters_restricted(world: World) -> None:
    world.running("k")
    _stops(world)

    assert world.started("late").phase == "restricted_lambda"


def test_key_that_gets_hot_while_the_node_runs_goes_straight_to_redis(world: World) -> None:
    world.running("k")

    row = world.started("late")

    assert (row.entry, row.phase) == ("redis", "redis_bootup")


def test_first_joiner_dies_before_start_execution(world: World) -> None:
    world.started("k")
    working, world.control = world.control, replace(world.control, executions=DyingExecutions(world.states_client))
    with pytest.raises(Died):
        world.join("k")
    row = world.node()
    assert (row.phase, world.executions_of(world.node_machine)) == ("booting", [])

    world.control = working
    world.joined("second")

    assert world.executions_of(world.node_machine) == [row.execution_name]


@pytest.mark.parametrize("has_booted_before", [False, True])
def test_boot_that_is_refused_leaves_the_node_as_it_was(world: World, has_booted_before: bool) -> None:
    if has_booted_before:
        world.running("former")
        _stops(world)
        world.stopped()
    world.started("k")
    working, world.control = world.control, replace(world.control, executions=RefusingExecutions(world.states_client))

    with pytest.raises(ServiceError, match="slow down"):
        world.join("k")

    assert world.node().phase == "stopped"
    world.control = working
    world.join("k")
    assert world.node().phase == "booting"
    assert world.node().execution_name in world.executions_of(world.node_machine)


@on_ec2
def test_boot_that_is_refused_after_a_stop_is_tried_again(world: World) -> None:
    world.running("k")
    _stops(world)
    late = world.joined("late")
    working, world.control = world.control, replace(world.control, executions=RefusingExecutions(world.states_client))
    with pytest.raises(ServiceError, match="slow down"):
        world.stopped()

    world.control = working
    assert world.stopped()["phase"] == "booting"

    world.boot()
    world.ready()
    assert world.outcome(late) == {"generation": world.node().generation}


def test_dead_boot_is_taken_over_with_a_new_generation_after_its_deadline(world: World) -> None:
    world.joined("k")
    row = world.node()
    world.executions.stop(world.node_machine, row.execution_name, cause="test")
    world.clock.sleep_until(row.deadline_at_us + 1)

    world.joined("second")

    assert world.node().generation > row.generation
    assert world.executions_of(world.node_machine) == [world.node().execution_name]


def test_all_leave_during_boot(world: World) -> None:
    world.joined("k")
    world.leave("k", is_failed=True)

    plan = world.ready()

    assert int(plan["check_at_us"]) == world.clock.now_us()  # which ends the run
    assert world.check()["outcome"] == "unused"
    assert world.node_step("stop_node")["phase"] == "stopped"  # the instance has never started: EC2 tells nothing


def test_node_dies_while_routed(world: World) -> None:
    name = world.running("k")
    world.redis.kill()

    assert world.check() == {"outcome": "unused", "ended": "its Redis did not answer any more"}

    assert world.node().lost_by == "its Redis did not answer a check"
    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.node().phase == "stopping"
    world.leave("k", is_failed=False)
    assert world.row("k").phase == "s3"


def test_node_that_is_slow_once_is_asked_again_and_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.running("k")
    ask, refusals = RedisObjects.queues, [RedisDownError("slow")]

    def slow_once(store: RedisObjects, hashes: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        if refusals:
            raise refusals.pop()
        return ask(store, hashes)

    monkeypatch.setattr(RedisObjects, "queues", slow_once)

    assert world.check(at_us=world.clock.now_us())["checks"] == 1
    assert world.node().phase == "running"


@on_ec2
def test_node_never_answers(world: World) -> None:
    waiter = world.joined("k")
    world.boot()

    assert world.node_step("abandon_node") == {"phase": "stopping"}  # the task of the boot has timed out
    assert world.stopped() == {"phase": "stopped"}

    assert world.outcome(waiter) == {"error": "NodeFailedError"}
    assert world.node().phase == "stopped"
    assert world.machine_state() == "stopped"


@on_ec2
def test_a_hold_that_comes_while_a_node_stops_after_a_failed_boot_boots_it(world: World) -> None:
    """A person's attempt is barred by no cool-down, and is answered at once, long before the instance has stopped."""
    world.joined("k")
    world.boot()
    world.node_step("abandon_node")

    held = world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 600})

    assert held["phase"] == "stopping"
    assert world.stopped()["phase"] == "booting"
    assert world.node().is_held(world.clock.now_us())
    world.boot()
    world.node_step("abandon_node")  # nor does its hold boot it again and again
    assert world.stopped() == {"phase": "stopped"}


def test_a_hold_that_comes_while_a_node_is_stopped_by_hand_boots_it_again(world: World) -> None:
    world.running("k")
    control = world.control

    def hold() -> None:
        world.control = control
        world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 600})

    hold()
    world.clock.sleep(1)
    world.control = replace(control, nodes=after(world.nodes, "change", hold))  # the row says `stopping` by then
    world.invoke("redis_control", {"op": "release", "node": NODE})
    if world.node().phase == "stopping":  # an instance is off later, and a task at once
        world.stopped()

    assert world.node().phase == "booting"
    assert world.node().is_held(world.clock.now_us())


def test_lease_of_a_dead_key_is_dropped_at_the_next_check(world: World) -> None:
    world.running("k")
    world.nodes.join(Lease(NODE, key_hash("dead"), "dead", epoch=7, running="gone"))

    world.check(at_us=world.clock.now_us())

    assert [lease.key for lease in world.nodes.leases(NODE)] == ["k"]


def test_evicted_entry_is_kept_for_one_check_only(world: World) -> None:
    name = world.running("k")
    world.store.remove(key_hash("k"))

    assert world.check(at_us=world.clock.now_us())["checks"] == 1
    assert world.check(at_us=world.clock.now_us())["outcome"] == "unused"

    assert world.outcome(name)["outcome"] == "idle"


def test_step_of_an_old_generation_touches_nothing(world: World) -> None:
    world.running("k")

    with pytest.raises(SupersededError, match="is over"):
        world.node_step("abandon_node", world.node().generation - 1)

    assert world.node().phase == "running"
