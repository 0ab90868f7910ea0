"""Text of `burstcache explain` about a key."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from burstcache.core.comparison import Comparison, Measure
from burstcache.core.node_scaling import Scaling
from burstcache.core.rows import Pause
from burstcache.core.worth import Below
from burstcache.queries.explain import Explanation, ServedBy
from burstcache.queries.key_costs import Cost, EndedLife, Month
from burstcache.queries.node_memory import NodeFullness, StackMemory
from burstcache.queries.slices import HomeNode, ObjectSlices, SlicesInExpress, SlicesOnNodes, StoredSlices
from burstcache.queries.transitions import Blocker, Reason, Rule, Transition
from burstcache.serve.slice_memory import LEAST_MEMORY_BYTES
from burstcache_cli.explain import explanation_text, max_object_bytes_of
from burstcache_cli.pause_text import below_pause, pause_text

NOW_US = 1_785_542_400_000_000  # 2026-08-01T00:00:00Z
UNKNOWN = Month(None, None, None, None, 6.1, 13.7, 8.8, 19.6, 10.0)


def explanation(
    *moves: Transition,
    rule: ServedBy = "",
    compared: tuple[Comparison, ...] = (),
    costs: tuple[Cost, ...] = (),
    ended: EndedLife | None = None,
    month: Month = UNKNOWN,
    below: Below = "s3",
) -> Explanation:
    return Explanation(
        key="cars.json",
        at_us=NOW_US,
        policy="thesis",
        state="Lambda" if rule else "S3",
        is_expired=False,
        tier="lambda" if rule else "s3",
        below=below,
        since_us=NOW_US - 60_000_000 if rule else 0,
        rule=rule,
        compared=compared,
        size_bytes=1_234,
        execution_name="",
        node="node-1",
        node_phase="stopped",
        moves=moves,
        costs=costs,
        ended=ended,
        month=month,
    )


def test_key_of_s3_says_what_would_start_it_and_what_keeps_it() -> None:
    move = Transition(
        "lambda",
        "is_hot",
        requests=1,
        compared=(Comparison("window_span_s", 12.0, 10.0),),
        holds=(Blocker("full", value=2, limit=2),),
    )

    assert (
        explanation_text(explanation(move))
        == """\
key         cars.json
served by   S3
because     no faster tier has it
policy      thesis
state       S3
size        1,234 bytes
node        node-1, stopped

What would move it
to function 1 request now: its requests come close to each other
            with one more the newest requests span 12 s, and must stay below 10
            s
            but 2 keys are hot, and MaxHotKeys is 2

Cost so far
nothing

A month at the present rate
key         its rate is not known: fewer than two of its requests are noted
node        6.1 USD if it ran all the time; it pays above 13.7 requests a minute
function    8.8 USD if it ran all the time; it pays above 19.6 requests a minute"""
    )


def test_a_key_on_a_redis_that_does_not_answer_says_that_reads_fall_back() -> None:
    shown = replace(explanation(rule="node_boots"), tier="redis", node_silence="node-1 at 10.0.0.5: TimeoutError()")

    lines = explanation_text(shown, is_wrapped=False).splitlines()

    assert lines[1].startswith("served by   Redis on node-1 since ")
    silence = "node-1 at 10.0.0.5: TimeoutError(); `burstcache redis stop` ends the run"
    assert lines[2].strip() == f"reads fall back: Redis does not answer ({silence})"
    assert "fall back" not in explanation_text(replace(shown, node_silence=""))


def full_nodes(change: Scaling | None) -> StackMemory:
    nodes = (
        NodeFullness("node-1", True, 400 * 2**20, 402 * 2**20, 700 * 2**20, evicted_per_h=1_234.5, lost_per_h=800.0),
        NodeFullness("node-2", False, 2**20, 402 * 2**20, 0, evicted_per_h=0.0, lost_per_h=0.0),
    )
    return StackMemory(nodes, change)


def memory_text(change: Scaling | None) -> str:
    text = explanation_text(replace(explanation(), memory=full_nodes(change)))
    return text.partition("More memory\n")[2]


def test_a_full_node_is_named_with_the_parameter_to_change() -> None:
    change = Scaling("RedisInstanceType", "t4g.nano", "t4g.micro", 0.009, 0.008, 0.0042)

    assert (
        memory_text(change)
        == """\
node-1      full: 400 MB of 402 MB used, objects of 700 MB requested within a
            day. In an hour of running it evicts 1,234 entries and loses at most
            800 hits by that
change      RedisInstanceType=t4g.micro (now t4g.nano) earns at most 0.008 USD
            in an hour in which all nodes run, and costs 0.0042 more"""
    )


def test_a_change_that_does_not_pay_is_not_recommended() -> None:
    change = Scaling("RedisNodeCount", "1", "2", 0.001, 0.001, 0.0042)

    assert "none pays; of all, RedisNodeCount=2 (now 1) comes closest" in " ".join(memory_text(change).split())
    assert "none: the template has no larger size" in memory_text(None)


def test_nodes_with_room_are_not_mentioned() -> None:
    with_room = StackMemory(full_nodes(None).nodes[1:], None)

    assert "More memory" not in explanation_text(replace(explanation(), memory=with_room))


def test_key_of_a_cache_function_says_when_that_ends_and_what_it_has_cost() -> None:
    costs = (Cost("cache_function", NOW_US - 60_000_000, 0.0002), Cost("node_run", NOW_US - 1, 0.004, 4, 0.001))
    move = Transition(
        "s3", "tick", at_us=NOW_US + 5_000_000, compared=(Comparison("tick_s", None, 5.0),), known_at_us=NOW_US
    )
    text = explanation_text(
        explanation(move, rule="is_hot", costs=costs, month=Month(2, 1.5, 3, 2.5, *(None,) * 4, 10.0))
    )

    assert "served by   cache function since 2026-07-31T23:59:00Z" in text
    assert "to S3       not before 2026-08-01T00:00:05Z, in 5 s" in text
    assert "each request adds 5 s" in text
    assert "this life   0.0002 USD for its cache function since 2026-07-31T23:59:00Z" in text
    assert "of 4 keys: 0.001 USD" in text
    assert "key         2 requests a minute; to answer them from memory is worth 1.5 USD, at" in text
    assert "10 USD per million (HitValueUsdPerMillion)" in text
    assert "save" not in text


@pytest.mark.parametrize(("name", "lines"), [("", []), ("cars-1", ["execution   cars-1"])])
def test_nothing_but_its_last_execution_is_told_of_an_object_that_does_not_exist(name: str, lines: list[str]) -> None:
    costs = (Cost("node_run", NOW_US, 1.0, keys=4, share_usd=0.25),)
    absent = replace(explanation(Transition("lambda", "is_hot", requests=1), costs=costs), exists=False)

    text = explanation_text(replace(absent, execution_name=name), is_wrapped=False)

    assert text.splitlines() == [
        "key         cars.json",
        "exists      no: S3 has no object of this name, and a read of it is answered with 404",
        *lines,
    ]


def test_lives_that_are_over_have_a_line_of_their_own() -> None:
    two = EndedLife(2, NOW_US - 60_000_000, function_s=26, function_usd=0.0002, node_s=21, node_usd=0.00005)
    one = EndedLife(1, NOW_US, function_s=0, function_usd=0, node_s=0, node_usd=0)

    assert """\
Cost so far
before      its 2 newest lives that have ended, since 2026-07-31T23:59:00Z:
            0.0002 USD for 26 s of cache functions and 0.00005 USD for 21 s of a
            node, which other keys may have shared

""" in explanation_text(explanation(ended=two))
    assert "its newest life that has ended, since 2026-08-01T00:00:00Z: nothing" in " ".join(
        explanation_text(explanation(ended=one)).split()
    )


NODES = SlicesOnNodes("same_zone", "r7g.large", 937, 18.9, 37.3, "us-east-1b", 10.0, 51.9, ())
HOMES = (
    HomeNode("node-1", "running", StoredSlices(22, 12, 12 << 20)),
    HomeNode("node-2", "stopped", StoredSlices(18, 0, 0)),
    HomeNode("node-3", "running", StoredSlices(0, None, None, "node-3 at 10.0.0.7: timed out")),
)


def large(nodes: SlicesOnNodes | None = None, express: SlicesInExpress | None = None, *, sampled: int = 40) -> str:
    """Return the section about the slices of an object of 40 MiB."""
    slices = ObjectSlices(1 << 20, 40, sampled, "https://s3.us-east-1.amazonaws.com", nodes, express)
    text = explanation_text(replace(explanation(), size_bytes=40 << 20, slices=slices), is_wrapped=False)
    return text.split("\n\n")[1]


def test_large_object_says_which_tiers_have_its_slices_and_how_many() -> None:
    express = SlicesInExpress(1, StoredSlices(40, 3, 3 << 20))

    assert (
        large(replace(NODES, homes=HOMES), express)
        == """\
Its slices
cached in   40 slices of 1024 KiB, since it is too large for an entry
memory      a client keeps slices if its memory_bytes is at least 8 MiB; which ones is not known here
disk        a client keeps slices if it has a disk (disk=PATH, BURSTCACHE_DISK); which ones is not known here
nodes       for readers in us-east-1b (BURSTCACHE_ZONE=us-east-1b): r7g.large (937 Mbit/s) sends 1 MiB to each of \
two readers in 19 ms, S3 in 37 ms; from another zone slices pay above 51.9 USD per million hits \
(HitValueUsdPerMillion, now 10)
node-1      running, home of 22 slices: 12 of 22 stored, 12,582,912 bytes
node-2      stopped, home of 18 slices: 0 of 18 stored, 0 bytes
node-3      running, home of 0 slices: stored ones are not known: node-3 at 10.0.0.7: timed out
S3 Express  copies a slice at its read 1 from S3 by one reader: 3 of 40 stored, 3,145,728 bytes
without     memory and disk, a client uses no slices of nodes and S3 Express
front door  redirects to S3: only programs with the client library read slices
counted     of readers whose S3 endpoint is https://s3.us-east-1.amazonaws.com"""
    )
    assert f"at least {LEAST_MEMORY_BYTES >> 20} MiB" in large()


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (replace(NODES, rule="no_guests"), "none: the policy stores no read-through entries"),
        (
            replace(NODES, rule="unknown_bandwidth", node_type="", node_ms=None),
            "none: the bandwidth of their type is not known to readers",
        ),
        (
            replace(NODES, rule="slower", node_type="t4g.micro", baseline_mbit_s=64, node_ms=263.1),
            "none: t4g.micro (64 Mbit/s) sends 1 MiB to each of two readers in 263 ms, S3 in 37 ms",
        ),
        (replace(NODES, rule="any_zone"), "yes, for readers in every zone: r7g.large"),
        (replace(NODES, zone=""), "for no reader: their zone is not known: r7g.large"),
    ],
    ids=lambda value: value.rule if isinstance(value, SlicesOnNodes) else "",
)
def test_each_rule_of_slices_on_nodes_has_a_sentence(nodes: SlicesOnNodes, text: str) -> None:
    assert f"nodes       {text}" in large(nodes)


def test_slices_in_express_that_never_pay_are_not_counted() -> None:
    assert "S3 Express  none: a copy of a slice never pays" in large(None, SlicesInExpress(0, StoredSlices(40, 0, 0)))


def test_counts_of_a_sample_say_so_and_without_an_etag_there_are_none() -> None:
    unknown = large(replace(NODES, homes=HOMES), SlicesInExpress(1, StoredSlices(0)), sampled=0)

    assert "counted     20 slices, evenly spread, of readers" in large(replace(NODES, homes=HOMES), sampled=20)
    assert "counted" not in large(replace(NODES, rule="slower"))
    assert "counted     nothing, since S3 sends no ETag" in unknown
    assert "node-1" not in unknown
    assert "by one reader: stored ones are not known\n" in unknown


def test_pool_has_slices_of_its_own_size() -> None:
    slices = ObjectSlices(1 << 20, 40, 40, "", None, None)
    in_pool = replace(explanation(Transition("pool", "pool")), size_bytes=40 << 20, slices=slices)
    text = explanation_text(in_pool, is_wrapped=False)

    assert "pool        5 slices of 8 MiB; which of them it has is not known here" in text
    assert "its rate is not known: reads of objects above the limit are not reported" in text


@pytest.mark.parametrize("rule", get_args(Rule))
@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_rule_and_each_hold_has_a_sentence(rule: Rule, reason: Reason) -> None:
    hold = Blocker(reason, until_us=NOW_US, value=3, limit=2)

    text = explanation_text(explanation(Transition("redis", rule, requests=2, holds=(hold,))))

    assert "{" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_page_that_wraps_by_itself_gets_each_sentence_as_one_line() -> None:
    ended = EndedLife(2, NOW_US - 60_000_000, function_s=26, function_usd=0.0002, node_s=21, node_usd=0.00005)
    long = explanation(ended=ended)

    text, whole = explanation_text(long), explanation_text(long, is_wrapped=False)

    assert text.split() == whole.split()
    assert max(map(len, text.splitlines())) <= 80 < max(map(len, whole.splitlines()))


@pytest.mark.parametrize("measure", get_args(Measure))
@pytest.mark.parametrize("value", [None, 3.5])
def test_each_comparison_has_a_sentence(measure: Measure, value: float | None) -> None:
    text = explanation_text(explanation(rule="is_hot", compared=(Comparison(measure, value, 2.0),)))

    assert "{" not in text


def test_copy_in_express_is_named_as_what_serves_without_memory() -> None:
    assert "without     S3 Express would serve it" in explanation_text(explanation(below="express"))


def test_limit_of_a_tier_is_known_of_a_stack_that_is_older_than_other_settings() -> None:
    older: Any = SimpleNamespace(outputs={"PolicySettings": '{"MAX_OBJECT_BYTES": "7"}'})
    without: Any = SimpleNamespace(outputs={})

    assert max_object_bytes_of(older) == 7
    assert max_object_bytes_of(without) == sys.maxsize


def test_name_of_a_key_cannot_speak_to_the_terminal() -> None:
    text = explanation_text(replace(explanation(), key="a\x1b[2Jb"))

    assert text.startswith("key         a\\x1b[2Jb\n")


def test_a_nodes_task_and_the_trouble_with_it_are_named() -> None:
    refused = replace(explanation(), node_phase="running", node_task="fargate", node_notice="fargate-spot: no capacity")

    lines = explanation_text(refused).splitlines()

    assert "node        node-1, running on fargate" in lines
    assert "            its newest trouble: fargate-spot: no capacity" in lines


def test_a_pause_stands_above_the_explanation_as_above_the_keys() -> None:
    paused = replace(explanation(Transition("s3", "pause_stops_node")), pause=Pause("too dear", NOW_US))

    first, _, *rest = explanation_text(paused, is_wrapped=False).splitlines()

    assert first == below_pause(paused.pause, "").strip() == pause_text(Pause("too dear", NOW_US))
    assert "to S3       the stack is paused: its nodes stop within five minutes, whatever is read" in rest
