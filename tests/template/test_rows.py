"""The rows that each role may touch: of the calls that it may make, it may make none on another partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from botocore.exceptions import ClientError

from burstcache.core.table import CHANGES_ITEM, HOT_ITEM, PAUSED_ITEM, POOL_STATE_ITEM, ItemKey, key_item, node_item
from burstcache_local.stepfunctions.execution import ROLE
from support.roles import MACHINES, TABLE, acting, check

_PARTITIONS: dict[str, ItemKey] = {
    "key": key_item("0" * 32),
    "node": node_item("node-1"),
    "database": node_item("state-orders"),
    "digest": CHANGES_ITEM,
    "hot": HOT_ITEM,
    "paused": PAUSED_ITEM,
    "pool": POOL_STATE_ITEM,
}
_KEYS_AND_NODES = {"key", "node"}
_KEYS_AND_ALL_NODES = _KEYS_AND_NODES | {"database"}
# What each may do with rows of which partitions. A call that is not listed is refused on all of them.
_RIGHTS: dict[str, dict[str, set[str]]] = {
    "cache": {"GetItem": _KEYS_AND_NODES | {"paused"}, "UpdateItem": {"key", "digest"}},
    "janitor": {
        "GetItem": _KEYS_AND_ALL_NODES | {"hot", "paused"},
        "BatchGetItem": _KEYS_AND_ALL_NODES | {"hot", "paused"},
        "Query": {"digest"},
        "UpdateItem": {"node", "database", "digest"},
        "DeleteItem": {"digest"},
    },
    "origin": {
        "GetItem": _KEYS_AND_NODES | {"digest"},
        "BatchGetItem": _KEYS_AND_NODES | {"digest"},
        "UpdateItem": {"digest"},
        "DeleteItem": {"digest"},
    },
    "pool_control": {
        "GetItem": {"paused"},
        "Query": {"pool"},
        "PutItem": {"pool"},
        "UpdateItem": {"pool"},
        "DeleteItem": {"pool"},
    },
    "pool_member": {},
    "proxy": {"Query": {"digest"}},
    "redis_control": {
        "GetItem": _KEYS_AND_ALL_NODES | {"paused"},
        "BatchGetItem": _KEYS_AND_ALL_NODES | {"paused"},
        "Query": {"node", "database", "digest"},
        "UpdateItem": _KEYS_AND_ALL_NODES | {"digest"},
        "PutItem": {"node"},
        "DeleteItem": {"node", "database"},
    },
    "scheduler": {
        "GetItem": _KEYS_AND_NODES | {"hot", "paused"},
        "BatchGetItem": _KEYS_AND_NODES | {"hot", "paused"},
        "UpdateItem": _KEYS_AND_NODES | {"hot"},
        "BatchWriteItem": {"node"},
    },
    "state": {
        "GetItem": {"database", "paused"},
        "PutItem": {"database"},
        "UpdateItem": {"database"},
        "DeleteItem": {"database"},
    },
}
_OPERATIONS = ("GetItem", "BatchGetItem", "Query", "UpdateItem", "PutItem", "DeleteItem", "BatchWriteItem")


def parameters(operation: str, item: ItemKey) -> dict[str, Any]:
    """Return a call on one row."""
    values = {name: {"S": value} for name, value in item.items()}
    if operation == "BatchGetItem":
        return {"RequestItems": {TABLE: {"Keys": [values]}}}
    if operation == "BatchWriteItem":
        return {"RequestItems": {TABLE: [{"DeleteRequest": {"Key": values}}]}}
    if operation == "Query":
        asked = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": values["pk"]}}
        return {"TableName": TABLE, **asked}
    return {"TableName": TABLE, ("Item" if operation == "PutItem" else "Key"): values}


def may(operation: str, *partitions: str) -> bool:
    """Return whether the running function or machine may make a call on rows of each partition, one call each."""
    try:
        for partition in partitions:
            check("dynamodb", operation, parameters(operation, _PARTITIONS[partition]))
    except ClientError as error:
        assert "is not authorized to perform: dynamodb:" in str(error)  # noqa: PT017 - any other error is no refusal
        return False
    return True


@pytest.fixture(autouse=True)
def refused(refusals: list[str]) -> Iterator[None]:
    """Take away what was refused, as it should be."""
    yield
    refusals.clear()


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[None]:
    token = ROLE.set(f"arn:aws:iam::123456789012:role/{request.param}")
    yield
    ROLE.reset(token)


@pytest.mark.parametrize("function", _RIGHTS)
def test_a_function_touches_its_rows_and_no_other(function: str) -> None:
    with acting(function):
        allowed = {pair for pair in product(_OPERATIONS, _PARTITIONS) if may(*pair)}

    assert allowed == {(operation, each) for operation, rows in _RIGHTS[function].items() for each in rows}


@pytest.mark.parametrize(
    ("machine", "rows"), [("KeyLifecycle", _KEYS_AND_NODES), ("RedisNode", set())], indirect=["machine"]
)
def test_a_machine_touches_its_rows_and_no_other(machine: None, rows: set[str]) -> None:
    allowed = {pair for pair in product(_OPERATIONS, _PARTITIONS) if may(*pair)}

    assert {"KeyLifecycle", "RedisNode"} < MACHINES.keys()
    assert allowed == {("UpdateItem", each) for each in rows}


def test_one_row_of_another_partition_refuses_the_whole_call() -> None:
    keys = [{name: {"S": value} for name, value in _PARTITIONS[each].items()} for each in ("key", "pool")]

    with acting("scheduler"), pytest.raises(ClientError, match="dynamodb:BatchGetItem"):
        check("dynamodb", "BatchGetItem", {"RequestItems": {TABLE: {"Keys": keys}}})
