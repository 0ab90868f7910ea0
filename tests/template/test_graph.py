"""References between resources: a cycle passes the linters, and fails in CloudFormation when it is too late."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest

_SUBSTITUTED = re.compile(r"\$\{([A-Za-z0-9:]+)(?:\.[A-Za-z0-9.]+)?\}")


def references(value: Any, *, local: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names that a part of the template refers to."""
    if isinstance(value, list):
        for child in value:
            yield from references(child, local=local)
    elif isinstance(value, dict):
        for name, child in value.items():
            match name, child:
                case "Ref", str():
                    yield child
                case "Fn::GetAtt", str():
                    yield child.partition(".")[0]
                case "Fn::GetAtt", list():
                    yield child[0]
                case "Fn::Sub", str():
                    yield from (found for found in _SUBSTITUTED.findall(child) if found not in local)
                case "Fn::Sub", [sentence, values]:
                    yield from references({"Fn::Sub": sentence}, local=frozenset(values))
                    yield from references(values)
                case "DependsOn", str():
                    yield child
                case "DependsOn", [str(), *_]:  # a container depends on others by objects
                    yield from child
                case _:
                    yield from references(child, local=local)


def graph(resources: Mapping[str, Any]) -> dict[str, set[str]]:
    return {name: {found for found in references(part) if found in resources} for name, part in resources.items()}


def test_no_resource_refers_to_itself_through_others(cloudformation: dict[str, Any]) -> None:
    order = list(TopologicalSorter(graph(cloudformation["Resources"])).static_order())

    assert set(order) == set(cloudformation["Resources"])


def test_a_cycle_through_a_state_machines_substitutions_is_found(cloudformation: dict[str, Any]) -> None:
    resources = copy.deepcopy(cloudformation["Resources"])
    variables = resources["RedisControlFunction"]["Properties"]["Environment"]["Variables"]
    variables["REDIS_NODE_ARN"] = {"Fn::Sub": "${RedisNode.Arn}"}  # what a person would write

    with pytest.raises(CycleError):
        list(TopologicalSorter(graph(resources)).static_order())


def test_every_reference_exists(cloudformation: dict[str, Any]) -> None:
    known = {*cloudformation["Resources"], *cloudformation["Parameters"]}

    unknown = {
        name
        for section in ("Resources", "Outputs", "Conditions", "Rules")
        for name in references(cloudformation[section])
        if name not in known and not name.startswith("AWS::")
    }

    assert not unknown
