"""The self-test function, which tests the stack at the end of a deployment, as a custom resource, and on demand."""

from __future__ import annotations

import os
import uuid
from typing import Any

from burstcache.adapters.calls import call_aws
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.stack_answer import fail, succeed
from burstcache.control.stack_test import StackTest, reason
from burstcache.core.messages.self_test import StackTestResult, is_self_test, problems
from burstcache.handlers._init import at_init
from burstcache.logs import logger
from burstcache.settings.self_test import SelfTestSettings

_LAST_TEST_S = 80  # for the longest test: two functions in sequence, and the response


@at_init
def stack_test() -> StackTest:
    """Build the stack's test."""
    client = Clients("patient").functions
    return StackTest(
        functions=SelfTestSettings.read(os.environ).functions,
        invoke=lambda name, payload: invoke_by_name(client, name)(payload),
        clock=SystemClock(),
        new_run=lambda: uuid.uuid4().hex,
    )


def handler(event: dict[str, Any], context: Any) -> StackTestResult | None:
    """Test the stack once for `burstcache doctor` or a schedule, or repeatedly until it passes for CloudFormation."""
    if is_self_test(event):
        tested = stack_test().test()
        if failures := problems(tested):
            logger().warning("self-test", extra={"problems": failures})  # for scheduled runs
        return tested
    physical_id = str(event.get("PhysicalResourceId") or event["LogicalResourceId"])
    try:
        failures = [] if event["RequestType"] == "Delete" or _is_rolling_back(event["StackId"]) else _problems(context)
    except Exception as error:
        logger().exception("the self-test itself failed")
        failures = [f"{type(error).__name__}: {error}"]
    if failures:
        fail(event, physical_id, reason(failures))
    else:
        succeed(event, physical_id)
    return None


def _problems(context: Any) -> list[str]:
    """Test until all checks pass or this function's time is up. Return the remaining problems."""
    remaining_s = context.get_remaining_time_in_millis() / 1000
    tested = stack_test().until_it_passes(within_s=remaining_s - _LAST_TEST_S)
    failures = problems(tested)
    logger().info("self-test", extra={"tried": tested["tried"], "problems": failures})
    return failures


def _is_rolling_back(stack_id: str) -> bool:
    """Return whether an update is being rolled back. A failure would then leave the stack between two versions."""
    stacks = call_aws(Clients("patient").make("cloudformation").describe_stacks, StackName=stack_id)["Stacks"]
    return "ROLLBACK" in stacks[0]["StackStatus"]
