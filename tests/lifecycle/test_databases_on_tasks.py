"""Databases of state that run as tasks on Fargate: at most one task has a database, and its end is awaited."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from burstcache.adapters.executions import execution_arn
from burstcache.core.errors import LeaseLostError, NodeFailedError
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import NodeRow
from support.functions import GRACE_S
from support.memory_ecs import Task
from support.metrics import SPOT_METER
from support.world import World

_NODE = "state-orders"


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world with a database on Spot, whose machines run as they are deployed."""
    return make_world(runs_machines=True, databases=["orders"], state_on="fargate-spot")


def _ask(world: World, op: str, holder: str = "one", **more: Any) -> Any:
    fields = {} if op == "look" else {"holder": holder} | ({} if op == "release" else {"for_s": 60})
    return world.invoke("state", {"op": op, "database": "orders", **fields, **more})


def _row(world: World) -> NodeRow:
    return world.nodes.read(_NODE)


def _held(world: World, holder: str = "one") -> Task:
    """Let a holder acquire the database, wait until it is awake, and return its task."""
    _ask(world, "acquire", holder)
    world.until(lambda: _row(world).phase == "running")
    return world.ecs.task(_row(world).task)


def _living(world: World) -> list[Task]:
    """Return the database's tasks that are not over."""
    return [task for task in world.ecs.tasks if task.shown["lastStatus"] != "STOPPED"]


def _deaf(world: World) -> None:
    """Lose every event of ECS."""
    world.ecs.deliver = None


def test_a_task_knows_its_database_and_its_run(world: World) -> None:
    _held(world)

    [asked] = [parameters for operation, parameters in world.ecs.calls if operation == "RunTask"]

    variables = [{"name": "NODE", "value": _NODE}, {"name": "RUN", "value": f"{_row(world).generation:015d}"}]
    overrides = asked["overrides"]["containerOverrides"]
    assert overrides == [{"name": name, "environment": variables} for name in ("redis", "keeper")]


def test_a_holder_gets_the_address_once_the_database_runs(world: World) -> None:
    before = _ask(world, "acquire")
    task = _held(world)

    after = _ask(world, "keep")

    assert (before["host"], after["host"], _ask(world, "look")["host"]) == ("", task.host, task.host)
    assert _ask(world, "release")["host"] == task.host


def test_a_run_costs_what_its_task_costs(world: World) -> None:
    _held(world)
    _ask(world, "release")
    world.until(lambda: _row(world).phase == "stopped")
    [name] = world.executions_of(world.node_machine, "SUCCEEDED")

    arn = execution_arn(world.node_machine, name)
    over = json.loads(world.states_client.describe_execution(executionArn=arn)["output"])

    expected = SPOT_METER.prices.node_usd(over["ran_s"] * US_PER_S)
    assert over["estimated_usd"] == pytest.approx(float(expected), abs=1e-9)


def test_a_look_takes_no_lease(world: World) -> None:
    answer = _ask(world, "look")

    assert answer == {"phase": "stopped", "held_until_us": 0, "host": ""}
    assert (world.nodes.leases(_NODE), world.ecs.tasks) == ([], [])


def test_a_stop_is_complete_only_once_the_task_is_over(world: World) -> None:
    _held(world)
    deliver, before = world.ecs.deliver, []
    assert deliver is not None

    def note(detail: dict[str, Any]) -> Any:
        before.append(_row(world).phase)
        return deliver(detail)

    world.ecs.deliver = note
    _ask(world, "release")
    world.until(lambda: _row(world).phase == "stopped")

    assert before == ["stopping"]  # at ECS's only event
    assert _living(world) == []


def test_the_janitor_completes_a_stop_whose_event_is_lost(world: World) -> None:
    _held(world)
    _ask(world, "release")
    _deaf(world)
    world.until(lambda: bool(world.ecs.tasks) and not _living(world), every_s=5)
    assert _row(world).phase == "stopping"

    world.clean()

    assert _row(world).phase == "stopped"


def test_a_holder_of_an_interrupted_database_learns_it_at_the_notice(world: World) -> None:
    task = _held(world)

    world.ecs.interrupt(task)

    assert (_row(world).phase, task.shown["lastStatus"]) == ("stopping", "RUNNING")
    assert _row(world).notice.startswith("SpotInterruption")
    with pytest.raises(LeaseLostError, match="its node"):
        _ask(world, "keep")


def test_an_interrupted_database_boots_again_only_after_the_end_of_its_task(world: World) -> None:
    task = _held(world)
    world.ecs.interrupt(task)
    _ask(world, "acquire", "two", for_s=600)
    world.clock.sleep(110)
    assert [*world.ecs.tasks] == [task]

    world.end_task(task)
    world.until(lambda: _row(world).phase == "running")

    assert _living(world) == [world.ecs.task(_row(world).task)] != [task]
    assert _ask(world, "keep", "two")["phase"] == "running"


def test_the_run_of_an_interrupted_database_does_not_fail(world: World) -> None:
    """Its task saves the database by itself, so nobody waits for SaveNode."""
    task = _held(world)
    execution = _row(world).execution_name
    world.ecs.interrupt(task)
    world.clock.sleep(70)  # the check of every minute finds the node lost
    world.end_task(task)

    world.until(lambda: world.executions_of(world.node_machine, "SUCCEEDED") == [execution])

    assert _row(world).save_token == ""


def test_a_lost_notice_is_made_up_for(world: World) -> None:
    task = _held(world)
    deliver = world.ecs.deliver
    _deaf(world)
    world.ecs.interrupt(task)
    world.ecs.deliver = deliver

    world.clean()

    assert _row(world).phase == "stopping"


def test_a_boot_that_spot_interrupts_goes_on_on_demand_after_the_end_of_its_task(world: World) -> None:
    boots, world.ecs.started = world.ecs.started, lambda _: None
    _ask(world, "acquire")
    world.until(lambda: _row(world).task)
    [task], world.ecs.started = world.ecs.tasks, boots
    world.ecs.interrupt(task)
    world.clock.sleep(10)
    assert world.ecs.tasks == [task]

    world.end_task(task)
    world.until(lambda: _row(world).phase == "running")

    assert _row(world).task_kind == "fargate"
    assert len(_living(world)) == 1


def test_a_boot_that_is_interrupted_after_its_address_is_known_fails(world: World) -> None:
    """The task may be restoring, or may just have announced itself."""
    world.redis.is_up = False  # it does not announce itself
    _ask(world, "acquire")
    world.until(lambda: bool(_row(world).host), every_s=1)
    [task] = world.ecs.tasks
    world.ecs.interrupt(task)

    world.until(lambda: _row(world).failures)

    assert world.ecs.tasks == [task]
    with pytest.raises(NodeFailedError, match="cools down"):
        _ask(world, "keep")


def _noted(world: World) -> list[int]:
    """Return a list to which each task that starts adds the number of tasks that are not over, itself among them."""
    boots, beside = world.ecs.started, list[int]()

    def note(task: Task) -> None:
        beside.append(len(_living(world)))
        boots(task)

    world.ecs.started = note
    return beside


def _taken_over(world: World) -> Task:
    """Start a run after the death of the former owner and its deadline. Return the former task, which still runs."""
    former = _held(world)
    for name in world.executions_of(world.node_machine):
        world.executions.stop(world.node_machine, name, cause="killed")
    world.clock.sleep((_row(world).deadline_at_us - world.clock.now_us()) / US_PER_S + 1)
    _ask(world, "acquire", "two", for_s=600)
    return former


def test_a_run_waits_for_the_end_of_a_former_runs_task(world: World) -> None:
    beside = _noted(world)
    former = _taken_over(world)

    world.until(lambda: _row(world).phase == "running")

    assert _living(world) == [world.ecs.task(_row(world).task)] != [former]
    assert beside == [1, 1]


@pytest.mark.parametrize("after_s", [0, 90])  # a new task is unknown to ECS for a minute at most
def test_the_janitor_starts_a_run_that_waits_if_the_event_of_the_former_task_is_lost(
    world: World, after_s: float
) -> None:
    deliver, former = world.ecs.deliver, _taken_over(world)
    _deaf(world)
    world.until(lambda: former.shown["lastStatus"] == "STOPPED", every_s=0.1)
    world.ecs.deliver = deliver
    world.clock.sleep(after_s)
    assert world.ecs.tasks == [former]

    world.clean()
    world.until(lambda: _row(world).phase == "running")

    assert len(_living(world)) == 1


@pytest.mark.parametrize("seed", range(25))
def test_two_tasks_never_have_one_database(world: World, seed: int) -> None:
    chance, beside = random.Random(seed), _noted(world)
    for _ in range(30):
        holder, living = chance.choice(["one", "two"]), _living(world)
        match chance.choice(["acquire", "acquire", "keep", "release", "interrupt", "end", "clean", "stop", "kill"]):
            case "interrupt" if living:
                world.ecs.interrupt(living[-1])
            case "end" if living:
                world.end_task(living[-1])
            case "clean":
                world.clean()
            case "stop":
                world.invoke("redis_control", {"op": "release", "node": _NODE})
            case "kill":
                for name in world.executions_of(world.node_machine, "RUNNING"):
                    world.executions.stop(world.node_machine, name, cause="killed")
            case "acquire" | "keep" | "release" as op:
                with suppress(LeaseLostError, NodeFailedError):
                    _ask(world, op, holder)
        world.clock.sleep(chance.choice([0.1, 5, 20, GRACE_S, 400]))

    assert set(beside) == {1}
