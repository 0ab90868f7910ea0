"""Step 5 of the pipeline, `complete`, removes or replaces parts of the template that moto cannot run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burstcache_local.errors import TemplateError
from burstcache_local.moto.custom_resources import LOCAL_ID, LOCAL_TYPE
from burstcache_local.template.template import LocalTemplate, Schedule

CUSTOM_RESOURCE = "AWS::CloudFormation::CustomResource"
_IMAGE_GB = 8  # size of a volume that leaves it to its image


def complete(body: dict[str, Any], roots: dict[str, Path]) -> LocalTemplate:
    """Return the template for moto, or raise TemplateError for an unsupported schedule."""
    _name_custom_resources(body["Resources"])
    _fill_from_launch_templates(body["Resources"])
    return LocalTemplate(body, roots, _take_schedules(body))


def _name_custom_resources(resources: Mapping[str, Any]) -> None:
    """Replace all custom resource types with one common type."""
    for name, resource in resources.items():
        if resource["Type"].startswith("Custom::") or resource["Type"] == CUSTOM_RESOURCE:
            resource["Properties"] |= {LOCAL_TYPE: resource["Type"], LOCAL_ID: name}
            resource["Type"] = CUSTOM_RESOURCE


def _fill_from_launch_templates(resources: Mapping[str, Any]) -> None:
    """Copy launch templates into instances, because moto's CloudFormation ignores launch templates."""
    for resource in resources.values():
        if resource["Type"] == "AWS::EC2::Instance" and "LaunchTemplate" in resource["Properties"]:
            name = resource["Properties"].pop("LaunchTemplate")["LaunchTemplateId"]["Ref"]
            launched = resources[name]["Properties"]["LaunchTemplateData"]
            profile = {"IamInstanceProfile": launched["IamInstanceProfile"]["Name"]}
            resource["Properties"] = {**launched, **profile, **resource["Properties"]}
            for device in resource["Properties"].get("BlockDeviceMappings", ()):
                device["Ebs"].setdefault("VolumeSize", _IMAGE_GB)


def _take_schedules(body: dict[str, Any]) -> list[Schedule]:
    """Collect schedules, which moto does not run, and add an output per schedule that resolves the target."""
    schedules = []
    for name, resource in body["Resources"].items():
        properties = resource.get("Properties", {})
        if properties.get("State", "ENABLED") != "ENABLED" or "ScheduleExpression" not in properties:
            continue
        period_s = _period_s(name, properties["ScheduleExpression"])
        is_rule = resource["Type"] == "AWS::Events::Rule"
        targets = properties.pop("Targets", []) if is_rule else [properties["Target"]]
        for index, target in enumerate(targets):
            output = f"LocalSchedule{name}{index}"
            rule = {"Fn::GetAtt": [name, "Arn"]} if is_rule else name
            described = {"Rule": rule, "Target": target}
            body.setdefault("Outputs", {})[output] = {"Value": {"Fn::ToJsonString": described}}
            schedules.append(Schedule(name, period_s, output))
    return schedules


def _period_s(name: str, expression: str) -> float:
    rate = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if not rate:
        raise TemplateError(f"{name}: the schedule {expression!r} is not a rate(…): the local cloud supports no other")
    return int(rate[1]) * {"minute": 60.0, "hour": 3600.0, "day": 86400.0}[rate[2]]
