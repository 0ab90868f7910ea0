"""A stack without a relay has no cache functions: a hot key's life begins with the boot of its node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burstcache.core.parameters import US_PER_S
from burstcache.core.table import NodeColumns
from support.world import World


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world without a relay, whose machines run as they are deployed."""
    return make_world(runs_machines=True, has_relay=False)


def test_a_hot_key_is_served_from_below_until_its_node_runs(world: World) -> None:
    world.put_object("k")

    cold = [world.read("k") for _ in range(6)]
    world.until(lambda: world.row("k").tier == "redis", every_s=1)
    world.clock.sleep(1)  # a reader knows the digest of a second ago
    warm = [world.read("k") for _ in range(3)]

    assert (cold, warm) == (["s3"] * 6, ["redis"] * 3)


def test_a_life_without_a_relay_ends_as_every_other(world: World) -> None:
    entered: list[str] = []
    world.states.on_enter = lambda execution, state: entered.append(state)
    world.put_object("k")
    for _ in range(3):
        world.read("k")

    world.until(lambda: world.row("k").tier == "redis", every_s=1)
    world.until(lambda: world.row("k").phase == "s3", every_s=1)
    world.until(lambda: world.node().phase == "stopped", every_s=1)

    row = world.row("k")
    assert world.executions_of(world.key_machine, "SUCCEEDED") == [row.execution_name]
    assert entered[:2] == ["IsNodeRunning", "RedisBootup"]
    assert not {"Lambda", "RestrictedLambda"} & set(entered)
    assert (row.failures, world.nodes.leases(world.node().node)) == (0, [])


def test_a_key_whose_node_cools_down_stays_with_s3_also_by_hand(world: World) -> None:
    barred = NodeColumns(generation=1, failures=1, not_before_us=world.clock.now_us() + 60 * US_PER_S)
    assert world.nodes.change(world.node(), **barred) is not None

    assert world.get_twice("k")[-1] == "cools_down"
    assert world.scheduler.start_by_hand("k") == "cools_down"

    assert world.executions_of(world.key_machine) == []


def test_a_write_reaches_the_copy_in_redis(world: World) -> None:
    world.put_object("k")
    for _ in range(3):
        world.read("k")
    world.until(lambda: world.row("k").tier == "redis", every_s=1)
    world.put_object("k", b"new")

    assert world.written("k")["refreshed"] == "redis"
