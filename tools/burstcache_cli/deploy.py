"""The `burstcache deploy` command, which checks a change set of SAM CLI's for losses of state before it executes it."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from burstcache.core.errors import BurstcacheError
from burstcache_cli.account import account_of
from burstcache_cli.change_set import Loss, Stored, losses
from burstcache_cli.samconfig import SamConfig, overrides_text, read_samconfig, settings_of
from burstcache_cli.stack import Stack, absent_stack, failed_resources, kept_values
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import rows_text, wrapped_text

_WAIT = {"Delay": 15, "MaxAttempts": 480}  # two hours


class NotDeployedError(BurstcacheError):
    """A change set was not made, not executed or not completed."""


class StateLossError(NotDeployedError):
    """A change set would lose state, and nobody has allowed that."""


def deploy(args: argparse.Namespace) -> ExitCode:
    """Deploy by a change set that SAM CLI makes: check it, ask, and execute it. No change counts as success.

    Raises:
        StateLossError: The change set would lose state, and `--lose-state` was not given.
        NotDeployedError: SAM CLI failed, the answer was no, or the execution failed.
    """
    chosen = read_samconfig(args)
    account = account_of(region=chosen.region, profile=chosen.profile)
    before = Stack(chosen.stack_name, account.session, {})
    cloudformation = before.client("cloudformation")
    stored = _stored(before)
    earlier = _change_sets(cloudformation, before.name)
    if subprocess.run([*_sam_command(args), *_kept_kind(chosen, before)], check=False).returncode:
        raise NotDeployedError("nothing was changed: `sam deploy` made no change set")
    made = _change_sets(cloudformation, before.name) - earlier
    if not made:
        print(f"{before.name} is up to date.")
        return ExitCode.SUCCESS
    (change_set,) = made
    if found := _losses(cloudformation, change_set, stored):
        _tell(cloudformation, change_set, found, is_allowed=args.lose_state)
    settings = settings_of(chosen.text, chosen.environment)
    if settings.get("confirm_changeset", False):
        _confirm()
    stack = Stack(before.name, account.session, {})
    _execute(stack, change_set, settings)
    print(f"\nDeployed {stack.name}.\n\n{rows_text(list(Stack(stack.name, account.session, {}).outputs.items()))}")
    return ExitCode.SUCCESS


def _sam_command(args: argparse.Namespace) -> list[str]:
    chosen = {"--stack-name": args.stack_name, "--region": args.region, "--profile": args.profile}
    options = [word for option, value in chosen.items() if value for word in (option, value)]
    file = ["--config-file", str(args.file.resolve()), "--config-env", args.config_env]
    return ["sam", "deploy", "--no-execute-changeset", *file, *options]


def _kept_kind(chosen: SamConfig, stack: Stack) -> list[str]:
    """Return the options of SAM CLI that keep the nodes of a stack from before `RedisOn` on their instances.

    SAM CLI keeps the other parameters of a deployed stack itself.
    """
    if "RedisOn" in chosen.overrides or "RedisOn" not in kept_values(stack) or "RedisOn" in stack.parameters:
        return []
    text = f'Redis nodes of {stack.name} stay on EC2. RedisOn="fargate-spot" in parameter_overrides moves them.'
    print(wrapped_text(text), flush=True)
    return ["--parameter-overrides", overrides_text({**chosen.overrides, "RedisOn": "ec2"})]


def _stored(stack: Stack) -> Stored:
    """Return the stack's databases of state. A stack that does not exist has none."""
    if absent_stack(stack):
        return Stored("none", (), frozenset())
    return Stored(
        persistence=stack.parameters.get("StatePersistence", "none"),
        databases=_names(stack.parameters),
        volumes={each.logical_id for each in stack.resources if each.type == "AWS::EC2::Volume"},
    )


def _names(parameters: Mapping[str, str]) -> list[str]:
    return [name for name in parameters.get("StateDatabases", "").split(",") if name]


def _change_sets(cloudformation: Any, name: str) -> set[str]:
    """Return the ARNs of the stack's change sets that can be executed. A stack that does not exist has none."""
    try:
        pages = cloudformation.get_paginator("list_change_sets").paginate(StackName=name)
        summaries = [each for page in pages for each in page["Summaries"]]
    except ClientError as error:
        if error.response["Error"]["Code"] in ("ValidationError", "ChangeSetNotFound"):
            return set()
        raise
    return {each["ChangeSetId"] for each in summaries if each["Status"] == "CREATE_COMPLETE"}


def _losses(cloudformation: Any, change_set: str, stored: Stored) -> list[Loss]:
    pages = list(cloudformation.get_paginator("describe_change_set").paginate(ChangeSetName=change_set))
    changes = [each["ResourceChange"] for page in pages for each in page["Changes"] if "ResourceChange" in each]
    parameters = {each["ParameterKey"]: each["ParameterValue"] for each in pages[0].get("Parameters", ())}
    return losses(changes, stored, _names(parameters))


def _tell(cloudformation: Any, change_set: str, found: list[Loss], *, is_allowed: bool) -> None:
    """Print what the change set would lose. Unless that is allowed, delete the change set and raise StateLossError."""
    print("\nThis change set loses state:\n")
    for loss in found:
        print(wrapped_text(f"- {loss.text}", indent="  "))
    if is_allowed:
        return
    cloudformation.delete_change_set(ChangeSetName=change_set)
    names = ", ".join(loss.resource for loss in found)
    raise StateLossError(
        f"nothing was changed: state of {names} would be lost; to go on without it, `make deploy LOSE_STATE=1` or"
        " `make upgrade LOSE_STATE=1` (`burstcache deploy --lose-state`)"
    )


def _confirm() -> None:
    try:
        answer = input("\nExecute this change set? [y/N]: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise NotDeployedError("nothing was changed: the answer was not `y`")


def _execute(stack: Stack, change_set: str, settings: Mapping[str, Any]) -> None:
    """Execute a change set, and wait for its end."""
    cloudformation, is_new = stack.client("cloudformation"), stack.version[-1] == "REVIEW_IN_PROGRESS"
    rollback = {"DisableRollback": True} if settings.get("disable_rollback", False) else {}
    cloudformation.execute_change_set(ChangeSetName=change_set, **rollback)
    print(f"Deploying {stack.name}: this takes up to half an hour ...", flush=True)
    waiter = cloudformation.get_waiter("stack_create_complete" if is_new else "stack_update_complete")
    try:
        waiter.wait(StackName=stack.name, WaiterConfig=_WAIT)
    except WaiterError as error:
        failed = failed_resources(cloudformation, stack.name, "CREATE" if is_new else "UPDATE")
        reasons = "; ".join(dict.fromkeys(failed)) or str(error)
        raise NotDeployedError(f"{stack.name} is not deployed: {reasons}") from error
