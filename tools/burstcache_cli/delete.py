"""The `burstcache delete` command, which deletes a deployed stack and stops executions that block CloudFormation."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from burstcache.core.errors import BurstcacheError, InvalidSettingError, ServiceError
from burstcache_cli.account import account_of
from burstcache_cli.operate import begin_pause
from burstcache_cli.samconfig import read_samconfig
from burstcache_cli.stack import Stack, absent_stack, failed_resources
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, wrapped_text

MACHINES = ("KeyLifecycleArn", "RedisNodeArn", "PoolArn")
_KEPT = ("OriginBucket", "StateBucket")  # retained, because the objects belong to the user
_WAIT = {"Delay": 15, "MaxAttempts": 160}  # 40 min, because deleting the functions' network interfaces is slow


class NotDeletedError(BurstcacheError):
    """A stack was not deleted completely."""


def delete(args: argparse.Namespace) -> ExitCode:
    """Delete the selected stack after the user has typed its name. A missing stack counts as success.

    Raises:
        InvalidSettingError: The stack is not a Burstcache stack.
        NotDeletedError: The name was not typed, the stack is protected, or CloudFormation failed.
    """
    named = read_samconfig(args)
    account = account_of(region=named.region, profile=named.profile)
    stack = Stack(named.stack_name, account.session, {})
    if absent_stack(stack):
        print(f"There is no stack {stack.name} in {account.region}, account {account.number}: nothing to delete.")
        return ExitCode.SUCCESS
    if not stack.is_burstcache and stack.version[-1] != "REVIEW_IN_PROGRESS":  # change set not yet executed
        raise InvalidSettingError(f"--stack-name {stack.name}: not a Burstcache stack; nothing was deleted")
    if stack.is_protected:
        raise NotDeletedError(
            f"nothing was deleted: {stack.name} has termination protection; turn it off with `aws cloudformation"
            f" update-termination-protection --no-enable-termination-protection --stack-name {stack.name}`"
        )
    buckets = _kept_buckets(stack)
    print(f"Stack {stack.name} in {account.region}, account {account.number} ({account.arn}).")
    print(
        wrapped_text(
            "Will be deleted: functions, table, nodes with the state on their volumes, network, logs, passwords."
        )
    )
    for volume in (each.physical_id for each in stack.resources if each.type == "AWS::EC2::Volume"):
        print(wrapped_text(f"Will be deleted, after a snapshot that stays: volume {volume}."))
    for bucket in buckets:
        print(
            wrapped_text(
                f"{'Will be deleted, with every object version' if args.with_buckets else 'Stays'}: bucket {bucket}."
            )
        )
    _confirm(stack.name)
    _remove(stack, buckets if args.with_buckets else [])
    print(f"Deleted {stack.name}.")
    return ExitCode.SUCCESS


def remove_stack(stack: Stack, *, with_buckets: bool) -> None:
    """Delete a stack without asking, optionally with its buckets. Raises NotDeletedError if CloudFormation fails."""
    _remove(stack, _kept_buckets(stack) if with_buckets else [])


def _remove(stack: Stack, buckets: list[str]) -> None:
    stop_stack(stack)
    _delete_stack(stack)
    for bucket in buckets:
        print(f"Deleting bucket {bucket} ...", flush=True)
        _delete_bucket(stack.client("s3"), bucket)


def _confirm(name: str) -> None:
    try:
        typed = input("Type the stack's name to delete it: ")
    except EOFError:
        typed = ""
    if typed.strip() != name:
        raise NotDeletedError(f"nothing was deleted: {name!r} was not typed")


def _kept_buckets(stack: Stack) -> list[str]:
    return [each.physical_id for each in stack.resources if each.logical_id in _KEPT and each.type == "AWS::S3::Bucket"]


def stop_stack(stack: Stack) -> None:
    """Pause the stack and stop all executions.

    CloudFormation deletes a state machine only after its executions have ended, which may take 30 days.
    """
    if "TableName" in stack.outputs:
        try:
            begin_pause(stack, "the stack is being deleted")
        except ServiceError as error:
            if error.code != "ResourceNotFoundException":  # an earlier attempt deleted the table
                raise
    ended = sum(
        _stop_executions(stack.client("stepfunctions"), stack.outputs[name])
        for name in MACHINES
        if name in stack.outputs
    )
    print(f"Paused; stopped {count_text(ended, 'execution')}.", flush=True)


def _stop_executions(states: Any, machine_arn: str) -> int:
    running = list(_running(states, machine_arn))
    for arn in running:
        states.stop_execution(executionArn=arn, cause="the stack is being deleted")
    return len(running)


def _running(states: Any, machine_arn: str) -> Iterator[str]:
    pages = states.get_paginator("list_executions").paginate(stateMachineArn=machine_arn, statusFilter="RUNNING")
    try:
        for page in pages:
            yield from (each["executionArn"] for each in page["executions"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "StateMachineDoesNotExist":  # an earlier attempt deleted the machine
            raise


def _delete_stack(stack: Stack) -> None:
    cloudformation = stack.client("cloudformation")
    cloudformation.delete_stack(StackName=stack.name)
    print(f"Deleting {stack.name}: this takes up to half an hour ...", flush=True)
    try:
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack.name, WaiterConfig=_WAIT)
    except WaiterError as error:
        failures = "; ".join(dict.fromkeys(failed_resources(cloudformation, stack.name, "DELETE"))) or str(error)
        raise NotDeletedError(f"{stack.name} is not deleted: {failures}. Fix that and delete again") from error


def _delete_bucket(s3: Any, bucket: str) -> None:
    """Delete a bucket with all object versions."""
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if versions:
                objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in versions]
                refused = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True}).get("Errors")
                if refused:
                    raise NotDeletedError(f"bucket {bucket}: {refused[0]['Key']}: {refused[0].get('Message', '')}")
        s3.delete_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucket":
            raise
