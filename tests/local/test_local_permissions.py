"""The local run refuses what a role does not grant, as each service refuses it, and what it grants is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions

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
