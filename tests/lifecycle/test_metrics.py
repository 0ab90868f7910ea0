"""The real handlers, driven to what metrics and alarms are for: they print the very metrics that alarms watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from botocore.exceptions import EndpointConnectionError

from burstcache.core.errors import CleaningFailedError, FunctionFailedError
from burstcache.core.messages.operations import Operation
from support.functions import NODE
from support.metrics import METER, STACK, MetricId, Sample, goes_off
from support.world import World

Told = Callable[[], list[Sample]]


def total(samples: Iterable[Sample], name: str, **dimension: str) -> float:
    """Return the sum of a metric of the stack."""
    metric = MetricId("Burstcache", name, frozenset({("Stack", STACK), *dimension.items()}))
    return sum(sample.value for sample in samples if sample.metric == metric)


@pytest.mark.slow
def test_a_node_that_keeps_running_without_an_owner_is_an_alarm(told: Told, world: World) -> None:
    world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")
    told()

    world.clean()

    assert goes_off("OverdueNodesAlarm", told())


def test_a_node_that_cannot_be_stopped_is_an_alarm(told: Told, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")
    told()

    def fails(operation: Operation) -> object:
        raise FunctionFailedError("redis control")

    monkeypatch.setattr(world, "janitor", replace(world.janitor, redis_control=fails))
    with pytest.raises(CleaningFailedError, match=NODE):
        world.clean()

    assert goes_off("OverdueNodesAlarm", told())


def test_a_stack_in_order_is_no_alarm(told: Told, world: World) -> None:
    world.running("k")
    told()

    world.clean()

    assert not goes_off("OverdueNodesAlarm", told())


def test_reads_that_s3_does_not_answer_are_an_alarm(told: Told, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_object("k")

    def refuse(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://s3")

    monkeypatch.setattr(world.clients.s3, "get_object", refuse)
    statuses = [world.answer("k")["statusCode"] for _ in range(5)]

    assert statuses == [503] * 5
    assert goes_off("FailedReadsAlarm", told())


def test_reads_are_counted_by_the_tier_that_serves_them(told: Told, world: World) -> None:
    world.put_object("cold", b"12345")
    world.running("hot")
    world.clock.sleep(2)  # the digest is read anew

    assert [world.read("cold"), world.read("hot")] == ["s3", "redis"]
    world.meter.write()

    samples = told()
    assert total(samples, "ReadBytes", Tier="s3") == 5
    assert total(samples, "ReadBytes", Tier="redis") == 4


def test_a_fallback_is_counted_by_its_reason(told: Told, world: World) -> None:
    for key in "ab":
        world.running(key)
    world.clock.sleep(2)
    world.redis.kill()

    assert [world.read(key) for key in "ab"] == ["s3", "s3"]
    world.meter.write()

    samples = told()
    assert total(samples, "Fallbacks", Reason="redis_down") == 1
    assert total(samples, "Fallbacks", Reason="left_alone") == 1


def test_a_node_is_metered_from_its_start_to_its_stop(told: Told, world: World) -> None:
    world.running("k")
    world.leave("k", is_failed=False)
    world.clock.sleep(100)
    before_s = total(told(), "NodeSeconds")

    world.node_step("abandon_node")

    samples = told()
    assert before_s + total(samples, "NodeSeconds") == pytest.approx(100, abs=1)
    assert total(samples, "EstimatedCostUsd", Tier="redis") == pytest.approx(
        total(samples, "NodeSeconds") * float(METER.prices.redis_usd_per_s)
    )
    world.node_step("abandon_node")
    assert total(told(), "NodeSeconds") == 0  # a step that runs twice counts once


def test_checks_of_a_node_meter_it_on_the_way(told: Told, world: World) -> None:
    world.running("k")
    told()
    world.clock.sleep(30)

    world.check(at_us=world.clock.now_us())

    assert total(told(), "NodeSeconds") == pytest.approx(30, abs=1)
    assert world.nodes.read(NODE).metered_at_us == pytest.approx(world.clock.now_us(), abs=1e6)


def test_a_life_in_a_cache_function_is_counted_by_its_end_and_its_cost(told: Told, world: World) -> None:
    world.started("k")
    began_us = world.clock.now_us()

    assert world.serve("k").join() == "idle"

    ran_s = (world.clock.now_us() - began_us) / 1e6
    samples = told()
    assert total(samples, "Lives", Outcome="idle") == 1
    assert total(samples, "EstimatedCostUsd", Tier="lambda") == pytest.approx(
        ran_s * float(METER.prices.lambda_usd_per_s), rel=0.1
    )


@pytest.mark.parametrize(("is_failed", "outcome"), [(False, "left_redis"), (True, "failed")])
def test_a_life_in_redis_is_counted_by_its_end(told: Told, world: World, is_failed: bool, outcome: str) -> None:
    world.running("k")
    samples = told()

    world.leave("k", is_failed=is_failed)
    world.leave("k", is_failed=is_failed)

    assert total(samples, "Promotions") == 1
    assert total(told(), "Lives", Outcome=outcome) == 1
