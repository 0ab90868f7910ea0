"""Output of `burstcache show`: one line per key, route, node or state."""

from __future__ import annotations

import json

from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow, Lease, NodeRow
from burstcache.queries.keys import key_view
from burstcache.queries.nodes import node_view
from burstcache.queries.routes import route_view
from burstcache.queries.watch import StateEntry
from burstcache_cli.show import Lines, keys_text, nodes_text, routes_text

NOW_US = 1_785_542_400_000_000  # 2026-08-01T00:00:00Z
BOOTED_MS = NOW_US // 1000 - 3_600_000
HASH = "0123456789abcdef0123456789abcdef"


def hot(**changes: object) -> KeyRow:
    fields = {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "req-1", "deadline_at_us": NOW_US + 1}
    return KeyRow(HASH, "cars.json", **(fields | changes))  # type: ignore[arg-type]


def cells(row: KeyRow) -> list[str]:
    """Return the cells of a key's line; two blanks or more part them."""
    return [cell.strip() for cell in keys_text([key_view(row, NOW_US)]).splitlines()[1].split("  ") if cell.strip()]


def test_key_that_was_never_hot_has_no_execution_and_no_time() -> None:
    window = (RecordedRequest(NOW_US - 1, "id-1"), RecordedRequest(NOW_US, "id-0"))

    text = keys_text([key_view(KeyRow(HASH, "cars.json", window=window), NOW_US)])

    assert text == "KEY        STATE  TIER  SINCE  NOTED  EXECUTION\ncars.json  S3     s3    -      2      -"


def test_hot_key_shows_its_state_tier_time_and_execution() -> None:
    row = hot(changed_at_us=NOW_US - 5_000_000)

    assert cells(row) == ["cars.json", "Lambda", "lambda", "2026-07-31T23:59:55Z", "-", f"cars-json-{HASH[:16]}-7"]


def test_key_on_redis_shows_its_node() -> None:
    assert cells(hot(phase="redis_running", tier="redis", node="node-2"))[2] == "redis (node-2)"


def test_guest_shows_the_node_that_takes_it() -> None:
    node = NodeRow("node-2", phase="running", generation=1, peers=("node-2",), deadline_at_us=NOW_US + 1)

    text = keys_text([key_view(KeyRow(HASH, "cars.json"), NOW_US, node=node)])

    assert text.splitlines()[1].split()[:4] == ["cars.json", "Guest", "redis", "(node-2)"]


def test_key_whose_window_is_full_may_have_had_more_requests() -> None:
    window = tuple(RecordedRequest(NOW_US - i, f"id-{i}") for i in reversed(range(5)))

    assert cells(KeyRow(HASH, "k", window=window))[4] == "5+"


def test_expired_and_cooling_keys_are_marked() -> None:
    assert cells(hot(deadline_at_us=NOW_US))[1] == "Lambda (expired)"
    assert cells(KeyRow(HASH, "k", failures=1, not_before_us=NOW_US + 1))[1] == "S3 (cooling down)"
    assert cells(KeyRow(HASH, "k", failures=1, not_before_us=NOW_US))[1] == "S3"


def test_routes_of_two_nodes_are_shown_in_columns_with_why_they_are_not_followed() -> None:
    def on(node: str, **of_node: object) -> tuple[KeyRow, NodeRow]:
        row = hot(phase="redis_running", tier="redis", node=node, generation=BOOTED_MS, holder="")
        return row, NodeRow(node, **of_node)  # type: ignore[arg-type]

    views = [route_view(hot(), None, NOW_US), route_view(hot(deadline_at_us=NOW_US), None, NOW_US)]
    views += [
        route_view(*on("node-1"), NOW_US),
        route_view(*on("node-2", phase="running", generation=BOOTED_MS + 1000), NOW_US),
    ]

    assert routes_text(views).splitlines() == [
        "KEY        TIER    NODE    BOOTED                HOLDER  VALID",
        "cars.json  lambda  -       -                     req-1   yes",
        "cars.json  lambda  -       -                     req-1   no: expired at 2026-08-01T00:00:00Z",
        "cars.json  redis   node-1  2026-07-31T23:00:00Z  -       no: node-1 is stopped",
        "cars.json  redis   node-2  2026-07-31T23:00:00Z  -       no: node-2 booted again at 2026-07-31T23:00:01Z",
    ]


def test_nodes_are_shown_with_their_keys_and_holds() -> None:
    running = NodeRow(
        "node-1",
        phase="running",
        generation=BOOTED_MS,
        ready_at_us=NOW_US,
        deadline_at_us=NOW_US + 2,
        held_until_us=NOW_US + 1,
    )

    views = [
        node_view(running, [Lease("node-1", "h2", "b")], NOW_US),
        node_view(NodeRow("node-2", generation=BOOTED_MS), [], NOW_US),
    ]

    assert nodes_text(views).splitlines() == [
        "NODE    PHASE    LAST BOOT             READY SINCE           LEASES  HELD UNTIL",
        "node-1  running  2026-07-31T23:00:00Z  2026-08-01T00:00:00Z  1       2026-08-01T00:00:00Z",
        "node-2  stopped  2026-07-31T23:00:00Z  -                     0       -",
    ]


def test_empty_answers_are_sentences() -> None:
    assert keys_text([]) == "no keys yet: the scheduler has received no report of requests that S3 served"
    assert routes_text([]) == "no routes: no key has a life of its own"


def test_line_of_a_state_has_how_long_the_one_before_lasted() -> None:
    lines = Lines(as_json=False)
    at_us = 1_785_542_400_250_000

    assert lines.line(StateEntry(at_us, "Lambda", "k-1")) == "2026-08-01T00:00:00.250Z  Lambda"
    assert lines.line(StateEntry(at_us + 8_200_000, "RedisBootup", "k-1")) == (
        "2026-08-01T00:00:08.450Z  RedisBootup         after 8.2 s in Lambda"
    )
    assert lines.line(StateEntry(at_us + 9_200_000, "S3", "", "X: y")) == (
        "2026-08-01T00:00:09.450Z  S3                  after 1 s in RedisBootup  X: y"
    )


def test_line_of_a_state_whose_time_is_not_known_begins_with_a_dash() -> None:
    lines = Lines(as_json=False)

    assert lines.line(StateEntry(0, "S3", "")) == "-                         S3"
    assert lines.line(StateEntry(5, "Lambda", "k-1")).endswith("Lambda")


def test_lines_for_machines_are_one_object_each() -> None:
    lines = Lines(as_json=True)
    lines.line(StateEntry(1_000_000, "Lambda", "k-1"))

    assert json.loads(lines.line(StateEntry(3_500_000, "S3", ""))) == {
        "at_us": 3_500_000, "state": "S3", "execution_name": "", "failure": "", "doubt": "",
        "previous_state": "Lambda", "in_previous_s": 2.5,
    }  # fmt: skip


def test_line_of_a_state_that_no_history_has_gives_the_reason() -> None:
    lines = Lines(as_json=False)

    assert lines.line(StateEntry(0, "S3", "", doubt="deadline_passed")).endswith(
        "its deadline has passed, the execution has not ended"
    )
