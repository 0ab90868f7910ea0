"""Helper stacks of a run: small CloudFormation templates beside a stack under test, created and deleted with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import WaiterError

from burstcache.core.errors import BurstcacheError
from burstcache_cli.stack import Stack, absent_stack, failed_resources

_WAIT = {"Delay": 15, "MaxAttempts": 160}  # 40 min, as a function's network interfaces are deleted slowly


class HelperFailedError(BurstcacheError):
    """CloudFormation did not create or delete a helper stack."""


def create_helper(session: Any, name: str, template: Mapping[str, Any], tags: Mapping[str, str]) -> Mapping[str, str]:
    """Create a helper stack unless an interrupted run has, and return its outputs."""
    cloudformation = session.client("cloudformation")
    if absent_stack(Stack(name, session, {})):
        cloudformation.create_stack(
            StackName=name,
            TemplateBody=json.dumps(template),
            Capabilities=["CAPABILITY_IAM"],
            Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
        )
    _wait(cloudformation, name, "create")
    return Stack(name, session, {}).outputs


def delete_helper(session: Any, name: str) -> None:
    """Delete a helper stack. An absent stack counts as deleted."""
    if not absent_stack(Stack(name, session, {})):
        cloudformation = session.client("cloudformation")
        cloudformation.delete_stack(StackName=name)
        _wait(cloudformation, name, "delete")


def _wait(cloudformation: Any, name: str, verb: str) -> None:
    try:
        cloudformation.get_waiter(f"stack_{verb}_complete").wait(StackName=name, WaiterConfig=_WAIT)
    except WaiterError as error:
        failed = list(dict.fromkeys(failed_resources(cloudformation, name, verb.upper())))
        raise HelperFailedError(f"{name}: {'; '.join(failed) or error}") from error
