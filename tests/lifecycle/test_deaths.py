"""Cache functions that die before their promotion: who notices, what takes their place, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.executions import execution_arn
from burstcache.core.parameters import US_PER_S
from burstcache.core.policies import LivePolicy
from burstcache.core.rows import KeyRow
from burstcache.core.table import NodeColumns
from burstcache.handlers import cache
from support.functions import ProcessKilledError
from support.interruptions import deadly
from support.policies import BY_USE, policy_named
from support.world import World

_POLICIES = ("thesis", *BY_USE)
_SLOW_BY_USE = [pytest.param(name, marks=pytest.mark.slow) for name in BY_USE]
_NOTICED_S = 6  # the record, the pause before the retry, the start, and what readers know of it


def policy_of(name: str) -> LivePolicy | None:
    """Return a policy under which a key of two GETs a second has a cache function and no node."""
    return None if name == "thesis" else policy_named(name, per_million="1000", node_type="r7g.large")


@pytest.fixture(params=_POLICIES)
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed, under each policy; its node may not boot."""
    return held_in_lambda(make_world(runs_machines=True, policy=policy_of(request.param)))


@pytest.fixture
def thesis(make_world: Callable[..., World]) -> World:
    """A world under the policy of the thesis."""
    return held_in_lambda(make_world(runs_machines=True))


def held_in_lambda(world: World) -> World:
    """Bar the node for a day, so that keys stay with their cache functions."""
    barred = NodeColumns(generation=1, failures=9, not_before_us=world.clock.now_us() + 86_400 * US_PER_S)
    assert world.nodes.change(world.node(), **barred) is not None
    world.put_object("k")
    return world


def held(world: World, *, for_s: float = 10) -> KeyRow:
    """Make a key hot, and ask for it for a while."""
    while "started" not in world.get_twice("k"):
        world.clock.sleep(1)
    world.until(lambda: world.row("k").tier == "lambda", within_s=10)
    world.clock.sleep(2)
    assert set(tiers(world, for_s)) == {"lambda"}
    return world.row("k")


def tiers(world: World, for_s: float, every_s: float = 0.5) -> list[str]:
    """Ask for the key again and again; return the tiers that served."""
    seen = []
    for _ in range(round(for_s / every_s)):
        seen.append(world.read("k"))
        world.clock.sleep(every_s)
    return seen


def ended(world: World, row: KeyRow) -> dict[str, Any]:
    """Wait for the end of a life; return how its execution has ended."""
    arn = execution_arn(world.key_machine, row.execution_name)

    def described() -> dict[str, Any]:
        return dict(world.states_client.describe_execution(executionArn=arn))

    world.until(lambda: described()["status"] != "RUNNING", within_s=3600, every_s=5)
    return described()


def starts(world: World, row: KeyRow) -> list[dict[str, Any]]:
    """Return the payloads with which a life's cache functions were started."""
    arn = execution_arn(world.key_machine, row.execution_name)
    events = world.states_client.get_execution_history(executionArn=arn)["events"]
    scheduled = [event["taskScheduledEventDetails"] for event in events if event["type"] == "TaskScheduled"]
    return [json.loads(each["parameters"])["Payload"] for each in scheduled if each["resourceType"] == "lambda"]


def dies_while_it_loads(world: World, *, times: int, which: slice = slice(None)) -> None:
    """Let the next cache functions die while they load the object."""
    world.cache_tools = replace(world.cache_tools, objects=deadly(world, times, which))


def is_without_failure(world: World) -> bool:
    """Return whether no life has failed and the key may start again at once."""
    row = world.row("k")
    return not world.executions_of(world.key_machine, "FAILED") and (row.failures, row.not_before_us) == (0, 0)


@pytest.mark.parametrize("world", ["thesis", *_SLOW_BY_USE], indirect=True)
def test_one_that_dies_is_replaced_within_seconds_and_the_life_goes_on(world: World) -> None:
    row = held(world, for_s=60)

    for death in range(1, 3):  # and so is the one that replaced it
        world.kill_cache()
        seen = tiers(world, 20)
        assert (seen[0], seen[-1]) == ("s3", "lambda")
        assert seen.index("lambda") * 0.5 <= _NOTICED_S
        assert world.row("k").attempt == death

    assert (world.row("k").epoch, len(world.executions_of(world.key_machine))) == (row.epoch, 1)
    assert json.loads(ended(world, row)["output"])["outcome"] == "idle"
    assert is_without_failure(world)


def test_one_that_nobody_asks_for_any_more_is_replaced_by_one_that_ends_soon(world: World) -> None:
    row = held(world)
    world.kill_cache()

    assert json.loads(ended(world, row)["output"])["outcome"] == "idle"
    assert len(starts(world, row)) == 2
    assert is_without_failure(world)


@pytest.mark.slow
def test_one_whose_host_is_lost_is_missed_after_a_minute_and_replaced(world: World) -> None:
    row = held(world)
    world.kill_cache(host=True)

    seen = tiers(world, 80)

    assert set(seen[:80]) == {"s3"}  # 40 s
    assert set(seen[-20:]) == {"lambda"}
    assert (world.row("k").epoch, world.row("k").attempt) == (row.epoch, 1)
    ended(world, row)
    assert is_without_failure(world)


def test_one_that_dies_before_it_has_announced_itself_is_replaced(thesis: World) -> None:
    dies_while_it_loads(thesis, times=1)

    row = held(thesis)

    assert row.attempt == 1
    ended(thesis, row)
    assert is_without_failure(thesis)


def test_one_that_dies_whenever_it_starts_fails_the_life_by_name_after_six_starts(thesis: World) -> None:
    dies_while_it_loads(thesis, times=99)
    row = thesis.started("k")

    failed = ended(thesis, row)

    assert (failed["status"], failed["error"]) == ("FAILED", "HolderDiedTransientError")
    assert "signal: killed" in failed["cause"]
    assert len(starts(thesis, row)) == 6
    assert thesis.clock.now_us() - row.changed_at_us < 120 * US_PER_S
    assert (thesis.row("k").failures, thesis.row("k").tier) == (1, "")
    assert thesis.row("k").not_before_us - thesis.row("k").changed_at_us == 60 * US_PER_S
    assert thesis.read("k") == "s3"


def test_one_whose_hosts_are_lost_again_and_again_fails_the_life_after_three_starts(thesis: World) -> None:
    row = held(thesis)

    for _ in range(3):
        thesis.until(lambda: thesis.running_caches(), within_s=70)
        thesis.clock.sleep(2)
        thesis.kill_cache(host=True)

    failed = ended(thesis, row)
    assert (failed["status"], failed["error"]) == ("FAILED", "Timeout")
    assert "three times no heartbeat" in failed["cause"]
    assert len(starts(thesis, row)) == 3
    assert thesis.row("k").failures == 1


def test_one_that_dies_when_its_life_is_over_is_missed_by_nobody(
    thesis: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies_afterwards(payload: dict[str, Any], context: Any) -> Any:
        answer = handler(payload, context)
        thesis.kill_cache()
        return answer

    handler = cache.handler
    monkeypatch.setattr(cache, "handler", dies_afterwards)

    assert json.loads(ended(thesis, held(thesis))["output"])["outcome"] == "idle"
    thesis.clock.sleep(60)
    assert is_without_failure(thesis)


def test_a_record_that_comes_twice_or_late_replaces_nothing(thesis: World) -> None:
    payload = starts(thesis, held(thesis))[-1]
    thesis.kill_cache()
    tiers(thesis, 10)

    for _ in range(2):
        thesis.report_failure(payload, ProcessKilledError("again"))

    assert set(tiers(thesis, 10)) == {"lambda"}
    assert thesis.row("k").attempt == 1


def test_a_record_after_the_lost_heartbeat_replaces_nothing(thesis: World) -> None:
    held(thesis)
    payload = starts(thesis, thesis.row("k"))[-1]
    thesis.kill_cache(host=True)
    thesis.until(lambda: thesis.row("k").attempt == 1, within_s=70)

    thesis.report_failure(payload, ProcessKilledError("late"))

    thesis.clock.sleep(4)
    assert (thesis.row("k").attempt, len(thesis.running_caches())) == (1, 1)


def test_a_second_invocation_of_the_same_event_that_dies_costs_a_start_and_no_read(thesis: World) -> None:
    held(thesis)
    thesis.report_failure(starts(thesis, thesis.row("k"))[-1], ProcessKilledError("the other one"))

    seen = tiers(thesis, 30)

    assert set(seen) == {"lambda"}
    assert (thesis.row("k").attempt, len(thesis.running_caches())) == (1, 1)


@pytest.mark.slow
def test_none_is_replaced_while_the_stack_is_paused(world: World) -> None:
    row = held(world)
    world.pauses.begin("test")
    world.kill_cache()

    assert set(tiers(world, 30)) == {"s3"}
    assert json.loads(ended(world, row)["output"])["outcome"] == "idle"
    assert is_without_failure(world)


@pytest.mark.slow
def test_one_that_dies_while_the_next_one_starts_leaves_the_key_to_it(thesis: World) -> None:
    row = held(thesis)
    tiers(thesis, 800, every_s=4)
    dies_while_it_loads(thesis, times=1, which=slice(0, 1))
    tiers(thesis, 100, every_s=2)

    assert set(tiers(thesis, 20)) == {"lambda"}
    assert (thesis.row("k").epoch, thesis.row("k").attempt) == (row.epoch, 1)
    assert is_without_failure(thesis)


@pytest.mark.slow
def test_next_one_that_dies_before_it_serves_is_started_again_while_the_former_serves(thesis: World) -> None:
    held(thesis)
    tiers(thesis, 800, every_s=4)
    dies_while_it_loads(thesis, times=1, which=slice(-1, None))

    assert set(tiers(thesis, 100, every_s=2)) == {"lambda"}
    assert thesis.row("k").attempt == 2


def test_write_while_nobody_holds_the_key_is_seen_by_the_one_that_follows(thesis: World) -> None:
    held(thesis)
    thesis.kill_cache()
    thesis.put_object("k", b"new")
    thesis.written("k")

    assert tiers(thesis, 10)[-1] == "lambda"
    assert thesis.body_in_lambda_tier("k") == b"new"


def test_one_that_dies_after_its_life_was_told_promoted_is_left_to_what_s3_serves(
    make_world: Callable[..., World],
) -> None:
    world = make_world(runs_machines=True)
    world.started("k")
    world.until(lambda: world.row("k").tier == "lambda", within_s=10)
    world.clock.sleep(2)
    payload = starts(world, world.row("k"))[-1]
    world.until(lambda: world.read("k") and world.row("k").joined_at_us, acts=True)

    failed = {"requestPayload": payload, "responsePayload": {}}
    answer = world.invoke("scheduler", {"source": "lambda", "detail-type": "", "detail": failed})

    assert answer == {"outcome": "remembered"}
