"""The entries of `docs/understand/lifecycle.md`, "Interleavings", that are about the life of a key, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from burstcache.adapters.executions import Executions
from burstcache.control import cache_lease
from burstcache.core.errors import ServiceError
from burstcache.core.keys import key_hash
from burstcache.core.policy import RecordedRequest
from burstcache.core.table import KeyColumns
from support.faults import RefusingExecutions, failing
from support.functions import MAX_OBJECT_BYTES, NODE
from support.interruptions import after
from support.world import World

_S = 1_000_000


def _stop_execution_of(world: World, key: str) -> None:
    world.executions.stop(world.key_machine, world.row(key).execution_name, cause="test")


def test_two_schedulers_start_a_key(world: World) -> None:
    world.put_object("k")

    outcomes = [*world.get_twice("k"), *world.get_twice("k")]

    assert outcomes.count("started") == 1
    assert len(world.executions_of(world.key_machine)) == 1


def test_two_schedulers_that_read_the_same_row_start_one_life(world: World) -> None:
    world.report("k")
    first = world.scheduler
    outcomes: list[str] = []

    def overtake() -> None:
        world.scheduler = first
        outcomes.append(world.report("k"))

    world.scheduler = replace(first, keys=after(world.keys, "append", overtake))
    world.clock.sleep(0.001)
    outcomes.append(world.report("k"))

    assert sorted(outcomes) == ["lost", "started"]
    assert len(world.executions_of(world.key_machine)) == 1


def test_row_written_but_start_execution_fails(world: World) -> None:
    world.put_object("k")
    working, world.scheduler = (
        world.scheduler,
        replace(world.scheduler, executions=RefusingExecutions(world.states_client)),
    )
    with pytest.raises(ServiceError, match="slow down"):
        world.get_twice("k")
    row = world.row("k")
    assert world.executions_of(world.key_machine) == []

    world.scheduler = working
    world.clock.sleep(6)

    assert world.report("k") == "restarted"
    assert world.executions_of(world.key_machine) == [row.execution_name]


def test_execution_that_is_over_before_it_announced_is_taken_over_with_a_new_epoch(world: World) -> None:
    row = world.started("k")
    _stop_execution_of(world, "k")
    world.clock.sleep(6)

    assert world.report("k") == "taken_over"
    assert world.row("k").epoch > row.epoch
    assert world.executions_of(world.key_machine) == [world.row("k").execution_name]


def test_execution_dies_anywhere_and_the_deadline_frees_the_key(world: World) -> None:
    row = world.started("k")
    _stop_execution_of(world, "k")
    world.clock.sleep_until(row.deadline_at_us + _S)

    assert world.get_twice("k")[-1] == "started"
    assert world.row("k").epoch > row.epoch


@pytest.mark.parametrize(
    ("phase", "arrive"),
    [("lambda", World.started), ("redis_bootup", World.joined), ("redis_running", World.running)],
    ids=["lambda", "redis_bootup", "redis_running"],
)
def test_execution_dies_anywhere_and_the_janitor_returns_the_key(
    world: World, phase: str, arrive: Callable[[World, str], object]
) -> None:
    arrive(world, "k")
    assert world.row("k").phase == phase
    _stop_execution_of(world, "k")

    assert world.clean()["keys"] == ["k"]

    assert (world.row("k").phase, world.row("k").tier) == ("s3", "")
    assert world.nodes.leases(NODE) == []


def test_janitor_leaves_what_has_an_owner(world: World) -> None:
    world.running("k")

    assert world.clean() == {"keys": [], "nodes": [], "paused": []}
    assert world.row("k").phase == "redis_running"


def test_cache_function_invoked_twice(world: World) -> None:
    world.started("k")
    first = world.serve("k", holder="one")
    world.until(lambda: world.row("k").holder)

    assert world.serve("k", holder="two").join() == "superseded"

    assert world.row("k").holder.startswith("one/")
    assert first.join() == "idle"
    assert world.outcome(world.row("k").execution_name)["outcome"] == "idle"


def test_failing_second_invocation_does_not_fail_the_first(world: World) -> None:
    world.started("k")
    first = world.serve("k", holder="one")
    world.until(lambda: world.row("k").holder)
    world.delete_object("k")

    assert world.serve("k", holder="two").join() == "failed"

    assert first.join() == "idle"
    assert world.outcome(world.row("k").execution_name)["outcome"] == "idle"


def test_later_attempt_takes_the_key_over_and_the_earlier_one_leaves(world: World) -> None:
    world.started("k")
    first = world.serve("k", holder="one")
    world.until(lambda: world.row("k").holder)

    second = world.serve("k", holder="two", attempt=1)
    world.until(lambda: world.row("k").attempt == 1)

    assert world.row("k").holder.startswith("two/")
    world.clock.sleep(1)
    assert world.get("k") is not None
    assert (first.join(), second.join()) == ("idle", "idle")
    assert world.outcome(world.row("k").execution_name)["outcome"] == "idle"


def test_attempt_that_comes_after_a_later_one_leaves_at_once(world: World) -> None:
    world.started("k")
    later = world.serve("k", holder="two", attempt=1)
    world.until(lambda: world.row("k").holder)

    assert world.serve("k", holder="one").join() == "superseded"

    assert world.row("k").holder.startswith("two/")
    assert world.outcome(world.row("k").execution_name) == {"error": "SupersededError"}  # in place of a lost heartbeat
    later.join()


def test_claim_that_is_written_twice_is_the_same_claim(world: World) -> None:
    row = world.started("k")
    claim = KeyColumns(tier="lambda", holder="one/a", attempt=0)

    for _ in range(2):  # the answer to the first was lost, and the SDK asked again
        assert world.keys.update(row.hash, epoch=row.epoch, set_=claim, unless_held=True) is not None


def test_object_that_is_deleted_while_a_cache_function_holds_it_ends_the_life_without_a_failure(world: World) -> None:
    row = world.started("k")
    life = world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")
    world.delete_object("k")

    world.written("k")

    assert life.join() == "gone"
    assert world.outcome(row.execution_name)["outcome"] == "gone"


def test_object_that_is_deleted_before_its_cache_function_starts_ends_the_life_without_a_failure(world: World) -> None:
    row = world.started("k")
    world.delete_object("k")

    assert world.serve("k").join() == "gone"

    assert world.outcome(row.execution_name)["outcome"] == "gone"


def test_cache_function_whose_start_meets_a_passing_error_of_s3_says_so_by_name(world: World) -> None:
    row = world.started("k")

    with failing(world.clients.s3, "GetObject", code="SlowDown", status=503):
        assert world.serve("k").join() == "failed"

    assert world.outcome(row.execution_name) == {"error": "ServiceTransientError"}


def test_route_to_redis_that_is_written_while_the_cache_function_retires_stays(world: World) -> None:
    def seed() -> None:
        world.key_step("seed", "k", generation=world.node().generation)

    world.started("k")
    world.cache_tools = replace(world.cache_tools, keys=after(world.keys, "read", seed))
    life = world.serve("k")
    world.until(lambda: world.row("k").tier == "lambda")
    world.join("k")
    world.ready()

    life.join()

    assert world.row("k").tier == "redis"
    assert world.digest.read().routes[key_hash("k")].tier == "redis"


def test_object_that_outgrows_the_tiers_before_its_cache_function_starts_ends_the_life_without_a_failure(
    world: World,
) -> None:
    row = world.started("k")
    world.put_object("k", b"x" * (MAX_OBJECT_BYTES + 1))

    assert world.serve("k").join() == "gone"

    assert world.outcome(row.execution_name)["outcome"] == "gone"


def test_cache_that_cannot_load_its_object_fails_the_life_by_name(world: World) -> None:
    row = world.started("k")

    with failing(world.clients.s3, "GetObject", code="AccessDenied", status=403):
        assert world.serve("k").join() == "failed"

    assert world.outcome(row.execution_name) == {"error": "AccessDeniedError"}


def test_cache_that_cannot_load_its_object_leaves_no_connection_half_made(world: World) -> None:
    world.started("k")
    world.put_object("k", b"x" * (MAX_OBJECT_BYTES + 1))
    world.relay.takes_to_open_s = 3
    start_us = world.clock.now_us()

    assert world.serve("k").join() == "gone"

    assert world.clock.now_us() >= start_us + 3 * _S
    assert world.relay.connections == 0


def test_cache_that_finds_the_relay_down_fails_the_life_by_name(world: World) -> None:
    world.started("k")
    world.relay.is_down = True

    assert world.serve("k").join() == "failed"

    assert world.outcome(world.row("k").execution_name) == {"error": "RelayDownError"}


def test_cache_crashes_and_proxies_get_no_answer_at_once(world: World) -> None:
    row = world.started("k")
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(tier="lambda", holder="crashed"))

    assert world.get("k") is None


def test_gets_between_the_announcement_and_its_answer_count_for_the_life(world: World) -> None:
    def served() -> None:
        for _ in range(world.parameters.redis_threshold + 1):
            assert world.get("k") is not None

    row = world.started("k")
    world.cache_tools = replace(world.cache_tools, keys=after(world.keys, "update", served))

    world.serve("k").join()

    over = world.outcome(row.execution_name)
    assert (over["outcome"], over["served"]) == ("promoted", world.parameters.redis_threshold + 1)


def test_zombie_cache_leaves_when_its_heartbeat_is_refused(world: World) -> None:
    row = world.started("k")
    zombie = world.serve("k")
    world.until(lambda: world.row("k").holder)
    for _ in range(world.parameters.redis_threshold):  # it lives past its first heartbeat and does not ask for Redis
        assert world.get("k") is not None
    _stop_execution_of(world, "k")
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(phase="s3"), remove=["tier"])

    assert zombie.join() == "superseded"
    assert world.get("k") is None


@pytest.mark.parametrize("wait_s", [0, 40], ids=["refuses", "is silent"])
def test_zombie_cache_leaves_while_step_functions_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    def fails(*_: object) -> bool:
        world.clock.sleep(wait_s)
        raise ServiceError("down", code="InternalError")

    monkeypatch.setattr(Executions, "heartbeat", fails)
    monkeypatch.setattr(cache_lease, "_HEARTBEAT_S", 4)  # twice that is less than its load lasts without a GET
    row = world.started("k")
    zombie = world.serve("k")
    world.until(lambda: world.row("k").holder)
    for _ in range(world.parameters.redis_threshold):
        assert world.get("k") is not None
    now_us = world.clock.now_us()
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(phase="s3", changed_at_us=now_us), remove=["tier"])

    assert zombie.join() == "superseded"
    assert world.row("k").may_be_held(world.clock.now_us())


def test_cache_leaves_before_its_invocation_ends_whatever_the_load(world: World) -> None:
    world.started("k")
    start_us = world.clock.now_us()
    life = world.serve("k", remaining_s=30)
    world.until(lambda: world.row("k").tier == "lambda")

    for _ in range(30):
        assert world.get("k") is not None

    assert life.join() in ("idle", "stopped")
    assert world.clock.now_us() - start_us <= 21 * _S


def test_idle_drain_against_a_new_request(world: World) -> None:
    row = world.started("k")
    assert world.serve("k").join() == "idle"

    assert world.get("k") is None
    assert world.row("k").tier == ""
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(phase="s3", changed_at_us=world.clock.now_us()))
    world.clock.sleep(1)
    assert "started" in world.get_twice("k")


@pytest.mark.parametrize(("failures", "cool_down_s"), [(0, 60), (1, 120), (5, 1920), (6, 3600), (20, 3600)])
def test_life_fails_again_and_again(world: World, failures: int, cool_down_s: int) -> None:
    world.joined("k")

    world.leave("k", is_failed=True, failures=failures)

    row = world.row("k")
    assert row.failures == failures + 1
    assert row.not_before_us - row.changed_at_us == cool_down_s * _S
    world.clock.sleep_until(row.not_before_us - _S)
    assert world.get_twice("k")[-1] == "remembered"
    world.clock.sleep(1.01)
    assert "started" in world.get_twice("k")


def test_object_that_no_tier_can_hold_never_starts(world: World) -> None:
    assert world.get_twice("big", size_bytes=MAX_OBJECT_BYTES + 1) == ["remembered", "remembered"]


def test_report_without_a_size_does_not_forget_that_the_object_is_too_large(world: World) -> None:
    world.get_twice("big", size_bytes=MAX_OBJECT_BYTES + 1)

    assert world.get_twice("big", size_bytes=0) == ["remembered", "remembered"]


def test_many_keys_hot_at_once(world: World) -> None:
    for i in range(3):
        world.started(f"k{i}")

    assert world.get_twice("one-too-many")[-1] == "full"

    row = world.row("k0")
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(phase="s3"))
    world.clock.sleep(5)  # for as long the set is known to be full
    assert "started" in world.get_twice("one-too-many")
    assert len(world.executions_of(world.key_machine)) == 4


@pytest.mark.parametrize("age_s", [16, 3600])
def test_late_event_starts_nothing(world: World, age_s: int) -> None:
    world.put_object("k")

    assert world.get_twice("k", late_s=age_s) == ["remembered", "remembered"]


def test_old_event_of_a_former_life_starts_nothing(world: World) -> None:
    row = world.started("k")
    requests_us = [world.clock.now_us() + each_us for each_us in (1000, 2000)]
    world.clock.sleep(1)
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(phase="s3", changed_at_us=world.clock.now_us()))

    assert [world.report("k", at_us=at_us) for at_us in requests_us] == ["remembered", "remembered"]


def test_event_handled_twice_changes_nothing(world: World) -> None:
    at_us = world.clock.now_us()

    outcomes = [world.report("k", at_us=at_us, request_id="same") for _ in range(5)]

    assert set(outcomes) == {"remembered"}
    assert world.row("k").window == (RecordedRequest(at_us, "same"),)


def test_object_that_is_deleted_before_redis_takes_it_gives_the_lease_back_without_an_error(world: World) -> None:
    world.joined("k")
    world.boot()
    world.ready()
    world.delete_object("k")

    seeded = world.key_step("seed", "k", generation=world.node().generation)

    assert seeded["outcome"] == "gone"
    assert world.nodes.leases(NODE) == []
