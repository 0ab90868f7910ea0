"""Every row of `docs/understand/lifecycle.md`, "Interleavings", by name."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import nats
import pytest

from burstcache.adapters import relay as relay_adapter
from burstcache.adapters.executions import Executions
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import NodeFailedError, RedisDownError, ServiceError, SupersededError
from burstcache.core.keys import key_hash
from burstcache.core.policy import Request
from burstcache.core.table import Lease
from support.world import BUCKET, NODE, World

_S = 1_000_000
_HOUR_US = 3600 * _S


class _BrokenExecutions(Executions):
    """Step Functions refuses to start anything."""

    def start(self, machine_arn: str, name: str, input_: object) -> bool:
        raise ServiceError("slow down", code="ThrottlingException")


def _get(world: World, key: str) -> bytes | None:
    now_us = world.now_us()
    payload = json.dumps({"at_us": now_us, "request_id": f"g{now_us}", "method": "GET"}).encode()
    return world.relay.request(f"get.{key_hash(key)}", payload, timeout_s=2)


def test_two_schedulers_start_a_key(world: World) -> None:
    world.put_object("k")

    outcomes = [*world.get_twice("k"), *world.get_twice("k", world.scheduler())]

    assert outcomes.count("started") == 1
    assert len(world.executions_of(world.key_machine)) == 1


def test_two_schedulers_that_read_the_same_row_start_one_life(world: World) -> None:
    world.put_object("k")
    row = world.keys.append(key_hash("k"), "k", Request(world.now_us(), "r"), etag="", size_bytes=1, keep=7)
    scheduler, rival = world.scheduler(), world.scheduler()

    outcomes = [scheduler._start(row, world.now_us()), rival._start(row, world.now_us())]

    assert outcomes == ["started", "lost"]


def test_row_written_but_start_execution_fails(world: World) -> None:
    world.put_object("k")
    with pytest.raises(ServiceError, match="slow down"):
        world.get_twice("k", world.scheduler(_BrokenExecutions(world.clients.states)))
    row = world.row("k")
    assert world.executions_of(world.key_machine) == []

    outcomes = world.get_twice("k", now_us=row.changed_at_us + 6 * _S)

    assert outcomes[0] == "restarted"
    assert world.executions_of(world.key_machine) == [row.execution_name]


def test_execution_that_is_over_before_it_announced_is_taken_over_with_a_new_epoch(world: World) -> None:
    row = world.started("k")
    world.executions.stop(world.key_machine, row.execution_name, cause="test")

    outcomes = world.get_twice("k", now_us=row.changed_at_us + 6 * _S)

    assert outcomes[0] == "taken_over"
    assert world.row("k").epoch > row.epoch
    assert world.executions_of(world.key_machine) == [world.row("k").execution_name]


def test_execution_dies_anywhere_and_the_deadline_frees_the_key(world: World) -> None:
    row = world.started("k")
    world.executions.stop(world.key_machine, row.execution_name, cause="test")
    later = row.deadline_at_us + 1

    outcomes = world.get_twice("k", at_us=later, now_us=later)

    assert outcomes[-1] == "started"
    assert world.row("k").epoch > row.epoch


@pytest.mark.parametrize("phase", ["lambda", "redis_bootup", "redis_running"])
def test_execution_dies_anywhere_and_the_janitor_returns_the_key(world: World, phase: str) -> None:
    if phase == "lambda":
        world.started("k")
    elif phase == "redis_bootup":
        world.joined("k")
    else:
        world.running("k")
    row = world.row("k")
    assert row.phase == phase
    world.executions.stop(world.key_machine, row.execution_name, cause="test")

    cleaned = world.janitor().clean()

    assert cleaned["keys"] == ["k"]
    assert world.row("k").phase == "s3"
    assert world.row("k").tier == ""
    assert world.nodes.leases(NODE) == []


def test_janitor_leaves_what_has_an_owner(world: World) -> None:
    world.running("k")

    cleaned = world.janitor().clean()

    assert cleaned == {"keys": [], "nodes": []}
    assert world.row("k").phase == "redis_running"


def test_janitor_stops_a_node_whose_execution_died(world: World) -> None:
    name = world.running("k")
    row = world.nodes.read(NODE)
    world.executions.stop(world.node_machine, row.execution_name, cause="test")

    cleaned = world.janitor().clean()

    assert cleaned["nodes"] == [NODE]
    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.nodes.read(NODE).phase == "stopped"
    assert world.node.instances.state(NODE) == "stopped"


def test_cache_function_invoked_twice(world: World) -> None:
    world.started("k")
    first = world.serve("k", holder="one")
    world.until(lambda: world.row("k").holder)

    second = world.serve("k", holder="two").join()

    assert second == "superseded"
    assert world.row("k").holder == "one"
    assert first.join() == "idle"
    assert world.outcome(world.row("k").execution_name) == {"outcome": "idle"}


def test_failing_second_invocation_does_not_fail_the_first(world: World) -> None:
    world.started("k")
    first = world.serve("k", holder="one")
    world.until(lambda: world.row("k").holder)
    world.aws["s3"].delete_object(Bucket=BUCKET, Key="k")

    assert world.serve("k", holder="two").join() == "failed"

    assert first.join() == "idle"
    assert world.outcome(world.row("k").execution_name) == {"outcome": "idle"}


def test_cache_that_cannot_load_its_object_fails_the_life_by_name(world: World) -> None:
    world.started("k")
    world.put_object("k", b"x" * (4 << 20) + b"x")

    assert world.serve("k").join() == "failed"

    assert world.outcome(world.row("k").execution_name) == {"error": "ObjectTooLargeError"}


def test_cache_that_cannot_load_its_object_leaves_no_connection_half_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[nats.NATS] = []
    connect, load, refused = relay_adapter.connect, ObjectStore.fetch, threading.Event()

    def fetch(*args: Any, **options: Any) -> Any:
        try:
            return load(*args, **options)
        finally:
            refused.set()

    async def connect_late(*args: Any, **options: Any) -> nats.NATS:
        while not refused.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # until the loop has seen the refusal
        made.append(await connect(*args, **options))
        return made[-1]

    monkeypatch.setattr(ObjectStore, "fetch", fetch)
    monkeypatch.setattr(relay_adapter, "connect", connect_late)
    world.started("k")
    world.put_object("k", b"x" * (4 << 20) + b"x")

    assert world.serve("k").join() == "failed"

    world.until(lambda: made and made[0].is_closed)


def test_cache_crashes_and_proxies_get_no_answer_at_once(world: World) -> None:
    row = world.started("k")
    world.keys.update(row.hash, epoch=row.epoch, set_={"tier": "lambda", "holder": "crashed"})

    assert _get(world, "k") is None


def test_zombie_cache_leaves_when_its_heartbeat_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.control.cache_life._HEARTBEAT_S", 0.1)
    row = world.started("k")
    world.token(row.execution_name)
    zombie = world.serve("k")
    world.until(lambda: world.row("k").holder)
    world.executions.stop(world.key_machine, row.execution_name, cause="test")
    world.keys.update(row.hash, epoch=row.epoch, set_={"phase": "s3"})

    assert zombie.join() == "superseded"
    assert _get(world, "k") is None


def test_cache_leaves_before_its_invocation_ends_whatever_the_load(world: World) -> None:
    world.started("k")
    life = world.serve("k", remaining_s=11)
    world.until(lambda: world.row("k").tier == "lambda")

    for _ in range(3):
        assert _get(world, "k") is not None

    assert life.join() == "idle"


def test_idle_drain_against_a_new_request(world: World) -> None:
    row = world.started("k")
    assert world.serve("k").join() == "idle"

    assert _get(world, "k") is None
    assert world.row("k").tier == ""
    world.keys.update(row.hash, epoch=row.epoch, set_={"phase": "s3", "changed_at_us": world.now_us()})
    assert "started" in world.get_twice("k")


def test_old_and_new_cache_overlap_and_exactly_one_answers(world: World) -> None:
    async def answers() -> int:
        relay = await nats.connect(world.settings.relay.url)
        served = []

        async def serve(message: nats.aio.msg.Msg) -> None:
            served.append(message)
            await message.respond(b"")

        for _ in range(2):
            await relay.subscribe("get.h", queue="h", cb=serve)
        for _ in range(20):
            await relay.request("get.h", b"")
        await relay.close()
        return len(served)

    assert asyncio.run(answers()) == 20


def test_join_against_node_ready(world: World) -> None:
    waiter = world.joined("k")
    row = world.nodes.read(NODE)
    world.node._mark_running(row, world.now_us())

    late = f"join-{world.started('late').hash}"
    world.control.key(key_hash("late")).join(world.life("late"), world.token(late))

    assert world.outcome(late) == {"generation": row.generation}
    world.node.await_ready(row.generation)
    assert world.outcome(waiter) == {"generation": row.generation}


def test_node_becomes_ready_twice(world: World) -> None:
    waiter = world.joined("k")
    generation = world.nodes.read(NODE).generation

    plans = [world.node.await_ready(generation) for _ in range(2)]

    assert [plan["next"] for plan in plans] == ["continue", "continue"]
    assert world.outcome(waiter) == {"generation": generation}


def test_join_against_the_last_keys_idle(world: World) -> None:
    name = world.running("k")
    seen = world.nodes.read(NODE)
    world.started("late")
    world.control.key(key_hash("late")).join(world.life("late"), world.token("late"))

    plan = world.node._next_if_unused(seen, at_us=world.now_us())

    assert plan["next"] == "continue"
    assert world.nodes.read(NODE).phase == "running"
    assert world.outcome("late") == {"generation": seen.generation}
    assert name in world.executions_of(world.token_machine)


def test_last_keys_idle_stops_the_node(world: World) -> None:
    name = world.running("k")
    world.node.store().add_older_times(key_hash("k"), [world.now_us()])

    plan = world.check()

    assert plan == {"next": "stop"}
    assert world.outcome(name)["outcome"] == "idle"
    assert world.node.stop(world.nodes.read(NODE).generation) == {"phase": "stopped"}
    assert world.node.instances.state(NODE) == "stopped"


def test_join_while_stopping_boots_the_node_again(world: World) -> None:
    world.running("k")
    world.check()
    stopping = world.nodes.read(NODE)
    assert stopping.phase == "stopping"
    late = world.joined("late")
    assert world.nodes.read(NODE).phase == "stopping"

    answer = world.node.stop(stopping.generation)

    assert answer["phase"] == "booting"
    row = world.nodes.read(NODE)
    assert row.generation > stopping.generation
    assert row.execution_name in world.executions_of(world.node_machine)
    world.node.start(row.generation)
    world.node.await_ready(row.generation)
    assert world.outcome(late) == {"generation": row.generation}


def test_key_that_gets_hot_while_the_node_stops_enters_restricted(world: World) -> None:
    world.running("k")
    world.check()

    assert world.started("late").phase == "restricted_lambda"


def test_key_that_gets_hot_while_the_node_runs_goes_straight_to_redis(world: World) -> None:
    world.running("k")

    row = world.started("late")

    assert (row.entry, row.phase) == ("redis", "redis_bootup")


def test_first_joiner_dies_before_start_execution(world: World) -> None:
    broken = world.control.key(key_hash("k"))
    world.started("k")
    object.__setattr__(broken.node_life, "executions", _BrokenExecutions(world.clients.states))
    with pytest.raises(ServiceError, match="slow down"):
        broken.join(world.life("k"), world.token("k"))
    row = world.nodes.read(NODE)
    assert (row.phase, world.executions_of(world.node_machine)) == ("booting", [])

    world.joined("second")

    assert world.executions_of(world.node_machine) == [row.execution_name]


def test_dead_boot_is_taken_over_with_a_new_generation_after_its_deadline(world: World) -> None:
    world.joined("k")
    row = world.nodes.read(NODE)
    world.executions.stop(world.node_machine, row.execution_name, cause="test")
    world.nodes.change(row, deadline_at_us=world.now_us() - 1)

    world.joined("second")

    assert world.nodes.read(NODE).generation > row.generation
    assert world.executions_of(world.node_machine) == [world.nodes.read(NODE).execution_name]


@pytest.mark.parametrize(("failures", "cool_down_s"), [(0, 60), (1, 120), (5, 1920), (6, 3600), (20, 3600)])
def test_life_fails_again_and_again(world: World, failures: int, cool_down_s: int) -> None:
    world.joined("k")

    world.control.key(key_hash("k")).leave(world.life("k"), queue_us=[], is_failed=True, failures=failures)

    row = world.row("k")
    assert row.failures == failures + 1
    assert row.not_before_us - row.changed_at_us == cool_down_s * _S
    assert world.get_twice("k")[-1] == "remembered"


def test_object_that_no_tier_can_hold_never_starts(world: World) -> None:
    assert world.get_twice("big", size_bytes=(4 << 20) + 1) == ["remembered", "remembered"]


def test_report_without_a_size_does_not_forget_that_the_object_is_too_large(world: World) -> None:
    world.get_twice("big", size_bytes=(4 << 20) + 1)

    assert world.get_twice("big", size_bytes=0) == ["remembered", "remembered"]


def test_many_keys_hot_at_once(world: World) -> None:
    for i in range(3):
        world.started(f"k{i}")

    assert world.get_twice("one-too-many")[-1] == "full"

    row = world.row("k0")
    world.keys.update(row.hash, epoch=row.epoch, set_={"phase": "s3"})
    world.hot_keys._swept_at_s = float("-inf")
    assert "started" in world.get_twice("one-too-many")
    assert len(world.executions_of(world.key_machine)) == 4


def test_all_leave_during_boot(world: World) -> None:
    world.joined("k")
    generation = world.nodes.read(NODE).generation
    world.control.key(key_hash("k")).leave(world.life("k"), queue_us=[], is_failed=True, failures=0)

    plan = world.node.await_ready(generation)

    assert plan == {"next": "stop"}
    assert world.node.stop(generation) == {"phase": "stopped"}


def test_node_dies_while_routed(world: World) -> None:
    name = world.running("k")
    world.redis.kill()

    plan = world.check()

    assert plan == {"next": "stop"}
    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.nodes.read(NODE).phase == "stopping"
    world.control.key(key_hash("k")).leave(world.life("k"), queue_us=[], is_failed=False, failures=0)
    assert world.row("k").phase == "s3"


def test_node_that_is_slow_once_is_asked_again_and_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.running("k")
    ask, refusals = RedisObjects.queues, [RedisDownError("slow")]

    def slow_once(store: RedisObjects, hashes: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        if refusals:
            raise refusals.pop()
        return ask(store, hashes)

    monkeypatch.setattr(RedisObjects, "queues", slow_once)

    assert world.check(at_us=world.now_us())["next"] == "continue"
    assert world.nodes.read(NODE).phase == "running"


def test_node_never_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.control.node_life._PING_FOR_S", 0.1)
    waiter = world.joined("k")
    generation = world.nodes.read(NODE).generation
    world.redis.kill()

    with pytest.raises(NodeFailedError, match="did not answer"):
        world.node.await_ready(generation)
    world.node.abandon(generation)

    assert world.outcome(waiter) == {"error": "NodeFailedError"}
    assert world.nodes.read(NODE).phase == "stopped"
    assert world.node.instances.state(NODE) == "stopped"


def test_lease_of_a_dead_key_is_dropped_at_the_next_check(world: World) -> None:
    world.running("k")
    world.nodes.join(Lease(NODE, key_hash("dead"), "dead", epoch=7, running="gone"))

    world.check(at_us=world.now_us())

    assert [lease.key for lease in world.nodes.leases(NODE)] == ["k"]


def test_evicted_entry_is_kept_for_one_check_only(world: World) -> None:
    name = world.running("k")
    world.node.store().remove(key_hash("k"))

    plans = [world.check(at_us=world.now_us()) for _ in range(2)]

    assert [plan["next"] for plan in plans] == ["continue", "stop"]
    assert world.outcome(name)["outcome"] == "idle"


@pytest.mark.parametrize("age_s", [16, 3600])
def test_late_event_starts_nothing(world: World, age_s: int) -> None:
    world.put_object("k")

    assert world.get_twice("k", now_us=world.now_us() + age_s * _S) == ["remembered", "remembered"]


def test_old_event_of_a_former_life_starts_nothing(world: World) -> None:
    row = world.started("k")
    world.keys.update(row.hash, epoch=row.epoch, set_={"phase": "s3", "changed_at_us": world.now_us() + _S})

    assert world.get_twice("k") == ["remembered", "remembered"]


def test_event_handled_twice_changes_nothing(world: World) -> None:
    now = world.now_us()

    outcomes = [world.scheduler().observe("k", Request(now, "same"), etag="", size_bytes=1) for _ in range(5)]

    assert set(outcomes) == {"remembered"}
    assert world.row("k").window == (Request(now, "same"),)


def test_step_of_an_old_generation_touches_nothing(world: World) -> None:
    world.running("k")
    generation = world.nodes.read(NODE).generation

    with pytest.raises(SupersededError, match="is over"):
        world.node.abandon(generation - 1)

    assert world.nodes.read(NODE).phase == "running"
