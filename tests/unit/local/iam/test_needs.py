"""Needs of calls: actions, resources and the values for conditions."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache_local.iam.needs import Place, missing_object, needs

_PLACE = Place("us-east-2", lambda instance_id: {"name": instance_id})
_TABLE = "arn:aws:dynamodb:us-east-2:123456789012:table/t"


def item(partition: str) -> dict[str, Any]:
    return {"pk": {"S": partition}, "sk": {"S": "ROUTE"}}


def rights(service: str, operation: str, **parameters: Any) -> list[tuple[str, str]]:
    return [(need.action, need.resource) for need in needs(service, operation, parameters, _PLACE)]


def partitions(operation: str, **parameters: Any) -> list[tuple[str, ...]]:
    return [need.context["dynamodb:LeadingKeys"] for need in needs("dynamodb", operation, parameters, _PLACE)]


def test_a_transaction_needs_the_rights_of_its_parts() -> None:
    parts = [
        {"Update": {"TableName": "t", "Key": item("a")}},
        {"Put": {"TableName": "t", "Item": item("b")}},
        {"ConditionCheck": {"TableName": "t", "Key": item("c")}},
    ]

    assert rights("dynamodb", "TransactWriteItems", TransactItems=parts) == [
        ("dynamodb:UpdateItem", _TABLE),
        ("dynamodb:PutItem", _TABLE),
        ("dynamodb:ConditionCheckItem", _TABLE),
    ]


def test_the_partitions_of_a_call_are_known_to_conditions() -> None:
    assert partitions("GetItem", TableName="t", Key=item("a")) == [("a",)]
    assert partitions("PutItem", TableName=_TABLE, Item=item("a")) == [("a",)]
    assert partitions("BatchGetItem", RequestItems={"t": {"Keys": [item("a"), item("b")]}}) == [("a", "b")]
    writes = [{"PutRequest": {"Item": item("a")}}, {"DeleteRequest": {"Key": item("b")}}]
    assert partitions("BatchWriteItem", RequestItems={"t": writes}) == [("a", "b")]
    query = {"KeyConditionExpression": "#p = :p AND sk > :s", "ExpressionAttributeNames": {"#p": "pk"}}
    assert partitions("Query", TableName="t", ExpressionAttributeValues={":p": {"S": "a"}}, **query) == [("a",)]


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "action", "resource"),
    [
        ("s3", "HeadObject", {"Bucket": "b", "Key": "k"}, "s3:GetObject", "arn:aws:s3:::b/k"),
        ("s3", "ListObjectsV2", {"Bucket": "b"}, "s3:ListBucket", "arn:aws:s3:::b"),
        (
            *("s3", "PutObject", {"Bucket": "b--z--x-s3", "Key": "k"}),
            *("s3express:CreateSession", "arn:aws:s3express:us-east-2:123456789012:bucket/b--z--x-s3"),
        ),
        ("ssm", "GetParameter", {"Name": "/a"}, "ssm:GetParameter", "arn:aws:ssm:us-east-2:123456789012:parameter/a"),
        (
            *("cloudformation", "DescribeStacks", {"StackName": "s"}),
            *("cloudformation:DescribeStacks", "arn:aws:cloudformation:us-east-2:123456789012:stack/s/*"),
        ),
        ("states", "SendTaskSuccess", {"taskToken": "t"}, "states:SendTaskSuccess", "*"),
        ("ec2", "DescribeInstances", {"InstanceIds": ["i-1"]}, "ec2:DescribeInstances", "*"),
        (
            *("lambda", "Invoke", {"FunctionName": "f"}),
            *("lambda:InvokeFunction", "arn:aws:lambda:us-east-2:123456789012:function:f"),
        ),
        (
            *("iam", "GetRole", {"RoleName": "AWSServiceRoleForECS"}),
            *("iam:GetRole", "arn:aws:iam::123456789012:role/aws-service-role/ecs.amazonaws.com/AWSServiceRoleForECS"),
        ),
        ("sqs", "SendMessage", {"QueueUrl": "u"}, "sqs:SendMessage", "*"),
    ],
)
def test_a_call_needs_its_action_on_its_resource(
    service: str, operation: str, parameters: dict[str, Any], action: str, resource: str
) -> None:
    assert rights(service, operation, **parameters) == [(action, resource)]


def test_each_resource_of_a_call_needs_a_right() -> None:
    names = ["/a", "/b"]
    stopped = needs("ec2", "StopInstances", {"InstanceIds": ["i-1", "i-2"]}, _PLACE)

    assert [resource[-2:] for _, resource in rights("ssm", "DeleteParameters", Names=names)] == names
    assert [need.context for need in stopped] == [{"aws:ResourceTag/name": (each,)} for each in ("i-1", "i-2")]


def test_an_object_under_a_key_needs_the_right_that_s3_uses_in_its_callers_name() -> None:
    place = Place("us-east-2", key=lambda bucket: f"key of {bucket}")
    object_ = {"Bucket": "b", "Key": "k"}
    got, put = (needs("s3", operation, object_, place)[1:] for operation in ("GetObject", "PutObject"))

    assert [(need.action, need.resource) for need in got] == [("kms:Decrypt", "key of b")]
    assert [(need.action, need.context) for need in put] == [
        ("kms:GenerateDataKey", {"kms:ViaService": ("s3.us-east-2.amazonaws.com",)})
    ]
    assert len(needs("s3", "HeadObject", object_, place)) == 1


def test_an_instance_with_a_key_starts_with_a_grant_for_ec2() -> None:
    place = Place("us-east-2", key=lambda instance: f"key of {instance}")
    starts, stops = (needs("ec2", f"{verb}Instances", {"InstanceIds": ["i-1"]}, place) for verb in ("Start", "Stop"))

    assert [(need.action, need.resource) for need in starts[1:]] == [("kms:CreateGrant", "key of i-1")]
    assert starts[1].context["kms:GrantIsForAWSResource"] == ("true",)
    assert [need.action for need in stops] == ["ec2:StopInstances"]


def test_who_may_not_list_a_bucket_does_not_see_that_an_object_is_missing() -> None:
    assert [need.action for need in missing_object("b")] == ["s3:ListBucket"]
    assert missing_object("b--z--x-s3") == []
