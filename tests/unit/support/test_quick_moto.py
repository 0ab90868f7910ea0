"""Quick moto: its shortcuts change no answer of DynamoDB, S3 and EC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.model import Shape
from moto.core import serialize

from support.aws import BUCKET, TABLE, clients, make_instance, make_stack, mocked_aws, session

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


def test_a_client_of_another_session_is_answered_alike(dynamodb: Any) -> None:
    dynamodb.put_item(TableName=TABLE, Item={**KEY, **EVERY_TYPE})

    other = session().client("dynamodb")

    for found in (other, dynamodb):
        assert found.get_item(TableName=TABLE, Key=KEY)["Item"] == {**KEY, **EVERY_TYPE}
        assert found.get_item(TableName=TABLE, Key={**KEY, "sk": {"S": "none"}}).keys() == {"ResponseMetadata"}


def test_instances_and_objects_are_described_alike_to_every_client() -> None:
    with mocked_aws():
        make_stack()
        ids = [make_instance()]
        put = clients().s3.put_object(Bucket=BUCKET, Key="a b/ü", Body=b"body", Metadata={"x": "y"})

        pairs: list[tuple[Any, Any]] = [
            (clients().s3, clients().ec2),
            (session().client("s3"), session().client("ec2")),
        ]
        for s3, ec2 in pairs:
            (described,) = ec2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"]
            assert (described["InstanceId"], described["State"]["Name"]) == (ids[0], "stopped")
            found = s3.get_object(Bucket=BUCKET, Key="a b/ü")
            assert (found["ETag"], found["Metadata"], found["Body"].read()) == (put["ETag"], {"x": "y"}, b"body")
            assert [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["a b/ü"]
            assert s3.get_object(Bucket=BUCKET, Key="a b/ü", Range="bytes=1-2")["Body"].read() == b"od"
            for refused, status in (({"Key": "none"}, 404), ({"Key": "a b/ü", "IfNoneMatch": put["ETag"]}, 304)):
                with pytest.raises(ClientError) as error:
                    s3.get_object(Bucket=BUCKET, **refused)
                assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
            with pytest.raises(ClientError, match="InvalidInstanceID"):
                ec2.describe_instances(InstanceIds=["i-0123456789abcdef0"])


def test_every_field_of_an_instance_is_found_under_the_name_that_it_has() -> None:
    class Thing:
        size = 3

    def field(name: str, thing: Thing) -> Any:
        picker = serialize.XFormedAttributePicker(response_transformers={"Things.Changed": lambda _: "changed"})
        return picker(serialize.AttributePickerContext(thing, name, Shape(name, {"type": "string"}), key_path="Things"))

    bare, full = Thing(), Thing()
    vars(full)["colour_name"] = "red"

    assert [field("Size", bare), field("ColourName", bare), field("ColourName", full)] == [3, None, "red"]
    assert [field("Changed", bare), field("ColourName", bare)] == ["changed", None]
