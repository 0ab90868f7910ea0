"""Data shown on the page, and the changes that reach it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burstcache.core.node_memory import NodeMemory
from burstcache.core.node_scaling import ENTRY_BYTES
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow, Lease, NodeRow, Pause
from burstcache.core.worth import MICRO
from burstcache.metrics import FALLBACKS
from burstcache.queries.explain import stack_rules
from burstcache_dashboard.measured import FunctionUse, Measured
from burstcache_dashboard.shown import changes, possible_states, shown
from burstcache_dashboard.source import Failed, Rows
from support.policies import DECIDES_BY

NOW_US = 1_785_542_400_000_000
HASH = "0123456789abcdef0123456789abcdef"
NOTHING = Measured(0, 0, {}, 0, {}, {}, 0, 0.0, {}, (), 2)
RUNNING = NodeRow("node-1", "running", generation=1, ready_at_us=NOW_US - 1, deadline_at_us=NOW_US + 1)


def page(*keys: KeyRow, nodes: tuple[tuple[NodeRow, tuple[Lease, ...]], ...] = (), **rest: Any) -> dict[str, Any]:
    rows, measured = Rows(NOW_US, keys, nodes, rest.pop("pause", None)), rest.pop("measured", NOTHING)
    return shown(rows, measured, None, rest.pop("failed", Failed()), max_object_bytes=1000, **rest)


def test_key_without_a_life_is_a_guest_of_its_home_that_runs() -> None:
    row = KeyRow(
        HASH, "cars.json", window=(RecordedRequest(NOW_US, "a"),), changed_at_us=NOW_US - 9_000_000, size_bytes=7
    )
    home = replace(RUNNING, peers=("node-1",))
    with_guests, without = page(row, nodes=((home, ()),)), page(row, nodes=((RUNNING, ()),))

    assert with_guests["keys"][HASH][1:5] == ["Guest", "redis", "node-1", RUNNING.ready_at_us // 1000]
    assert with_guests["nodes"][0]["objectBytes"] == 7
    assert (with_guests["status"]["live"], without["status"]["live"]) == (1, 0)
    assert without["keys"][HASH][1:5] == ["S3", "s3", "", NOW_US // 1000 - 9_000]


@pytest.mark.parametrize(
    ("parameters", "states"),
    [
        ({}, ["S3", "Lambda", "RestrictedLambda", "Guest"]),
        ({"Relay": "none", "Policy": "breakeven", "RedisNodeCount": "1"}, ["S3", "Guest"]),
        ({"Relay": "nlb", "RedisNodeCount": "0"}, ["S3", "Lambda"]),
        ({"Policy": "thesis", "Relay": "none"}, ["S3", "RedisBootup", "RedisRunning", "RedisShutdown"]),
    ],
)
def test_states_are_those_that_the_parameters_allow(parameters: dict[str, str], states: list[str]) -> None:
    assert possible_states(parameters) == states


def test_node_is_shown_with_what_it_holds_as_far_as_that_is_known() -> None:
    nodes = page(nodes=((RUNNING, ()), (replace(RUNNING, node="database"), ())), node_bytes={"node-1": 400})["nodes"]

    assert {node["node"]: node["capacityBytes"] for node in nodes} == {"node-1": 400, "database": 0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "instance"),
        ({"task_kind": "fargate-spot", "host": "10.0.0.1"}, "fargate-spot at 10.0.0.1"),
        ({"task_kind": "fargate", "phase": "booting"}, "fargate"),
        ({"phase": "booting"}, ""),
        ({"task_kind": "fargate", "host": "10.0.0.1", "phase": "stopped"}, ""),
    ],
)
def test_node_is_shown_with_what_it_runs_on(changes: dict[str, Any], text: str) -> None:
    assert page(nodes=((replace(RUNNING, **changes), ()),))["nodes"][0]["runsOn"] == text


def full(*, missed: int, **changes: str) -> dict[str, Any]:
    """Return the section of a stack whose only node has evicted as many entries as fit."""
    memory = NodeMemory(2_000, 2_000, 5_000, True, 3_600_000_000, 5_000, missed * MICRO)
    key = KeyRow(HASH, "k", window=(RecordedRequest(NOW_US, "a"),), size_bytes=3_000)
    past = KeyRow(HASH[::-1], "p", window=(RecordedRequest(NOW_US - 90_000_000_000, "a"),), size_bytes=9_000)
    rows = Rows(NOW_US, (key, past), ((RUNNING, ()),), None, {"node-1": memory, "state-a": NodeMemory()})
    rules = stack_rules(DECIDES_BY | changes)
    return dict(shown(rows, NOTHING, None, Failed(), max_object_bytes=1 << 20, rules=rules))


def test_a_full_node_is_shown_with_the_parameter_to_change() -> None:
    scaling = full(missed=4_000)["scaling"]

    assert scaling["pays"]
    assert scaling["change"].startswith("RedisInstanceType=t4g.small (now t4g.micro) earns at most")
    ((node, text),) = ((each["node"], each["what"]) for each in scaling["full"])
    assert node == "node-1"
    assert f"objects of {(3_000 + ENTRY_BYTES) / 2**20:.4g} MB requested within a day".replace("e-0", "") in text
    assert "loses at most 4,000 hits" in text


def test_a_full_node_that_loses_little_is_shown_without_a_recommendation() -> None:
    scaling = full(missed=1)["scaling"]

    assert not scaling["pays"]
    assert scaling["change"].startswith("none pays")


def test_nodes_with_room_and_those_of_the_thesiss_policy_show_no_change() -> None:
    assert page(nodes=((RUNNING, ()),), rules=stack_rules(DECIDES_BY))["scaling"] is None
    assert full(missed=4_000, POLICY="thesis")["scaling"] is None


@pytest.mark.parametrize(
    ("failures", "bar"), [(2, "cools down after 2 failed boots"), (0, "has run for as many hours")]
)
def test_node_that_may_not_boot_is_shown_with_the_reason(failures: int, bar: str) -> None:
    barred = NodeRow("node-1", failures=failures, not_before_us=NOW_US + 5_000_000)
    free = replace(barred, not_before_us=NOW_US)

    (shown_barred,), (shown_free,) = (page(nodes=((row, ()),))["nodes"] for row in (barred, free))

    assert shown_barred["bar"].startswith(bar)
    assert shown_barred["notBeforeMs"] == NOW_US // 1000 + 5_000
    assert shown_free["bar"] == ""


def test_object_that_no_tier_takes_is_no_guest() -> None:
    large = KeyRow(HASH, "cars.json", size_bytes=1001)

    assert page(large, nodes=((replace(RUNNING, peers=("node-1",)), ()),))["states"] == {"S3": 1}


def test_key_of_a_node_that_has_run_anew_since_is_served_by_s3() -> None:
    row = KeyRow(HASH, "k", "redis_running", epoch=1, tier="redis", node="node-1", deadline_at_us=NOW_US + 1)

    assert page(row, nodes=((RUNNING, ()),))["keys"][HASH][2:4] == ["s3", ""]


def test_row_past_its_deadline_is_one_of_s3() -> None:
    expired = KeyRow(HASH, "k", "lambda", epoch=1, tier="lambda", holder="r", deadline_at_us=NOW_US)

    assert page(expired)["keys"][HASH][1:5] == ["S3", "s3", "", NOW_US // 1000]


def test_pause_is_shown_with_its_reason() -> None:
    assert page(pause=Pause("by hand", NOW_US))["status"]["pause"]["reason"] == "by hand"


def test_failures_are_those_of_reads_nodes_and_tiers() -> None:
    measured = Measured(0, 0, {}, 3, {"redis_down": 2}, {}, 0, 0.0, {}, (), 2)
    measured = replace(measured, failed_read_at_s=40, fell_back_at_s={"redis_down": 50})
    failed = page(nodes=((NodeRow("node-1", failures=2), ()),), measured=measured)["failures"]

    assert [each["atMs"] for each in failed] == [40_000, 50_000, 0]
    assert [each["what"] for each in failed] == [
        "answered with an error (5xx): 3 reads",
        "2 reads fell back to a lower tier: Redis was unreachable",
        "node node-1: 2 failed boots in a row",
    ]


@pytest.mark.parametrize(("since_us", "is_shown"), [(NOW_US - 1, True), (NOW_US, False)])
def test_a_node_that_was_lost_is_a_failure_for_as_long_as_the_figures(since_us: int, *, is_shown: bool) -> None:
    node = replace(RUNNING, lost_at_us=NOW_US, lost_by="its Redis did not answer a check")

    failed = page(nodes=((node, ()),), measured=replace(NOTHING, since_us=since_us))["failures"]

    what = "node node-1 was lost: its Redis did not answer a check"
    assert failed == ([{"atMs": NOW_US // 1000, "what": what}] if is_shown else [])


def test_every_reason_of_a_fallback_has_words() -> None:
    measured = replace(NOTHING, fallbacks=dict.fromkeys(FALLBACKS.values, 1))

    texts = [each["what"] for each in page(measured=measured)["failures"]]

    assert len(texts) == len(FALLBACKS.values) > 0
    assert not any("_" in text for text in texts)


def test_functions_that_fail_and_events_that_wait_are_failures() -> None:
    functions = {
        "SchedulerFunction": FunctionUse(1200, 1, 256, errors=1200, failed_at_s=1_700_000_000),
        "ProxyFunction": FunctionUse(9, 1, 512, throttles=3),
        "CacheFunction": FunctionUse(2, 1, 256),
    }
    waiting = Failed(events={"UndeliveredEvents": 0, "FailedEvents": 400})

    failed = page(measured=replace(NOTHING, functions=functions), failed=waiting)["failures"]

    assert [each["what"] for each in failed] == [
        "SchedulerFunction: 1,200 of 1,200 invocations failed",
        "ProxyFunction: 3 invocations throttled",
        "queue FailedEvents: 400 events that a function failed on",
    ]
    assert failed[0]["atMs"] == 1_700_000_000_000


def test_slots_without_a_read_are_drawn_as_nothing() -> None:
    measured = Measured(0, 10_000_000, {}, 0, {}, {}, 0, 0.0, {}, ((0, {"s3": 4}), (6, {"redis": 2})), 2)

    series = page(measured=measured)["series"]

    assert series == {"at": [0, 2, 4, 6, 8], "tiers": {"redis": [0, 0, 0, 1, 0], "s3": [2, 0, 0, 0, 0]}}


@pytest.mark.parametrize(("until_s", "rates"), [(900, [2.0, 1.0]), (899, [2.0])])
def test_slot_has_a_rate_once_it_is_over(until_s: int, rates: list[float]) -> None:
    slots = ((300, {"s3": 600}), (600, {"s3": 300}))
    measured = Measured(0, until_s * 1_000_000, {}, 0, {}, {}, 0, 0.0, {}, slots, 300)

    assert page(measured=measured)["series"]["tiers"] == {"s3": rates}


def test_slot_that_cloudwatch_still_fills_has_no_rate() -> None:
    begun_s = NOW_US // 1_000_000 - 100
    measured = Measured(0, (begun_s + 300) * 1_000_000, {}, 0, {}, {}, 0, 0.0, {}, ((begun_s, {"s3": 9}),), 300)

    assert page(measured=measured)["series"] == {"at": [], "tiers": {}}


def test_what_has_changed_is_sent_alone() -> None:
    former = {"keys": {"a": [1], "b": [2], "c": [3]}, "nodes": [1], "status": {"live": 1}}
    now = {"keys": {"a": [1], "b": [9], "d": [4]}, "nodes": [1], "status": {"live": 2}}

    assert changes(former, now) == {"status": {"live": 2}, "keys": {"b": [9], "d": [4]}, "gone": ["c"]}
    assert changes(now, now) == {}
