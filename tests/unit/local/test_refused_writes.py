"""Refused writes: what DynamoDB refuses is refused here, too. `make test-engines` asks other engines the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws import TABLE, clients, make_stack, mocked_aws

_KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
_DELETE = {"DeleteRequest": {"Key": _KEY}}


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mocked_aws():
        make_stack()
        clients().dynamodb.put_item(TableName=TABLE, Item={**_KEY, "tier": {"S": "redis"}})
        yield clients().dynamodb


def _put(sort: str = "s", **more: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {**_KEY, "sk": {"S": sort}, **more}}}


def _update(expression: str, value: Any = None, **names: str) -> dict[str, Any]:
    more = {"ExpressionAttributeNames": {f"#{name}": column for name, column in names.items()}} if names else {}
    values = {"ExpressionAttributeValues": {":v": value}} if value else {}
    return {"TableName": TABLE, "Key": _KEY, "UpdateExpression": expression, **values, **more}


def _code(call: Any, **arguments: Any) -> str:
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([_put(a={"S": "1"}), _put(a={"S": "2"})], id="two puts of a key"),
        pytest.param([_put(a={"S": "1"}), _DELETE], id="a put and a delete of a key"),
        pytest.param([_DELETE, _DELETE], id="two deletes of a key"),
        pytest.param([_put(f"s{number}") for number in range(26)], id="26 writes"),
    ],
)
def test_a_batch_with_a_key_twice_or_too_many_writes_is_refused(dynamodb: Any, requests: list[Any]) -> None:
    assert _code(dynamodb.batch_write_item, RequestItems={TABLE: requests}) == "ValidationException"


def test_a_batch_of_25_keys_is_written(dynamodb: Any) -> None:
    requests = [_put(f"s{number}", a={"N": "1"}) for number in range(25)]

    assert _code(dynamodb.batch_write_item, RequestItems={TABLE: requests}) == ""


@pytest.mark.parametrize(
    "update",
    [
        _update("SET tier = :v REMOVE tier", {"S": "s3"}),
        _update("SET #t = :v REMOVE #t", {"S": "s3"}, t="tier"),
        _update("SET #t = :v REMOVE tier", {"S": "s3"}, t="tier"),
        _update("SET hits = :v ADD hits :v", {"N": "1"}),
        _update("REMOVE tier, tier"),
    ],
    ids=lambda update: update["UpdateExpression"],
)
def test_two_clauses_for_one_column_are_refused(dynamodb: Any, update: dict[str, Any]) -> None:
    assert _code(dynamodb.update_item, **update) == "ValidationException"


_LONG = "1" * 39


@pytest.mark.parametrize(
    "value",
    [
        {"N": _LONG},
        {"N": f"-{_LONG}"},
        {"N": f"1.{_LONG}"},
        {"N": "1e126"},
        {"N": "-1e126"},
        {"N": "1e-131"},
        {"N": "nan"},
        {"N": "Infinity"},
        {"NS": ["1", _LONG]},
        {"L": [{"M": {"n": {"N": _LONG}}}]},
        {"SS": ["a", "a"]},
    ],
    ids=str,
)
def test_values_that_dynamodb_cannot_hold_are_refused_in_every_write(dynamodb: Any, value: dict[str, Any]) -> None:
    update = _update("SET a = :v", value)

    refused = [
        _code(dynamodb.put_item, TableName=TABLE, Item={**_KEY, "a": value}),
        _code(dynamodb.update_item, **update),
        _code(dynamodb.batch_write_item, RequestItems={TABLE: [_put(a=value)]}),
        _code(dynamodb.transact_write_items, TransactItems=[{"Update": update}]),
    ]

    assert refused == ["ValidationException"] * 4


@pytest.mark.parametrize(
    "number", ["1" * 38, "1" * 38 + "000", "0" * 20 + "1" * 38, "-1e125", "1e-130", "0.00", "-0.5"]
)
def test_numbers_of_38_digits_are_kept_wherever_their_point_is(dynamodb: Any, number: str) -> None:
    assert _code(dynamodb.update_item, **_update("SET a = :v", {"N": number})) == ""
