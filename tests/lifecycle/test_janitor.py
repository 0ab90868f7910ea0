"""The janitor when resources are missing, hang or fail: it cleans each independently, and nothing costs for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from moto.backends import get_backend

from burstcache.adapters.instances import Instances
from burstcache.adapters.machines import NodeMachines
from burstcache.core.errors import CleaningFailedError, NodeFailedError, ServiceTransientError
from burstcache_local.functions import ACCOUNT
from burstcache_local.moto import ec2_states
from support.aws import REGION
from support.functions import NODE
from support.world import World

_NO_INSTANCE = "i-0123456789abcdef0"


class Ec2:
    """EC2 whose instances boot at once and stop when a test says so, and what it was asked to stop."""

    def __init__(self, world: World) -> None:
        self._ids = world.instances.instance_ids
        self.stops: list[dict[str, Any]] = []

    def enter(self, instance: Any, state: str) -> None:
        """Enter a state, which an instance that stops does not leave by itself."""
        ec2_states.set_state(instance, "running" if state == "pending" else state)

    def put(self, state: str, node: str = NODE) -> None:
        """Show a node's instance in a state."""
        ec2_states.set_state(get_backend("ec2")[ACCOUNT][REGION].get_instance(self._ids[node]), state)

    def note(self, params: dict[str, Any], **_: object) -> None:
        """Note a call of StopInstances."""
        self.stops.append(params)


@pytest.fixture
def ec2(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2]:
    """The EC2 of the one world."""
    made, events = Ec2(world), world.clients.ec2.meta.events
    events.register("provide-client-params.ec2.StopInstances", made.note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ec2_states, "_agent_of", lambda _: made)
        yield made
        made.put("stopped")
    events.unregister("provide-client-params.ec2.StopInstances", made.note)


def _orphan(world: World, *keys: str) -> None:
    """Make keys hot whose executions die."""
    for key in keys:
        world.started(key)
        world.executions.stop(world.key_machine, world.row(key).execution_name, cause="test")


def test_only_keys_whose_executions_are_not_listed_are_asked_for_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step Functions answers some hundreds of DescribeExecution at once, and then 15 a second."""
    monkeypatch.setattr("burstcache.adapters.executions._PAGE_SIZE", 1)
    world.started("a")
    world.started("b")
    _orphan(world, "orphan")
    asked: list[str] = []

    def note(params: dict[str, Any], **_: object) -> None:
        asked.append(params["executionArn"].rpartition(":")[2])

    events = world.states_client.meta.events
    events.register("provide-client-params.sfn.DescribeExecution", note)
    try:
        cleaned = world.janitor.clean()
    finally:
        events.unregister("provide-client-params.sfn.DescribeExecution", note)

    assert cleaned["keys"] == ["orphan"]
    assert asked == [world.row("orphan").execution_name] * 2  # once at each look


def _lose_instance(world: World) -> None:
    """Have the node's instance be one that EC2 does not know."""
    instances = Instances({NODE: _NO_INSTANCE}, world.clients.ec2)
    world.instances, machines = instances, NodeMachines(instances)
    world.control = replace(world.control, machines=machines)
    world.janitor = replace(world.janitor, machines=machines)


def test_a_key_that_cannot_be_returned_keeps_nothing_else_from_being_cleaned(world: World) -> None:
    control = world.janitor.redis_control

    def refuse_one(operation: Any) -> object:
        if operation.get("key") == "b":
            raise ServiceTransientError("throttled")
        return control(operation)

    world.janitor = replace(world.janitor, redis_control=refuse_one)
    _orphan(world, "a", "b", "c")
    world.instances.start(world.nodes.read(NODE))
    world.clock.sleep(1200)

    with pytest.raises(CleaningFailedError, match=r"^could not clean key 'b': ServiceTransientError: throttled$"):
        world.clean()

    assert {key: world.row(key).phase for key in "abc"} == {"a": "s3", "b": "lambda", "c": "s3"}
    assert world.machine_state() == "stopped"


def test_a_node_that_cannot_be_asked_for_keeps_neither_keys_nor_other_nodes_from_being_cleaned(
    make_world: Callable[..., World],
) -> None:
    world = make_world(nodes=2)
    _orphan(world, "k")
    world.instances.start(world.nodes.read("node-2"))
    world.clock.sleep(1200)
    unknown = Instances({"node-2": world.instances.instance_ids["node-2"]}, world.clients.ec2)
    world.janitor = replace(world.janitor, machines=NodeMachines(unknown))

    with pytest.raises(CleaningFailedError, match=f"^could not clean {NODE}: KeyError: '{NODE}'$"):
        world.clean()

    assert world.row("k").phase == "s3"
    assert world.machine_state("node-2") == "stopped"


def test_keys_are_returned_before_nodes_are_looked_after(world: World) -> None:
    asked: list[str] = []
    control = world.janitor.redis_control

    def note(operation: Any) -> object:
        asked.append(operation["op"])
        return control(operation)

    world.janitor = replace(world.janitor, redis_control=note)
    _orphan(world, "a", "b")
    world.instances.start(world.nodes.read(NODE))
    world.clock.sleep(1200)

    world.clean()

    assert asked == ["leave", "leave", "release"]


def test_what_is_cleaned_does_not_depend_on_how_many_keys_were_ever_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.started("k")
    for number in range(50):
        world.report(f"cold {number}")
    asked: list[str] = []

    def note(model: Any, **_: object) -> None:
        asked.append(model.name)

    events = world.clients.dynamodb.meta.events
    events.register("before-call.dynamodb", note)
    assert world.clean() == {"keys": [], "nodes": [], "paused": []}
    events.unregister("before-call.dynamodb", note)

    assert "Scan" not in asked
    assert len(asked) < 10


def test_an_instance_that_ec2_does_not_know_keeps_no_key_from_s3(world: World) -> None:
    world.running("k")
    world.executions.stop(world.key_machine, world.row("k").execution_name, cause="test")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")
    _lose_instance(world)

    cleaned = world.clean()

    assert cleaned == {"keys": ["k"], "nodes": [NODE], "paused": []}
    assert (world.row("k").phase, world.node().phase) == ("s3", "stopped")
    assert world.clean() == {"keys": [], "nodes": [], "paused": []}


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_an_instance_that_is_terminated_ends_its_run(world: World, ec2: Ec2, state: str) -> None:
    name = world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")
    ec2.put(state)

    assert world.clean()["nodes"] == [NODE]

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.node().phase == "stopped"
    assert world.clean()["nodes"] == []


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_a_boot_of_an_instance_that_is_gone_fails_and_says_what_to_do(world: World, ec2: Ec2, state: str) -> None:
    world.joined("k")
    ec2.put(state)

    with pytest.raises(NodeFailedError, match=f"of {NODE} is {state} and never starts again: deploy with a higher"):
        world.boot()


def test_a_boot_of_an_instance_that_ec2_does_not_know_fails_and_says_what_to_do(world: World) -> None:
    world.joined("k")
    _lose_instance(world)

    with pytest.raises(NodeFailedError, match=f"{_NO_INSTANCE} of {NODE} is terminated and never starts again"):
        world.boot()


def test_a_node_that_never_stops_and_has_no_instance_is_an_error_at_each_run_and_is_not_booted(
    world: World, ec2: Ec2
) -> None:
    world.control = replace(world.control, always_on=[NODE])
    world.janitor = replace(world.janitor, always_on=[NODE])
    ec2.put("terminated")

    for _ in range(2):
        with pytest.raises(CleaningFailedError, match="deploy with a higher RedisNodeIssue"):
            world.clean()

    assert world.executions_of(world.node_machine) == []


def test_an_instance_that_hangs_in_stopping_is_forced_to_after_a_while_and_not_before(world: World, ec2: Ec2) -> None:
    world.running("k")
    world.leave("k", is_failed=False)
    assert world.node_step("abandon_node") == {"phase": "stopping"}
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")
    world.clock.sleep(280)
    assert world.clean()["nodes"] == []
    assert [stop["Force"] for stop in ec2.stops] == [False]

    world.clock.sleep(300)
    assert world.clean()["nodes"] == [NODE]  # within ten minutes

    assert [stop["Force"] for stop in ec2.stops] == [False, True]
    ec2.put("stopped")
    assert world.clean()["nodes"] == [NODE]  # as if EC2's event had been lost
    assert world.node().phase == "stopped"


def test_an_instance_that_runs_for_nobody_is_stopped_after_its_first_boot(world: World) -> None:
    world.instances.start(world.nodes.read(NODE))

    assert world.clean()["nodes"] == []
    world.clock.sleep(601)
    assert world.clean()["nodes"] == [NODE]

    assert world.machine_state() == "stopped"


def test_every_run_of_the_janitor_tells_an_instance_that_it_is_looked_after(world: World) -> None:
    world.control = replace(world.control, always_on=[NODE])
    world.janitor = replace(world.janitor, always_on=[NODE])
    world.clean()
    world.boot()
    world.ready()  # and is looked at in an hour

    for _ in range(12):
        assert world.clean()["nodes"] == []
        assert world.node().attended_at_us == world.clock.now_us()
        world.clock.sleep(300)


def test_an_instance_whose_run_has_no_owner_hears_nothing(world: World) -> None:
    world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")

    assert world.clean()["nodes"] == [NODE]

    assert world.node().attended_at_us == 0


def test_a_janitor_that_is_switched_off_leaves_nodes_to_themselves_and_keys_come_back_to_s3(world: World) -> None:
    name = world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")
    world.clock.sleep(1800)
    world.instances.stop(world.nodes.read(NODE))  # its own program does, which has seen no change for half an hour

    assert world.stopped() == {"phase": "stopped"}

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.machine_state() == "stopped"
