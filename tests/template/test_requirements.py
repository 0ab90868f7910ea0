"""Requirements of the functions' packages: everything they import, except packages in Lambda's runtime."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

_OF_THE_RUNTIME = {"boto3", "botocore"}  # compiled there; ours would weigh 17 MB and be compiled at every cold start


@cache
def imported(tree: ast.Module) -> set[str]:
    """Return the top-level names of the libraries that a module imports when it runs."""
    names = set()
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    return names - sys.stdlib_module_names - {"burstcache", "custom_resources"}


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and everything below it, except what only a type checker reads."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _executed(child)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["src", "cloudformation"])
def test_functions_bring_what_they_import_and_nothing_else(
    functions: dict[str, dict[str, Any]], code: Callable[[str], list[ast.Module]], root: Path, folder: str
) -> None:
    brought = set(locked(root, folder))
    ours = [properties for properties in functions.values() if properties.get("CodeUri", "src/") == f"{folder}/"]
    names = {name for properties in ours for tree in code(properties["Handler"]) for name in imported(tree)}

    packages = packages_distributions()
    needed = {normalized(packages[name][0]) for name in names - _OF_THE_RUNTIME}

    assert brought == set().union(*(brought_along(name, for_python="3.14.0") for name in needed))


def locked(root: Path, folder: str) -> dict[str, Requirement]:
    """Return the packages that a requirements file installs, by name."""
    lines = re.findall(
        r"^[\w.-]+(?:\[.*?\])?==[^\\\n]+", (root / folder / "requirements.txt").read_text(), re.MULTILINE
    )
    return {normalized(each.name): each for each in map(Requirement, lines)}


def brought_along(requirement: str, for_python: str) -> set[str]:
    """Names of the libraries that a line of the requirements installs, however deep; markers are obeyed."""
    found: set[str] = set()
    waiting = [Requirement(requirement)]
    while waiting:
        asked = waiting.pop()
        found.add(normalized(asked.name))
        for line in requires(asked.name) or []:
            needed = Requirement(line)
            places = [{"extra": extra, "python_full_version": for_python} for extra in asked.extras or {""}]
            if needed.marker is None or any(map(needed.marker.evaluate, places)):
                waiting += [] if normalized(needed.name) in found else [needed]
    return found


@pytest.mark.parametrize("folder", ["src", "cloudformation"])
def test_no_second_sdk_hides_the_one_of_the_runtime(root: Path, folder: str) -> None:
    assert brought_along("boto3", for_python="3.14.0") >= _OF_THE_RUNTIME
    assert locked(root, folder).keys() & _OF_THE_RUNTIME == set()


def test_the_x_ray_library_comes_as_a_layer_where_traces_are_wanted(template: dict[str, Any]) -> None:
    (layer,) = template["Globals"]["Function"]["Layers"]
    version = template["Globals"]["Function"]["Runtime"].removeprefix("python").replace(".", "")

    condition, wanted, otherwise = layer["Fn::If"]

    assert (condition, otherwise) == ("IsTraced", {"Ref": "AWS::NoValue"})
    assert re.search(rf"PowertoolsPythonV3-python{version}-arm64:\d+$", wanted["Fn::Sub"])
