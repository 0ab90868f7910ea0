"""Explanation of a key from its rows: its tier, its cost and the reason it stays there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.use_table import StoredUse
from burstcache.core.node_use import NodeUse
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import CHECK_LATENESS_US, RecordedRequest
from burstcache.core.rows import KeyRow, NodeRow, Pause, SeenKey
from burstcache.queries.explain import explanation, stack_rules
from burstcache.queries.history import Step
from burstcache.queries.lives import KeyLife
from burstcache.queries.transitions import Blocker, KeySnapshot, StackRules, Transition
from support.policies import DECIDES_BY

S = US_PER_S
NOW_US = 1_785_542_400 * S
HASH = "0123456789abcdef0123456789abcdef"
NODE = "node-1"
VARIABLES = {**DECIDES_BY, "POLICY": "thesis", "MAX_OBJECT_BYTES": "1000000"}


def rules(**changes: str) -> StackRules:
    return stack_rules(VARIABLES | changes)


def known(row: KeyRow | None = None, node: NodeRow | None = None, **changes: Any) -> KeySnapshot:
    fields: dict[str, Any] = {"is_served": False} | changes
    return KeySnapshot(NOW_US, row or KeyRow(HASH, "k"), node or NodeRow(NODE), **fields)


def running(**changes: Any) -> NodeRow:
    """Return a node that has been ready for a minute, a second after its boot, and is checked in half a minute."""
    fields: dict[str, Any] = {
        "phase": "running",
        "generation": (NOW_US - 61 * S) // 1000,
        "ready_at_us": NOW_US - 60 * S,
        "deadline_at_us": NOW_US + 30 * S + CHECK_LATENESS_US,
        "peers": (NODE,),
    }
    return NodeRow(NODE, **(fields | changes))


def moves_by_rule(known: KeySnapshot, rules: StackRules) -> dict[str, Transition]:
    return {move.rule: move for move in explanation(known, rules).moves}


def test_key_in_redis_pays_its_share_of_the_run_and_its_cache_function_until_redis_had_it() -> None:
    row = KeyRow(
        HASH,
        "k",
        phase="redis_running",
        epoch=7,
        tier="redis",
        node=NODE,
        generation=running().generation,
        changed_at_us=NOW_US - 100 * S,
        deadline_at_us=NOW_US + S,
        window=(RecordedRequest(NOW_US - 100 * S, "a"),),
        trigger=RecordedRequest(NOW_US - 100 * S, "a"),
    )
    prices = rules().worth.prices

    found = explanation(
        known(row, running(), is_served=True), rules(), [Step(NOW_US - 40 * S, "RedisRunning")], sharers=4
    )

    function, node = found.costs
    assert (found.tier, found.rule, found.since_us) == ("redis", "wants_promotion", NOW_US - 40 * S)
    assert function.usd == pytest.approx(float(60 * prices.lambda_usd_per_s + prices.life_usd))
    assert node.usd == pytest.approx(float(61 * prices.redis_usd_per_s + prices.run_usd))
    assert node.share_usd == pytest.approx(node.usd / 4)


def life(name: str, *steps: tuple[int, str]) -> KeyLife:
    """Return a life with the states that it entered, and how many seconds ago."""
    return KeyLife(name, tuple(Step(NOW_US - ago_s * S, state) for ago_s, state in steps))


IN_FUNCTION = life("a", (400, "IsNodeRunning"), (400, "Lambda"), (390, "IsPromoted"), (390, "ReturnToS3"), (389, ""))
IN_BOTH = life("b", (300, "Lambda"), (280, "RedisBootup"), (270, "RedisRunning"), (249, "RedisShutdown"), (1, ""))
IN_REDIS = life("c", (200, "RedisBootup"), (199, "RedisRunning"), (198, "RedisShutdown"), (2, ""))


def test_lives_that_are_over_have_cost_their_cache_functions_and_their_time_in_redis() -> None:
    prices = rules().worth.prices
    under_way = life("d", (9, "Lambda"))

    ended = explanation(known(), rules(), lives=[under_way, IN_REDIS, IN_BOTH, IN_FUNCTION]).ended

    assert ended is not None
    assert (ended.lives, ended.since_us) == (3, NOW_US - 400 * S)
    assert (ended.function_s, ended.node_s) == (10 + 30, 21 + 1)
    assert ended.function_usd == pytest.approx(float(40 * prices.lambda_usd_per_s + 2 * prices.life_usd))
    assert ended.node_usd == pytest.approx(float(22 * prices.redis_usd_per_s))


def test_a_life_on_a_node_on_demand_in_place_of_spot_has_cost_that_price() -> None:
    spot = rules(REDIS_INSTANCE_TYPE="fargate-spot:2GB")
    prices = spot.worth.prices
    on_demand = replace(IN_BOTH, steps=(*IN_BOTH.steps[:-1], Step(NOW_US - S, "", output='{"task_kind": "fargate"}')))

    ended = explanation(known(), spot, lives=[IN_REDIS, on_demand]).ended

    assert ended is not None
    usd = 1 * prices.node_usd_per_s() + 21 * prices.node_usd_per_s("fargate")
    assert ended.node_usd == pytest.approx(float(usd))
    assert ended.node_usd > float(22 * prices.node_usd_per_s())


def test_present_life_is_not_counted_twice_if_it_ends_while_it_is_explained() -> None:
    row = KeyRow(HASH, "k", phase="lambda", epoch=7, tier="lambda", changed_at_us=NOW_US - S, deadline_at_us=NOW_US + S)
    present = life(row.execution_name, (1, "Lambda"), (0, "ReturnToS3"), (0, ""))

    found = explanation(known(row), rules(), lives=[present])

    assert ([cost.of for cost in found.costs], found.ended) == (["cache_function"], None)


def test_month_follows_from_the_requests_that_s3_served() -> None:
    window = tuple(RecordedRequest(NOW_US - ago * S, f"r{ago}") for ago in (40, 30, 20))

    month = explanation(known(KeyRow(HASH, "k", window=window)), rules()).month

    assert month.requests_per_min == pytest.approx(2 / 40 * 60)
    assert month.worth_usd == pytest.approx(2 / 40 * 730 * 3600 * float(rules().worth.hit_usd))
    assert month.node_usd == pytest.approx(730 * 0.0084)
    assert month.node_pays_from_per_min == pytest.approx(0.0084 / 60 / float(rules().worth.hit_usd))


def test_rate_is_not_made_up_from_one_request() -> None:
    month = explanation(known(KeyRow(HASH, "k", window=(RecordedRequest(NOW_US - S, "r"),))), rules()).month

    assert month.requests_per_min is month.worth_usd is None


def test_stack_without_nodes_and_relay_has_no_price_for_them_and_says_why_nothing_starts() -> None:
    bare = rules(REDIS_NODES="", HAS_RELAY="false")

    found = explanation(KeySnapshot(NOW_US, KeyRow(HASH, "k"), None, is_served=False), bare)

    assert found.month.node_usd is found.month.cache_function_usd is None
    assert found.moves[0].holds == (Blocker("no_tier"),)
    assert (found.node, found.node_phase) == ("", "")


def test_further_places_are_named_where_the_stack_has_them() -> None:
    row = KeyRow(HASH, "k", size_bytes=1000)
    all_of_them = rules(MEMORY_MB="64", EXPRESS_BUCKET="copies", POOL_MEMBERS="16")

    assert set(moves_by_rule(known(row), rules())) == {"is_hot"}
    found = moves_by_rule(known(row), all_of_them)
    assert set(found) == {"is_hot", "memory", "copies"}
    assert all_of_them.express is not None
    assert found["copies"].requests == all_of_them.express.copy_at(1000)


def test_object_that_no_tier_takes_is_read_from_the_pool() -> None:
    large = known(KeyRow(HASH, "k", size_bytes=1_000_001))

    found = moves_by_rule(large, rules(MEMORY_MB="64", POOL_MEMBERS="16"))

    assert set(found) == {"is_hot", "pool"}
    assert found["is_hot"].holds == (Blocker("too_large", value=1_000_001, limit=1_000_000),)


@pytest.mark.parametrize("policy", ["breakeven", "hazard"])
def test_guest_is_served_by_its_running_node_until_a_look_finds_it_idle(policy: str) -> None:
    by_use = rules(POLICY=policy)
    rule = by_use.settings.policy.use
    assert rule is not None
    use = rule.node.observe(rule.node.first(), NOW_US - 61 * S, rule.node.arrival_weight)

    found = explanation(
        known(
            node=running(held_until_us=NOW_US + 500 * S),
            is_served=True,
            use=StoredUse(use, version=1),
            seen=SeenKey(HASH, "k", 10, NOW_US - S),
        ),
        rules(POLICY=policy, REDIS_ALWAYS_ON_NODES="1"),
    )

    (move,) = found.moves
    assert (found.tier, found.rule, found.since_us, found.size_bytes) == ("redis", "always_on", NOW_US - 60 * S, 10)
    assert (move.rule, move.at_us >= NOW_US) == ("node_stops", True)
    assert [hold.reason for hold in move.holds] == ["held_by_hand", "always_on"]


@pytest.mark.parametrize(
    ("held_for_s", "always_on", "rule"),
    [(9, "0", "held_by_hand"), (-9, "0", "node_boots"), (-9, "1", "always_on")],
)
def test_a_guest_is_where_it_is_by_what_keeps_its_node_running(held_for_s: int, always_on: str, rule: str) -> None:
    found = explanation(
        known(node=running(held_until_us=NOW_US + held_for_s * S), is_served=True),
        rules(POLICY="breakeven", REDIS_ALWAYS_ON_NODES=always_on),
    )

    assert (found.state, found.rule) == ("Guest", rule)


@pytest.mark.parametrize(("failures", "reason"), [(0, "node_hours"), (2, "node_cools_down")])
def test_a_node_that_may_not_boot_says_why(failures: int, reason: Any) -> None:
    barred = NodeRow(NODE, failures=failures, not_before_us=NOW_US + S)

    move = moves_by_rule(known(node=barred), rules(POLICY="breakeven", HAS_RELAY="false"))["node_boots"]

    assert Blocker(reason, until_us=NOW_US + S, value=failures) in move.holds


def test_use_of_another_policy_counts_for_nothing() -> None:
    learned = NodeUse(last_us=NOW_US - S, times_us=tuple(NOW_US - second * S for second in (3, 2, 1)))
    seen = SeenKey(HASH, "k", 10, NOW_US - S)
    by_hazard = rules(POLICY="hazard", HAS_RELAY="false")

    with_it, without = (
        moves_by_rule(known(use=use, seen=seen), by_hazard)["node_boots"]
        for use in (StoredUse(learned, version=1), StoredUse())
    )

    assert with_it == without


def test_cache_function_that_no_load_pays_for_never_starts() -> None:
    cheap = rules(POLICY="breakeven", HIT_VALUE_USD_PER_MILLION="0")

    assert moves_by_rule(known(), cheap)["key_starts"].holds == (Blocker("never_pays"),)


def test_started_life_waits_for_its_cache_function() -> None:
    row = KeyRow(
        HASH, "k", phase="lambda", epoch=7, deadline_at_us=NOW_US + S, trigger=RecordedRequest(NOW_US, "by-hand")
    )

    found = explanation(known(row), rules())

    assert (found.tier, found.state) == ("s3", "Lambda")
    assert [move.rule for move in found.moves] == ["cache_function_ready", "wants_promotion"]


@pytest.mark.parametrize(("tier", "requests"), [("", None), ("lambda", 1)])
def test_load_that_has_lasted_asks_for_redis_once_ready_and_then_at_the_next_request(
    tier: Any, requests: int | None
) -> None:
    trigger = RecordedRequest(NOW_US - 60 * S, "t")
    row = KeyRow(
        HASH,
        "k",
        phase="lambda",
        epoch=7,
        tier=tier,
        ready_at_us=NOW_US - S,
        deadline_at_us=NOW_US + S,
        trigger=trigger,
        window=(trigger, *(RecordedRequest(NOW_US - ago * S, f"r{ago}") for ago in (6, 5, 4, 3, 2))),
    )
    paused = Pause("a test", since_us=1, until_us=NOW_US + 9)

    move = moves_by_rule(known(row, pause=paused), rules())["wants_promotion"]

    assert move.requests == requests
    assert move.compared[0].value == 5 > move.compared[0].limit
    assert move.holds == (Blocker("paused", until_us=NOW_US + 9),)


@pytest.mark.parametrize("policy", ["breakeven", "thesis"])
@pytest.mark.parametrize(
    ("tier", "rule"), [("lambda", "pause_ends_function"), ("redis", "pause_stops_node")], ids=["function", "node"]
)
def test_a_pause_returns_a_key_to_s3_whatever_is_read_or_held(policy: str, tier: Any, rule: str) -> None:
    node = running(held_until_us=NOW_US + 500 * S) if tier == "redis" else NodeRow(NODE)
    row = KeyRow(
        HASH,
        "k",
        phase="redis_running" if tier == "redis" else "lambda",
        epoch=7,
        tier=tier,
        node=NODE,
        generation=node.generation,
        ready_at_us=NOW_US - S,
        deadline_at_us=NOW_US + S,
        trigger=RecordedRequest(NOW_US - 60 * S, "t"),
    )
    pause = Pause("a test", since_us=1)

    found = explanation(known(row, node, is_served=True, pause=pause), rules(POLICY=policy, HAS_RELAY="true"))

    assert (found.tier, found.pause) == (tier, pause)
    assert [move for move in found.moves if move.to == "s3"] == [Transition("s3", rule)]  # type: ignore[arg-type]


def test_expired_life_is_one_of_s3() -> None:
    row = KeyRow(HASH, "k", phase="lambda", epoch=7, tier="lambda", deadline_at_us=NOW_US - 1)

    found = explanation(known(row), rules())

    assert (found.tier, found.is_expired, found.moves[0].rule) == ("s3", True, "is_hot")


def test_a_run_on_demand_in_place_of_spot_is_named_and_costs_its_own_price() -> None:
    spot = rules(REDIS_INSTANCE_TYPE="fargate-spot:2GB")
    node = running(task_kind="fargate", notice="fargate-spot: Capacity is unavailable")

    found = explanation(known(node=node), spot)

    (cost,) = found.costs
    assert (found.node_task, found.node_notice) == ("fargate", "fargate-spot: Capacity is unavailable")
    assert cost.usd == pytest.approx(float(spot.worth.prices.node_usd(61 * S, "fargate")))
    assert cost.usd > float(spot.worth.prices.node_usd(61 * S))


def test_a_stopped_node_runs_on_nothing_and_says_why_it_ended() -> None:
    found = explanation(known(node=NodeRow(NODE, task_kind="fargate-spot", notice="SpotInterruption")), rules())

    assert (found.node_task, found.node_notice) == ("", "SpotInterruption")
