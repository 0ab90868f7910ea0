"""The template as its tests look at it: as text, as SAM reads it, and as CloudFormation gets it."""

from __future__ import annotations

import ast
import copy
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from support.project import ROOT

Resources = dict[str, dict[str, Any]]


class NoManagedPolicies:
    """Stands in for the loader that asks IAM for AWS's managed policies."""

    max_pages = None

    def load(self) -> dict[str, str]:
        return {}


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def text() -> str:
    return (ROOT / "template.yaml").read_text()


@pytest.fixture(scope="session")
def template(text: str) -> dict[str, Any]:
    return yaml_parse(text)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def resources(template: dict[str, Any]) -> Resources:
    return template["Resources"]  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def functions(resources: Resources) -> Resources:
    """Logical id → properties of every Lambda function."""
    return {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == "AWS::Serverless::Function"
    }


@pytest.fixture(scope="session")
def translate(template: dict[str, Any]) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """Return SAM's translation of the template, with values in place of defaults. It is shared, so read-only."""
    from samtranslator.translator.transform import transform  # a second, which few processes need

    logging.getLogger("samtranslator").setLevel(logging.ERROR)

    defaults = {name: parameter["Default"] for name, parameter in template["Parameters"].items()}

    @functools.cache
    def translated(values: frozenset[tuple[str, str]]) -> dict[str, Any]:
        source = copy.deepcopy(template)
        source["Globals"]["Function"]["CodeUri"] = {"Bucket": "code", "Key": "functions"}
        for resource in source["Resources"].values():
            if "CodeUri" in resource.get("Properties", {}):
                resource["Properties"]["CodeUri"] = {"Bucket": "code", "Key": "cloudformation"}
            if "DefinitionUri" in resource.get("Properties", {}):
                resource["Properties"]["DefinitionUri"] = {"Bucket": "code", "Key": "machine"}
        region = pytest.MonkeyPatch()
        region.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        try:
            return transform(source, dict(values), NoManagedPolicies())  # type: ignore[no-any-return]
        finally:
            region.undo()

    return lambda values: translated(frozenset({**defaults, **values}.items()))


@pytest.fixture(scope="session")
def cloudformation(translate: Callable[[Mapping[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """The template after the transform, with its defaults."""
    return translate({})


@pytest.fixture(scope="session")
def walk() -> Callable[[Any], Iterator[Any]]:
    """Every part of a JSON value, itself first."""

    def parts(value: Any) -> Iterator[Any]:
        left = [value]
        while left:
            yield (part := left.pop())
            if isinstance(part, dict):
                left += reversed(part.values())
            elif isinstance(part, list):
                left += reversed(part)

    return parts


@pytest.fixture(scope="session")
def code() -> Callable[[str], list[ast.Module]]:
    """The modules of ours that a handler imports, however deep, parsed; those of self-tests apart."""

    def modules(handler: str) -> list[ast.Module]:
        found = {"burstcache.handlers._self_test": ast.Module([], [])}
        waiting = {handler.rpartition(".")[0]}
        while waiting:
            name = waiting.pop()
            paths = [ROOT / folder / f"{name.replace('.', '/')}.py" for folder in ("src", "cloudformation")]
            path = next(filter(Path.is_file, paths), None)
            if name in found or path is None:
                continue
            found[name], imported = _parsed(path)
            waiting |= imported
        return list(found.values())

    return modules


@functools.cache
def _parsed(path: Path) -> tuple[ast.Module, set[str]]:
    """Return a module, and the names of ours that it imports: of modules, or of what is in them."""
    module, names = ast.parse(path.read_text()), set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("burstcache", "custom_resources")):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return module, names
