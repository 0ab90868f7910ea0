"""What is left out of moto's work changes no answer of DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws import TABLE, clients, make_stack, mocked_aws

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
EVERY_TYPE = {
    "text": {"S": ""},
    "number": {"N": "1.5"},
    "bytes": {"B": b"\x00\xff"},
    "truth": {"BOOL": False},
    "nothing": {"NULL": True},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "list": {"L": [{"S": "a"}, {"M": {"b": {"B": b"c"}}}, {"L": []}]},
    "map": {"M": {"a": {"L": [{"N": "1"}]}, "b": {"M": {}}}},
}


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mocked_aws():
        make_stack()
        yield clients().dynamodb


def test_values_of_every_type_come_back_as_they_were_put(dynamodb: Any) -> None:
    dynamodb.put_item(TableName=TABLE, Item={**KEY, **EVERY_TYPE})

    (queried,) = dynamodb.query(
        TableName=TABLE, KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": KEY["pk"]}
    )["Items"]

    assert dynamodb.get_item(TableName=TABLE, Key=KEY)["Item"] == queried == {**KEY, **EVERY_TYPE}


def test_the_same_update_with_other_values_starts_from_the_item_as_it_is(dynamodb: Any) -> None:
    for number in ("1", "2"):
        found = dynamodb.update_item(
            TableName=TABLE,
            Key=KEY,
            UpdateExpression="SET a = if_not_exists(a, :n), #l = :n REMOVE former ADD #t :n",
            ExpressionAttributeNames={"#l": "last", "#t": "total"},
            ExpressionAttributeValues={":n": {"N": number}},
            ReturnValues="ALL_NEW",
        )["Attributes"]

    assert found == {**KEY, "a": {"N": "1"}, "last": {"N": "2"}, "total": {"N": "3"}}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"UpdateExpression": "SET a = :n SET b = :n"}, "ValidationException"),
        ({"UpdateExpression": "SET a = :n, a = :n"}, "ValidationException"),
        ({"UpdateExpression": "SET pk = :n"}, "ValidationException"),
        ({"UpdateExpression": "SET a = a + :n"}, "ValidationException"),
        (
            {"UpdateExpression": "SET a = :n", "ConditionExpression": "attribute_exists(a)"},
            "ConditionalCheckFailedException",
        ),
        ({"TableName": "other", "UpdateExpression": "SET a = :n"}, "ResourceNotFoundException"),
    ],
)
def test_what_dynamodb_refuses_is_refused_each_time(dynamodb: Any, more: dict[str, str], code: str) -> None:
    for _ in range(2):
        with pytest.raises(ClientError) as refused:
            dynamodb.update_item(**{
                "TableName": TABLE, "Key": KEY, "ExpressionAttributeValues": {":n": {"N": "1"}}, **more
            })  # fmt: skip
        assert refused.value.response["Error"]["Code"] == code
    assert "Item" not in dynamodb.get_item(TableName=TABLE, Key=KEY)
