"""A node that takes guests, from the requests that boot it to its stop: the deployed functions and state machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burstcache.adapters.redis_objects import Hit, RedisObjects
from burstcache.control import use_utilisation
from burstcache.core.errors import RedisDownError
from burstcache.core.keys import key_hash
from burstcache.core.node_use import FIRST_CHECK_US, MAX_HITS, NodeUse
from burstcache.core.parameters import US_PER_S
from support.functions import NODE
from support.policies import BY_USE, policy_named
from support.world import World

S = US_PER_S
KEYS = [f"key {number}" for number in range(10)]


@pytest.fixture(params=BY_USE)
def by_use(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines run as they are deployed, without a relay."""
    world = make_world(policy=policy_named(request.param), runs_machines=True, has_relay=False)
    for key in KEYS:
        world.put_object(key)
    return world


def ask_all(world: World, *, rounds: int = 1, gap_s: float = 1) -> list[str]:
    """Read all keys in turn; return the tiers that served."""
    tiers = []
    for _ in range(rounds):
        for key in KEYS:
            world.clock.sleep(gap_s)
            tiers.append(world.read(key))
    return tiers


def booted(world: World) -> None:
    ask_all(world, rounds=3)
    world.until(lambda: world.node().phase == "running", within_s=120)


def test_repeats_of_many_keys_boot_their_node_which_serves_them_all(by_use: World) -> None:
    assert set(ask_all(by_use)) == {"s3"}
    booted(by_use)
    by_use.clock.sleep(3)  # readers know of it

    assert set(ask_all(by_use)) == {"redis"}  # from the first read: a boot loads what was seen lately
    assert by_use.nodes.leases(NODE) == []
    assert by_use.executions_of(by_use.key_machine) == []


@pytest.mark.slow
def test_a_node_that_is_used_goes_on_and_one_that_is_not_stops(by_use: World) -> None:
    booted(by_use)
    since_us = by_use.node().ready_at_us
    ask_all(by_use, rounds=12, gap_s=1)
    assert by_use.clock.now_us() > since_us + FIRST_CHECK_US
    assert by_use.node().phase == "running"

    by_use.until(lambda: by_use.node().phase == "stopped", within_s=24 * 3600, every_s=10)

    assert by_use.read(KEYS[0]) == "s3"


def test_a_node_without_a_hit_stops_after_its_first_look(by_use: World) -> None:
    booted(by_use)
    since_us = by_use.node().ready_at_us

    by_use.until(lambda: by_use.node().phase != "running", within_s=1_000)

    # What booted it was a load of ten a minute and more: that it is over shows in a while.
    assert FIRST_CHECK_US <= by_use.clock.now_us() - since_us < 15 * 60 * S


def test_a_look_is_repeated_and_learns_nothing_twice(by_use: World) -> None:
    booted(by_use)
    by_use.clock.sleep(3)
    ask_all(by_use)
    row, at_us = by_use.node(), by_use.clock.now_us()

    plans = [by_use.node_step("check_node", part=row.part, check_at_us=str(at_us), checks=0) for _ in range(2)]
    stored = by_use.uses.read(NODE)

    assert plans[0] == plans[1]
    assert stored.looked_at_us == at_us


def test_hits_after_a_looks_instant_are_left_to_the_next_one(by_use: World) -> None:
    booted(by_use)
    by_use.clock.sleep(3)
    ask_all(by_use)
    row, at_us = by_use.node(), by_use.clock.now_us()
    by_use.clock.sleep(1)
    by_use.read(KEYS[0])

    by_use.node_step("check_node", part=row.part, check_at_us=str(at_us), checks=0)

    use = by_use.uses.read(NODE).use
    assert use is not None
    assert use.last_us <= at_us


@pytest.mark.slow
def test_hits_that_push_out_all_that_belong_to_a_look_on_its_way_are_learned_instead(by_use: World) -> None:
    booted(by_use)
    by_use.clock.sleep(3)
    row, at_us = by_use.node(), by_use.clock.now_us()
    for number in range(MAX_HITS + 1):
        by_use.clock.sleep(0.005)
        by_use.read(KEYS[number % len(KEYS)])

    by_use.node_step("check_node", part=row.part, check_at_us=str(at_us), checks=0)

    use = by_use.uses.read(NODE).use
    assert use is not None
    assert use.last_us == at_us


def test_of_hits_that_stand_for_those_of_a_look_none_comes_before_the_look_before_it(
    by_use: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted(by_use)
    by_use.clock.sleep(30)
    row, at_us = by_use.node(), by_use.clock.now_us()
    noted = [Hit(at_us + ago * S // 2, 1) for ago in reversed(range(1, MAX_HITS + 1))]  # over two minutes
    learned: list[tuple[int, int]] = []

    def note(_: object, use: NodeUse, hits: list[tuple[int, int]], **__: object) -> NodeUse:
        learned.extend(hits)
        return use

    monkeypatch.setattr(RedisObjects, "hits", lambda _: noted)
    monkeypatch.setattr(use_utilisation, "learn_hits", note)

    by_use.node_step("check_node", part=row.part, check_at_us=str(at_us), checks=0)

    assert learned[-1][0] == at_us
    assert row.ready_at_us < learned[0][0] <= row.ready_at_us + S


def test_a_node_that_is_slow_once_is_asked_again_and_kept(by_use: World, monkeypatch: pytest.MonkeyPatch) -> None:
    booted(by_use)
    row, ask, refusals = by_use.node(), RedisObjects.hits, [RedisDownError("slow")]

    def slow_once(store: RedisObjects) -> list[Hit]:
        if refusals:
            raise refusals.pop()
        return ask(store)

    monkeypatch.setattr(RedisObjects, "hits", slow_once)

    by_use.node_step("check_node", part=row.part, check_at_us=str(by_use.clock.now_us()), checks=0)

    assert (by_use.node().phase, by_use.node().generation) == ("running", row.generation)
    assert not refusals


def test_a_hold_keeps_a_node_running_that_nobody_uses(by_use: World) -> None:
    booted(by_use)
    by_use.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": 3 * 3600})
    by_use.clock.sleep(2.9 * 3600)

    assert by_use.node().phase == "running"

    by_use.until(lambda: by_use.node().phase == "stopped", within_s=3600, every_s=10)


@pytest.mark.slow
def test_a_node_that_dies_boots_again_for_its_load(by_use: World) -> None:
    booted(by_use)
    first = by_use.node().generation
    by_use.redis.kill()
    by_use.until(lambda: by_use.node().phase == "stopped", within_s=2 * 3600, every_s=10)
    by_use.redis.start()

    ask_all(by_use, rounds=4)

    by_use.until(lambda: by_use.node().phase == "running", within_s=300)
    assert by_use.node().generation > first


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_USE)
def test_the_cache_function_of_a_key_ends_when_its_node_is_ready(
    name: str, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.functions.BOOT_S", 30)
    world = make_world(policy=policy_named(name, per_million="1000"), runs_machines=True)
    world.put_object("k")
    tiers = []
    for _ in range(200):
        world.clock.sleep(0.5)
        tiers.append(world.read("k"))

    served = [tier for tier, before in zip(tiers, ["", *tiers], strict=False) if tier != before]
    assert served in (["s3", "lambda", "redis"], ["s3", "lambda", "s3", "redis"])
    assert world.until(lambda: world.row("k").phase == "s3")
    assert world.keys.read(key_hash("k")) is not None
