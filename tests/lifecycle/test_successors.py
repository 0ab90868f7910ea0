"""One cache function follows another within a life: when an invocation ends, or dies while nobody waits for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from burstcache.adapters.executions import execution_arn
from burstcache.control import cache_lease
from burstcache.core.messages.operations import Serve
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import KeyRow
from burstcache.core.table import NodeColumns
from support import functions
from support.faults import failing
from support.interruptions import after
from support.metrics import METER, Sample
from support.world import World

_SLOW_BOOT_S = 90


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed."""
    return make_world(runs_machines=True)


def served_by_lambda(world: World) -> KeyRow:
    """Make a key hot, and wait until readers know of its cache function."""
    world.started("k")
    world.until(lambda: world.row("k").tier == "lambda", within_s=10)
    world.clock.sleep(2)
    return world.row("k")


def promoted(world: World, monkeypatch: pytest.MonkeyPatch) -> KeyRow:
    """Let a key wait for a node that boots slowly."""
    monkeypatch.setattr(functions, "BOOT_S", _SLOW_BOOT_S)
    row = served_by_lambda(world)
    while not world.row("k").joined_at_us:
        assert world.read("k") == "lambda"
        world.clock.sleep(0.2)
    return row


def held_without_promotion(world: World) -> KeyRow:
    """Let a cache function hold a key whose node cools down."""
    barred = NodeColumns(generation=1, failures=9, not_before_us=world.clock.now_us() + 86_400 * US_PER_S)
    assert world.nodes.change(world.node(), **barred) is not None
    return served_by_lambda(world)


def tiers(world: World, for_s: float, every_s: float = 1) -> list[str]:
    """Ask for the key again and again; return the tiers that served."""
    seen = []
    for _ in range(round(for_s / every_s)):
        seen.append(world.read("k"))
        world.clock.sleep(every_s)
    return seen


def entered(world: World, name: str) -> int:
    """Return the number of an execution's transitions, including retries."""
    arn = execution_arn(world.key_machine, name)
    pages = world.states_client.get_paginator("get_execution_history").paginate(executionArn=arn)
    kinds = [event["type"] for page in pages for event in page["events"]]
    return (
        sum(kind.endswith("StateEntered") for kind in kinds)
        + kinds.count("TaskScheduled")
        - kinds.count("TaskStateEntered")
    )


def output(world: World, name: str) -> dict[str, object]:
    """Wait for the end of an execution; return its output."""
    arn = execution_arn(world.key_machine, name)
    described = world.states_client.describe_execution
    world.until(lambda: described(executionArn=arn)["status"] == "SUCCEEDED", within_s=3600, every_s=5)
    return dict(json.loads(described(executionArn=arn)["output"]))


def test_cache_function_that_dies_after_its_promotion_is_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = promoted(world, monkeypatch)
    world.clock.sleep(6)

    for life in range(2):  # and so is the one that replaced it
        world.kill_cache()
        seen = tiers(world, 12)
        assert (seen[0], seen[-1]) == ("s3", "lambda")
        assert seen.index("lambda") <= 8
        assert world.row("k").attempt == life + 1

    world.until(lambda: world.row("k").tier == "redis", within_s=_SLOW_BOOT_S)
    assert world.row("k").epoch == row.epoch
    assert len(world.executions_of(world.key_machine)) == 1
    world.clock.sleep(3)
    assert world.read("k") == "redis"
    assert world.get("k") is None  # SeedRedis has stopped the last one


def test_cache_function_that_is_replaced_although_it_lives_leaves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoted(world, monkeypatch)
    world.clock.sleep(6)

    assert world.get_twice("k") == ["remembered", "replaced"]
    world.until(lambda: world.row("k").holder, within_s=10)

    assert set(tiers(world, 20)) == {"lambda"}
    assert len(world.running_caches()) == 1


@pytest.mark.slow
def test_what_s3_served_before_readers_knew_of_a_cache_function_replaces_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_at_us = promoted(world, monkeypatch).ready_at_us

    outcomes = [world.report("k", at_us=ready_at_us + at_us) for at_us in (1 * US_PER_S, 2 * US_PER_S, 5 * US_PER_S)]

    assert set(outcomes) == {"remembered"}


def test_of_two_schedulers_one_replaces_a_cache_function(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    promoted(world, monkeypatch)
    world.clock.sleep(6)
    world.report("k")
    row = world.row("k")

    assert [world.keys.replace_holder(row) for _ in range(2)] == [True, False]


def test_none_is_replaced_while_the_stack_is_paused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    promoted(world, monkeypatch)
    world.clock.sleep(6)
    world.pauses.begin("test")

    assert world.get_twice("k")[-1] == "paused"
    assert world.row("k").attempt == 0


def test_replacement_that_comes_after_redis_took_over_leaves(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    promoted(world, monkeypatch)
    late: list[Serve] = []
    world.scheduler = replace(world.scheduler, start_cache=late.append)
    world.clock.sleep(6)
    assert world.get_twice("k")[-1] == "replaced"
    world.until(lambda: world.row("k").tier == "redis", within_s=2 * _SLOW_BOOT_S)

    (payload,) = late
    assert world.invoke("cache", {**payload}) == {"end": "superseded"}

    assert world.row("k").tier == "redis"


@pytest.mark.slow
def test_key_that_is_still_asked_for_when_an_invocation_ends_is_served_without_a_gap(world: World) -> None:
    row = held_without_promotion(world)

    seen = tiers(world, 2000, every_s=4)

    assert set(seen) == {"lambda"}
    told = output(world, row.execution_name)
    assert told["served"] == pytest.approx(len(seen), abs=4)  # what came while two overlapped
    assert told["outcome"] == "idle"
    ended_s = (world.clock.now_us() - row.changed_at_us) / US_PER_S
    assert entered(world, row.execution_name) == 4 + ended_s // 835  # a retry for each invocation but the last
    assert len(world.executions_of(world.key_machine, "SUCCEEDED")) == 1


def test_invocation_leaves_as_soon_as_the_next_one_serves_and_counts_its_cost_and_no_life(
    world: World, told: Callable[[], list[Sample]]
) -> None:
    held_without_promotion(world)
    tiers(world, 826, every_s=4)
    assert len(world.running_caches()) == 1
    world.until(lambda: world.row("k").attempt == 1, within_s=20)

    world.clock.sleep(2)

    assert len(world.running_caches()) == 1
    assert world.row("k").tier == "lambda"
    (cost,) = told()
    assert cost.metric.name == "EstimatedCostUsd"
    assert cost.value == pytest.approx(832 * float(METER.prices.lambda_usd_per_s), rel=0.01)


@pytest.mark.slow
def test_write_while_the_next_invocation_loads_the_object_is_seen_by_it(world: World) -> None:
    held_without_promotion(world)
    tiers(world, 820, every_s=4)

    def overtake() -> None:
        world.put_object("k", b"new")
        world.written("k")

    world.cache_tools = replace(world.cache_tools, objects=after(world.objects, "fetch", overtake))
    tiers(world, 60, every_s=1)

    assert world.row("k").attempt == 1
    assert world.body_in_lambda_tier("k") == b"new"


@pytest.mark.slow
def test_write_while_two_invocations_overlap_reaches_both(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_lease, "_HAND_OVER_POLL_S", 20)  # so long do they overlap here
    held_without_promotion(world)
    tiers(world, 832, every_s=4)
    assert world.row("k").attempt == 1
    assert len(world.running_caches()) == 2
    world.put_object("k", b"new")
    world.written("k")
    world.clock.sleep(0.001)

    assert {world.body_in_lambda_tier("k") for _ in range(4)} == {b"new"}  # in turn


@pytest.mark.slow
def test_next_invocation_goes_on_with_what_requests_have_prolonged_the_life_to(world: World) -> None:
    row = held_without_promotion(world)
    tiers(world, 800, every_s=2)  # each prolongs it by five seconds
    world.clock.sleep(60)
    assert (world.row("k").attempt, world.row("k").tier) == (1, "lambda")
    world.clock.sleep(600)

    assert world.row("k").tier == "lambda"
    assert output(world, row.execution_name)["served"] == 400


@pytest.mark.slow
def test_next_invocation_that_does_not_come_up_is_started_again_in_time(world: World) -> None:
    held_without_promotion(world)
    tiers(world, 820, every_s=4)

    with failing(world.clients.s3, "GetObject", times=2, code="SlowDown", status=503) as faults:
        seen = tiers(world, 100, every_s=4)

    assert faults.refused == 2
    assert set(seen) == {"lambda"}


def test_key_that_is_no_longer_asked_for_is_not_handed_over(world: World) -> None:
    row = held_without_promotion(world)
    tiers(world, 850, every_s=5)  # the life would end before its invocation

    assert output(world, row.execution_name)["outcome"] == "idle"
    assert entered(world, row.execution_name) == 4


@pytest.mark.slow
def test_paused_stack_hands_no_key_over(world: World) -> None:
    row = held_without_promotion(world)
    tiers(world, 600, every_s=4)
    world.pauses.begin("test")
    seen = tiers(world, 400, every_s=4)

    assert seen[-1] == "s3"
    assert entered(world, row.execution_name) == 4
