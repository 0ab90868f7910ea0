"""Each prediction of `burstcache explain` is what the deployed functions then do."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from burstcache.access import RedisNode
from burstcache.core.parameters import US_PER_S
from burstcache.core.recency import SEEN_WITHIN_US
from burstcache.queries.explain import Explanation, explain
from burstcache.queries.transitions import StackRules, Transition
from burstcache.settings.explain import PolicySettings
from support.functions import MAX_OBJECT_BYTES, NODE
from support.policies import BY_USE, policy_named
from support.world import World

MakeWorld = Callable[..., World]
KEY = "cars.json"
LONG_S = 24 * 3600
MAX_HOT_KEYS = 3  # of a world
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]


def rules_of(world: World, policy_name: str) -> StackRules:
    """Return the rules by which a world decides."""
    node_type = "fargate-spot:2GB" if world.redis_on == "fargate-spot" else "t4g.micro"
    use = world.policy.use or policy_named("breakeven", node_type=node_type).use
    assert use is not None
    settings = PolicySettings(
        policy_name=policy_name,
        policy=world.policy,
        redis_nodes=tuple(RedisNode(name, "", "127.0.0.1", 6379) for name in world.node_names),
        node_type=node_type,
        region="us-east-1",
        always_on_nodes=0,
        max_hot_keys=MAX_HOT_KEYS,
        has_relay=world.has_relay,
        max_object_bytes=MAX_OBJECT_BYTES,
        memory_mb=0,
        pool_members=0,
    )
    return StackRules(settings, use.worth, express=None)


def explained(world: World, key: str, policy_name: str = "thesis") -> Explanation:
    """Return the explanation of a key's current state."""
    return explain(world.system, rules_of(world, policy_name), key)


def move(explanation: Explanation, rule: str) -> Transition:
    """Return the only transition of a rule."""
    (transition,) = (each for each in explanation.moves if each.rule == rule)
    return transition


def report_now(world: World, key: str, requests: int) -> list[str]:
    """Report GETs that all came now."""
    now_us = world.clock.now_us()
    return [world.report(key, at_us=now_us, request_id=f"now-{now_us}-{number}") for number in range(requests)]


def until_changed(world: World, state: Callable[[], object], *, within_s: float = LONG_S) -> int:
    """Let time pass until a state changes; return when it did [us]."""
    before = state()
    world.until(lambda: state() != before, within_s=within_s, every_s=0.25)
    return world.clock.now_us()


@pytest.mark.parametrize("seed", SEEDS)
def test_key_starts_with_exactly_the_predicted_requests(seed: int, world: World) -> None:
    chance = random.Random(seed)
    world.put_object(KEY)
    for _ in range(8):
        world.clock.sleep(chance.choice([0.1, 5, 9, 10.5, 11, 30]))

        predicted = move(explained(world, KEY), "is_hot")
        assert predicted.requests is not None
        outcomes = report_now(world, KEY, predicted.requests)

        assert outcomes == ["remembered"] * (predicted.requests - 1) + ["started"], f"seed {seed}"
        assert predicted.holds == ()
        world.leave(KEY, is_failed=False)
        world.clock.sleep(chance.choice([0.1, 20]))
        if move(explained(world, KEY), "is_hot").requests != 1:
            assert world.report(KEY) == "remembered"


@pytest.mark.parametrize("reason", ["cool_down", "too_large", "paused", "full"])
def test_predicted_hold_keeps_a_key_with_s3(reason: str, world: World) -> None:
    world.started(KEY)
    world.leave(KEY, is_failed=reason == "cool_down")
    world.clock.sleep(20)
    size_bytes = MAX_OBJECT_BYTES + 1 if reason == "too_large" else 4
    world.report(KEY, size_bytes=size_bytes)
    if reason == "paused":
        world.pauses.begin("a test")
    if reason == "full":
        for number in range(MAX_HOT_KEYS):
            world.started(f"other {number}")

    predicted = move(explained(world, KEY), "is_hot")
    outcome = world.report(KEY, request_id="another", size_bytes=size_bytes)

    assert predicted.requests == 1
    assert [hold.reason for hold in predicted.holds] == [reason]
    assert outcome == (reason if reason in ("paused", "full") else "remembered")


def test_cool_down_ends_at_the_predicted_instant(world: World) -> None:
    world.started(KEY)
    world.leave(KEY, is_failed=True, failures=1)
    (hold,) = move(explained(world, KEY), "is_hot").holds

    world.clock.sleep((hold.until_us - world.clock.now_us()) / US_PER_S - 0.01)
    early = world.get_twice(KEY)[-1]
    world.clock.sleep(0.02)

    assert early == "remembered"
    assert world.report(KEY) == "started"


def test_life_of_a_cache_function_ends_at_the_predicted_instant(make_world: MakeWorld) -> None:
    world = make_world(runs_machines=True)
    world.started(KEY)
    world.until(lambda: world.row(KEY).tier == "lambda", within_s=60, every_s=0.25)
    explanation = explained(world, KEY)

    ended_us = until_changed(world, lambda: world.row(KEY).tier)

    assert (explanation.tier, explanation.rule, explanation.state) == ("lambda", "is_hot", "Lambda")
    assert explanation.compared[0].value == pytest.approx(0.001)
    assert 0 <= ended_us - move(explanation, "tick").at_us < 0.5 * US_PER_S


def test_life_that_has_ended_has_cost_what_it_took(make_world: MakeWorld) -> None:
    world = make_world(runs_machines=True)
    began_us = world.clock.now_us()
    world.started(KEY)
    during = explained(world, KEY)
    world.until(lambda: not world.executions_of(world.key_machine), within_s=LONG_S, every_s=0.25)
    took_s = (world.clock.now_us() - began_us) / US_PER_S

    after = explained(world, KEY)

    assert ([cost.of for cost in during.costs], during.ended) == (["cache_function"], None)
    assert (after.costs, after.ended and after.ended.lives) == ((), 1)
    assert after.ended is not None
    assert took_s - 1 < after.ended.function_s <= took_s
    assert (after.ended.function_usd > 0, after.ended.node_s) == (True, 0)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_life_on_demand_in_place_of_spot_has_cost_that_price(make_world: MakeWorld, *, is_full: bool) -> None:
    world = make_world(runs_machines=True, redis_on="fargate-spot")
    world.ecs.full = {"FARGATE_SPOT"} if is_full else set()
    world.started(KEY)
    world.until(lambda: world.row(KEY).tier == "lambda", within_s=60, every_s=0.25)
    for _ in range(move(explained(world, KEY), "wants_promotion").requests or 0):
        world.get(KEY)
    world.until(lambda: world.row(KEY).phase == "redis_running", within_s=240)
    world.until(lambda: not world.executions_of(world.key_machine), within_s=LONG_S, every_s=0.25)

    ended = explained(world, KEY).ended

    assert ended is not None
    usd_per_s = rules_of(world, "thesis").worth.prices.node_usd_per_s("fargate" if is_full else "fargate-spot")
    assert ended.node_s > 0
    assert ended.node_usd == pytest.approx(ended.node_s * float(usd_per_s))


def test_redis_is_asked_for_at_the_predicted_request(make_world: MakeWorld) -> None:
    world = make_world(runs_machines=True)
    world.started(KEY)
    world.until(lambda: world.row(KEY).tier == "lambda", within_s=60, every_s=0.25)
    requests = move(explained(world, KEY), "wants_promotion").requests
    assert requests is not None
    assert requests > 1

    for _ in range(requests - 1):
        world.get(KEY)
    world.clock.sleep(1)
    before = world.row(KEY).phase
    world.get(KEY)
    world.until(lambda: world.row(KEY).phase == "redis_running", within_s=120)
    world.clock.sleep(3)
    explanation = explained(world, KEY)

    assert before == "lambda"
    assert (explanation.tier, explanation.rule, explanation.node) == ("redis", "wants_promotion", NODE)
    assert {cost.of for cost in explanation.costs} == {"cache_function", "node_run"}
    left_us = until_changed(world, lambda: world.row(KEY).tier)
    assert left_us >= move(explanation, "is_released").at_us


@pytest.mark.slow
@pytest.mark.parametrize("has_relay", [True, False])
@pytest.mark.parametrize("name", BY_USE)
@pytest.mark.parametrize("seed", SEEDS)
def test_use_decides_at_the_predicted_request(seed: int, name: str, has_relay: bool, make_world: MakeWorld) -> None:
    world = make_world(policy=policy_named(name), has_relay=has_relay, runs_machines=True)
    chance = random.Random(seed)
    world.put_object(KEY)
    decided = 0
    for _ in range(8):
        world.clock.sleep(chance.choice([0.5, 3, 20, 200]))
        explanation = explained(world, KEY, name)
        predicted = {each.rule: each for each in explanation.moves}
        if "node_boots" not in predicted or explanation.state != "S3":
            world.until(lambda: world.node().phase == "stopped", within_s=LONG_S, every_s=5)
            continue
        boots, start = predicted["node_boots"].requests, predicted.get("key_starts")
        starts = start.requests if start and not start.holds else None
        assert boots is not None
        least = min(boots, starts or boots)
        asked = chance.randint(1, least)
        outcomes = report_now(world, KEY, asked)

        assert (world.node().phase == "booting") == (asked >= boots), f"seed {seed}"
        if starts is not None and starts < boots:
            assert outcomes[-1] == ("started" if asked >= starts else "remembered"), f"seed {seed}"
        decided += asked >= least
    assert decided


@pytest.mark.parametrize("name", BY_USE)
def test_first_request_of_an_unknown_key_does_not_count_for_its_node(name: str, make_world: MakeWorld) -> None:
    world = make_world(policy=policy_named(name), has_relay=False, runs_machines=True)
    world.put_object(KEY)
    unseen = move(explained(world, KEY, name), "node_boots").requests
    world.report(KEY)
    world.clock.sleep(SEEN_WITHIN_US / US_PER_S + 1)
    forgotten = move(explained(world, KEY, name), "node_boots").requests

    assert unseen == forgotten
    assert unseen is not None
    report_now(world, KEY, unseen - 1)
    assert world.node().phase == "stopped"
    report_now(world, KEY, 1)
    assert world.node().phase == "booting"


def running(name: str, make_world: MakeWorld, *, on_demand: bool = False) -> World:
    """Return a world whose node runs and has the key, on demand if Fargate Spot has no capacity."""
    if on_demand:
        policy = policy_named(name, node_type="fargate-spot:2GB")
        world = make_world(policy=policy, has_relay=False, runs_machines=True, redis_on="fargate-spot")
        world.ecs.full = {"FARGATE_SPOT"}
    else:
        world = make_world(policy=policy_named(name), has_relay=False, runs_machines=True)
    world.put_object(KEY)
    report_now(world, KEY, move(explained(world, KEY, name), "node_boots").requests or 0)
    world.until(lambda: world.node().phase == "running", within_s=120)
    world.clock.sleep(3)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_USE)
@pytest.mark.parametrize("hits", [0, 25, pytest.param(70, marks=pytest.mark.slow)])
def test_node_stops_at_the_predicted_look(name: str, hits: int, make_world: MakeWorld) -> None:
    world = running(name, make_world)
    for _ in range(hits):
        world.clock.sleep(2)
        assert world.read(KEY) == "redis"

    predicted = [move(explained(world, KEY, name), "node_stops")]
    while (explanation := explained(world, KEY, name)).tier == "redis":
        predicted.append(move(explanation, "node_stops"))
        world.clock.sleep(1)
    first = next(each for each in predicted if each.known_at_us == predicted[-1].known_at_us)

    assert 2 * US_PER_S <= world.clock.now_us() - first.at_us < 5 * US_PER_S


@pytest.mark.parametrize("name", BY_USE)
@pytest.mark.parametrize("fewer", [0, 1])
@pytest.mark.parametrize("on_demand", [False, True])
def test_exactly_the_predicted_hits_keep_a_node_running(
    on_demand: bool, fewer: int, name: str, make_world: MakeWorld
) -> None:
    world = running(name, make_world, on_demand=on_demand)
    while (predicted := move(explained(world, KEY, name), "node_stops")).requests is None:
        world.clock.sleep(5)

    for _ in range(predicted.requests - fewer):
        assert world.read(KEY) == "redis"
    world.clock.sleep((predicted.at_us - world.clock.now_us()) / US_PER_S + 4)

    assert (world.node().phase == "running") == (fewer == 0)


def test_key_that_nobody_has_asked_for_is_with_s3(world: World) -> None:
    explanation = explained(world, "never read")

    assert (explanation.tier, explanation.state, explanation.since_us, explanation.costs) == ("s3", "S3", 0, ())
    assert move(explanation, "is_hot").requests == world.parameters.lambda_window_elements
