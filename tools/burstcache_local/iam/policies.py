"""Policies: which statement grants a right, by its action, its resource and its conditions.

Source:
    IAM User Guide, "Policy evaluation logic", "IAM policy elements: Variables and tags" and "IAM JSON policy elements:
    Condition operators", of which those below are known; another one is an error and never a grant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
ANY = "*"  # the resource of an action that has no type of resource


@dataclass(frozen=True, slots=True)
class Need:
    """One right that a call takes: an action, the ARN it is used on, and what conditions may ask about the call."""

    action: str
    resource: str = ANY
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """One right that a statement gives."""

    sid: str
    action: str
    resource: str  # a pattern


def grants(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Grant, Mapping[str, Any]]]:
    """Yield each right that policies give, and the conditions under which they do.

    Raises:
        ValueError: A statement denies, or names what it does not grant; the local cloud knows neither.
    """
    for document in documents:
        for statement in _listed(document["Statement"]):
            if statement["Effect"] != "Allow" or not {"Action", "Resource"} <= statement.keys():
                raise ValueError(f"{statement}: only statements that allow an Action on a Resource are understood")
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    yield Grant(statement.get("Sid", ""), action, resource), statement.get("Condition", {})


def granting(documents: Iterable[Mapping[str, Any]], need: Need) -> Grant | None:
    """Return the right that meets a need, or None if no statement gives it."""
    for grant, conditions in grants(documents):
        is_of_call = _like(need.action.lower(), grant.action.lower()) and _reaches(grant, need)
        if is_of_call and all(_holds(operator, keys, need.context) for operator, keys in conditions.items()):
            return grant
    return None


def _reaches(grant: Grant, need: Need) -> bool:
    """Whether a right's resource is that of a need; a variable in it stands for its text, wildcards and all."""
    texts = _VARIABLE.split(grant.resource)
    values = [need.context.get(name, ()) for name in texts[1::2]]
    if any(len(each) != 1 for each in values):  # a variable without a value matches nothing
        return False
    patterns = [_pattern(text) for text in texts[::2]]
    filled = "".join(pattern + re.escape(value) for pattern, (value,) in zip(patterns, values, strict=False))
    return re.fullmatch(filled + patterns[-1], need.resource, re.DOTALL) is not None


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
