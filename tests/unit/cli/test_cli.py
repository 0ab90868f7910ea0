"""Output of the `burstcache` command (CLI) about a stack."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from burstcache.core.keys import key_execution_name, key_hash
from burstcache_cli.cli import main
from support.stack_in_moto import STACK, Aws

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def in_an_hour_us() -> int:
    return time.time_ns() // 1000 + 3_600_000_000


def watched_json(key: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the states of a key's life up to now."""
    capsys.readouterr()
    assert main(["watch", key, "--once", "--json", *STACK]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_keys_prints_one_line_per_key(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("b.json", window=["5:r1", "4:r0"])
    aws.put_key(
        "a.json", phase="lambda", tier="lambda", holder="h", epoch=7, changed_at_us=1_785_542_400_000_000,
        deadline_at_us=in_an_hour_us(), window=[f"{i}:r" for i in range(6)],
    )  # fmt: skip
    aws.put("NODE#node-1", "NODE", phase="running", generation=1)

    assert main(["keys", *STACK]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["KEY", "STATE", "TIER", "SINCE", "NOTED", "EXECUTION"],
        [
            "a.json",
            "Lambda",
            "lambda",
            "2026-08-01T00:00:00Z",
            "-",
            key_execution_name("a.json", key_hash("a.json"), 7),
        ],
        ["b.json", "S3", "s3", "-", "2", "-"],
    ]


@pytest.mark.parametrize(("size_bytes", "place"), [(4, ("Guest", "redis", "node-1")), (1 << 30, ("S3", "s3", ""))])
def test_keys_shows_a_guest_of_a_running_node_as_that(
    aws: Aws, capsys: pytest.CaptureFixture[str], size_bytes: int, place: tuple[str, str, str]
) -> None:
    aws.put_key("b.json", size_bytes=size_bytes)
    aws.put("NODE#node-1", "NODE", phase="running", generation=1, peers=["node-1"], deadline_at_us=in_an_hour_us())

    assert main(["keys", "--json", *STACK]) == 0

    (found,) = json.loads(capsys.readouterr().out)
    assert (found["state"], found["tier"], found["node"]) == place


def test_keys_prints_json_for_machines(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("b.json", window=["5:r1"])

    assert main(["keys", "--json", *STACK]) == 0

    assert json.loads(capsys.readouterr().out) == [
        {
            "key": "b.json", "state": "S3", "is_expired": False, "tier": "s3", "node": "", "since_us": 0,
            "noted_requests": 1, "is_window_full": False, "execution_name": "", "failures": 0, "not_before_us": 0,
        }
    ]  # fmt: skip


def test_keys_dates_the_state_of_a_hot_key_by_its_execution(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("a.json", phase="lambda", epoch=7, changed_at_us=5, deadline_at_us=in_an_hour_us())
    aws.start_life(key_execution_name("a.json", key_hash("a.json"), 7), on_redis_s=600)
    assert main(["watch", "a.json", "--until", "RedisRunning", "--timeout-s", "60", *STACK]) == 0
    entered_us = watched_json("a.json", capsys)[0]["at_us"]

    assert main(["keys", "--json", *STACK]) == 0

    assert json.loads(capsys.readouterr().out)[0]["since_us"] == entered_us


def test_routes_prints_hot_keys_only_and_whether_their_route_is_followed(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    live = {"epoch": 7, "deadline_at_us": in_an_hour_us()}
    aws.put_key("cold.json")
    aws.put_key("starting.json", phase="lambda", **live)
    aws.put_key("warm.json", phase="lambda", tier="lambda", holder="request-1", **live)
    aws.put_key("hot.json", phase="redis_running", tier="redis", node="node-1", generation=1_785_538_800_000, **live)
    aws.put("NODE#node-1", "NODE", phase="running", generation=1_785_542_400_000)

    assert main(["routes", *STACK]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "KEY        TIER    NODE    BOOTED                HOLDER     VALID",
        "hot.json   redis   node-1  2026-07-31T23:00:00Z  -          no: node-1 booted again at 2026-08-01T00:00:00Z",
        "warm.json  lambda  -       -                     request-1  yes",
    ]


def test_explain_reads_the_policy_and_the_rows_of_a_stack(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("cars.json", window=["5:a", "6:b"], size_bytes=70)
    aws.make_machine("mine-key-lifecycle")
    aws.put_object("cars.json")

    assert main(["explain", "cars.json", *STACK]) == 0
    text = capsys.readouterr().out
    assert main(["explain", "cars.json", "--json", *STACK]) == 0
    found = json.loads(capsys.readouterr().out)

    assert "served by   S3" in text
    assert "size        4 bytes" in text  # as S3 has it now, not at the last read
    assert (found["tier"], found["policy"]) == ("s3", "breakeven")
    assert [move["rule"] for move in found["moves"]] == ["node_boots", "key_starts"]
    assert found["exists"] is True


def test_explain_of_an_object_that_does_not_exist_says_so_and_fails(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.make_machine("mine-key-lifecycle")
    aws.put_object("cars.json")

    assert main(["explain", "nokey", *STACK]) == 1

    assert "exists      no: S3 has no object of this name" in capsys.readouterr().out


def test_pool_that_was_not_used_says_so(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pool", *STACK]) == 0

    assert capsys.readouterr().out == "the pool has not been used yet\n"


def test_redis_status_prints_every_node(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put("NODE#node-1", "LEASE#abc", key="a.json", epoch=1)

    assert main(["redis", "status", *STACK]) == 0

    assert [line.split() for line in capsys.readouterr().out.splitlines()][1] == [
        "node-1",
        "stopped",
        "-",
        "-",
        "1",
        "-",
    ]


@pytest.mark.slow
def test_watch_prints_each_state_as_it_is_entered_until_the_awaited_one(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.put_key("a.json", phase="lambda", epoch=7, deadline_at_us=in_an_hour_us())
    aws.start_life(key_execution_name("a.json", key_hash("a.json"), 7))

    assert main(["watch", "a.json", "--until", "S3", "--timeout-s", "60", *STACK]) == 0

    lines = [re.sub(r"after [\d.]+ s", "after N s", line) for line in capsys.readouterr().out.splitlines()]
    assert all(re.match(TIME, line) for line in lines)
    assert [line[26:] for line in lines] == [
        "Lambda",
        "RedisBootup         after N s in Lambda",
        "RedisRunning        after N s in RedisBootup",
        "RedisShutdown       after N s in RedisRunning",
        "S3                  after N s in RedisShutdown",
    ]


def test_watch_once_prints_the_current_state_of_a_key_that_nobody_has_requested(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "new.json", "--once", *STACK]) == 0

    assert capsys.readouterr().out == "-                         S3\n"


def test_watch_prints_json_lines_for_machines(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("a.json", changed_at_us=5, epoch=1)

    assert main(["watch", "a.json", "--once", "--json", *STACK]) == 0

    assert json.loads(capsys.readouterr().out)["state"] == "S3"


def test_watch_follows_a_node(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put("NODE#node-1", "NODE", phase="running", generation=4, part=1, deadline_at_us=in_an_hour_us(), ready_at_us=9)

    assert main(["watch", "--node", "node-1", "--once", *STACK]) == 0

    assert "RedisNodeRunning" in capsys.readouterr().out


def test_a_guest_is_one_in_the_list_of_keys_and_in_a_watch(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("a.json", size_bytes=10)
    run = {"generation": 9, "part": 1, "ready_at_us": 5, "deadline_at_us": in_an_hour_us(), "peers": ["node-1"]}
    aws.put("NODE#node-1", "NODE", phase="running", **run)

    assert main(["keys", "--json", *STACK]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert main(["watch", "a.json", "--until", "Guest", "--timeout-s", "1", *STACK]) == 0

    assert listed["state"] == "Guest"
    assert capsys.readouterr().out.split() == ["1970-01-01T00:00:00.000Z", "Guest"]
