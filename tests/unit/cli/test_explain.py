"""What a person reads of a key."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from burstcache.core.compared import Compared, Measure
from burstcache.core.worth import Below
from burstcache.queries.explain import Explanation, ServedBy
from burstcache.queries.key_costs import Cost, Ended, Month
from burstcache.queries.moves import Hold, Move, Reason, Rule
from burstcache_cli.explain import explanation_text, max_object_bytes_of

NOW_US = 1_785_542_400_000_000  # 2026-08-01T00:00:00Z
UNKNOWN = Month(None, None, None, None, 6.1, 13.7, 8.8, 19.6, 10.0)


def explanation(
    *moves: Move,
    rule: ServedBy = "",
    compared: tuple[Compared, ...] = (),
    costs: tuple[Cost, ...] = (),
    ended: Ended | None = None,
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
    move = Move(
        "lambda",
        "is_hot",
        requests=1,
        compared=(Compared("window_span_s", 12.0, 10.0),),
        holds=(Hold("full", value=2, limit=2),),
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


def test_key_of_a_cache_function_says_when_that_ends_and_what_it_has_cost() -> None:
    costs = (Cost("cache_function", NOW_US - 60_000_000, 0.0002), Cost("node_run", NOW_US - 1, 0.004, 4, 0.001))
    move = Move("s3", "tick", at_us=NOW_US + 5_000_000, compared=(Compared("tick_s", None, 5.0),), known_at_us=NOW_US)
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


def test_absent_object_is_reported_and_nothing_would_move_it() -> None:
    move = Move("lambda", "is_hot", requests=1)

    text = explanation_text(replace(explanation(move), exists=False))

    assert "exists      no: S3 has no object of this name, and a read of it" in text
    assert "served by" not in text
    assert "What would move it\nnothing" in text


def test_lives_that_are_over_have_a_line_of_their_own() -> None:
    two = Ended(2, NOW_US - 60_000_000, function_s=26, function_usd=0.0002, node_s=21, node_usd=0.00005)
    one = Ended(1, NOW_US, function_s=0, function_usd=0, node_s=0, node_usd=0)

    assert """\
Cost so far
before      its 2 newest lives that have ended, since 2026-07-31T23:59:00Z:
            0.0002 USD for 26 s of cache functions and 0.00005 USD for 21 s of a
            node, which other keys may have shared

""" in explanation_text(explanation(ended=two))
    assert "its newest life that has ended, since 2026-08-01T00:00:00Z: nothing" in " ".join(
        explanation_text(explanation(ended=one)).split()
    )


@pytest.mark.parametrize("rule", get_args(Rule))
@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_rule_and_each_hold_has_a_sentence(rule: Rule, reason: Reason) -> None:
    hold = Hold(reason, until_us=NOW_US, value=3, limit=2)

    text = explanation_text(explanation(Move("redis", rule, requests=2, holds=(hold,))))

    assert "{" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_page_that_wraps_by_itself_gets_each_sentence_as_one_line() -> None:
    ended = Ended(2, NOW_US - 60_000_000, function_s=26, function_usd=0.0002, node_s=21, node_usd=0.00005)
    long = explanation(ended=ended)

    text, whole = explanation_text(long), explanation_text(long, is_wrapped=False)

    assert text.split() == whole.split()
    assert max(map(len, text.splitlines())) <= 80 < max(map(len, whole.splitlines()))


@pytest.mark.parametrize("measure", get_args(Measure))
@pytest.mark.parametrize("value", [None, 3.5])
def test_each_comparison_has_a_sentence(measure: Measure, value: float | None) -> None:
    text = explanation_text(explanation(rule="is_hot", compared=(Compared(measure, value, 2.0),)))

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
