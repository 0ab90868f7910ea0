"""Intrinsic functions that are resolved for moto: conditions, and functions that moto resolves incorrectly."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from burstcache_local.errors import RuleError, TemplateError

NO_VALUE = {"Ref": "AWS::NoValue"}


def walk(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a JSON value, with `change` applied to each nested value, outermost first."""
    value = change(value)
    if isinstance(value, dict):
        return {name: walk(part, change) for name, part in value.items()}
    if isinstance(value, list):
        return [walk(part, change) for part in value]
    return value


def only(value: Any, name: str) -> bool:
    """Return whether `value` is a call to the intrinsic function `name`."""
    return isinstance(value, dict) and value.keys() == {name}


class Conditions:
    """An evaluator for the template's Conditions and Rules under given parameter values."""

    def __init__(self, template: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._conditions = template.get("Conditions", {})
        self._mappings = template.get("Mappings", {})
        self._values = values
        self._decided: dict[str, bool] = {}

    def holds(self, name: str) -> bool:
        """Return the value of the condition `name`."""
        if name not in self._conditions:
            raise TemplateError(f"condition {name!r} is used but not declared")
        if name not in self._decided:
            self._decided[name] = self._test(self._conditions[name])
        return self._decided[name]

    def check_rules(self, rules: Mapping[str, Any]) -> None:
        """Raise RuleError with the description of the first failed assertion."""
        for name, rule in rules.items():
            if self._test(rule.get("RuleCondition", True)):
                for assertion in rule["Assertions"]:
                    if not self._test(assertion["Assert"]):
                        described = assertion.get("AssertDescription", "an assertion failed")
                        raise RuleError(f"rule {name}: {described}", rule=name)

    def resolve(self, value: Any) -> Any:
        """Resolve Fn::If in `value`, and remove parts that resolve to AWS::NoValue."""
        while only(value, "Fn::If"):
            condition, if_true, if_false = value["Fn::If"]
            value = if_true if self.holds(condition) else if_false
        if isinstance(value, dict):
            parts = {name: self.resolve(part) for name, part in value.items()}
            return {name: part for name, part in parts.items() if part != NO_VALUE} if value != NO_VALUE else NO_VALUE
        if isinstance(value, list):
            return [part for part in map(self.resolve, value) if part != NO_VALUE]
        return value

    def _test(self, expression: Any) -> bool:
        if isinstance(expression, bool):
            return expression
        ((name, operands),) = expression.items()
        match name:
            case "Condition":
                return self.holds(operands)
            case "Fn::And":
                return all(map(self._test, operands))
            case "Fn::Or":
                return any(map(self._test, operands))
            case "Fn::Not":
                return not self._test(operands[0])
            case "Fn::Equals":
                left, right = map(self.value, operands)
                return bool(left == right)
            case "Fn::Contains":
                accepted, value = operands
                return self.value(value) in map(self.value, accepted)
            case "Fn::EachMemberEquals":
                members, value = operands
                return {*self._members(members)} <= {self.value(value)}
            case "Fn::EachMemberIn":
                members, accepted = operands
                return {*self._members(members)} <= {*self._members(accepted)}
        known = "Fn::Equals, And, Or, Not, Contains, EachMemberEquals, EachMemberIn"
        raise TemplateError(f"{name} is not supported in a condition: use {known}")

    def _members(self, operand: Any) -> list[str]:
        if only(operand, "Ref") and isinstance(members := self._values[operand["Ref"]], list):
            return [str(member) for member in members]
        return self._list(operand) if isinstance(operand, list) or only(operand, "Fn::Split") else [self.value(operand)]

    def value(self, operand: Any) -> str:
        """Return the value of an operand as a string."""
        if only(operand, "Ref"):
            return str(self._values[operand["Ref"]])
        if only(operand, "Fn::FindInMap"):
            table, first, second = operand["Fn::FindInMap"]
            return str(self._mappings[table][self.value(first)][self.value(second)])
        if only(operand, "Fn::Select"):
            index, choices = operand["Fn::Select"]
            return self._list(choices)[int(index)]
        if only(operand, "Fn::Sub") and isinstance(operand["Fn::Sub"], str):
            return re.sub(r"\$\{([\w:]+)\}", lambda name: str(self._values[name[1]]), operand["Fn::Sub"])
        return str(operand).lower() if isinstance(operand, bool) else str(operand)

    def _list(self, operand: Any) -> list[str]:
        if only(operand, "Fn::Split"):
            separator, text = operand["Fn::Split"]
            return self.value(text).split(separator)
        return [self.value(each) for each in operand]


class Network:
    """A resolver that moves the template's VPC to a block of addresses that exist on this machine."""

    def __init__(self, resources: Mapping[str, Any], values: Mapping[str, Any], block: str, region: str) -> None:
        self._new = ipaddress.IPv4Network(block)
        self._zones = [f"{region}{zone}" for zone in "abc"]
        self._vpcs = {name for name, resource in resources.items() if resource["Type"] == "AWS::EC2::VPC"}
        blocks = (resources[name]["Properties"]["CidrBlock"] for name in self._vpcs)
        named = (values[old["Ref"]] if only(old, "Ref") else old for old in blocks)
        self._old = [ipaddress.IPv4Network(old) for old in named if isinstance(old, str)]

    def resolve(self, value: Any) -> Any:
        """Resolve Fn::GetAZs and Fn::Cidr, and move literal IPv4 blocks of the VPC."""
        if only(value, "Fn::GetAZs"):
            return self._zones
        if only(value, "Fn::Cidr"):
            block, count, host_bits = value["Fn::Cidr"]
            return self._subnets(block, int(count), int(host_bits))
        if only(value, "Fn::Select") and (
            only(value["Fn::Select"][1], "Fn::Cidr") or only(value["Fn::Select"][1], "Fn::GetAZs")
        ):
            index, choices = value["Fn::Select"]
            return self.resolve(choices)[int(index)]
        return self._moved(value) if isinstance(value, str) else value

    def _subnets(self, block: Any, count: int, host_bits: int) -> list[str]:
        within = self._new if isinstance(block, dict) else ipaddress.IPv4Network(self._moved(block))
        subnets = within.subnets(new_prefix=32 - host_bits)
        return [str(subnet) for subnet, _ in zip(subnets, range(count), strict=False)]

    def _moved(self, text: str) -> str:
        if "/" not in text:
            return text
        try:
            part = ipaddress.IPv4Network(text)
        except ValueError:
            return text
        for old in self._old:
            if part.subnet_of(old):
                offset = int(part.network_address) - int(old.network_address)
                return f"{self._new.network_address + offset}/{part.prefixlen}"
        return text
