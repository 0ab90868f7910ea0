"""The local run refuses what a role does not grant, as each service refuses it, and what it grants is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from support.waiting import until

_TEMPLATE = """\
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Resources:
  Asker:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: asker
      Handler: asker.handler
      Runtime: python3.14
      CodeUri: src/
      Policies:
        - Version: "2012-10-17"
          Statement:
            - Effect: Allow
              Action: ssm:GetParameter
              Resource: arn:aws:ssm:*:*:parameter/mine
            - Effect: Allow
              Action: [s3:GetObject, s3:PutObject]
              Resource: !Sub ${Bucket.Arn}/*
            - Effect: Allow
              Action: [dynamodb:GetItem, dynamodb:Query]
              Resource: !GetAtt Rows.Arn
              Condition: {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["MINE#*"]}}
            - Effect: Allow
              Action: kms:GenerateDataKey
              Resource: !Ref Key
              Condition: {StringEquals: {"kms:ViaService": !Sub "s3.${AWS::Region}.amazonaws.com"}}
  Rows:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
  Bucket:
    Type: AWS::S3::Bucket
    Properties:
      BucketEncryption:
        ServerSideEncryptionConfiguration:
          - ServerSideEncryptionByDefault: {SSEAlgorithm: aws:kms, KMSMasterKeyID: !Ref Key}
  Welcome:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {source: [welcome]}
      Targets: [{Id: asker, Arn: !GetAtt Asker.Arn}]
  WelcomePermission:
    Type: AWS::Lambda::Permission
    Properties:
      Action: lambda:InvokeFunction
      FunctionName: !Ref Asker
      Principal: events.amazonaws.com
      SourceArn: !GetAtt Welcome.Arn
  Stranger:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {source: [stranger]}
      Targets: [{Id: asker, Arn: !GetAtt Asker.Arn, DeadLetterConfig: {Arn: !GetAtt Left.Arn}}]
  Unwanted:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {source: [unwanted]}
      Targets: [{Id: asker, Arn: !GetAtt Asker.Arn, DeadLetterConfig: {Arn: !GetAtt Left.Arn}}]
  Scheduled:
    Type: AWS::Events::Rule
    Properties:
      ScheduleExpression: rate(1 minute)
      Targets: [{Id: asker, Arn: !GetAtt Asker.Arn}]
  Left:
    Type: AWS::SQS::Queue
  LeftPolicy:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref Left]
      PolicyDocument:
        Statement:
          - Effect: Allow
            Principal: {Service: events.amazonaws.com}
            Action: sqs:SendMessage
            Resource: !GetAtt Left.Arn
            Condition: {ArnEquals: {aws:SourceArn: [!GetAtt Stranger.Arn]}}
Parameters:
  Key: {Type: String, Default: "arn:aws:kms:us-east-2:123456789012:key/0"}
Outputs:
  BucketName: {Value: none}
"""
_CODE = """
import boto3
from botocore.exceptions import ClientError

def handler(event, context):
    try:
        getattr(boto3.client(event["service"]), event["call"])(**event["with"])
    except ClientError as error:
        return [error.response["Error"]["Code"], error.response["Error"]["Message"]]
    return []
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """One function, which may read one parameter."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "src").mkdir()
    (folder / "src" / "asker.py").write_text(_CODE)
    (folder / "template.yaml").write_text(_TEMPLATE)
    with LocalCloud(LocalOptions(template=folder / "template.yaml")) as running:
        for name in ("/mine", "/other"):
            running.client("ssm").put_parameter(Name=name, Value="value", Type="String")
        yield running


def asked(cloud: LocalCloud, service: str, call: str, **parameters: Any) -> list[str]:
    """Return code and message of the refusal that a function meets, or nothing if it is answered."""
    return list(cloud.invoke("Asker", {"service": service, "call": call, "with": parameters}))


def test_what_is_granted_is_done(cloud: LocalCloud) -> None:
    assert asked(cloud, "ssm", "get_parameter", Name="/mine") == []


@pytest.mark.parametrize(
    ("service", "call", "parameters", "code", "action"),
    [
        ("ssm", "get_parameter", {"Name": "/other"}, "AccessDeniedException", "ssm:GetParameter"),
        ("ssm", "delete_parameters", {"Names": ["/mine"]}, "AccessDeniedException", "ssm:DeleteParameters"),
        ("s3", "get_object", {"Bucket": "b", "Key": "k"}, "AccessDenied", "s3:GetObject"),
        ("ec2", "describe_instances", {}, "UnauthorizedOperation", "ec2:DescribeInstances"),
        (
            "ec2",
            "stop_instances",
            {"InstanceIds": ["i-1234567890abcdef0"]},
            "UnauthorizedOperation",
            "ec2:StopInstances",
        ),
        ("iam", "get_role", {"RoleName": "any"}, "AccessDenied", "iam:GetRole"),
        ("lambda", "invoke", {"FunctionName": "asker"}, "AccessDeniedException", "lambda:InvokeFunction"),
    ],
)
def test_what_is_not_granted_is_refused_as_its_service_does(
    cloud: LocalCloud,
    refusals: list[str],
    service: str,
    call: str,
    parameters: dict[str, Any],
    code: str,
    action: str,
) -> None:
    refused = asked(cloud, service, call, **parameters)
    told = list(refusals)
    refusals.clear()

    assert refused[0] == code
    assert f"is not authorized to perform: {action} on resource: " in refused[1]
    assert [message.partition(", with")[0] for message in told] == [refused[1]]


def test_an_object_under_a_key_is_only_opened_with_a_right_to_the_key(cloud: LocalCloud, refusals: list[str]) -> None:
    object_ = {"Bucket": cloud.physical_ids["Bucket"], "Key": "k"}
    cloud.client("s3").put_object(**object_, Body=b"secret")

    written, read = asked(cloud, "s3", "put_object", **object_), asked(cloud, "s3", "get_object", **object_)
    refusals.clear()

    assert written == []
    assert read[0] == "AccessDenied"
    assert "is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:" in read[1]


def test_a_row_of_another_partition_is_refused(cloud: LocalCloud, refusals: list[str]) -> None:
    table = cloud.physical_ids["Rows"]

    def got(partition: str) -> list[str]:
        return asked(cloud, "dynamodb", "get_item", TableName=table, Key={"pk": {"S": partition}})

    def queried(partition: str) -> list[str]:
        values = {":pk": {"S": partition}}
        condition = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": values}
        return asked(cloud, "dynamodb", "query", TableName=table, **condition)

    mine, others = [got("MINE#1"), queried("MINE#1")], [got("OTHERS#1"), queried("OTHERS#1"), got("MINE")]
    refusals.clear()

    assert mine == [[], []]
    assert [each[0] for each in others] == ["AccessDeniedException"] * 3


def put_event(cloud: LocalCloud, source: str) -> None:
    """Send an event that is a question for the parameter that may be read."""
    question = {"service": "ssm", "call": "get_parameter", "with": {"Name": "/mine"}}
    entry = {"Source": source, "DetailType": "question", "Detail": json.dumps(question)}
    cloud.client("events").put_events(Entries=[entry])


def test_a_rule_reaches_only_a_function_that_lets_it(cloud: LocalCloud, refusals: list[str]) -> None:
    function = cloud.physical_ids["Asker"]
    queue = {"QueueUrl": cloud.physical_ids["Left"]}

    put_event(cloud, "welcome")
    put_event(cloud, "stranger")
    left = until(lambda: cloud.client("sqs").receive_message(**queue).get("Messages"))
    told = list(refusals)
    refusals.clear()

    assert [json.loads(message["Body"])["source"] for message in left] == ["stranger"]
    assert [message.partition(", with")[0] for message in told] == [
        "events.amazonaws.com is not authorized to perform: lambda:InvokeFunction on resource: "
        f"arn:aws:lambda:{cloud.region}:123456789012:function:{function}"
    ]


def test_a_rule_leaves_events_only_in_a_queue_that_lets_it(cloud: LocalCloud, refusals: list[str]) -> None:
    put_event(cloud, "unwanted")
    until(lambda: len(refusals) == 2)
    told = list(refusals)
    refusals.clear()

    assert "perform: lambda:InvokeFunction" in told[0]
    assert "perform: sqs:SendMessage" in told[1]
    assert cloud.physical_ids["Unwanted"] in told[1]


def test_a_schedule_needs_the_right_of_a_rule(cloud: LocalCloud, refusals: list[str]) -> None:
    (schedule,) = cloud._stacks[0].template.schedules
    described = json.loads(cloud.outputs[schedule.output])

    refused = cloud.guard.delivery_problem(described["Target"], described["Rule"])
    refusals.clear()

    assert described["Rule"].endswith(f":rule/{cloud.physical_ids['Scheduled']}")
    assert "events.amazonaws.com is not authorized to perform: lambda:InvokeFunction" in refused
