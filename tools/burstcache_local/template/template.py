"""template.yaml (SAM) as a plain CloudFormation template that moto can create, made offline."""

from __future__ import annotations

import copy
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from burstcache.core.errors import InvalidSettingError
from burstcache.settings import policy_parameters
from burstcache_local.errors import TemplateError
from burstcache_local.moto.custom_resources import LOCAL_ID, LOCAL_TYPE
from burstcache_local.template.intrinsics import Conditions, Network, walk
from burstcache_local.template.parameters import fix_parameters, parameter_values

CUSTOM_RESOURCE = "AWS::CloudFormation::CustomResource"
_CODE = {"ZipFile": "# The local cloud runs the function from its source folder."}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A function that is invoked on a schedule."""

    name: str
    period_s: float
    output: str  # the stack output that holds the resolved target as JSON


@dataclass(slots=True)
class LocalTemplate:
    """The transformed template, and the parts of it that moto must not see."""

    body: dict[str, Any]
    roots: dict[str, Path]  # function's logical id → folder of its code
    schedules: list[Schedule] = field(default_factory=list)

    @property
    def resources(self) -> dict[str, Any]:
        return self.body["Resources"]  # type: ignore[no-any-return]

    def of_type(self, type_: str) -> dict[str, dict[str, Any]]:
        """Return logical id → properties of all resources of a type."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == type_
        }


class _NoManagedPolicies:
    """Stands in for the loader that would ask IAM for AWS's managed policies."""

    max_pages = None

    def load(self) -> dict[str, str]:
        return {}


def load_template(path: Path, overrides: Mapping[str, str], *, vpc_block: str, region: str) -> LocalTemplate:
    """Return the template ready for moto.

    Args:
        path: The SAM template.
        overrides: Parameter values that replace the defaults.
        vpc_block: IPv4 block that its VPC moves to.
        region: AWS region to imitate.

    Raises:
        TemplateError: Names the file and the reason, in one line.
    """
    try:
        return _load(path, overrides, vpc_block, region)
    except TemplateError as error:
        raise TemplateError(f"{path}: {error}") from None


def _load(path: Path, overrides: Mapping[str, str], vpc_block: str, region: str) -> LocalTemplate:
    source = _read(path)
    values = parameter_values(source.get("Parameters", {}), overrides)
    _check_policy(values)
    _decide(source, values | {"AWS::Region": region, "AWS::Partition": "aws"})
    roots = _take_code(source, path.parent)
    definitions = _take_definitions(source, path.parent)
    body = _transform(source, values, region)
    fix_parameters(body, values)
    _drop_ipv6(body["Resources"])
    template = LocalTemplate(walk(body, Network(body["Resources"], vpc_block, region).resolve), roots)
    _put_back(template.resources, definitions, roots)
    _take_schedules(template)
    return template


def _check_policy(values: Mapping[str, Any]) -> None:
    """Refuse at the start what the functions would refuse at their first event."""
    names = {
        "POLICY_RATE": "PolicyRatePerMin",
        "POLICY_SENSITIVITY": "PolicySensitivity",
        "POLICY_OVERRIDES": "PolicyOverrides",
    }
    try:
        policy_parameters({variable: values[name] for variable, name in names.items() if name in values})
    except InvalidSettingError as error:
        raise TemplateError(f"parameters {', '.join(names.values())}: {error}") from None


def _put_back(resources: Mapping[str, Any], definitions: Mapping[str, str], roots: Mapping[str, Path]) -> None:
    """Give machines their definitions, functions code that moto accepts, and custom resources a type of our own."""
    for name, definition in definitions.items():
        resources[name]["Properties"] |= {"DefinitionString": definition}
        resources[name]["Properties"].pop("DefinitionS3Location", None)
    for name in roots:
        resources[name]["Properties"]["Code"] = _CODE
    for name, resource in resources.items():
        if resource["Type"].startswith("Custom::") or resource["Type"] == CUSTOM_RESOURCE:
            resource["Properties"] |= {LOCAL_TYPE: resource["Type"], LOCAL_ID: name}
            resource["Type"] = CUSTOM_RESOURCE


def _read(path: Path) -> dict[str, Any]:
    try:
        source = yaml_parse(path.read_text())
    except OSError as error:
        raise TemplateError(f"cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise TemplateError(f"is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(source, dict) or not isinstance(source.get("Resources"), dict):
        raise TemplateError("is not a template: it has no Resources")
    return source


def _decide(source: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Remove what the conditions exclude, in place, and the conditions."""
    conditions = Conditions(source, values)
    conditions.check_rules(source.pop("Rules", {}))
    for section in ("Resources", "Outputs"):
        kept = {}
        for name, part in source.get(section, {}).items():
            condition = part.pop("Condition", None)
            if condition is None or conditions.holds(condition):
                kept[name] = conditions.resolve(part)
        for part in kept.values():
            _forget(part, source.get(section, {}).keys() - kept.keys())
        source[section] = kept
    source["Globals"] = conditions.resolve(source.get("Globals", {}))
    source.pop("Conditions", None)


def _forget(resource: dict[str, Any], absent: set[str]) -> None:
    """Drop dependencies on resources that are not created."""
    depends_on = resource.pop("DependsOn", [])
    depends_on = [depends_on] if isinstance(depends_on, str) else depends_on
    if kept := [name for name in depends_on if name not in absent]:
        resource["DependsOn"] = kept


def _take_code(source: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Return the code folder per function; the template gets a location that the transform accepts."""
    shared = source.get("Globals", {}).get("Function", {})
    default = shared.pop("CodeUri", ".")
    roots = {}
    for name, resource in source["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = resource.setdefault("Properties", {})
            roots[name] = (folder / properties.get("CodeUri", default)).resolve()
            if not roots[name].is_dir():
                raise TemplateError(f"{name}: its CodeUri {properties.get('CodeUri', default)!r} is not a folder")
            properties["CodeUri"] = {"Bucket": "local", "Key": name}
    return roots


def _take_definitions(source: dict[str, Any], folder: Path) -> dict[str, str]:
    """Return the definition per state machine that names a file."""
    definitions = {}
    for name, resource in source["Resources"].items():
        properties = resource.get("Properties", {})
        uri = properties.get("DefinitionUri")
        if resource["Type"] == "AWS::Serverless::StateMachine" and isinstance(uri, str):
            try:
                definitions[name] = (folder / uri).read_text()
                json.loads(definitions[name])
            except (OSError, ValueError) as error:
                raise TemplateError(f"{name}: its definition {uri} is not readable JSON: {error}") from None
            properties["DefinitionUri"] = {"Bucket": "local", "Key": name}
    return definitions


def _transform(source: dict[str, Any], values: Mapping[str, Any], region: str) -> dict[str, Any]:
    os.environ.setdefault("AWS_DEFAULT_REGION", region)  # the transform reads it only from the environment
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    try:
        return transform(copy.deepcopy(source), dict(values), _NoManagedPolicies())  # type: ignore[no-any-return]
    except InvalidDocumentException as error:
        causes = "; ".join(cause.message for cause in error.causes)
        raise TemplateError(f"SAM refuses it: {causes}") from None


def _drop_ipv6(resources: Mapping[str, Any]) -> None:
    """Leave out the subnets' IPv6 blocks: moto's networks have none, and nothing here needs them."""
    for resource in resources.values():
        if resource["Type"] == "AWS::EC2::Subnet":
            for part in ("Ipv6CidrBlock", "AssignIpv6AddressOnCreation"):
                resource["Properties"].pop(part, None)


def _take_schedules(template: LocalTemplate) -> None:
    """Take schedules out of the template, since moto does not run them. Their targets are resolved as outputs."""
    for name, resource in template.resources.items():
        properties = resource.get("Properties", {})
        if properties.get("State", "ENABLED") != "ENABLED" or "ScheduleExpression" not in properties:
            continue
        period_s = _period_s(name, properties["ScheduleExpression"])
        is_rule = resource["Type"] == "AWS::Events::Rule"
        targets = properties.pop("Targets", []) if is_rule else [properties["Target"]]
        for index, target in enumerate(targets):
            output = f"LocalSchedule{name}{index}"
            template.body.setdefault("Outputs", {})[output] = {"Value": {"Fn::ToJsonString": target}}
            template.schedules.append(Schedule(name, period_s, output))


def _period_s(name: str, expression: str) -> float:
    rate = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if not rate:
        raise TemplateError(f"{name}: the schedule {expression!r} is not a rate(…): the local cloud knows no other")
    return int(rate[1]) * {"minute": 60.0, "hour": 3600.0, "day": 86400.0}[rate[2]]
