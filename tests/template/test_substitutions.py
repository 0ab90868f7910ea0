"""Template and state machines agree on what is substituted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_MACHINES = ("KeyLifecycle", "Pool", "RedisNode")


@pytest.mark.parametrize("machine", _MACHINES)
def test_every_substitution_is_used_and_every_placeholder_is_filled(
    resources: dict[str, Any], root: Path, machine: str
) -> None:
    properties = resources[machine]["Properties"]

    placeholders = set(_PLACEHOLDER.findall((root / properties["DefinitionUri"]).read_text()))

    assert placeholders == set(properties["DefinitionSubstitutions"])


@pytest.mark.parametrize("machine", _MACHINES)
def test_a_definition_is_json_before_substitution(resources: dict[str, Any], root: Path, machine: str) -> None:
    definition = json.loads((root / resources[machine]["Properties"]["DefinitionUri"]).read_text())

    assert definition["StartAt"] in definition["States"]


@pytest.mark.parametrize(
    ("machine", "function", "variable"),
    [("RedisNode", "RedisControlFunction", "REDIS_NODE_ARN"), ("Pool", "PoolControlFunction", "POOL_ARN")],
)
def test_control_knows_the_machine_that_calls_it_by_the_name_it_has(
    resources: dict[str, Any], functions: dict[str, Any], machine: str, function: str, variable: str
) -> None:
    separator, (word, stack) = resources[machine]["Properties"]["Name"]["Fn::Join"]

    arn, given = functions[function]["Environment"]["Variables"][variable]["Fn::Sub"]

    assert arn.endswith(f":stateMachine:{word}{separator}${{Stack}}")
    assert given == {"Stack": stack}


def test_every_file_of_a_state_machine_is_deployed(resources: dict[str, Any], root: Path) -> None:
    used = {resources[machine]["Properties"]["DefinitionUri"] for machine in _MACHINES}

    assert used == {f"statemachines/{path.name}" for path in (root / "statemachines").glob("*.asl.json")}
