"""Self-test function: at the end of a deployment, as a custom resource, and whenever `burstcache doctor` asks."""

from __future__ import annotations

import os
import uuid
from typing import Any

from burstcache.adapters.calls import ask
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.stack_answer import fail, succeed
from burstcache.control.stack_test import StackTest, reason
from burstcache.core.messages.self_test import StackTested, is_self_test, problems
from burstcache.handlers._init import at_init
from burstcache.logs import logger
from burstcache.settings.self_test import SelfTestSettings

_LAST_TEST_S = 80  # what the longest test takes: two functions after each other, and the answer


@at_init
def stack_test() -> StackTest:
    """Make what asks the functions."""
    client = Clients("patient").functions
    return StackTest(
        functions=SelfTestSettings.read(os.environ).functions,
        invoke=lambda name, payload: invoke_by_name(client, name)(payload),
        clock=SystemClock(),
        new_run=lambda: uuid.uuid4().hex,
    )


def handler(event: dict[str, Any], context: Any) -> StackTested | None:
    """Test the stack: once for a caller or a schedule, with all results; for CloudFormation until it works."""
    if is_self_test(event):
        tested = stack_test().test()
        if found := problems(tested):
            logger().warning("self-test", extra={"problems": found})  # a schedule asks, too
        return tested
    physical_id = str(event.get("PhysicalResourceId") or event["LogicalResourceId"])
    try:
        found = [] if event["RequestType"] == "Delete" or _is_rolling_back(event["StackId"]) else _found(context)
    except Exception as error:
        logger().exception("the self-test itself failed")
        found = [f"{type(error).__name__}: {error}"]
    if found:
        fail(event, physical_id, reason(found))
    else:
        succeed(event, physical_id)
    return None


def _found(context: Any) -> list[str]:
    """Return what does not work within the time of this function."""
    remaining_s = context.get_remaining_time_in_millis() / 1000
    tested = stack_test().until_it_passes(within_s=remaining_s - _LAST_TEST_S)
    found = problems(tested)
    logger().info("self-test", extra={"tried": tested["tried"], "problems": found})
    return found


def _is_rolling_back(stack_id: str) -> bool:
    """Whether an update is being undone: a failure would then leave the stack between both."""
    stacks = ask(Clients("patient").make("cloudformation").describe_stacks, StackName=stack_id)["Stacks"]
    return "ROLLBACK" in stacks[0]["StackStatus"]
