"""The template's parameters: checked as CloudFormation checks them, then fixed, since nothing is looked up here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from burstcache_local.errors import TemplateError

STAND_IN_AMI = "ami-0123456789abcdef0"  # for a parameter that names an image by a path in the parameter store


def parameter_values(declared: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of all parameters, or raise TemplateError as CloudFormation would refuse them."""
    for name in overrides.keys() - declared.keys():
        raise TemplateError(f"has no parameter {name!r}: use {', '.join(sorted(declared))}")
    values = {}
    for name, parameter in declared.items():
        value = overrides.get(name, parameter.get("Default"))
        if value is None:
            raise TemplateError(f"parameter {name} has no default: give it a value")
        values[name] = _parameter_value(name, parameter, str(value))
    return values


def _parameter_value(name: str, parameter: Mapping[str, Any], text: str) -> Any:
    """Return the value as the template sees it."""
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
    try:
        number = float(text)
    except ValueError:
        raise TemplateError(f"parameter {name}: {text!r} is not a number") from None
    least, most = (float(parameter.get(bound, number)) for bound in ("MinValue", "MaxValue"))
    if not least <= number <= most:
        raise TemplateError(f"parameter {name}: {text} is not within {least:g} and {most:g}")


def fix_parameters(body: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Make the values the defaults: nothing is looked up in a parameter store."""
    for name, parameter in body.get("Parameters", {}).items():
        value = values[name]
        kind = "CommaDelimitedList" if isinstance(value, list) else "String"
        body["Parameters"][name] = {"Type": kind, "Default": ",".join(value) if isinstance(value, list) else value}
        parameter.clear()
