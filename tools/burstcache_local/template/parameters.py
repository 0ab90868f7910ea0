"""Step 2 of the pipeline, `parameters`, validates values as CloudFormation does, and evaluates conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Any

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.settings.policy import policy_in
from burstcache_local.errors import TemplateError
from burstcache_local.template.intrinsics import Conditions

_NUMBER = re.compile(r"[+-]?[0-9]+([.][0-9]+)?")
STAND_IN_AMI = "ami-0123456789abcdef0"  # for parameters that refer to an image in Parameter Store


# Parameters with restrictions in the local run: name, supported values and reason.
_UNSUPPORTED = (
    ("ApiAuth", ("public",), "the local front door checks neither signatures nor tokens"),
    ("Writes", ("none", "iam"), "the local front door reads no tokens"),
    ("VpcId", ("",), "the local run makes its network itself"),
)
# Rules about your own VPC, which the local run's network stands for.
_RULES_OF_YOUR_VPC = frozenset({"Ipv4NeedsAVpcOfYours"})


def parameter_values(declared: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of all parameters, or raise TemplateError for a value that the local run does not support."""
    values = declared_values(declared, overrides)
    for name, accepted, reason in _UNSUPPORTED:
        if name in values and values[name] not in accepted:
            others = " or ".join(map(repr, accepted))
            raise TemplateError(
                f"parameter {name}: {values[name]!r} is not supported here, since {reason}: use {others}"
            )
    return values


def declared_values(declared: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of all parameters, or raise TemplateError for a value that CloudFormation would reject."""
    for name in overrides.keys() - declared.keys():
        raise TemplateError(f"has no parameter {name!r}: use {', '.join(sorted(declared))}")
    values = {}
    for name, parameter in declared.items():
        value = overrides.get(name, parameter.get("Default"))
        if value is None:
            raise TemplateError(f"parameter {name} has no default: give it a value")
        values[name] = parameter_value(name, parameter, str(value))
    return values


def parameter_value(name: str, parameter: Mapping[str, Any], text: str) -> Any:
    """Parse a parameter value, or raise TemplateError if CloudFormation would reject it."""
    accepted = [str(value) for value in parameter.get("AllowedValues", [])]
    if accepted and text not in accepted:
        raise TemplateError(f"parameter {name}: {text!r} is not one of {', '.join(accepted)}")
    if not re.fullmatch(parameter.get("AllowedPattern", ".*"), text, re.DOTALL):
        wanted = parameter.get("ConstraintDescription") or f"the pattern {parameter['AllowedPattern']}"
        raise TemplateError(f"parameter {name}: {text!r} does not match: {wanted}")
    kind = parameter.get("Type", "String")
    if kind == "Number":
        _check_number(name, parameter, text)
    if kind.startswith("AWS::SSM::Parameter::Value"):
        return STAND_IN_AMI if "Image::Id" in kind else "stand-in"
    return text.split(",") if kind == "CommaDelimitedList" or kind.startswith("List<") else text


def _check_number(name: str, parameter: Mapping[str, Any], text: str) -> None:
    if not _NUMBER.fullmatch(text):  # Python also accepts 1_000, inf and non-ASCII digits
        raise TemplateError(f"parameter {name}: {text!r} is not a number")
    number = float(text)
    least, most = float(parameter.get("MinValue", -inf)), float(parameter.get("MaxValue", inf))
    if not least <= number <= most:
        wanted = f"{least:g} or more" if most == inf else f"{least:g} to {most:g}"
        raise TemplateError(f"parameter {name}: {text}: expected {wanted}")


def decide(source: dict[str, Any], values: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return the template without conditions, and without the parts that the conditions exclude.

    Raises:
        TemplateError: A template rule or the caching policy rejects the values.
    """
    rules = {name: rule for name, rule in source.pop("Rules", {}).items() if name not in _RULES_OF_YOUR_VPC}
    conditions = accepted({**source, "Rules": rules}, values, region)
    for section in ("Resources", "Outputs"):
        kept = {}
        for name, part in source.get(section, {}).items():
            condition = part.pop("Condition", None)
            if condition is None or conditions.holds(condition):
                kept[name] = conditions.resolve(part)
        for part in kept.values():
            forget(part, source.get(section, {}).keys() - kept.keys())
        source[section] = kept
    source["Globals"] = conditions.resolve(source.get("Globals", {}))
    source.pop("Conditions", None)
    return source


def accepted(source: Mapping[str, Any], values: Mapping[str, Any], region: str) -> Conditions:
    """Return the conditions for these values. Raise TemplateError if the caching policy or a rule rejects a value."""
    conditions = Conditions(source, {**values, "AWS::Region": region, "AWS::Partition": "aws"})
    _check_policy(source, values, conditions, region)
    conditions.check_rules(source.get("Rules", {}))
    return conditions


def node_name(template: Mapping[str, Any], conditions: Conditions) -> str:
    """Return the name by which a stack's functions price its nodes (`burstcache.core.node_kinds`)."""
    _, parts = template["Outputs"]["PolicySettings"]["Value"]["Fn::Sub"]
    return conditions.value(conditions.resolve(parts["NodeName"]))


def _check_policy(template: Mapping[str, Any], values: Mapping[str, Any], conditions: Conditions, region: str) -> None:
    """Validate the caching policy's settings at startup, instead of on a function's first event."""
    names = {
        "POLICY_RATE": "PolicyRatePerMin",
        "POLICY_SENSITIVITY": "PolicySensitivity",
        "POLICY_OVERRIDES": "PolicyOverrides",
        "POLICY": "Policy",
        "HIT_VALUE_USD_PER_MILLION": "HitValueUsdPerMillion",
        "CACHE_MEMORY_MB": "CacheMemoryMb",
        "EXPRESS_BUCKET": "ExpressZone",  # the policy only checks whether the value is empty
    }
    if not values.keys() >= set(names.values()):
        return  # the template of another system
    settings = {variable: str(values[name]) for variable, name in names.items()}
    node = node_name(template, conditions)
    try:
        policy_in({"AWS_REGION": region, "REDIS_INSTANCE_TYPE": node, **settings})
    except (InvalidSettingError, PriceMissingError) as error:
        raise TemplateError(f"parameters {', '.join(names.values())}, with nodes {node}: {error}") from None


def forget(resource: dict[str, Any], absent: set[str]) -> None:
    """Remove dependencies on resources that are not created."""
    depends_on = resource.pop("DependsOn", [])
    depends_on = [depends_on] if isinstance(depends_on, str) else depends_on
    if kept := [name for name in depends_on if name not in absent]:
        resource["DependsOn"] = kept
