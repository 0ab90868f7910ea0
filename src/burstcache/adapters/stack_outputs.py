"""Stack outputs or a local run's file, as configuration for a program in the caller's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.adapters.clients import Clients
from burstcache.core.errors import InvalidSettingError, in_one_line

_LOCAL_FILE = "local.json"
_OF_EVERY_STACK = "ReaderSettings"
# Remedies for missing outputs that not every stack has.
OPTIONAL_OUTPUTS = {
    "PoolSettings": "it has no pool; accepted: a stack with the parameter PoolMembers above 0",
    "StateSettings": "it has no databases; accepted: a stack whose parameter StateDatabases names them",
}


def stack_output(stack_name: str, output: str, session: Any, endpoint_urls: Mapping[str, str]) -> str:
    """Return a stack's output, or raise InvalidSettingError."""
    return outputs_with(output, stack_name, session, endpoint_urls)[output]


def outputs_with(output: str, stack_name: str, session: Any, endpoint_urls: Mapping[str, str]) -> dict[str, str]:
    """Return all of a stack's outputs, by name. Raise InvalidSettingError if `output` is missing."""
    clients = Clients("control", session=session, endpoint_urls=endpoint_urls)
    try:
        (stack,) = clients.make("cloudformation").describe_stacks(StackName=stack_name)["Stacks"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ValidationError":
            region = clients.make("cloudformation").meta.region_name
            raise InvalidSettingError(f"stack_name={stack_name!r}: there is no such stack in {region}") from error
        raise InvalidSettingError(
            f"stack_name={stack_name!r}: its outputs cannot be read: {in_one_line(error)}"
        ) from error
    except BotoCoreError as error:
        raise InvalidSettingError(
            f"stack_name={stack_name!r}: its outputs cannot be read: {in_one_line(error)}"
        ) from error
    outputs: dict[str, str] = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
    if output in OPTIONAL_OUTPUTS and output not in outputs and _OF_EVERY_STACK in outputs:
        raise InvalidSettingError(f"stack {stack_name!r} has no output {output}: {OPTIONAL_OUTPUTS[output]}")
    if output not in outputs:
        raise InvalidSettingError(
            f"stack {stack_name!r} has no output {output}: is it one of Burstcache, and new enough?"
        )
    return outputs


def local_run(folder: Path) -> dict[str, Any]:
    """Return the description of a local run, written to `folder` by `burstcache local up`.

    Raises:
        InvalidSettingError: There is no local run in `folder`.
    """
    try:
        run: dict[str, Any] = json.loads((folder / _LOCAL_FILE).read_text())
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"no local run in {folder}: start one with `burstcache local up`") from error
    return run


def variables_in(text: str, source: str, output: str) -> dict[str, str]:
    """Parse an output's value, a JSON object of strings. Raise an InvalidSettingError that names the source."""
    try:
        variables = json.loads(text)
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise InvalidSettingError(f"{source}: {text[:60]!r} is not a JSON object of strings like the output {output}")
    return variables
