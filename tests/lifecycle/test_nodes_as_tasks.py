"""A node that runs as a task on Fargate: its boot and end by ECS's events, its interruptions, and lost events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.redis_objects import ATTENDED, RedisObjects, object_key
from burstcache.core.digest import FORGOTTEN_S, Route
from burstcache.core.errors import NodeFailedError, RedisDownError, ServiceTransientError
from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from support.functions import NODE
from support.interruptions import after
from support.memory_ecs import NO_CAPACITY, Task
from support.policies import BY_USE, policy_named
from support.world import World

_HASH = key_hash("k")


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose node is a task on Spot, and whose machines stop at their first task."""
    return make_world(redis_on="fargate-spot")


def _task(world: World) -> Task:
    return world.ecs.tasks[-1]


def _booting(world: World) -> str:
    """Join a key to the node and run the node's task. Return the name of the waiting key's token."""
    waiter = world.joined("k")
    world.boot()
    return waiter


def _outcome_of_boot(world: World) -> Any:
    return world.outcome(f"boot-{world.node().generation}")


def _providers(world: World) -> list[str]:
    """Return the capacity providers that ECS was asked to run tasks on."""
    asked = [parameters for operation, parameters in world.ecs.calls if operation == "RunTask"]
    return [parameters["capacityProviderStrategy"][0]["capacityProvider"] for parameters in asked]


# boot


def test_a_task_that_runs_completes_the_boot_and_readers_find_it_at_its_address(world: World) -> None:
    _booting(world)
    before = world.node()

    answer = world.ecs.run(_task(world))

    assert answer["phase"] == "booting"
    assert _outcome_of_boot(world) == {}
    world.ready()
    row = world.node()
    assert (before.host, row.host, row.task, row.task_kind) == ("", "10.0.0.1", _task(world).arn, "fargate-spot")
    assert world.digest.read().nodes[NODE].host == "10.0.0.1"


def test_a_key_on_a_task_is_served_by_redis(world: World) -> None:
    world.running("k")

    assert world.read("k") == "redis"

    now_us = world.clock.now_us()
    assert world.digest.read().route(_HASH, now_us=now_us) == Route("redis", NODE, host="10.0.0.1")
    assert _providers(world) == ["FARGATE_SPOT"]


def test_a_boot_is_complete_only_once_redis_answers(world: World) -> None:
    _booting(world)
    world.servers["10.0.0.1"].kill()
    began_s = world.clock.monotonic_s()

    with pytest.raises(RedisDownError, match=r"node-1 at 10\.0\.0\.1: the task runs, but its Redis does not answer"):
        world.ecs.run(_task(world))

    assert 10 <= world.clock.monotonic_s() - began_s < 11
    world.servers["10.0.0.1"].start()
    world.ecs.post(_task(world))  # the event is delivered again
    assert _outcome_of_boot(world) == {}


def test_a_ping_says_what_the_task_runs_on_and_where(world: World) -> None:
    world.running("k")

    answer = world.invoke("redis_control", {"op": "ping", "node": NODE})

    expected = {"machine": "task", "instance": "running", "task_kind": "fargate-spot", "host": "10.0.0.1", "pong": True}
    assert answer.items() >= expected.items()


def test_a_ping_that_a_node_answers_as_it_starts_has_its_address(world: World) -> None:
    _booting(world)
    control = world.control

    def store_of_a_node_that_starts(node: str) -> RedisObjects:
        world.control = control
        world.ecs.run(_task(world))
        return control.store(node)

    world.control = replace(control, store=store_of_a_node_that_starts)
    answer = world.invoke("redis_control", {"op": "ping", "node": NODE})

    assert (answer["pong"], answer["host"]) == (True, "10.0.0.1")


@pytest.mark.parametrize("raises", [False, True])
def test_a_task_runs_on_demand_if_spot_has_no_capacity(world: World, raises: bool) -> None:
    world.ecs.full, world.ecs.raises = {"FARGATE_SPOT"}, raises

    _booting(world)

    row = world.node()
    assert _providers(world) == ["FARGATE_SPOT", "FARGATE"]
    assert (row.task, row.task_kind) == (_task(world).arn, "fargate")
    assert row.notice.startswith("fargate-spot: ")
    assert NO_CAPACITY in row.notice


@pytest.mark.parametrize(("full", "kind"), [({"FARGATE_SPOT"}, "fargate"), (set(), "fargate-spot")])
def test_a_life_says_at_its_end_what_its_node_ran_on(world: World, full: set[str], kind: str) -> None:
    """So its price is known after the node's next run, too."""
    world.ecs.full = full
    world.running("k")

    assert world.leave("k", is_failed=False)["task_kind"] == kind


def test_a_boot_without_any_capacity_fails_with_the_reason_of_ecs_and_cools_down(world: World) -> None:
    world.ecs.full = {"FARGATE_SPOT", "FARGATE"}
    waiter = world.joined("k")

    with pytest.raises(NodeFailedError, match="Capacity is unavailable"):
        world.boot()
    stopped = world.node_step("abandon_node")  # the machine catches the error

    row = world.node()
    assert stopped == {"phase": "stopped"}
    assert world.outcome(waiter) == {"error": "NodeFailedError"}
    assert (row.failures, row.is_barred(world.clock.now_us())) == (1, True)
    assert NO_CAPACITY in row.notice
    assert world.started("late").phase == "lambda"  # a cache function serves meanwhile


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("TaskFailedToStart", "CannotPullContainerError: image does not exist"),
        ("EssentialContainerExited", "Essential container in task exited"),
    ],
)
def test_a_task_that_cannot_start_fails_the_boot_with_the_reason_of_ecs(world: World, code: str, reason: str) -> None:
    waiter = _booting(world)

    world.ecs.end(_task(world), code, reason)

    assert _outcome_of_boot(world) == {"error": "NodeFailedError"}
    assert world.node().notice == f"the task of node-1 has ended: {code}: {reason}"
    assert world.node_step("abandon_node") == {"phase": "stopped"}
    assert world.outcome(waiter) == {"error": "NodeFailedError"}
    assert world.node().is_barred(world.clock.now_us())
    assert len(world.ecs.tasks) == 1


def test_an_interrupted_boot_goes_on_once_in_a_task_on_demand(world: World) -> None:
    _booting(world)
    first = _task(world)

    for _ in range(2):  # the event comes twice
        world.ecs.interrupt(first)
    world.ecs.end(first)

    assert _providers(world) == ["FARGATE_SPOT", "FARGATE"]
    row = world.node()
    assert (row.task, row.task_kind) == (_task(world).arn, "fargate")
    assert row.notice == "AWS interrupted an earlier task of this boot"
    world.ecs.run(_task(world))
    assert _outcome_of_boot(world) == {}
    assert world.node().host == "10.0.0.2"


def test_an_interrupted_boot_goes_on_on_spot_if_on_demand_has_no_capacity(world: World) -> None:
    _booting(world)
    world.ecs.full = {"FARGATE"}

    world.ecs.interrupt(_task(world))

    assert _providers(world) == ["FARGATE_SPOT", "FARGATE", "FARGATE_SPOT"]
    assert world.node().task_kind == "fargate-spot"


def test_an_interrupted_boot_without_further_capacity_fails(world: World) -> None:
    _booting(world)
    world.ecs.full = {"FARGATE_SPOT", "FARGATE"}

    world.ecs.interrupt(_task(world))

    assert _outcome_of_boot(world) == {"error": "NodeFailedError"}
    assert NO_CAPACITY in world.node().notice


def test_a_task_whose_row_was_not_written_is_found_by_the_repeated_step(world: World) -> None:
    world.joined("k")
    control = world.control

    def fail() -> None:
        raise ServiceTransientError("DynamoDB does not answer")

    world.control = replace(control, machines=replace(world.machines, tasks=after(world.tasks, "start", fail)))
    with pytest.raises(ServiceTransientError):
        world.boot()
    assert world.node().task == ""

    world.control = control
    world.node_step("boot_node", part=1, token=world.node().boot_token, execution=world.node().execution_name)

    assert world.node().task == _task(world).arn
    assert len(world.ecs.tasks) == 1


def test_an_event_that_overtakes_the_answer_to_run_task_completes_the_boot(world: World) -> None:
    waiter = world.joined("k")
    control = world.control

    def run() -> None:
        world.control = control
        world.ecs.run(_task(world))

    world.control = replace(control, machines=replace(world.machines, tasks=after(world.tasks, "start", run)))
    world.boot()
    world.ready()

    assert world.outcome(waiter) == {"generation": world.node().generation}
    assert (world.node().task, len(world.ecs.running())) == (_task(world).arn, 1)


def test_a_repeated_step_completes_its_own_token_if_the_task_runs_already(world: World) -> None:
    _booting(world)
    row = world.node()
    world.executions.fail(row.boot_token, ServiceTransientError("the first attempt is over"))
    world.ecs.run(_task(world))
    token = world.token("second-attempt")

    world.node_step("boot_node", part=1, token=token, execution=row.execution_name)

    assert world.outcome("second-attempt") == {}


def test_a_task_that_was_run_for_a_node_that_stopped_meanwhile_is_stopped(world: World) -> None:
    world.joined("k")
    control = world.control

    def abandon() -> None:
        world.control = control
        world.ecs.tasks[-1].shown["startedBy"] = "hidden"  # ECS does not list it yet
        world.node_step("abandon_node")

    world.control = replace(control, machines=replace(world.machines, tasks=after(world.tasks, "start", abandon)))
    world.boot()

    assert world.ecs.running() == []


# end


def test_the_end_of_a_run_stops_its_tasks_once_no_reader_asks_them(world: World) -> None:
    world.running("k")
    world.store.add_older_times(_HASH, [world.clock.now_us()])
    world.check()
    began_s = world.clock.monotonic_s()
    phases: list[str] = []
    world.ecs.stopped = lambda _: phases.append(f"{world.node().phase} {world.clock.monotonic_s() - began_s:g}")

    over = world.node_step("stop_node")

    assert over["phase"] == "stopped"
    assert phases == [f"stopping {FORGOTTEN_S:g}"]
    assert world.ecs.end(_task(world)) == {"phase": "stopped"}
    assert world.machine_state() == "stopped"


def test_a_write_while_readers_may_still_ask_a_stopping_task_reaches_it(world: World) -> None:
    """Otherwise a reader with an older digest would read the former object after the write was answered."""
    world.running("k")
    control, seen = world.control, []

    def write() -> None:
        world.put_object("k", b"new")
        world.written("k")
        seen.append(world.servers["10.0.0.1"].client.hget(object_key(_HASH), "body"))

    world.control = replace(control, digest=after(world.digest, "show_node", write))
    world.node_step("abandon_node")

    assert seen == [b"new"]
    assert world.node().phase == "stopped"


def test_an_interrupted_node_is_lost_at_the_notice_and_reads_go_on_below(world: World) -> None:
    name = world.running("k")
    assert world.read("k") == "redis"

    world.ecs.interrupt(_task(world))

    assert world.outcome(name) == {"outcome": "node_lost"}
    row = world.node()
    assert (row.phase, row.notice) == ("stopped", "SpotInterruption: Your Spot Task was interrupted.")
    assert row.lost_by == f"its task ended: {row.notice}"
    assert not world.digest.read().nodes[NODE].is_running
    assert world.read("k") == "s3"
    assert not row.is_barred(world.clock.now_us())


def test_a_lease_that_is_taken_during_an_interruption_boots_the_next_run_at_once(world: World) -> None:
    world.running("k")
    first, generation = _task(world), world.node().generation
    world.started("late")
    control = world.control

    def join_late() -> None:
        world.control = control
        world.join("late")

    world.control = replace(control, machines=replace(world.machines, tasks=after(world.tasks, "stop", join_late)))
    answer = world.ecs.interrupt(first)

    assert answer["phase"] == "booting"
    assert world.node().generation > generation
    world.control = control
    world.boot()
    world.ecs.run(_task(world))
    world.ready()
    assert world.outcome(f"join-{key_hash('late')}") == {"generation": world.node().generation}
    assert world.ecs.end(first) == {"phase": "running"}  # the former task's end comes late
    assert world.digest.read().nodes[NODE].host == "10.0.0.2"


def test_a_reader_reads_nothing_old_from_the_task_of_a_former_run(world: World) -> None:
    world.running("k")
    world.read("k")
    world.ecs.interrupt(_task(world))
    world.put_object("k", b"new")
    world.written("k")

    assert world.answer("k")["headers"]["x-cache-tier"] == "s3"

    former: Any = world.servers["10.0.0.1"].client.hget(object_key(_HASH), "body")
    assert former == b"body"  # it goes on until its end, with what it had


def test_an_always_on_node_boots_again_after_an_interruption(world: World) -> None:
    world.control = replace(world.control, always_on=[NODE])
    world.running("k")

    assert world.ecs.interrupt(_task(world))["phase"] == "booting"


def test_an_interruption_while_the_node_gets_ready_ends_the_run(world: World) -> None:
    _booting(world)
    world.ecs.run(_task(world))  # the boot is complete, and NodeReady comes next

    world.ecs.interrupt(_task(world))

    assert world.node().phase == "stopped"
    plan = world.ready()
    assert world.node_step("check_node", part=1, check_at_us=plan["check_at_us"], checks=0)["outcome"] == "unused"


def test_events_of_other_runs_other_tasks_and_other_services_change_nothing(world: World) -> None:
    world.running("k")
    before, shown = world.node(), _task(world).shown
    ended = shown | {"lastStatus": "STOPPED", "desiredStatus": "STOPPED", "stopCode": "SpotInterruption"}

    answers = [
        world.task_changed(ended | {"startedBy": f"{NODE}/{before.generation - 1}"}),
        world.task_changed(ended | {"taskArn": "arn:aws:ecs:eu-central-1:123456789012:task/nodes/another"}),
        world.task_changed(ended | {"startedBy": "ecs-svc/1234"}),
        world.task_changed({name: value for name, value in ended.items() if name != "startedBy"}),
    ]

    assert answers == [{"phase": "running"}, {"phase": "running"}, {}, {}]
    assert world.node() == before


def test_events_that_come_twice_and_in_another_order_change_nothing_more(world: World) -> None:
    _booting(world)
    task = _task(world)
    running = task.shown | {"lastStatus": "RUNNING"}
    world.ecs.run(task)
    world.ready()
    row = world.node()

    world.task_changed(running)
    world.task_changed(running | {"lastStatus": "PENDING", "attachments": []})

    assert world.node() == row
    world.ecs.interrupt(task)
    world.task_changed(running)
    assert world.node().phase == "stopped"


def test_a_node_that_does_not_drop_a_copy_stops_with_the_end_of_its_task(world: World) -> None:
    world.running("k")
    world.redis.kill()
    world.put_object("k", b"new")

    world.written("k")

    assert (world.node().phase, world.ecs.running()) == ("stopping", [])
    assert world.ecs.end(_task(world)) == {"phase": "stopped"}


# the janitor


def test_the_janitor_makes_up_for_a_lost_event_of_a_task_that_runs(world: World) -> None:
    _booting(world)
    world.ecs.deliver = None
    world.ecs.run(_task(world))

    assert world.clean()["nodes"] == []

    assert _outcome_of_boot(world) == {}


def test_the_janitor_makes_up_for_a_lost_event_of_a_boot_that_failed(world: World) -> None:
    _booting(world)
    world.ecs.deliver = None
    world.ecs.end(_task(world), "TaskFailedToStart", "CannotPullContainerError")

    world.clean()

    assert _outcome_of_boot(world) == {"error": "NodeFailedError"}


def test_the_janitor_makes_up_for_a_lost_event_of_an_interruption(world: World) -> None:
    name = world.running("k")
    world.ecs.deliver = None
    world.ecs.interrupt(_task(world))
    began_s = world.clock.monotonic_s()

    assert world.clean()["nodes"] == [NODE]

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.node().phase == "stopped"
    assert world.clock.monotonic_s() - began_s >= 5 + FORGOTTEN_S  # two looks, then until no reader asks the task


def test_the_janitor_stops_a_task_whose_execution_died(world: World) -> None:
    name = world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")

    assert world.clean()["nodes"] == [NODE]

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert (world.node().phase, world.ecs.running()) == ("stopped", [])


def test_the_janitor_stops_a_task_of_a_stopped_node(world: World) -> None:
    world.running("k")
    world.node_step("abandon_node")
    _task(world).shown["desiredStatus"] = "RUNNING"

    assert world.clean()["nodes"] == [NODE]

    assert world.ecs.running() == []


def test_the_janitor_spares_a_task_that_ecs_does_not_know_yet(world: World) -> None:
    _booting(world)
    _task(world).is_known = False

    assert world.clean()["nodes"] == []

    assert len(world.ecs.running()) == 1
    world.clock.sleep(60)
    world.clean()
    assert _outcome_of_boot(world) == {"error": "NodeFailedError"}


def test_the_janitor_keeps_a_running_task_from_ending_itself(world: World) -> None:
    world.running("k")
    client: Any = world.redis.client
    channel = client.pubsub()
    channel.subscribe(ATTENDED)

    world.clean()

    kinds = [message["type"] for message in (channel.get_message() for _ in range(2)) if message]
    assert kinds == ["subscribe", "message"]
    assert world.node().attended_at_us == world.clock.now_us()


def test_a_redis_that_does_not_answer_keeps_nothing_else_from_being_cleaned(world: World) -> None:
    world.running("k")
    world.redis.kill()

    assert world.clean() == {"keys": [], "nodes": [], "paused": []}

    assert world.node().phase == "running"  # its next check ends the run


def test_an_always_on_node_that_found_no_capacity_boots_again_by_the_janitor(world: World) -> None:
    world.control = replace(world.control, always_on=[NODE])
    world.janitor = replace(world.janitor, always_on=[NODE])
    world.ecs.full = {"FARGATE_SPOT", "FARGATE"}
    world.joined("k")
    with pytest.raises(NodeFailedError):
        world.boot()
    assert world.node_step("abandon_node") == {"phase": "stopped"}

    world.clean()

    assert world.node().phase == "booting"


# whole lives


def test_a_whole_life_on_a_task_ends_with_nothing_left_running(make_world: Callable[..., World]) -> None:
    world = make_world(runs_machines=True, redis_on="fargate-spot")
    world.put_object("k")
    world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 60})
    world.clock.sleep(30)
    assert (world.node().phase, world.node().host) == ("running", "10.0.0.1")

    world.clock.sleep(600)

    assert (world.node().phase, world.ecs.running()) == ("stopped", [])
    assert world.executions.running(world.node_machine) == frozenset()


def test_a_held_node_whose_tasks_are_interrupted_again_and_again_runs_again_each_time(
    make_world: Callable[..., World],
) -> None:
    world = make_world(runs_machines=True, redis_on="fargate-spot")
    world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 600})
    for count in (1, 2, 3):
        world.clock.sleep(30)
        assert (world.node().phase, len(world.ecs.tasks)) == ("running", count)
        world.ecs.interrupt(_task(world))
        world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 600 if count < 3 else 1})

    world.clock.sleep(900)

    assert (world.node().phase, world.ecs.running()) == ("stopped", [])
    assert world.node().ready_at_us < world.clock.now_us() - 600 * US_PER_S


@pytest.mark.parametrize("name", BY_USE)
@pytest.mark.parametrize("has_spot", [True, False])
def test_a_node_on_demand_in_place_of_spot_stops_sooner_as_it_costs_more(
    name: str, has_spot: bool, make_world: Callable[..., World]
) -> None:
    policy = policy_named(name, node_type="fargate-spot:2GB")
    world = make_world(policy=policy, has_relay=False, runs_machines=True, redis_on="fargate-spot")
    world.ecs.full = set() if has_spot else {"FARGATE_SPOT"}
    world.put_object("k")
    while world.node().phase == "stopped":
        world.clock.sleep(1)
        world.read("k")
    world.until(lambda: world.node().phase == "running", within_s=120)
    for _ in range(20):
        world.clock.sleep(2)
        world.read("k")
    last_us = world.clock.now_us()

    world.until(lambda: world.node().phase != "running", within_s=3600, every_s=5)

    ran_s = (world.clock.now_us() - last_us) / US_PER_S
    assert (ran_s > 85) == has_spot  # by the same requests
