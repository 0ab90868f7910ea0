"""A paused stack: nothing starts, nothing fails, reads go on from S3, and the next month begins by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from burstcache.core.keys import key_hash
from burstcache.handlers import budget
from support.functions import NODE
from support.policies import policy_named
from support.project import ROOT
from support.world import World


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines stop at their first task, once with the node on EC2 and once as a task."""
    return make_world(redis_on=request.param)


@pytest.fixture
def spend(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Lets AWS Budgets say that the month's money is spent."""
    monkeypatch.setattr(budget, "pauses", lambda: world.pauses)
    return lambda: budget.handler(json.loads((ROOT / "events/budget/exceeded.json").read_text()), None)


@pytest.fixture
def failures(world: World) -> Iterator[list[str]]:
    """Collect Step Functions' answers to failing a running task. Empty: no task was failed."""
    failed: list[str] = []

    def note(parsed: dict[str, Any], **_: object) -> None:
        if "Error" not in parsed:  # a token that is closed is refused
            failed.append(str(parsed))

    events = world.states_client.meta.events
    events.register("after-call.sfn.SendTaskFailure", note)
    yield failed
    events.unregister("after-call.sfn.SendTaskFailure", note)


def test_a_key_that_gets_hot_stays_with_s3_and_its_reads_are_answered(world: World, spend: Callable[[], Any]) -> None:
    world.put_object("k")
    spend()

    assert world.get_twice("k") == ["remembered", "paused"]
    assert [world.read("k") for _ in range(3)] == ["s3"] * 3

    assert world.executions_of(world.key_machine) == []
    assert world.row("k").phase == "s3"


def test_a_message_that_only_tries_the_topic_pauses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "pauses", lambda: world.pauses)
    world.put_object("k")

    assert budget.handler({"Records": [{"Sns": {"Subject": None, "Message": "Topic verified"}}]}, None) == {}
    assert "paused" not in world.get_twice("k")


def test_a_pause_is_over_when_the_month_is(world: World, spend: Callable[[], Any]) -> None:
    world.put_object("k")
    until_us = spend()["until_us"]
    world.clock.sleep_until(until_us - 1_000_000)
    assert world.get_twice("k")[-1] == "paused"

    world.clock.sleep_until(until_us)

    assert "started" in world.get_twice("k")


def test_a_pause_is_over_when_a_person_ends_it(world: World, spend: Callable[[], Any]) -> None:
    world.put_object("k")
    spend()

    assert world.pauses.end()

    assert "started" in world.get_twice("k")
    assert not world.pauses.end()


def test_a_pause_that_a_person_is_to_end_is_not_over_with_the_month(world: World, spend: Callable[[], Any]) -> None:
    world.put_object("k")
    begun = world.pauses.begin("by hand")

    assert spend() == {}

    assert world.pauses.read() == begun


def test_a_later_message_about_the_budget_pauses_for_as_long(world: World, spend: Callable[[], Any]) -> None:
    assert spend()["until_us"] == spend()["until_us"]


def test_a_start_by_hand_is_refused_too(world: World, spend: Callable[[], Any]) -> None:
    spend()
    event = {"detail-type": "KeyStartRequested", "detail": {"key": "k"}}

    assert world.invoke("scheduler", event) == {"outcome": "paused"}


def test_a_node_is_not_held_by_hand_and_the_refusal_says_why(world: World, spend: Callable[[], Any]) -> None:
    spend()

    answer = world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 60})

    assert re.match(rf"{NODE} does not boot, the stack is paused: AWS Budgets: .* exceeded", answer["refused"])


def test_a_key_in_a_cache_function_ends_there_and_is_not_promoted(
    world: World, spend: Callable[[], Any], failures: list[str]
) -> None:
    world.started("k")
    life = world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")
    spend()

    for _ in range(world.parameters.redis_threshold + 2):
        assert world.get("k") is not None

    assert life.join() == "idle"
    assert world.node().phase == "stopped"
    assert failures == []


def test_a_node_that_runs_is_stopped_by_the_janitor_and_its_keys_return_without_a_failure(
    world: World, spend: Callable[[], Any], failures: list[str]
) -> None:
    name = world.running("k")
    spend()

    assert world.clean() == {"keys": [], "nodes": [], "paused": [NODE]}

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.stopped() == {"phase": "stopped"}
    assert world.node().lost_at_us == 0
    assert failures == []
    assert world.clean()["paused"] == []


def test_a_node_that_boots_gets_ready_before_it_is_stopped_so_that_no_key_fails(
    world: World, spend: Callable[[], Any], failures: list[str]
) -> None:
    waiter = world.joined("k")
    world.boot()
    spend()
    assert world.clean() == {"keys": [], "nodes": [], "paused": []}
    world.ready()

    assert world.clean()["paused"] == [NODE]

    assert world.outcome(waiter) == {"generation": world.node().generation}
    assert failures == []


def test_a_node_that_never_stops_does_in_a_pause_and_boots_after_it(world: World, spend: Callable[[], Any]) -> None:
    world.control = replace(world.control, always_on=[NODE])
    world.janitor = replace(world.janitor, always_on=[NODE])
    world.clean()
    world.boot()
    world.ready()
    spend()

    assert world.clean()["paused"] == [NODE]
    assert world.stopped() == {"phase": "stopped"}
    assert world.clean() == {"keys": [], "nodes": [], "paused": []}
    world.pauses.end()

    assert world.clean()["nodes"] == [NODE]
    assert world.node().phase == "booting"


def test_a_node_that_takes_guests_does_not_boot_for_its_load(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(policy=policy_named("breakeven", per_million="1000", node_type="t4g.micro"), has_relay=False)
    world.pauses.begin("by hand")

    def load() -> None:
        for _ in range(60):
            world.report("k")
            world.clock.sleep(0.5)

    load()
    assert world.node().phase == "stopped"
    world.pauses.end()
    load()

    assert world.node().phase == "booting"


def test_what_starts_while_the_pause_begins_ends_as_ever(world: World, spend: Callable[[], Any]) -> None:
    world.started("k")
    spend()
    life = world.serve("k")
    world.until(lambda: world.row("k").holder)

    assert world.get("k") is not None
    assert life.join() == "idle"
    assert world.row("k").hash == key_hash("k")
