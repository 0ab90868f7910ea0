"""The source's reads of the table: rows that each refresh reads again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from burstcache.adapters.items import to_values
from burstcache.core.keys import key_hash
from burstcache.core.table import key_item
from burstcache.queries.system import System
from burstcache_cli.stack import Stack
from burstcache_dashboard import source as sources
from burstcache_dashboard import watching
from burstcache_dashboard.local_logs import LocalLogs
from burstcache_dashboard.source import Rows, Source
from support.aws import REGION, TABLE, clients, make_stack, mocked_aws, put_row
from support.clock import ManualClock

NOW_S = 1_785_542_400
REQUEST = {
    "at": NOW_S * 1000, "method": "GET", "path": "/objects/live", "query": "", "status": 200, "bytes": 1,
    "latency_ms": 2.0, "tier": "redis",
}  # fmt: skip


class Asked(LocalLogs):
    """A local run in which some keys were asked for a short time ago; None: nobody knows which."""

    keys: set[str] | None = None

    def keys_read_since(self, at_ms: int) -> Any:
        assert at_ms < NOW_S * 1000
        return self.keys


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path, ManualClock(NOW_S), since_us=0)


@pytest.fixture
def source(asked: Asked, tmp_path: Path) -> Iterator[Source]:
    with mocked_aws():
        make_stack()
        states: Any = None
        system = System(TABLE, "", "", (), clients().dynamodb, states, ManualClock(NOW_S))
        stack: Stack | Any = None
        yield Source(stack, system, asked, tmp_path, state_dir=tmp_path)


def put(key: str, size_bytes: int, phase: str = "s3") -> None:
    row = {**key_item(key_hash(key)), "key": key, "phase": phase, "window": [], "size_bytes": size_bytes}
    clients().dynamodb.put_item(TableName=TABLE, Item=to_values(row))


def see(key: str, *, at_s: int = NOW_S) -> None:
    columns = {"key": key, "size_bytes": 7, "seen_at_us": at_s * 1_000_000}
    put_row("NODE#node-1", f"SEEN#{key_hash(key)}", columns)


def sizes(rows: Rows) -> dict[str, int]:
    return {row.key: row.size_bytes for row in rows.keys}


def test_keys_that_were_asked_for_or_are_above_s3_are_read_anew(source: Source, asked: Asked) -> None:
    for key, phase in (("asked", "s3"), ("live", "redis_running"), ("cold", "s3")):
        put(key, 1, phase)
    former = source.rows()
    for key, phase in (("asked", "s3"), ("live", "s3"), ("cold", "s3"), ("new", "s3"), ("other", "s3")):
        put(key, 2, phase)
    asked.keys = {"asked", "new"}

    after = source.rows_after(former)

    assert sizes(after) == {"asked": 2, "live": 2, "cold": 1, "new": 2}
    assert sizes(source.rows()) == {"asked": 2, "live": 2, "cold": 2, "new": 2, "other": 2}


def test_a_key_whose_row_is_gone_leaves(source: Source, asked: Asked) -> None:
    put("asked", 1)
    former = source.rows()
    clients().dynamodb.delete_item(TableName=TABLE, Key=to_values(key_item(key_hash("asked"))))
    asked.keys = {"asked"}

    assert sizes(source.rows_after(former)) == {}


def test_keys_that_only_a_node_knows_are_there_as_well(source: Source, asked: Asked) -> None:
    looked_at = replace(source, system=replace(source.system, node_names=("node-1",)))
    put("has a row", 1)
    for key in ("has a row", "guest"):
        see(key)
    see("seen long ago", at_s=NOW_S - 86_400)
    former = looked_at.rows()
    see("new")
    asked.keys = {"has a row", "guest", "new"}

    after = looked_at.rows_after(former)

    assert sizes(former) == {"has a row": 1, "guest": 7}
    assert sizes(after) == {"has a row": 1, "guest": 7, "new": 7}


@pytest.mark.parametrize("keys", [None, {"asked", "other"}])
def test_rows_wait_for_a_scan_where_nobody_knows_or_too_many_may_have_changed(
    source: Source, asked: Asked, keys: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_MOST_REREAD", 1)
    put("asked", 1)
    former = source.rows()
    put("asked", 2)
    asked.keys = keys

    assert sizes(source.rows_after(former)) == {"asked": 1}


def test_executions_that_failed_are_of_the_time_that_is_shown(source: Source) -> None:
    ended = {name: datetime.fromtimestamp(NOW_S + after_s, UTC) for name, after_s in (("old", -1), ("new", 1))}

    def list_executions(statusFilter: str, **_: Any) -> Any:
        executions = [{"name": name, "status": statusFilter, "stopDate": at} for name, at in ended.items()]
        return {"executions": executions if statusFilter == "FAILED" else []}

    states: Any = SimpleNamespace(list_executions=list_executions)
    stack: Any = SimpleNamespace(clients=SimpleNamespace(states=states), outputs={})
    looked_at = replace(source, stack=stack, system=replace(source.system, key_machine_arn="keys"))

    assert [each["name"] for each in looked_at.failed_executions(NOW_S * 1_000_000)] == ["new"]


def test_an_aborted_execution_is_a_failure_of_a_key_and_not_of_a_node(source: Source) -> None:
    def list_executions(stateMachineArn: str, statusFilter: str, **_: Any) -> Any:
        ended = {"name": stateMachineArn, "status": statusFilter, "stopDate": datetime.fromtimestamp(NOW_S, UTC)}
        return {"executions": [ended]}

    states: Any = SimpleNamespace(list_executions=list_executions)
    stack: Any = SimpleNamespace(clients=SimpleNamespace(states=states), outputs={})
    system = replace(source.system, key_machine_arn="keys", node_machine_arn="nodes")

    failed = replace(source, stack=stack, system=system).failed_executions(0)

    assert {each["name"] for each in failed if each["status"] == "ABORTED"} == {"keys"}
    assert {each["name"] for each in failed if each["status"] == "FAILED"} == {"keys", "nodes"}


def test_runs_of_nodes_are_counted_on_all_pages(source: Source) -> None:
    pages: list[Any] = [{"executions": [{}, {}]}, {"executions": [{}]}]
    paginator = SimpleNamespace(paginate=lambda stateMachineArn: pages)
    states = SimpleNamespace(get_paginator=lambda operation: paginator)
    stack: Any = SimpleNamespace(clients=SimpleNamespace(states=states))
    looked_at = replace(source, stack=stack, system=replace(source.system, node_machine_arn="nodes"))

    assert (looked_at.node_runs(), source.node_runs()) == (3, 0)


def test_events_that_wait_for_a_person_are_counted_in_both_queues(source: Source) -> None:
    sqs: Any = boto3.client("sqs", region_name=REGION)
    urls = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("FailedEvents", "UndeliveredEvents")}
    sqs.send_message(QueueUrl=urls["FailedEvents"], MessageBody="lost")
    stack: Any = SimpleNamespace(
        client=lambda service: sqs, outputs={f"{name}QueueUrl": url for name, url in urls.items()}
    )

    assert replace(source, stack=stack).waiting_events() == {"UndeliveredEvents": 0, "FailedEvents": 1}


def test_figures_do_not_wait_for_a_table_that_answers_slowly(
    source: Source, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.keys = set()
    monkeypatch.setattr(watching, "_PAUSE_PER_WAIT", 1e9)  # after each reading of rows there is none for a long time
    page = watching.Watching(source)
    looks = []
    for size_bytes in (1, 2, 3):
        put("live", size_bytes, "redis_running")
        with (tmp_path / "requests.jsonl").open("a") as log:
            log.write(json.dumps(REQUEST) + "\n")
        rows = asyncio.run(page.current_rows())
        looks.append((sizes(rows)["live"], page.measured.reads if page.measured else 0))

    assert looks == [(1, 1), (2, 2), (2, 3)]


def test_a_page_that_opens_while_the_first_look_is_under_way_waits_for_it(
    source: Source, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting, met = threading.Barrier(2), []
    usual = asked.read

    def read() -> Any:
        try:
            met.append(meeting.wait(0.1))
        except threading.BrokenBarrierError:
            meeting.reset()
        return usual()

    async def both() -> None:
        await asyncio.gather(page.current_rows(), page.current_rows())

    monkeypatch.setattr(asked, "read", read)
    asked.keys = set()
    page = watching.Watching(source)
    asyncio.run(both())

    assert not met, "both were reading at once"


def test_a_page_that_opens_while_the_stack_cannot_be_read_says_so(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: Iterator[tuple[Any, float]] = iter([({"keys": {}}, 0.0)])  # and then none
    monkeypatch.setattr(watching, "_EVERY_LOCAL_S", 0.0)
    monkeypatch.setattr(watching.Watching, "_sections_now", lambda self: next(looks, None) or missing())

    def missing() -> Any:
        raise LookupError("no table")

    async def told() -> list[bytes]:
        page = watching.Watching(source)
        former, later = page.events(), page.events()
        return [await anext(former), await anext(former), await anext(later)]

    live, trouble, joined = asyncio.run(told())

    assert b"event: all" in live
    assert b"trouble" not in live
    assert b"LookupError: no table" in trouble
    assert joined.startswith(b"event: all")
    assert joined.endswith(trouble)
