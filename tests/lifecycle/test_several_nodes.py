"""Several nodes, nodes that never stop, and stacks without any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.core.keys import key_hash
from burstcache.core.placement import node_for
from burstcache.core.policy import RecordedRequest
from support.functions import NODE
from support.world import World

_S = 1_000_000
_NODES = [NODE, "node-2"]
_KEYS = {node: next(key for key in map(str, range(99)) if node_for(key_hash(key), _NODES) == node) for node in _NODES}


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines stop at their first task, once with the node on EC2 and once as a task."""
    return make_world(redis_on=request.param)


@pytest.fixture(params=["ec2", "fargate-spot"])
def two(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world with two nodes, once on EC2 and once as tasks."""
    return make_world(nodes=2, redis_on=request.param)


def _boots(world: World, node: str) -> None:
    """Let a key of a node join it, and the node boot."""
    world.joined(_KEYS[node])
    row = world.nodes.read(node)
    # The event of a task that runs ends the token, with which the execution would end.
    token = world.token(row.execution_name if world.tasks is None else f"boot-{row.generation}")
    boot = {"part": 1, "token": token, "execution": row.execution_name}
    world.invoke("redis_control", {**_step("boot_node", world, node), **boot})
    if world.tasks is not None:
        world.ecs.run(world.ecs.tasks[-1])
    world.invoke("redis_control", {**_step("ready_node", world, node), "part": 1})


def _step(op: str, world: World, node: str) -> dict[str, Any]:
    return {"op": op, "node": node, "generation": world.nodes.read(node).generation}


def test_each_node_boots_for_its_own_keys(two: World) -> None:
    _boots(two, "node-2")

    assert [two.nodes.read(node).phase for node in _NODES] == ["stopped", "running"]
    assert [two.machine_state(node) for node in _NODES] == ["stopped", "running"]
    assert [lease.key for lease in two.nodes.leases("node-2")] == [_KEYS["node-2"]]


def test_one_node_stops_while_the_other_runs(two: World) -> None:
    for node in _NODES:
        _boots(two, node)
    two.leave(_KEYS[NODE], is_failed=False)

    assert two.check()["outcome"] == "unused"
    two.node_step("stop_node")

    assert two.stopped(NODE) == {"phase": "stopped"}
    assert [two.machine_state(node) for node in _NODES] == ["stopped", "running"]
    assert two.digest.read().nodes["node-2"].is_running


def test_event_of_one_node_does_not_touch_the_other(two: World) -> None:
    for node in _NODES:
        _boots(two, node)
    two.stop_machine("node-2")

    assert two.stopped("node-2") == {"phase": "stopped"}

    assert two.nodes.read(NODE).phase == "running"
    assert two.clean() == {"keys": [], "nodes": [], "paused": []}


@pytest.fixture
def always_on(world: World) -> World:
    """A world whose node never stops."""
    world.control = replace(world.control, always_on=[NODE])
    world.janitor = replace(world.janitor, always_on=[NODE])
    return world


def test_node_that_never_stops_is_booted_by_the_janitor(always_on: World) -> None:
    assert always_on.clean()["nodes"] == [NODE]

    assert always_on.node().phase == "booting"
    assert always_on.node().execution_name in always_on.executions_of(always_on.node_machine)
    always_on.boot()
    assert always_on.ready()["checks"] == 0
    assert always_on.clean() == {"keys": [], "nodes": [], "paused": []}


def test_node_that_never_stops_gives_its_keys_back_and_is_looked_at_in_an_hour(always_on: World) -> None:
    name = always_on.running("k")
    always_on.store.add_older_times(key_hash("k"), [always_on.clock.now_us()])
    at_us = always_on.clock.now_us() + 2 * always_on.parameters.redis_utilization_us

    plan = always_on.check(at_us)

    assert always_on.outcome(name)["outcome"] == "idle"
    assert always_on.node().phase == "running"
    assert int(plan["check_at_us"]) == at_us + 3600 * _S


def test_node_that_never_stops_boots_again_when_it_has_stopped(always_on: World) -> None:
    always_on.running("k")
    always_on.stop_machine()

    assert always_on.stopped()["phase"] == "booting"


def test_failed_boot_of_a_node_that_never_stops_is_not_repeated_at_once(always_on: World) -> None:
    always_on.clean()

    assert always_on.node_step("abandon_node") == {"phase": "stopped"}  # EC2 had no room: it never started

    assert always_on.clean()["nodes"] == [NODE]
    assert always_on.node().phase == "booting"


def test_a_boot_that_failed_with_its_instance_on_is_repeated_by_the_janitor_and_not_by_its_stop(
    always_on: World,
) -> None:
    always_on.clean()
    always_on.boot()
    assert always_on.node_step("abandon_node") == {"phase": "stopping" if always_on.tasks is None else "stopped"}

    assert always_on.stopped() == {"phase": "stopped"}

    assert always_on.clean()["nodes"] == [NODE]
    assert always_on.node().phase == "booting"


def test_key_of_a_stack_without_nodes_stays_in_its_cache_function(world: World) -> None:
    world.scheduler = replace(world.scheduler, node_names=[])
    world.started("k")
    life = world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")

    for _ in range(world.parameters.redis_threshold + 2):
        assert world.get("k") is not None

    assert (world.row("k").node, life.join()) == ("", "idle")


def test_nothing_gets_hot_without_nodes_and_relay(world: World) -> None:
    world.scheduler = replace(world.scheduler, node_names=[], has_relay=False)
    world.put_object("k")

    assert world.get_twice("k") == ["remembered", "no_tier"]
    assert world.row("k").window[-1] > RecordedRequest(0, "")
