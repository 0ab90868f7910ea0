"""Generated resource names, in which the stack's name is truncated to fit the service's limit, as in CloudFormation.

moto truncates only a few names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

# Type → name property, and the service's limit [characters].
LIMITS: Mapping[str, tuple[str, int]] = {
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateName", 128),
    "AWS::Events::Rule": ("Name", 64),
    "AWS::IAM::InstanceProfile": ("InstanceProfileName", 128),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", 128),
    "AWS::IAM::Role": ("RoleName", 64),
    "AWS::Lambda::Function": ("FunctionName", 64),
    "AWS::SQS::Queue": ("QueueName", 80),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", 80),
}


def named(body: Mapping[str, Any], stack_name: str, region: str) -> dict[str, Any]:
    """Return the template with a generated name for each unnamed resource of a type in `LIMITS`."""
    return {
        **body,
        "Resources": {id_: _named(id_, each, stack_name, region) for id_, each in body["Resources"].items()},
    }


def _named(logical_id: str, resource: Mapping[str, Any], stack_name: str, region: str) -> Mapping[str, Any]:
    if resource["Type"] not in LIMITS:
        return resource
    property_, most = LIMITS[resource["Type"]]
    name = generated(stack_name, logical_id, most, region)
    return {**resource, "Properties": {property_: name, **resource.get("Properties", {})}}


def generated(stack_name: str, logical_id: str, most: int, region: str) -> str:
    """Return a deterministic name of at most `most` characters, in the form STACK-LOGICALID-SUFFIX.

    The 12-character suffix depends on the region, because IAM roles are global.

    Source:
        AWS CloudFormation Template Reference Guide, "Name type". The truncation follows names observed on AWS.
    """
    unique = hashlib.sha256(f"{region} {stack_name} {logical_id}".encode()).hexdigest()[:12].upper()
    end = f"-{logical_id[: most // 2]}-{unique}"
    return stack_name[: most - len(end)] + end
