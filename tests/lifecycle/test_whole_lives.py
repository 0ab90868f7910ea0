"""Whole lives on a virtual clock: the deployed machines call the real handlers, and any execution may die anywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burstcache.core.keys import key_hash
from burstcache_local.stepfunctions.execution import Execution
from support.functions import NODE
from support.world import World

_S = 1_000_000


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed."""
    return make_world(runs_machines=True)


def _burst(world: World) -> None:
    """Make a key hot and keep asking for it until the load has lasted long enough for Redis; then leave it alone."""
    world.started("k")
    world.clock.sleep(2)
    for _ in range(world.parameters.redis_threshold + 1):
        world.get("k")
    world.clock.sleep(10)


def _rest(world: World, within_s: float = 7200) -> None:
    """Wait until nothing is under way, the janitor looking every five minutes as it is deployed."""

    def is_at_rest() -> bool:
        world.clean()
        running = world.executions_of(world.key_machine) + world.executions_of(world.node_machine)
        return not running and world.row("k").phase == "s3" and world.machine_state() == "stopped"

    world.until(is_at_rest, within_s=within_s, every_s=300, acts=True)


def test_burst_goes_through_all_tiers_and_returns_to_s3(world: World) -> None:
    _burst(world)
    assert world.row("k").tier == "redis"
    world.store.read(key_hash("k"), at_us=world.clock.now_us())

    world.until(lambda: world.row("k").phase == "s3", every_s=1)
    world.until(lambda: world.node().phase == "stopped", every_s=1)

    assert world.executions_of(world.key_machine, "SUCCEEDED") == [world.row("k").execution_name]
    assert world.executions_of(world.node_machine, "SUCCEEDED") == [world.node().execution_name]
    assert (world.machine_state(), world.nodes.leases(NODE)) == ("stopped", [])
    assert world.row("k").failures == 0


def test_requests_alone_take_a_key_through_all_tiers_and_back(world: World) -> None:
    world.put_object("k")

    cold = [world.read("k") for _ in range(2)]
    world.clock.sleep(2)
    warm = [world.read("k") for _ in range(world.parameters.redis_threshold + 1)]
    world.clock.sleep(10)
    lasting = [world.read("k") for _ in range(5)]
    world.until(lambda: world.row("k").phase == "s3", every_s=1)
    world.clock.sleep(1)  # the proxy remembers a route for a second

    assert (cold, set(warm), set(lasting)) == (["s3"] * 2, {"lambda"}, {"redis"})
    assert world.read("k") == "s3"


def test_short_burst_never_starts_the_node(world: World) -> None:
    world.started("k")

    world.until(lambda: world.row("k").phase == "s3", every_s=1)

    assert world.node().generation == 0
    assert world.executions_of(world.key_machine, "SUCCEEDED") == [world.row("k").execution_name]


_WAY_OF_A_KEY = ("IsNodeRunning", "Lambda", "IsPromoted", "RedisBootup", "SeedRedis", "RedisRunning", "RedisShutdown")
_WAY_OF_A_NODE = (
    "BootNode",
    "NodeReady",
    "RedisNodeRunning",
    "CheckNodeUse",
    "StopNode",
)
_DEATHS = [("key", state) for state in _WAY_OF_A_KEY] + [("node", state) for state in _WAY_OF_A_NODE]


@pytest.mark.parametrize(("machine", "state"), _DEATHS)
def test_execution_that_dies_before_any_state_leaves_nothing_behind(world: World, machine: str, state: str) -> None:
    killed: list[str] = []
    machines = {"key": world.key_machine, "node": world.node_machine}

    def kill(execution: Execution, entered: str) -> None:
        if not killed and execution.machine_arn == machines[machine] and entered == state:
            execution.stop("Killed")
            killed.append(execution.name)

    world.states.on_enter = kill

    _burst(world)
    _rest(world)

    assert len(killed) == 1
    assert world.nodes.leases(NODE) == []
    world.until(lambda: world.relay.connections == 0, within_s=world.parameters.keep_running_us / _S)
    world.clock.sleep_until(world.row("k").not_before_us + _S)
    world.clock.sleep(1)  # requests of before the return start nothing
    world.started("k")  # the next burst finds nothing in its way
    world.until(lambda: world.row("k").tier == "lambda", within_s=10)
