"""Units of the table consumed by lives of keys and runs of the node, compared with a simulated run's bill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.control import SWEEP_READS
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import GuestUse, RunResult
from support.functions import NODE
from support.world import World


def _run(*, invocations: int, handovers: int = 0, straight: int = 0, promotions: int = 0, boots: int = 0) -> RunResult:
    """Return a run of which S3 served two requests before each life."""
    n_s3 = 2 * (invocations + straight)
    return RunResult(
        n=n_s3, n_s3=n_s3, n_lambda=0, n_redis=0, lambda_ms=0, invocations=invocations, handovers=handovers,
        cold_starts=0, redis_s=0, redis_starts=boots, s3_requests=n_s3 + promotions, lambda_us_exact=0,
        redis_us_exact=0, end_us=0,
    )  # fmt: skip


@dataclass
class Units:
    """Units of DynamoDB, counted while nobody but the deployed functions and machines uses the table."""

    writes: int = 0
    reads: int = 0
    checks: int = 0

    def note(self, params: dict[str, Any], model: Any, **_: object) -> None:
        """Count a call whose items are below 1 KB each, or below 4 KB together where they are read."""
        match model.name:
            case "TransactWriteItems":
                self.writes += 2 * len(params["TransactItems"])
            case "BatchGetItem":
                self.reads += sum(len(table["Keys"]) for table in params["RequestItems"].values())
            case "GetItem" | "Query":
                assert params["ConsistentRead"]
                self.reads += 1
            case _:
                self.writes += 1


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed."""
    return make_world(runs_machines=True)


@pytest.fixture
def units(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Units]:
    """Count the table units that the world's functions consume, and the node's checks."""
    counted, invoke = Units(), world.invoke

    def noted(function: str, payload: dict[str, Any], **more: Any) -> Any:
        counted.checks += payload.get("op") == "check_node"
        return invoke(function, payload, **more)

    monkeypatch.setattr(world, "invoke", noted)
    events = world.clients.dynamodb.meta.events
    events.register("provide-client-params.dynamodb", counted.note)
    yield counted
    events.unregister("provide-client-params.dynamodb", counted.note)


def _hot(world: World, *keys: str) -> None:
    """Let S3 serve each key twice, which starts its life."""
    for key in keys:
        world.put_object(key)
        assert world.get_twice(key)[-1] == "started"
    world.clock.sleep(2)


def _promoted(world: World, *keys: str) -> None:
    """Ask for keys, one after the other, until their load has lasted long enough for Redis."""
    for key in keys:
        for _ in range(world.parameters.redis_threshold + 1):
            world.get(key)
        world.clock.sleep(1)
    world.clock.sleep(10)


def _assert_billed(units: Units, run: RunResult) -> None:
    """Compare what was counted with the bill of a run, whose keys S3 served twice before each life."""
    usage = live_usage(replace(run, checks=units.checks), Setup(), period_us=0, busy_s=0)  # nobody reads the digest

    # The set of started keys has room, so no start sweeps it.
    starts = run.n_s3 // 2
    assert (usage.dynamodb_writes, usage.dynamodb_reads) == (units.writes, units.reads + SWEEP_READS * starts)


def test_a_life_that_is_not_promoted_takes_what_it_is_billed_for(world: World, units: Units) -> None:
    _hot(world, "k")
    world.clock.sleep(900)

    _assert_billed(units, _run(invocations=1))


def test_a_life_that_outlasts_an_invocation_takes_what_its_hand_over_is_billed_for(world: World, units: Units) -> None:
    world.scheduler = replace(world.scheduler, node_names=[])  # else the key would go to Redis
    taken = []
    for key, for_s in (("short", 700), ("long", 1000)):
        before = replace(units)
        _hot(world, key)
        for _ in range(for_s // 5):
            world.get(key)
            world.clock.sleep(5)
        world.until(lambda key=key: world.row(key).phase == "s3", every_s=60)  # type: ignore[misc]
        taken.append((units.writes - before.writes, units.reads - before.reads))

    bills = [live_usage(_run(invocations=1, handovers=each), Setup(), period_us=0, busy_s=0) for each in (0, 1)]
    (short, long), (once, twice) = taken, [(bill.dynamodb_writes, bill.dynamodb_reads) for bill in bills]
    assert (long[0] - short[0], long[1] - short[1]) == (twice[0] - once[0], twice[1] - once[1])
    assert bills[1].transitions == bills[0].transitions + 1


@pytest.mark.parametrize("keys", [("k",), ("k", "l")])
def test_promoted_lives_and_their_node_take_what_they_are_billed_for(
    world: World, units: Units, keys: tuple[str, ...]
) -> None:
    _hot(world, *keys)
    _promoted(world, *keys)
    world.clock.sleep(7200)

    _assert_billed(units, _run(invocations=len(keys), promotions=len(keys), boots=1))


def test_a_key_that_gets_hot_while_the_node_runs_takes_what_it_is_billed_for(world: World, units: Units) -> None:
    _hot(world, "k")
    _promoted(world, "k")
    _hot(world, "l")
    world.clock.sleep(7200)

    _assert_billed(units, _run(invocations=1, straight=1, promotions=2, boots=1))


def test_a_node_that_is_used_for_longer_takes_what_its_checks_are_billed_for(world: World, units: Units) -> None:
    _hot(world, "k")
    _promoted(world, "k")
    for _ in range(60):
        world.store.read(key_hash("k"), at_us=world.clock.now_us())
        world.clock.sleep(5)
    world.clock.sleep(7200)

    assert units.checks > 2
    _assert_billed(units, _run(invocations=1, promotions=1, boots=1))


@pytest.mark.parametrize("takes_guests", [False, True])
def test_a_write_to_the_bucket_takes_what_it_is_billed_for(
    make_world: Callable[..., World], takes_guests: bool
) -> None:
    world, units = make_world(), Units()
    booting = world.nodes.change(world.node(), phase="booting", generation=7, part=1, peers=[NODE] * takes_guests)
    assert booting is not None
    assert world.nodes.change(booting, phase="running", deadline_at_us=2**62) is not None
    events = world.clients.dynamodb.meta.events
    events.register("provide-client-params.dynamodb", units.note)

    world.written("k")

    events.unregister("provide-client-params.dynamodb", units.note)
    run = replace(_run(invocations=0), redis_s=3600, guests=GuestUse(told=int(takes_guests)))
    usage = live_usage(run, Setup(writes_per_h=1), period_us=US_PER_H, busy_s=0)
    reports = live_usage(run, Setup(), period_us=US_PER_H, busy_s=0)
    assert usage.dynamodb_writes - reports.dynamodb_writes == units.writes
    assert usage.dynamodb_reads - reports.dynamodb_reads == units.reads


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_run_of_the_janitor_takes_what_it_is_billed_for(make_world: Callable[..., World], nodes: int) -> None:
    world, units = make_world(nodes=nodes), Units()
    events = world.clients.dynamodb.meta.events
    events.register("provide-client-params.dynamodb", units.note)

    world.clean()

    events.unregister("provide-client-params.dynamodb", units.note)
    usage = live_usage(_run(invocations=0), Setup(nodes=nodes), period_us=300 * US_PER_S, busy_s=0)
    assert (units.reads, units.writes) == (usage.janitor_reads, 0)


def test_a_node_that_runs_takes_a_write_of_each_run_of_the_janitor(world: World, units: Units) -> None:
    _hot(world, "k")
    _promoted(world, "k")
    before = units.writes

    assert world.clean()["nodes"] == []

    assert world.node().phase == "running"
    assert units.writes == before + 1
