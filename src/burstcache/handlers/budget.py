"""The budget function, which pauses the stack until the next month once AWS Budgets reports the budget as spent."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.core.months import month_end_us
from burstcache.handlers._init import at_init
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.budget import BudgetSettings


@at_init
def pauses() -> PauseSwitch:
    """Build the stack's pause switch."""
    settings = BudgetSettings.read(os.environ)
    return PauseSwitch(settings.table_name, Clients("control").dynamodb, SystemClock())


@answers_self_test("budget")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Pause the stack until the end of the month, with the message's subject as the reason.

    Ignore messages that are not about the threshold, such as a test message that an operator sends to the topic.
    """
    message = event["Records"][0]["Sns"]
    reason = message.get("Subject") or "AWS Budgets"
    if "threshold" not in f"{reason} {message['Message']}".lower():
        logger().warning("a message that is not about the budget's threshold", extra={"subject": reason})
        return {}
    begun = pauses().begin_until(month_end_us(pauses().clock.now_us()), reason)
    if begun is None:
        logger().warning("paused already, until a person ends it", extra={"subject": reason})
        return {}
    pause = asdict(begun)
    logger().warning("paused", extra=pause)
    return pause
