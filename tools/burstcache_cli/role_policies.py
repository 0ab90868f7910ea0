"""The policies of a stack's roles, read from the template, with a pattern for each generated name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burstcache_local.template.intrinsics import only
from burstcache_local.template.parameters import decide, declared_values
from burstcache_local.template.read import read
from burstcache_local.template.transform import transform

ANY = "*"
_DEFAULT_REGION = "us-east-1"  # evaluates the template's conditions where no region is given
_ISSUE = "Issue"  # ending of parameters that an update raises, to issue new passwords or nodes
_LONGEST_WHOLE = 24  # characters of a stack name that CloudFormation keeps in a generated name of 64 characters

# Type → property with the name, and the ARN without its beginning. `!` stands for the name.
_ARNS: Mapping[str, tuple[str, str]] = {
    "AWS::DynamoDB::Table": ("TableName", "dynamodb:{r}:*:table/!"),
    "AWS::ECS::Cluster": ("ClusterName", "ecs:{r}:*:cluster/!"),
    "AWS::Events::EventBus": ("Name", "events:{r}:*:event-bus/!"),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", "iam::*:policy/!"),
    "AWS::IAM::Role": ("RoleName", "iam::*:role/!"),
    "AWS::Lambda::Function": ("FunctionName", "lambda:{r}:*:function:!"),
    "AWS::S3::Bucket": ("BucketName", "s3:::!"),
    "AWS::S3Express::DirectoryBucket": ("BucketName", "s3express:{r}:*:bucket/!"),
    "AWS::SNS::Topic": ("TopicName", "sns:{r}:*:!"),
    "AWS::SQS::Queue": ("QueueName", "sqs:{r}:*:!"),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", "states:{r}:*:stateMachine:!"),
}
_REFS_ARE_ARNS = {"AWS::IAM::ManagedPolicy", "AWS::SNS::Topic", "AWS::StepFunctions::StateMachine"}

# Statements of AWS's managed policies, which the template names. A test compares them with AWS's documents.
_LOGS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
AWS_MANAGED: Mapping[str, tuple[str, ...]] = {
    "AWSLambdaBasicExecutionRole": _LOGS,
    "AWSLambdaVPCAccessExecutionRole": (
        *_LOGS,
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ),
    "AWSXrayWriteOnlyAccess": (
        "xray:GetSamplingRules",
        "xray:GetSamplingStatisticSummaries",
        "xray:GetSamplingTargets",
        "xray:PutTelemetryRecords",
        "xray:PutTraceSegments",
    ),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a role's policy, with its resources as ARN patterns."""

    role: str  # logical id
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: Mapping[str, Any]


class StackPolicies:
    """The resources and the roles' policies of a stack that these parameters deploy.

    Args:
        template: The SAM template.
        parameters: Values that replace the template's defaults.
        stack_name: The stack's name.
        region: The region, or an empty string for any region.

    Raises:
        TemplateError: The template rejects the parameters.
    """

    def __init__(self, template: Path, parameters: Mapping[str, str], stack_name: str, region: str = "") -> None:
        source = read(template)
        self._values = declared_values(source.get("Parameters", {}), parameters)
        used = region or _DEFAULT_REGION
        body = transform(decide(source, self._values, used), self._values, template.parent, used).body
        self.resources: dict[str, dict[str, Any]] = body["Resources"]
        self.stack_name, self.region = stack_name, region or ANY
        self.name = name_pattern(stack_name)
        self._pseudo = {
            "AWS::AccountId": ANY,
            "AWS::Partition": "aws",
            "AWS::Region": self.region,
            "AWS::StackId": self.arn(f"cloudformation:{{r}}:*:stack/{stack_name}/*"),
            "AWS::StackName": stack_name,
            "AWS::URLSuffix": "amazonaws.com",
        }

    def arn(self, rest: str) -> str:
        """Return an ARN with this region in place of `{r}`. The template supports no partition but `aws`."""
        return f"arn:aws:{rest.replace('{r}', self.region)}"

    def statements(self) -> Iterator[Statement]:
        """Yield every statement of every role: inline, attached, and of AWS's managed policies."""
        for name, resource in self.resources.items():
            properties = resource.get("Properties", {})
            if resource["Type"] == "AWS::IAM::Role":
                for policy in properties.get("Policies", []):
                    yield from self._of_document(name, policy["PolicyDocument"])
                for arn in properties.get("ManagedPolicyArns", []):
                    yield from self._of_managed(name, arn)
            elif resource["Type"] == "AWS::IAM::RolePolicy":
                yield from self._of_document(properties["RoleName"]["Ref"], properties["PolicyDocument"])

    def _of_managed(self, role: str, arn: Any) -> Iterator[Statement]:
        if only(arn, "Ref"):
            document = self.resources[arn["Ref"]]["Properties"]["PolicyDocument"]
            yield from self._of_document(role, document)
        else:
            actions = AWS_MANAGED[self.pattern(arn).rpartition("/")[2]]
            yield Statement(role, actions, (ANY,), {})

    def _of_document(self, role: str, document: Mapping[str, Any]) -> Iterator[Statement]:
        for statement in listed(document["Statement"]):
            resources = tuple(self.pattern(each) for each in listed(statement["Resource"]))
            condition = _with_wildcards(self._patterns(statement.get("Condition", {})))
            yield Statement(role, tuple(listed(statement["Action"])), resources, condition)

    def _patterns(self, value: Any) -> Any:
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
            return self.pattern(value)
        if isinstance(value, dict):
            return {name: self._patterns(part) for name, part in value.items()}
        return [self._patterns(part) for part in value] if isinstance(value, list) else value

    def pattern(self, value: Any) -> str:
        """Return a value's text, in which `*` replaces each part that is known only after the deployment."""
        return re.sub(r"\*+", ANY, self._text(value))

    def _text(self, value: Any) -> str:
        if only(value, "Ref"):
            return self._reference(value["Ref"])
        if only(value, "Fn::GetAtt"):
            name, attribute = _attribute(value["Fn::GetAtt"])
            return self._arn_of(name) if attribute == "Arn" else self._name_of(name)
        if only(value, "Fn::Sub"):
            text, parts = value["Fn::Sub"] if isinstance(value["Fn::Sub"], list) else (value["Fn::Sub"], {})
            return re.sub(r"\$\{([^!}][^}]*)\}", lambda match: self._part(match[1], parts), text)
        if only(value, "Fn::Join"):
            separator, members = value["Fn::Join"]
            return str(separator).join(map(self._text, members))
        return ANY if isinstance(value, dict) else str(value)

    def _part(self, name: str, parts: Mapping[str, Any]) -> str:
        if name in parts:
            return self._text(parts[name])
        return self._text({"Fn::GetAtt": name.split(".", 1)} if "." in name else {"Ref": name})

    def _reference(self, name: str) -> str:
        if name in self.resources:
            is_arn = self.resources[name]["Type"] in _REFS_ARE_ARNS
            return self._arn_of(name) if is_arn else self._name_of(name)
        if name.endswith(_ISSUE):
            return ANY  # a later update raises it
        value = self._pseudo.get(name, self._values.get(name, ANY))
        return ",".join(value) if isinstance(value, list) else str(value)

    def _arn_of(self, name: str) -> str:
        type_ = self.resources[name]["Type"]
        return self.arn(_ARNS[type_][1].replace("!", self._name_of(name))) if type_ in _ARNS else ANY

    def _name_of(self, name: str) -> str:
        resource = self.resources[name]
        property_, _ = _ARNS.get(resource["Type"], ("", ""))
        if given := resource.get("Properties", {}).get(property_):
            return self._text(given)
        generated = self.name.lower() if resource["Type"].startswith("AWS::S3") else self.name
        return generated if resource["Type"] in _ARNS else ANY


def name_pattern(stack_name: str) -> str:
    """Return the pattern of the names that CloudFormation generates in a stack. It cuts a long stack name."""
    return f"{stack_name}-*" if len(stack_name) <= _LONGEST_WHOLE else f"{stack_name[:_LONGEST_WHOLE]}*"


def _with_wildcards(condition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a condition whose equalities with patterns are matches. ARN operators match patterns anyway."""
    return {
        operator.replace("StringEquals", "StringLike") if ANY in str(keys) else operator: keys
        for operator, keys in condition.items()
    }


def listed(value: Any) -> list[Any]:
    """Return a value of a policy, which may be one or a list, as a list."""
    return value if isinstance(value, list) else [value]


def _attribute(value: Any) -> tuple[str, str]:
    name, _, attribute = (value if isinstance(value, str) else ".".join(value)).partition(".")
    return name, attribute
