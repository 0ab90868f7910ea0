"""The template as deployed with certain parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache_local.template.intrinsics import Conditions

CERTIFICATE = "arn:aws:acm:eu-central-1:123456789012:certificate/0"


def decided(template: Mapping[str, Any], answers: Mapping[str, str]) -> Conditions:
    """Return the conditions under these parameters. All others are defaults, except a relay, which some parts need."""
    defaults = {name: parameter["Default"] for name, parameter in template["Parameters"].items()}
    certificate = {"CertificateArn": CERTIFICATE} if answers.get("FrontDoor") == "alb" else {}
    return Conditions(template, {**defaults, "Relay": "nlb", **certificate, "AWS::Region": "eu-central-1", **answers})


def kept(template: Mapping[str, Any], section: str, conditions: Conditions) -> dict[str, Any]:
    """Return the parts of a section whose conditions hold."""
    return {
        name: conditions.resolve(part)
        for name, part in template[section].items()
        if "Condition" not in part or conditions.holds(part["Condition"])
    }


def deployed(template: Mapping[str, Any], answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the resources deployed with these parameters."""
    return kept(template, "Resources", decided(template, answers))
