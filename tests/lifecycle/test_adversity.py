"""Adversity around a stack, one fault at a time: its end and its bill. The deployed machines run on a virtual clock.

Faults of instances and of the janitor itself are in `test_janitor`, their alarms in `test_metrics`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from burstcache.adapters.executions import execution_arn
from burstcache.core.errors import RedisDownError, SupersededError
from burstcache.core.keys import key_execution_name, next_number
from burstcache.core.node_kinds import NodeKind
from burstcache.core.parameters import US_PER_S, parameters_from_text
from burstcache.core.policies import POLICIES, thesis
from burstcache.core.rows import KeyRow
from support.faults import failing
from support.functions import BOOT_S, NODE
from support.metrics import METER, Sample, goes_off
from support.policies import BY_USE, policy_named
from support.world import World

_TRANSITION_USD = 0.000025
_JANITOR_S = 300
_COOL_DOWN_S = 60

Told = Callable[[], list[Sample]]


@dataclass(frozen=True)
class Bill:
    """Bill of a stack so far."""

    transitions: int
    node_s: float
    usd: float  # cache functions and nodes by the metrics, and the transitions


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed, once with the node on EC2 and once as a task."""
    return make_world(runs_machines=True, redis_on=request.param)


@contextmanager
def without_room(world: World) -> Iterator[None]:
    """Leave EC2 or Fargate without capacity."""
    if world.tasks is None:
        with failing(world.clients.ec2, "StartInstances", times=9999, code="InsufficientInstanceCapacity", status=500):
            yield
    else:
        world.ecs.full = {"FARGATE_SPOT", "FARGATE"}
        yield
        world.ecs.full = set()


def bill(world: World, told: Told) -> Bill:
    """Return a world's bill since its metrics were last read. Retries count as transitions."""
    transitions = 0
    for machine in (world.key_machine, world.node_machine):
        executions = world.states_client.list_executions(stateMachineArn=machine)["executions"]
        for execution in executions:
            pages = world.states_client.get_paginator("get_execution_history")
            for page in pages.paginate(executionArn=execution["executionArn"]):
                kinds = [event["type"] for event in page["events"]]
                entered = sum(kind.endswith("StateEntered") for kind in kinds)
                retried = kinds.count("TaskScheduled") - kinds.count("TaskStateEntered")
                transitions += entered + max(retried, 0)
    samples = told()
    cost_usd = sum(sample.value for sample in samples if sample.metric.name == "EstimatedCostUsd")
    node_s = sum(sample.value for sample in samples if sample.metric.name == "NodeSeconds")
    return Bill(transitions, node_s, cost_usd + transitions * _TRANSITION_USD)


def ended(world: World, machine: str, name: str) -> dict[str, str]:
    """Return status, error, cause and output of the named execution."""
    described = world.states_client.describe_execution(executionArn=execution_arn(machine, name))
    return {part: str(described.get(part, "")) for part in ("status", "error", "cause", "output")}


def hot(world: World, key: str = "k") -> KeyRow:
    """Make a key hot, and wait for its cache function."""
    world.started(key)
    world.until(lambda: world.row(key).tier == "lambda", within_s=10)
    world.clock.sleep(2)  # readers know of it
    return world.row(key)


def lasting(world: World, key: str = "k", most_s: float = 60) -> None:
    """Ask for a key until its cache function has asked for Redis."""
    for _ in range(round(most_s / 0.5)):
        world.read(key)
        world.clock.sleep(0.5)
        if world.row(key).joined_at_us:
            return
    raise AssertionError("it was not promoted")


def at_rest(world: World, key: str = "k", within_s: float = 3600) -> None:
    """Wait, the janitor looking every five minutes, until nothing runs."""

    def rests() -> bool:
        world.clean()
        running = world.executions_of(world.key_machine) + world.executions_of(world.node_machine)
        return not running and world.row(key).phase == "s3" and world.machine_state() == "stopped"

    world.until(rests, within_s=within_s, every_s=_JANITOR_S, acts=True)


@pytest.mark.slow
def test_key_execution_that_a_person_aborts_costs_a_janitors_interval(world: World, told: Told) -> None:
    row = hot(world)
    aborted_us = world.clock.now_us()
    world.executions.stop(world.key_machine, row.execution_name, cause="by hand")

    at_rest(world)

    assert world.row("k").failures == 1
    assert world.clock.now_us() - aborted_us <= 2 * _JANITOR_S * US_PER_S
    assert bill(world, told).usd < 0.002
    assert world.read("k") == "s3"


def test_node_execution_that_a_person_aborts_costs_a_janitors_interval(world: World, told: Told) -> None:
    hot(world)
    lasting(world)
    world.until(lambda: world.row("k").tier == "redis", within_s=60)
    world.clock.sleep(3)
    world.executions.stop(world.node_machine, world.node().execution_name, cause="by hand")
    assert world.read("k") == "redis"

    at_rest(world)

    taken = bill(world, told)
    assert world.row("k").failures == 0
    assert taken.node_s <= 2 * _JANITOR_S
    assert taken.usd < 0.003


def test_execution_started_by_hand_with_a_live_ones_input_takes_one_transition_more(world: World, told: Told) -> None:
    row = hot(world)
    arn = execution_arn(world.key_machine, row.execution_name)
    given = world.states_client.describe_execution(executionArn=arn)["input"]

    world.states_client.start_execution(stateMachineArn=world.key_machine, name="by-hand", input=given)
    world.clock.sleep(1)

    assert json.loads(ended(world, world.key_machine, "by-hand")["output"])["outcome"] == "superseded"
    assert world.read("k") == "lambda"
    at_rest(world)
    assert world.row("k").failures == 0
    assert bill(world, told).transitions == 4 + 2


def test_node_run_started_by_hand_with_a_live_ones_input_harms_nothing(world: World) -> None:
    hot(world)
    lasting(world)
    given = {"generation": world.node().generation, "node": NODE, "part": 1}

    world.states_client.start_execution(stateMachineArn=world.node_machine, name="by-hand", input=json.dumps(given))
    world.until(lambda: world.row("k").tier == "redis", within_s=60)
    world.until(lambda: ended(world, world.node_machine, "by-hand")["status"] != "RUNNING", within_s=60)

    assert ended(world, world.node_machine, "by-hand")["status"] == "SUCCEEDED"
    assert world.executions_of(world.node_machine) == [world.node().execution_name]


def test_steps_of_a_life_that_is_redriven_after_its_end_are_refused(world: World) -> None:
    row = hot(world)
    at_rest(world)
    world.clock.sleep(1)
    later = hot(world)
    step = {"key": "k", "key_hash": row.hash, "epoch": row.epoch, "node": NODE}

    # A task that has not started has no address, so no seeding begins on it.
    refused = SupersededError if world.tasks is None else (SupersededError, RedisDownError)
    for more in ({"op": "join", "token": "redriven"}, {"op": "seed", "generation": 1}):
        with pytest.raises(refused):
            world.invoke("redis_control", step | more)
    world.invoke("redis_control", step | {"op": "leave", "failures": 0, "is_failed": True, "queue_us": []})

    assert (world.row("k").epoch, world.row("k").phase) == (later.epoch, "lambda")
    assert world.read("k") == "lambda"


@pytest.mark.slow
def test_aws_without_room_bars_promotion_and_not_the_lambda_tier(world: World, told: Told) -> None:
    row = hot(world)
    with without_room(world):
        lasting(world)
        world.until(lambda: world.row("k").phase == "s3", within_s=300)
    first_run = world.node().execution_name

    assert json.loads(ended(world, world.key_machine, row.execution_name)["output"])["outcome"] == "node_failed"
    error = "ServiceTransientError" if world.tasks is None else "NodeFailedError"
    assert ended(world, world.node_machine, first_run)["error"] == error
    assert world.node().not_before_us > world.clock.now_us()
    assert (world.row("k").failures, world.row("k").not_before_us) == (0, 0)
    world.clock.sleep(10)  # requests from before the failure do not count
    hot(world)
    for _ in range(20):  # it lasts, and is not promoted
        assert world.read("k") == "lambda"
        world.clock.sleep(0.5)
    assert world.executions_of(world.node_machine) == []
    world.clock.sleep_until(max(world.node().not_before_us, world.clock.now_us()))
    if world.row("k").phase == "s3":
        hot(world)
    lasting(world)
    world.until(lambda: world.row("k").tier == "redis", within_s=60)
    assert world.node().failures == 0
    at_rest(world)
    assert bill(world, told).usd < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("redis_on", ["ec2", "fargate-spot"])
@pytest.mark.parametrize("policy", BY_USE)
def test_node_that_fails_to_boot_is_not_booted_at_each_report(
    make_world: Callable[..., World], policy: str, redis_on: NodeKind
) -> None:
    world = make_world(policy=policy_named(policy), runs_machines=True, has_relay=False, redis_on=redis_on)
    world.put_object("k")
    with without_room(world):
        for _ in range(60):
            assert world.read("k") == "s3"
            world.clock.sleep(10)
    runs = world.executions_of(world.node_machine, "FAILED")

    assert 1 <= len(runs) <= 4  # 60 s, 120 s and 240 s apart, and what the attempts take
    world.clock.sleep_until(world.node().not_before_us)
    for _ in range(12):
        world.read("k")
        world.clock.sleep(10)
    assert world.node().phase == "running"


def test_the_policies_under_test_are_all_there_are() -> None:
    assert {"thesis", *BY_USE} == set(POLICIES)


def test_relay_that_is_replaced_is_a_detour_and_no_failure(world: World, told: Told) -> None:
    row = hot(world)
    for _ in range(2):  # each prolongs the life
        assert world.read("k") == "lambda"
    world.relay.is_down = True
    assert [world.read("k") for _ in range(3)] == ["s3"] * 3

    world.relay.is_down = False
    world.clock.sleep(6)  # a reader leaves a relay that is down alone for some seconds

    assert world.read("k") == "lambda"
    at_rest(world)
    assert ended(world, world.key_machine, row.execution_name)["status"] == "SUCCEEDED"
    assert bill(world, told).transitions == 4


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("dynamodb", "Query", "ThrottlingException", 400),
        ("dynamodb", "BatchGetItem", "InternalServerError", 500),
        ("dynamodb", "UpdateItem", "ProvisionedThroughputExceededException", 400),
        ("states", "SendTaskSuccess", "ThrottlingException", 400),
        ("machines", "", "RequestLimitExceeded", 503),
    ],
)
def test_aws_that_throttles_a_node_for_a_while_takes_it_from_no_key(
    world: World, told: Told, service: str, operation: str, code: str, status: int
) -> None:
    hot(world)
    lasting(world)
    world.until(lambda: world.row("k").tier == "redis", within_s=60)
    run = world.node().execution_name
    if service == "machines":
        service, operation = ("ec2", "StopInstances") if world.tasks is None else ("ecs", "StopTask")
    client = world.ecs if service == "ecs" else getattr(world.clients, service)
    with failing(client, operation, times=2, code=code, status=status) as faults:
        world.until(lambda: world.row("k").phase == "s3", within_s=7200, every_s=1)
        world.until(lambda: world.node().phase == "stopped", within_s=600, every_s=1)

    assert faults.refused == 2
    assert ended(world, world.node_machine, run)["status"] == "SUCCEEDED"
    assert world.row("k").failures == 0
    assert bill(world, told).transitions <= 7 + 7 + 2


@pytest.mark.slow
def test_account_without_concurrency_costs_three_minutes_and_reads_go_on(
    world: World, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "_hold_object", lambda payload, context: {})  # Lambda drops the event
    row = world.started("k")
    for _ in range(30):
        assert world.read("k") == "s3"
        world.clock.sleep(1)

    world.until(lambda: world.row("k").phase == "s3", within_s=180)

    described = ended(world, world.key_machine, row.execution_name)
    assert (described["status"], described["error"]) == ("FAILED", "Timeout")
    assert "never started" in described["cause"]
    assert world.row("k").not_before_us - world.row("k").changed_at_us == _COOL_DOWN_S * US_PER_S
    assert bill(world, told).transitions == 6
    assert goes_off("KeyLifecycleAlarm", (), 1)


def test_key_that_is_hot_for_a_month_costs_its_node_and_fails_nowhere(
    make_world: Callable[..., World], told: Told
) -> None:
    a_day_us = 86_400 * US_PER_S
    usual = parameters_from_text(rate="9", sensitivity="4")
    parameters = replace(usual, redis_utilization_us=7 * a_day_us, redis_check_us=a_day_us)
    world = make_world(runs_machines=True, policy=thesis(parameters))
    row = hot(world)
    lasting(world)
    world.until(lambda: world.row("k").tier == "redis", within_s=60)
    for _ in range(30):
        world.clock.sleep(86_000)
        assert world.read("k") == "redis"

    world.until(lambda: world.row("k").phase == "s3", within_s=86_400, every_s=600)

    described = ended(world, world.key_machine, row.execution_name)
    assert json.loads(described["output"])["outcome"] == "hot_for_30_days"
    assert world.row("k").not_before_us == 0
    world.until(lambda: world.node().phase == "stopped", within_s=2 * 86_400, every_s=600)
    for machine in (world.key_machine, world.node_machine):
        assert world.executions_of(machine, "FAILED") == []
    taken = bill(world, told)
    assert taken.node_s / 86_400 == pytest.approx(30, abs=2)
    assert taken.usd == pytest.approx(taken.node_s * float(METER.prices.redis_usd_per_s), rel=0.01)
    assert taken.transitions <= 7 + 5 + 2 * 30


def test_clock_that_is_behind_the_last_life_never_repeats_a_name() -> None:
    epoch = next_number(1000, now_us=999_000)

    assert epoch == 1001
    assert key_execution_name("k", "h" * 32, epoch) != key_execution_name("k", "h" * 32, 1000)


def test_deleting_a_hot_object_is_neither_a_failure_nor_a_cool_down(world: World) -> None:
    row = hot(world)
    world.delete_object("k")
    world.written("k")
    world.until(lambda: world.row("k").phase == "s3", within_s=30)

    told_by_execution = json.loads(ended(world, world.key_machine, row.execution_name)["output"])
    assert (told_by_execution["outcome"], world.row("k").failures) == ("gone", 0)
    world.clock.sleep(1)
    world.put_object("k")  # replaced by a delete and a put: the next GETs start it again
    assert "started" in world.get_twice("k")


def test_execution_says_why_it_ended_what_it_served_and_what_that_cost(world: World) -> None:
    row = hot(world)
    for _ in range(3):
        world.read("k")
    at_rest(world)

    told = json.loads(ended(world, world.key_machine, row.execution_name)["output"])

    assert told["ended"] == "it was no longer asked for often enough"
    assert told["served"] == 3
    assert told["first_request"] <= told["last_request"]
    assert 0 < told["estimated_usd"] < 0.001
    assert "list prices" in told["estimate_covers"]


def test_run_of_a_node_says_why_it_ended_how_long_it_took_and_what_that_cost(world: World) -> None:
    hot(world)
    lasting(world)
    world.until(lambda: world.row("k").tier == "redis", within_s=60)
    run = world.node().execution_name
    at_rest(world)

    told = json.loads(ended(world, world.node_machine, run)["output"])

    assert told["ended"] == "nobody used it any more"
    assert told["ran_s"] > BOOT_S
    assert told["estimate_covers"].startswith("the node since its boot")
    assert 0 < told["estimated_usd"] < 0.01
    assert told["booted_at"].endswith("Z")
