"""Transactions over an engine without any, compared with moto's own: the same answers and the same items after them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from engines.transactions import Transactions
from support import quick_moto
from support.answers_at_once import answer_at_once
from support.aws import TABLE, make_stack, mocked_aws, session
from support.dynamodb_endpoint import Answer

_IS_NEW = "attribute_not_exists(n)"


def _moto(operation: str, body: bytes) -> Answer:
    headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "Content-Type": "application/x-amz-json-1.0"}
    url = "https://dynamodb.eu-central-1.amazonaws.com/"
    status, answered, text = quick_moto.dynamodb({"headers": headers, "url": url, "body": body})
    if isinstance(text, dict):
        text = json.dumps(text).encode()
    return status, answered, text


def _over_moto(request: Any) -> Answer:
    operation = request["headers"]["X-Amz-Target"].partition(".")[2]
    return Transactions(_moto).forward(operation, request["body"])


@pytest.fixture(params=[_over_moto, quick_moto.dynamodb], ids=["over moto", "moto's"])
def dynamodb(request: pytest.FixtureRequest) -> Iterator[Any]:
    with mocked_aws():
        make_stack()
        client = session().client("dynamodb")
        answer_at_once(client, request.param)
        client.put_item(TableName=TABLE, Item={**_key("old"), "n": {"N": "1"}})
        yield client


def _key(name: str) -> dict[str, Any]:
    return {"pk": {"S": name}, "sk": {"S": "s"}}


def _set(name: str, condition: str = "", expression: str = "SET n = :v") -> dict[str, Any]:
    update: dict[str, Any] = {"TableName": TABLE, "Key": _key(name), "UpdateExpression": expression}
    update["ExpressionAttributeValues"] = {":v": {"N": "2"}}
    return {"Update": update | ({"ConditionExpression": condition} if condition else {})}


def _numbers(client: Any) -> dict[str, str]:
    return {item["pk"]["S"]: item["n"]["N"] for item in client.scan(TableName=TABLE)["Items"]}


def _reasons(call: Callable[[], object]) -> list[str]:
    with pytest.raises(ClientError) as refused:
        call()
    assert refused.value.response["Error"]["Code"] == "TransactionCanceledException"
    return [reason["Code"] for reason in refused.value.response["CancellationReasons"]]


def test_all_updates_are_written_if_every_condition_holds(dynamodb: Any) -> None:
    dynamodb.transact_write_items(TransactItems=[_set("old", "n < :v"), _set("new", _IS_NEW)])

    assert _numbers(dynamodb) == {"old": "2", "new": "2"}


def test_no_update_is_written_if_one_condition_fails_and_the_reasons_say_which(dynamodb: Any) -> None:
    items = [_set("new", _IS_NEW), _set("old", _IS_NEW), _set("other")]

    reasons = _reasons(lambda: dynamodb.transact_write_items(TransactItems=items))

    assert reasons == ["None", "ConditionalCheckFailed", "None"]
    assert _numbers(dynamodb) == {"old": "1"}


def test_every_failed_condition_is_named(dynamodb: Any) -> None:
    items = [_set("old", "n > :v"), _set("new", "attribute_exists(n)")]

    assert _reasons(lambda: dynamodb.transact_write_items(TransactItems=items)) == ["ConditionalCheckFailed"] * 2


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([_set("new"), _set("new")], id="an item twice"),
        pytest.param([_set("new"), _set("old", expression="SET n = :v, n = :v")], id="a column twice"),
    ],
)
def test_a_transaction_that_cannot_be_is_refused_and_writes_nothing(dynamodb: Any, items: list[Any]) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.transact_write_items(TransactItems=items)

    assert _numbers(dynamodb) == {"old": "1"}
