"""Functions, their code, their environment and their logs belong together."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

Resources = dict[str, dict[str, Any]]

# Read by Lambda's libraries, not by us.
_OF_LIBRARIES = {
    "AWS_USE_DUALSTACK_ENDPOINT",
    "POWERTOOLS_LOG_LEVEL",
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_TRACE_DISABLED",
}
_IN_VPC = {"ProxyFunction", "CacheFunction", "RedisControlFunction"}


def variables(template: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    return {**shared, **properties["Environment"]["Variables"]}


def settings_read(root: Path) -> set[str]:
    """Names of the variables that settings.py asks for."""
    tree = ast.parse((root / "src/burstcache/settings.py").read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {found for found in texts if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", found)}


def test_every_handler_exists(functions: Resources) -> None:
    for name, properties in functions.items():
        module, _, attribute = properties["Handler"].rpartition(".")

        assert callable(getattr(import_module(module), attribute)), name


def test_every_handler_module_is_a_function(functions: Resources, root: Path) -> None:
    modules = {path.stem for path in (root / "src/burstcache/handlers").glob("*.py")} - {"__init__"}

    assert {properties["Handler"].split(".")[-2] for properties in functions.values()} == modules


def test_one_word_names_function_handler_and_service(functions: Resources, template: dict[str, Any]) -> None:
    for name, properties in functions.items():
        word = re.sub(r"(?<!^)(?=[A-Z])", "-", name.removesuffix("Function")).lower()

        assert properties["FunctionName"] == {"Fn::Sub": f"${{AWS::StackName}}-{word}"}
        assert properties["Handler"] == f"burstcache.handlers.{word.replace('-', '_')}.handler"
        assert variables(template, properties)["POWERTOOLS_SERVICE_NAME"] == word


def test_every_function_has_a_log_group_with_retention(functions: Resources, resources: Resources) -> None:
    for name, properties in functions.items():
        group = resources[properties["LoggingConfig"]["LogGroup"]["Ref"]]

        assert group["Type"] == "AWS::Logs::LogGroup"
        assert group["Properties"]["LogGroupName"]["Fn::Sub"] == (
            "/aws/lambda/" + properties["FunctionName"]["Fn::Sub"]
        ), name


def test_every_log_group_forgets(resources: Resources) -> None:
    groups = {name: part for name, part in resources.items() if part["Type"] == "AWS::Logs::LogGroup"}

    assert groups
    for name, group in groups.items():
        assert group["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}, name


def test_settings_know_every_variable_of_the_template(
    functions: Resources, template: dict[str, Any], root: Path
) -> None:
    given = {name for properties in functions.values() for name in variables(template, properties)}

    assert given - _OF_LIBRARIES == settings_read(root)


def test_a_function_in_the_vpc_can_leave_it(functions: Resources, template: dict[str, Any]) -> None:
    in_vpc = {name for name, properties in functions.items() if "VpcConfig" in properties}

    assert in_vpc == _IN_VPC
    for name, properties in functions.items():
        is_dual_stack = "AWS_USE_DUALSTACK_ENDPOINT" in variables(template, properties)
        assert is_dual_stack == properties.get("VpcConfig", {}).get("Ipv6AllowedForDualStack", False), name
        assert is_dual_stack == (name in _IN_VPC), name


def test_every_function_is_built_by_uv(resources: Resources, functions: Resources) -> None:
    for name in functions:
        assert resources[name]["Metadata"]["BuildMethod"] == "python-uv", name


@pytest.mark.parametrize(
    ("name", "timeout_s"),
    [("ProxyFunction", 29), ("CacheFunction", 900), ("RedisControlFunction", 420), ("SchedulerFunction", 30)],
)
def test_time_outs_are_what_the_lifecycle_counts_with(functions: Resources, name: str, timeout_s: int) -> None:
    assert functions[name]["Timeout"] == timeout_s
