"""IAM policies, and a search for the statement that grants an action on a resource under given conditions.

Source:
    IAM User Guide, "Policy evaluation logic", "IAM policy elements: Variables and tags" and "IAM JSON policy elements:
        Condition operators". Only the operators below, their negations and Null are supported. Others raise an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
ANY = "*"  # resource of actions without a resource type


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that a call needs: an action, the resource's ARN, and the context for conditions."""

    action: str
    resource: str = ANY
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission that a statement grants."""

    sid: str
    action: str
    resource: str  # a pattern


def grants(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Grant, Mapping[str, Any]]]:
    """Yield each permission that the policies grant, with its conditions.

    Raises:
        ValueError: A statement denies, or has an inverted element such as NotAction. Neither is supported.
    """
    for document in documents:
        for statement in _listed(document["Statement"]):
            if statement["Effect"] != "Allow" or not {"Action", "Resource"} <= statement.keys():
                raise ValueError(f"{statement}: only statements that allow an Action on a Resource are supported")
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    yield Grant(statement.get("Sid", ""), action, resource), statement.get("Condition", {})


def granting(documents: Iterable[Mapping[str, Any]], need: Need) -> Grant | None:
    """Return the grant that covers a need, or None if no statement grants it."""
    for grant, conditions in grants(documents):
        is_covered = _like(need.action.lower(), grant.action.lower()) and _reaches(grant, need)
        if is_covered and all(_holds(operator, keys, need.context) for operator, keys in conditions.items()):
            return grant
    return None


def denying(documents: Iterable[Mapping[str, Any]], need: Need) -> str | None:
    """Return the Sid of the first statement that denies a need, or None. Statements that allow deny nothing."""
    for document in documents:
        for statement in _listed(document["Statement"]):
            if statement["Effect"] == "Deny" and _applies(statement, need):
                return str(statement.get("Sid", "without a Sid"))
    return None


def _applies(statement: Mapping[str, Any], need: Need) -> bool:
    action, resource = need.action.lower(), need.resource
    acts = [_like(action, each.lower()) for each in _listed(statement.get("Action", statement.get("NotAction")))]
    reaches = [_like(resource, each) for each in _listed(statement.get("Resource", statement.get("NotResource")))]
    return (
        any(acts) == ("Action" in statement)
        and any(reaches) == ("Resource" in statement)
        and all(_holds(operator, keys, need.context) for operator, keys in statement.get("Condition", {}).items())
    )


def _reaches(grant: Grant, need: Need) -> bool:
    """Return whether a grant's resource covers a need. Wildcards in policy variables' values match literally."""
    texts = _VARIABLE.split(grant.resource)
    values = [need.context.get(name, ()) for name in texts[1::2]]
    if any(len(each) != 1 for each in values):  # a variable without a single value matches nothing
        return False
    patterns = [_pattern(text) for text in texts[::2]]
    regex = "".join(pattern + re.escape(value) for pattern, (value,) in zip(patterns, values, strict=False))
    return re.fullmatch(regex + patterns[-1], need.resource, re.DOTALL) is not None


def _holds(operator: str, keys: Mapping[str, Any], context: Mapping[str, tuple[str, ...]]) -> bool:
    name, is_for_all = operator.removeprefix("ForAllValues:"), operator.startswith("ForAllValues:")
    name, is_for_any = name.removeprefix("ForAnyValue:"), operator.startswith("ForAnyValue:")
    name, is_optional = name.removesuffix("IfExists"), name.endswith("IfExists")
    by_key = {key.lower(): values for key, values in context.items()}
    if name == "Null":
        return all((not by_key.get(key.lower())) == (str(is_null).lower() == "true") for key, is_null in keys.items())
    positive = name.replace("Not", "", 1)
    if positive not in _OPERATORS:
        raise ValueError(f"{operator}: expected one of {', '.join(_OPERATORS)}, a Not… of it, or Null")
    for key, accepted in keys.items():
        values = by_key.get(key.lower(), ())
        if not values:
            if not (is_for_all or is_optional or (positive != name and not is_for_any)):
                return False
            continue
        matches = [
            any(_OPERATORS[positive](value, each) for each in _listed(accepted)) == (positive == name)
            for value in values
        ]
        if not (any(matches) if is_for_any else all(matches)):
            return False
    return True


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _like(value: str, pattern: str) -> bool:
    return _regex(pattern).fullmatch(value) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(_pattern(pattern), re.DOTALL)


def _pattern(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "ArnEquals": _like,
    "ArnLike": _like,
    "Bool": lambda value, accepted: value == str(accepted).lower(),
    "StringEquals": lambda value, accepted: value == accepted,
    "StringLike": _like,
}
