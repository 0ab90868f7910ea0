"""IAM policies, and a search for the statement that grants an action on a resource under given conditions.

Source:
    IAM User Guide, "Policy evaluation logic", "IAM policy elements: Variables and tags" and "IAM JSON policy elements:
        Condition operators". Only the operators below are supported. All others raise an error.
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
    name, is_optional = name.removesuffix("IfExists"), name.endswith("IfExists")
    if name not in _OPERATORS:
        raise ValueError(f"{operator}: expected one of {', '.join(_OPERATORS)}, ForAllValues: or …IfExists of it")
    by_key = {key.lower(): values for key, values in context.items()}
    for key, accepted in keys.items():
        values = by_key.get(key.lower(), ())
        if not values and not (is_for_all or is_optional):
            return False
        if not all(any(_OPERATORS[name](value, each) for each in _listed(accepted)) for value in values):
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
