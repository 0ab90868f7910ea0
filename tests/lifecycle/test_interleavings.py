"""Every row of `docs/understand/lifecycle.md`, "Interleavings", by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control import cache_title
from burstcache.core.errors import NodeUnusedError, RedisDownError, ServiceError, SupersededError
from burstcache.core.keys import key_hash
from burstcache.core.policy import CHECKS_PER_PART, Request
from burstcache.core.rows import Lease
from burstcache.core.table import KeyColumns
from support.faults import failing
from support.functions import MAX_OBJECT_BYTES, NODE
from support.interruptions import after
from support.world import World

_S = 1_000_000


class _BrokenExecutions(Executions):
    """Step Functions refuses to start anything."""

    def start(self, machine_arn: str, name: str, input_: object) -> bool:
        raise ServiceError("slow down", code="ThrottlingException")


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
        replace(world.scheduler, executions=_BrokenExecutions(world.states_client)),
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


def test_janitor_stops_a_node_whose_execution_died(world: World) -> None:
    name = world.running("k")
    world.executions.stop(world.node_machine, world.node().execution_name, cause="test")

    assert world.clean()["nodes"] == [NODE]

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.stopped() == {"phase": "stopped"}
    assert world.instances.state(NODE) == "stopped"


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

    assert world.outcome(row.execution_name) == {"error": "OriginError"}


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
    monkeypatch.setattr(cache_title, "_HEARTBEAT_S", 4)  # twice that is less than its load lasts without a GET
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


def test_join_against_node_ready(world: World) -> None:
    waiter = world.joined("k")
    world.started("late")
    control = world.control

    def join_late() -> None:
        world.control = control
        world.join("late")

    world.control = replace(control, nodes=after(world.nodes, "change", join_late))  # the row says `running` by then
    world.ready()

    generation = world.node().generation
    assert world.outcome(f"join-{key_hash('late')}") == {"generation": generation}
    assert world.outcome(waiter) == {"generation": generation}


def test_node_becomes_ready_twice(world: World) -> None:
    waiter = world.joined("k")

    plans = [world.ready() for _ in range(2)]

    assert plans[0] == plans[1]
    assert world.outcome(waiter) == {"generation": world.node().generation}


def test_join_against_the_last_keys_idle(world: World) -> None:
    name = world.running("k")
    world.store.add_older_times(key_hash("k"), [world.clock.now_us()])
    seen = world.node()
    world.started("late")
    control = world.control

    def join_late() -> None:
        world.control = control
        world.join("late")

    world.control = replace(control, nodes=after(world.nodes, "leases", join_late))  # the check does not see it
    plan = world.check()

    assert int(plan["check_at_us"]) > world.clock.now_us()
    assert world.node().phase == "running"
    assert world.outcome(name)["outcome"] == "idle"
    assert world.outcome(f"join-{key_hash('late')}") == {"generation": seen.generation}


def test_last_keys_idle_stops_the_node(world: World) -> None:
    name = world.running("k")
    world.store.add_older_times(key_hash("k"), [world.clock.now_us()])

    with pytest.raises(NodeUnusedError, match="nobody uses"):
        world.check()

    assert world.outcome(name)["outcome"] == "idle"
    assert world.node_step("stop_node")["phase"] == "stopping"
    assert world.stopped() == {"phase": "stopped"}
    assert world.instances.state(NODE) == "stopped"


def test_event_of_a_stop_comes_late_or_twice(world: World) -> None:
    world.running("k")
    _stops(world)

    assert [world.stopped()["phase"] for _ in range(2)] == ["stopped", "stopped"]

    world.running("late")  # the next run
    assert world.stopped() == {"phase": "running"}
    assert world.node().phase == "running"


def test_event_of_a_stop_is_lost(world: World) -> None:
    world.running("k")
    _stops(world)
    late = world.joined("late")

    assert world.clean()["nodes"] == [NODE]

    assert world.node().phase == "booting"
    world.boot()
    world.ready()
    assert world.outcome(late) == {"generation": world.node().generation}


def test_instance_that_still_stops_is_started_once_it_has_stopped(world: World) -> None:
    world.joined("k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Instances, "start", lambda *_: None)  # what EC2 does with one that stops
        world.boot()
    assert world.instances.state(NODE) == "stopped"

    assert world.stopped()["phase"] == "booting"

    assert world.instances.state(NODE) == "running"


def test_instance_stops_by_itself_while_the_node_runs(world: World) -> None:
    name = world.running("k")
    generation = world.node().generation
    world.instances.stop(NODE)

    assert world.stopped() == {"phase": "stopped"}

    assert world.outcome(name) == {"outcome": "node_lost"}
    with pytest.raises(NodeUnusedError, match="is stopped"):
        world.node_step("check_node", generation, part=1, check_at_us="0", checks=0)


def test_run_whose_history_is_full_goes_on_in_its_next_part(world: World) -> None:
    world.running("k")
    first = world.node()

    with pytest.raises(SupersededError, match="goes on in part 2"):
        world.node_step("check_node", part=1, check_at_us=str(world.clock.now_us()), checks=CHECKS_PER_PART - 1)

    second = world.node()
    assert (second.generation, second.part) == (first.generation, 2)
    assert second.execution_name in world.executions_of(world.node_machine)
    world.boot()
    assert world.ready()["checks"] == 0


def test_run_that_dies_while_it_hands_over_is_taken_up_by_a_repeat(world: World) -> None:
    world.running("k")
    working, world.control = world.control, replace(world.control, executions=_BrokenExecutions(world.states_client))
    step = functools.partial(world.node_step, "check_node", part=1, check_at_us=str(world.clock.now_us()))
    with pytest.raises(ServiceError, match="slow down"):
        step(checks=CHECKS_PER_PART - 1)

    world.control = working
    with pytest.raises(SupersededError, match="part 1 of"):
        step(checks=CHECKS_PER_PART - 1)

    assert world.node().execution_name in world.executions_of(world.node_machine)


def _stops(world: World) -> None:
    """Let the node be unused, up to where EC2 tells that its instance has stopped."""
    with pytest.raises(NodeUnusedError):
        world.check()
    world.node_step("stop_node")


def test_join_while_stopping_boots_the_node_again(world: World) -> None:
    world.running("k")
    _stops(world)
    stopping = world.node()
    assert stopping.phase == "stopping"
    late = world.joined("late")
    assert world.node().phase == "stopping"

    assert world.stopped()["phase"] == "booting"

    row = world.node()
    assert row.generation > stopping.generation
    assert row.execution_name in world.executions_of(world.node_machine)
    world.boot()
    world.ready()
    assert world.outcome(late) == {"generation": row.generation}


def test_key_that_gets_hot_while_the_node_stops_enters_restricted(world: World) -> None:
    world.running("k")
    _stops(world)

    assert world.started("late").phase == "restricted_lambda"


def test_key_that_gets_hot_while_the_node_runs_goes_straight_to_redis(world: World) -> None:
    world.running("k")

    row = world.started("late")

    assert (row.entry, row.phase) == ("redis", "redis_bootup")


def test_first_joiner_dies_before_start_execution(world: World) -> None:
    world.started("k")
    working, world.control = world.control, replace(world.control, executions=_BrokenExecutions(world.states_client))
    with pytest.raises(ServiceError, match="slow down"):
        world.join("k")
    row = world.node()
    assert (row.phase, world.executions_of(world.node_machine)) == ("booting", [])

    world.control = working
    world.joined("second")

    assert world.executions_of(world.node_machine) == [row.execution_name]


def test_dead_boot_is_taken_over_with_a_new_generation_after_its_deadline(world: World) -> None:
    world.joined("k")
    row = world.node()
    world.executions.stop(world.node_machine, row.execution_name, cause="test")
    world.clock.sleep_until(row.deadline_at_us + 1)

    world.joined("second")

    assert world.node().generation > row.generation
    assert world.executions_of(world.node_machine) == [world.node().execution_name]


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
    world.clock.sleep(1)  # the full set is looked through once a second
    assert "started" in world.get_twice("one-too-many")
    assert len(world.executions_of(world.key_machine)) == 4


def test_all_leave_during_boot(world: World) -> None:
    world.joined("k")
    world.leave("k", is_failed=True)

    with pytest.raises(NodeUnusedError, match="nobody uses"):
        world.ready()
    assert world.node_step("stop_node")["phase"] == "stopped"  # the instance has never started: EC2 tells nothing


def test_node_dies_while_routed(world: World) -> None:
    name = world.running("k")
    world.redis.kill()

    with pytest.raises(NodeUnusedError, match="does not answer any more"):
        world.check()

    assert world.outcome(name) == {"outcome": "node_lost"}
    assert world.node().phase == "stopping"
    world.leave("k", is_failed=False)
    assert world.row("k").phase == "s3"


def test_node_that_is_slow_once_is_asked_again_and_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.running("k")
    ask, refusals = RedisObjects.queues, [RedisDownError("slow")]

    def slow_once(store: RedisObjects, hashes: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        if refusals:
            raise refusals.pop()
        return ask(store, hashes)

    monkeypatch.setattr(RedisObjects, "queues", slow_once)

    assert world.check(at_us=world.clock.now_us())["checks"] == 1
    assert world.node().phase == "running"


def test_node_never_answers(world: World) -> None:
    waiter = world.joined("k")
    world.boot()

    assert world.node_step("abandon_node") == {"phase": "stopping"}  # the task of the boot has timed out
    assert world.stopped() == {"phase": "stopped"}

    assert world.outcome(waiter) == {"error": "NodeFailedError"}
    assert world.node().phase == "stopped"
    assert world.instances.state(NODE) == "stopped"


def test_lease_of_a_dead_key_is_dropped_at_the_next_check(world: World) -> None:
    world.running("k")
    world.nodes.join(Lease(NODE, key_hash("dead"), "dead", epoch=7, running="gone"))

    world.check(at_us=world.clock.now_us())

    assert [lease.key for lease in world.nodes.leases(NODE)] == ["k"]


def test_evicted_entry_is_kept_for_one_check_only(world: World) -> None:
    name = world.running("k")
    world.store.remove(key_hash("k"))

    assert world.check(at_us=world.clock.now_us())["checks"] == 1
    with pytest.raises(NodeUnusedError):
        world.check(at_us=world.clock.now_us())

    assert world.outcome(name)["outcome"] == "idle"


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
    assert world.row("k").window == (Request(at_us, "same"),)


def test_step_of_an_old_generation_touches_nothing(world: World) -> None:
    world.running("k")

    with pytest.raises(SupersededError, match="is over"):
        world.node_step("abandon_node", world.node().generation - 1)

    assert world.node().phase == "running"
