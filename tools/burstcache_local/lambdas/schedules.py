"""Schedules that invoke functions periodically."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from burstcache_local.functions import ACCOUNT
from burstcache_local.template.template import Schedule

Deliver = Callable[[Mapping[str, Any], bytes, str], Awaitable[None]]  # arguments: target, payload, rule ARN


async def run_schedules(
    schedules: Sequence[Schedule], outputs: Mapping[str, str], deliver: Deliver, region: str
) -> None:
    """Invoke scheduled targets forever, starting after one period."""
    await asyncio.gather(
        *(_run(schedule.period_s, json.loads(outputs[schedule.output]), deliver, region) for schedule in schedules)
    )


async def _run(period_s: float, described: Mapping[str, Any], deliver: Deliver, region: str) -> None:
    rule, target = described["Rule"], described["Target"]
    while True:
        await asyncio.sleep(period_s)
        payload = target.get("Input") or json.dumps(_event(rule, region))
        await deliver(target, payload.encode(), rule)


def _event(rule: str, region: str) -> dict[str, object]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": [rule],
        "detail": {},
    }
