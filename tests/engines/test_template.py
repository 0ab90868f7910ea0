"""The template in MiniStack's CloudFormation: a stack is created, updated by each choice of a parameter, and deleted.

This finds references that no resource answers and orders in which nothing can be created. Types and attributes that
MiniStack lacks have stand-ins, and custom resources, too, since its functions have no code here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from burstcache_local.template.parameters import decide, parameter_values
from burstcache_local.template.read import read
from burstcache_local.template.transform import transform
from engines.processes import missing, running
from support.project import ROOT
from support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing("ministack")), reason=missing("ministack")),
]

_REGION = "eu-central-1"
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]
_LACKING_TYPES = {
    "AWS::Budgets::Budget",
    "AWS::EC2::EgressOnlyInternetGateway",
    "AWS::EC2::Instance",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::VPCCidrBlock",
    "AWS::EC2::Volume",
    "AWS::IAM::RolePolicy",
    "AWS::S3Express::BucketPolicy",
    "AWS::S3Express::DirectoryBucket",
}
_LACKING_ATTRIBUTES = {
    ("AWS::EC2::VPC", "CidrBlock"): "10.0.0.0/16",
    ("AWS::EC2::VPC", "Ipv6CidrBlocks"): ["2001:db8::/56"],
}
# Each adds, removes or changes resources. The stack goes from one to the next.
CHOICES: list[dict[str, str]] = [
    {"Relay": "direct"},
    {"Relay": "nlb"},
    {"Relay": "nlb", "RedisNodeCount": "3"},
    {"RedisOn": "fargate-spot"},
    {"RedisOn": "fargate"},
    {"StateDatabases": "a,b"},
    {"StateDatabases": "a", "StatePersistence": "aof"},
    {"RedisInstanceType": "t4g.large"},
    {"CredentialsIssue": "2"},
    {},
]


def _body(overrides: dict[str, str]) -> dict[str, Any]:
    source = read(ROOT / "template.yaml")
    values = parameter_values(source["Parameters"], overrides)
    body = transform(decide(source, values, _REGION), values, ROOT, _REGION).body
    types = {name: resource["Type"] for name, resource in body["Resources"].items()}

    def stood_in(name: str, attribute: str = "") -> Any:
        is_custom = types.get(name, "").startswith("Custom::")
        if types.get(name) in _LACKING_TYPES or is_custom:
            return "10.0.0.4"
        return _LACKING_ATTRIBUTES.get((types.get(name, ""), attribute))

    def changed(part: Any) -> Any:
        if isinstance(part, list):
            return [changed(each) for each in part]
        if isinstance(part, str):
            return re.sub(r"\$\{(\w+)\.(\w+)\}", lambda found: stood_in(*found.groups()) or found[0], part)
        if not isinstance(part, dict):
            return part
        if "Fn::GetAtt" in part:
            at = part["Fn::GetAtt"]
            return stood_in(*(at.split(".", 1) if isinstance(at, str) else at)) or part
        return {name: changed(each) for name, each in part.items()}

    resources = {name: changed(resource) for name, resource in body["Resources"].items()}
    for name, resource in resources.items():
        if stood_in(name):
            kept = {field: resource[field] for field in ("DependsOn",) if field in resource}
            value = hashlib.sha256(json.dumps(resource).encode()).hexdigest()  # an update changes it, too
            resources[name] = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **kept}
        elif resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Code"] = {"ZipFile": "def handler(event, context): return {}"}
            resource["Properties"].pop("Layers", None)
    parameters = {name: {**each, "Default": values[name]} for name, each in body["Parameters"].items()}
    rest = {name: part for name, part in body.items() if name != "Transform"}
    return {**rest, "Parameters": parameters, "Resources": resources, "Outputs": changed(body["Outputs"])}


class _Deployment:
    """A stack in MiniStack, with its template in a bucket, since it is too large for a request."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._cloudformation, self._s3 = self._client("cloudformation"), self._client("s3")
        self._s3.create_bucket(Bucket="templates", CreateBucketConfiguration={"LocationConstraint": _REGION})
        self._id = ""

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            _REGION,
            endpoint_url=self._url,
            aws_access_key_id="123456789012",
            aws_secret_access_key="secret",
        )

    def create(self, overrides: dict[str, str]) -> str:
        template = self._template(overrides)
        created = self._cloudformation.create_stack(StackName="s", TemplateURL=template, Capabilities=_CAPABILITIES)
        self._id = created["StackId"]
        return self._status()

    def update(self, overrides: dict[str, str]) -> str:
        template = self._template(overrides)
        self._cloudformation.update_stack(StackName=self._id, TemplateURL=template, Capabilities=_CAPABILITIES)
        return self._status()

    def delete(self) -> str:
        self._cloudformation.delete_stack(StackName=self._id)
        return self._status()

    def resources(self) -> dict[str, str]:
        """Return the statuses of resources by their names in the template."""
        found = self._cloudformation.describe_stack_resources(StackName=self._id)["StackResources"]
        return {each["LogicalResourceId"]: each["ResourceStatus"] for each in found}

    def _template(self, overrides: dict[str, str]) -> str:
        self._s3.put_object(Bucket="templates", Key="template", Body=json.dumps(_body(overrides)).encode())
        return f"{self._url}/templates/template"

    def _status(self) -> str:
        """Wait for the end of an operation, and return its status and what failed."""

        def stack() -> Any:
            (found,) = self._cloudformation.describe_stacks(StackName=self._id)["Stacks"]
            return None if found["StackStatus"].endswith("IN_PROGRESS") else found

        status = str(until(stack)["StackStatus"])
        events = self._cloudformation.describe_stack_events(StackName=self._id)["StackEvents"]
        failed = [
            f" {event['LogicalResourceId']}: {event.get('ResourceStatusReason')}"
            for event in events
            if event["ResourceStatus"].endswith("FAILED")
        ]
        return status + "".join(failed[:3])


@pytest.fixture(scope="module")
def stack() -> Iterator[_Deployment]:
    with running("ministack") as port:
        deployment = _Deployment(port)
        yield deployment


def test_a_stack_is_created_updated_by_each_choice_and_deleted(stack: _Deployment) -> None:
    statuses = [stack.create({})]
    for choice in CHOICES:
        statuses.append(f"{choice} {stack.update(choice)}")
    resources = stack.resources()
    statuses.append(stack.delete())

    assert statuses == ["CREATE_COMPLETE", *(f"{choice} UPDATE_COMPLETE" for choice in CHOICES), "DELETE_COMPLETE"]
    assert resources.keys() == _body({})["Resources"].keys()
