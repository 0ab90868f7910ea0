"""What a stack's outputs and a local run's file tell a program in the caller's process."""

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
# What deploys a stack with an output that not all have.
_PARAMETERS = {
    "PoolSettings": "it has no pool; accepted: a stack with the parameter PoolMembers above 0",
    "StateSettings": "it has no databases; accepted: a stack whose parameter StateDatabases names them",
}


def stack_output(stack_name: str, output: str, session: Any, endpoint_urls: Mapping[str, str]) -> str:
    """Return an output of a stack, or raise InvalidSettingError."""
    return outputs_with(output, stack_name, session, endpoint_urls)[output]


def outputs_with(output: str, stack_name: str, session: Any, endpoint_urls: Mapping[str, str]) -> dict[str, str]:
    """Return all outputs of a stack by name, `output` among them, or raise InvalidSettingError."""
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
    if output in _PARAMETERS and output not in outputs and _OF_EVERY_STACK in outputs:
        raise InvalidSettingError(f"stack {stack_name!r} has no output {output}: {_PARAMETERS[output]}")
    if output not in outputs:
        raise InvalidSettingError(
            f"stack {stack_name!r} has no output {output}: is it one of Burstcache, and new enough?"
        )
    return outputs


def local_run(folder: Path) -> dict[str, Any]:
    """Return what `burstcache local up` has written of the run in a directory, described in its `folder`.

    Raises:
        InvalidSettingError: Nothing runs there.
    """
    try:
        run: dict[str, Any] = json.loads((folder / _LOCAL_FILE).read_text())
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"no local run in {folder}: start one with `burstcache local up`") from error
    return run


def variables_in(text: str, source: str, output: str) -> dict[str, str]:
    """Return the JSON object of texts that an output has, or raise InvalidSettingError that names the source."""
    try:
        variables = json.loads(text)
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise InvalidSettingError(f"{source}: {text[:60]!r} is not a JSON object of texts as the output {output} is")
    return variables
