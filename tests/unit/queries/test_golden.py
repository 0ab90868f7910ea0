"""The JSON of every query over a table with two nodes, byte for byte: dashboards and scripts are written against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from burstcache.adapters.items import to_values
from burstcache.core.keys import key_execution_name, key_hash
from burstcache.queries.keys import read_keys
from burstcache.queries.nodes import read_nodes
from burstcache.queries.routes import read_routes
from burstcache.queries.system import System
from burstcache.queries.watch import key_watcher, node_watcher
from support.clock import ManualClock

GOLDEN = Path(__file__).parent / "golden"
NOW_S = 1_785_542_400  # 2026-08-01T00:00:00Z
NOW_US, DAY_US = NOW_S * 1_000_000, 86_400_000_000
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:mine"


class States:
    """Step Functions with the histories of a few executions; the last element of an ARN names one."""

    def __init__(self) -> None:
        self.entered = {
            key_execution_name("on-lambda", key_hash("on-lambda"), 7): ["IsNodeRunning", "Lambda"],
            key_execution_name("on-node-2", key_hash("on-node-2"), 3): [
                "IsNodeRunning",
                "RedisBootup",
                "SeedRedis",
                "RedisRunning",
            ],
            "node-2-9-1": ["BootNode", "NodeReady", "RedisNodeRunning"],
        }

    def get_paginator(self, operation: str) -> States:
        return self

    def paginate(self, *, executionArn: str, **_: Any) -> Iterator[dict[str, Any]]:
        name = executionArn.rpartition(":")[2]
        if name not in self.entered:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist", "Message": name}}, "GetExecutionHistory")
        events = [
            {
                "id": number,
                "timestamp": datetime.fromtimestamp(NOW_S - 60 + number, UTC),
                "type": "TaskStateEntered",
                "stateEnteredEventDetails": {"name": state},
            }
            for number, state in enumerate(self.entered[name], 1)
        ]
        yield {"events": events[::-1]}


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """A system with two nodes, and keys in every state that queries tell apart."""
    with mock_aws():
        client = boto3.client("dynamodb", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
        client.create_table(
            TableName="table",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
        )

        def put(pk: str, sk: str, **columns: Any) -> None:
            client.put_item(TableName="table", Item=to_values({"pk": pk, "sk": sk, **columns}))

        def put_key(key: str, **columns: Any) -> None:
            row = {"key": key, "phase": "s3", "window": [], "deadline_at_us": NOW_US + 1, **columns}
            put(f"KEY#{key_hash(key)}", "ROUTE", **row)

        put_key("cold", window=[f"{NOW_US - 5}:r1", f"{NOW_US - 9}:r0"])
        put_key("cooling", failures=2, not_before_us=NOW_US + 60_000_000, epoch=4, changed_at_us=NOW_US - 60_000_000)
        put_key("on-lambda", phase="lambda", tier="lambda", holder="req-1", epoch=7, changed_at_us=5)
        put_key("expired", phase="lambda", tier="lambda", holder="req-2", epoch=8, deadline_at_us=NOW_US)
        redis = {"phase": "redis_running", "tier": "redis"}
        put_key("on-node-1", **redis, node="node-1", generation=2, epoch=2, changed_at_us=NOW_US - 7)
        put_key("on-node-2", **redis, node="node-2", generation=9, epoch=3, window=[f"{i}:r" for i in range(6)])
        put_key("outdated", **redis, node="node-2", generation=8, epoch=5)
        ready = {"deadline_at_us": NOW_US + 1, "ready_at_us": NOW_US - 9}
        put("NODE#node-1", "NODE", phase="stopping", generation=2, part=1, deadline_at_us=NOW_US + 1)
        put("NODE#node-2", "NODE", phase="running", generation=9, part=1, **ready, held_until_us=NOW_US + 9)
        put("NODE#node-2", "LEASE#1", key="on-node-2", epoch=3)
        for key, seen_at_us in (("cold", NOW_US), ("seen", NOW_US - 5), ("seen-long-ago", NOW_US - DAY_US)):
            put("NODE#node-2", f"SEEN#{key_hash(key)}", key=key, size_bytes=7, seen_at_us=seen_at_us)
        states: Any = States()
        yield System(
            "table", f"{MACHINE}-key", f"{MACHINE}-node", ("node-1", "node-2"), client, states, ManualClock(NOW_S)
        )


QUERIES: dict[str, Callable[[System], Any]] = {
    "keys": lambda system: read_keys(system, max_object_bytes=1 << 20),
    "routes": read_routes,
    "nodes": read_nodes,
    "history": lambda system: system.key_history(key_execution_name("on-node-2", key_hash("on-node-2"), 3)).read_new(),
    "watch-key": lambda system: key_watcher(system, "on-lambda").poll(),
    "watch-key-without-execution": lambda system: key_watcher(system, "outdated").poll(),
    "watch-key-at-rest": lambda system: key_watcher(system, "never-asked-for").poll(),
    "watch-node-1": lambda system: node_watcher(system, "node-1").poll(),
    "watch-node-2": lambda system: node_watcher(system, "node-2").poll(),
}


def test_a_watch_and_the_list_of_keys_tell_the_same_state_of_every_key(system: System) -> None:
    views = read_keys(system, max_object_bytes=1 << 20)

    at_rest = {view.key: view.state for view in views if view.state in ("S3", "Guest")}

    assert at_rest
    assert {key: key_watcher(system, key, max_object_bytes=1 << 20).poll()[-1].state for key in at_rest} == at_rest


@pytest.mark.parametrize("name", QUERIES)
def test_answer_is_the_golden_one(system: System, name: str) -> None:
    found = json.dumps([asdict(view) for view in QUERIES[name](system)], indent=2) + "\n"

    assert found == (GOLDEN / f"{name}.json").read_text()


def test_every_golden_answer_belongs_to_a_query() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(QUERIES)
