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

from burstcache_local.template.parameters import decide, declared_values
from burstcache_local.template.read import read
from burstcache_local.template.transform import transform
from engines.processes import missing, running
from support.project import ROOT
from support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing("ministack")), reason=missing("ministack")),
]

_REGION = "us-east-2"  # has all that the template may use, S3 Express included
_ACCOUNT = "123456789012"
_REGISTRY = f"{_ACCOUNT}.dkr.ecr.{_REGION}.amazonaws.com"
# Stands for the network load balancer that a test creates.
_BALANCER = f"arn:aws:elasticloadbalancing:{_REGION}:{_ACCOUNT}:loadbalancer/net/relay/0a"
_VPC = {"VpcId": "vpc-0a", "SubnetIds": "subnet-0a", "RelaySubnetIds": "subnet-0b"}
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
    ("Custom::Account", "BusyConcurrency"): "800",
    ("AWS::EC2::VPC", "CidrBlock"): "10.0.0.0/16",
    ("AWS::EC2::VPC", "Ipv6CidrBlocks"): ["2001:db8::/56"],
}
# Each adds, removes or changes resources. The stack goes from one to the next, and together they have all resources.
CHOICES: list[dict[str, str]] = [
    {"Relay": "direct", "RelayImage": f"{_REGISTRY}/nats:2", "RedisImage": f"{_REGISTRY}/valkey:8"},
    {"Relay": "nlb", "RelayAddress": "public-ipv4"},
    {"Relay": "nlb"},
    {"Relay": "direct", "Network": "ipv4", **_VPC},
    {
        "Relay": "nlb",
        "Network": "ipv4",
        **_VPC,
        "RelayBalancerArn": _BALANCER,
        "RelayBalancerDnsName": "relay.example.com",
        "RelayBalancerSecurityGroupId": "sg-0a",
    },
    {"RedisOn": "ec2", "RedisNodeCount": "8"},
    {"RedisOn": "ec2", "ResourceTags": "acme/cost-centre=42,Name of the owner=Ada"},
    {"RedisOn": "ec2", "NodeImage": "ami-0a"},
    {"RedisOn": "ec2", "RedisInstanceType": "t4g.large", "RedisNodeIssue": "2"},
    {"RedisOn": "fargate", "RedisNodeCount": "3", "RedisTaskMemoryGb": "8"},
    {"RedisNodeCount": "0"},
    {"StateDatabases": "a,b,c,d", "StatePersistence": "aof", "KmsKeyArn": f"arn:aws:kms:{_REGION}:{_ACCOUNT}:key/a"},
    {"StateDatabases": "a", "StateOn": "fargate-spot"},
    {"PoolMembers": "8", "PoolHub": "fargate", "HubImage": f"{_REGISTRY}/python:3"},
    {"OriginEvents": "direct", "CreateDashboard": "no", "Policy": "thesis"},
    {"ExpressZone": "use2-az1", "VpcCidr": "10.30.0.0/16"},
    {"FunctionsInVpc": "all", "ZoneA": f"{_REGION}a", "ZoneB": f"{_REGION}b"},
    {
        "FrontDoor": "alb",
        "AlbScheme": "internet-facing",
        "CertificateArn": f"arn:aws:acm:{_REGION}:{_ACCOUNT}:certificate/a",
        "ZoneA": f"{_REGION}a",
        "ZoneB": f"{_REGION}b",
    },
    {"ApiAuth": "iam", "Writes": "iam", "AccessLogs": "enabled", "Tracing": "Active", "OriginBucketName": "mine"},
    {
        "AlarmEmail": "operator@example.com",
        "MonthlyBudgetUsd": "10",
        "Relay": "nlb",
        "StateDatabases": "a",
        "PoolMembers": "8",
        "Writes": "iam",
    },
    {"PermissionsBoundaryArn": f"arn:aws:iam::{_ACCOUNT}:policy/bound", "LogRetentionDays": "30"},
    {"CredentialsIssue": "2"},
    {},
]
_WITH_BALANCER = {"Relay": "nlb"}


def _body(overrides: dict[str, str]) -> dict[str, Any]:
    source = read(ROOT / "template.yaml")
    values = declared_values(source["Parameters"], overrides)
    body = transform(decide(source, values, _REGION), values, ROOT, _REGION).body
    types = {name: resource["Type"] for name, resource in body["Resources"].items()}

    def stood_in(name: str, attribute: str = "") -> Any:
        type_ = types.get(name, "")
        is_lacking = type_ in _LACKING_TYPES or type_.startswith("Custom::")
        return _LACKING_ATTRIBUTES.get((type_, attribute), "10.0.0.4" if is_lacking else None)

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
        (balancer,) = self._client("elbv2").create_load_balancer(Name="relay", Type="network")["LoadBalancers"]
        self._balancer, self._id = balancer["LoadBalancerArn"], ""

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            _REGION,
            endpoint_url=self._url,
            aws_access_key_id=_ACCOUNT,
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
        body = json.dumps(_body(overrides)).replace(_BALANCER, self._balancer)
        body = body.replace("loadbalancer/net/", "loadbalancer/app/")  # so MiniStack names network balancers, too
        self._s3.put_object(Bucket="templates", Key="template", Body=body.encode())
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


def test_a_stack_with_a_balancer_refuses_another_vpc_and_stays_as_it_is(stack: _Deployment) -> None:
    stack.create(_WITH_BALANCER)
    before = stack.resources()
    status = stack.update({**_WITH_BALANCER, **_VPC})
    after = stack.resources()
    stack.delete()

    assert status.startswith("UPDATE_ROLLBACK_COMPLETE RelayTargetGroup: ")
    assert after.keys() == before.keys()


def test_the_choices_together_have_each_resource_of_the_template() -> None:
    created = set[str]().union(*(_body(choice)["Resources"] for choice in CHOICES))

    assert read(ROOT / "template.yaml")["Resources"].keys() - created == set()
