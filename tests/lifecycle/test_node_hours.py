"""A node runs for its hours of the day and no longer, however busy it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.core.errors import NodeFailedError
from burstcache.core.node_hours import HOUR_US, next_day_us
from burstcache.core.parameters import QUEUE_LENGTH
from support.functions import NODE
from support.world import World


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines stop at their first task, once with the node on EC2 and once as a task."""
    return make_world(redis_on=request.param)


@pytest.fixture
def hourly(world: World) -> World:
    """A world whose node may run for an hour a day; a day has just begun."""
    world.control = replace(world.control, hours_per_day=1)
    world.clock.sleep((next_day_us(world.clock.now_us()) - world.clock.now_us()) / 1e6)
    return world


def check_in_use(world: World, key: str = "k") -> Any:
    """Look at the node just after requests of its key."""
    for _ in range(QUEUE_LENGTH):
        world.clock.sleep(0.1)
        assert world.read(key) == "redis"
    return world.check(world.clock.now_us())


def use_up(world: World) -> None:
    """Have the node run for its hour, and stop."""
    world.running("k")
    assert check_in_use(world)["checks"]
    world.clock.sleep(3600)
    assert check_in_use(world)["outcome"] == "unused"
    world.node_step("stop_node")
    world.stopped()


def test_a_node_that_is_in_use_stops_when_its_hours_are_used_up(hourly: World) -> None:
    use_up(hourly)

    row = hourly.node()
    assert row.phase == "stopped"
    assert row.not_before_us == next_day_us(hourly.clock.now_us())
    assert HOUR_US <= row.day_used_us < 1.1 * HOUR_US
    assert hourly.nodes.leases(NODE) == []


def test_no_key_boots_it_again_on_that_day(hourly: World) -> None:
    use_up(hourly)

    with pytest.raises(NodeFailedError, match="as many hours as MaxNodeHoursPerDay allows"):
        hourly.joined("other")


def test_a_boot_that_fails_at_the_end_of_its_hours_is_not_tried_again_on_that_day(hourly: World) -> None:
    hourly.joined("k")
    hourly.boot()
    hourly.clock.sleep(3600)

    hourly.node_step("abandon_node")

    assert hourly.node().not_before_us == next_day_us(hourly.clock.now_us())


def test_it_boots_on_the_next_day_with_all_its_hours(hourly: World) -> None:
    use_up(hourly)
    hourly.clock.sleep((hourly.node().not_before_us - hourly.clock.now_us()) / 1e6)

    hourly.running("other")
    hourly.clock.sleep(1800)

    assert not hourly.node().is_barred(hourly.clock.now_us())
    assert hourly.node().used_today_us(hourly.clock.now_us()) < HOUR_US


def test_a_look_is_not_later_than_the_end_of_its_hours(hourly: World) -> None:
    hourly.running("k")
    hourly.clock.sleep(3590)

    plan = check_in_use(hourly)

    assert int(plan["check_at_us"]) <= hourly.node().booted_at_us + HOUR_US


def test_two_runs_of_a_day_share_its_hours(hourly: World) -> None:
    hourly.running("k")
    hourly.clock.sleep(1800)
    hourly.leave("k", is_failed=False)
    assert hourly.check()["outcome"] == "unused"
    hourly.node_step("stop_node")
    hourly.stopped()
    assert not hourly.node().is_barred(hourly.clock.now_us())

    hourly.running("other")
    assert check_in_use(hourly, "other")["checks"]
    hourly.clock.sleep(1800)

    assert check_in_use(hourly, "other")["outcome"] == "unused"


def test_a_person_s_hold_keeps_it_running(hourly: World) -> None:
    hourly.running("k")
    hourly.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 3 * 3600})
    hourly.clock.sleep(3600)

    assert check_in_use(hourly)["checks"]


def test_a_node_that_never_stops_has_no_such_bound(hourly: World) -> None:
    hourly.control = replace(hourly.control, always_on=[NODE])
    hourly.running("k")
    hourly.clock.sleep(2 * 3600)

    assert check_in_use(hourly)["checks"]
