"""Functions that are invoked on a schedule."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from burstcache_local.functions import ACCOUNT
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.template.template import Schedule


async def run_schedules(
    schedules: Sequence[Schedule], outputs: Mapping[str, str], lambdas: Lambdas, region: str
) -> None:
    """Invoke what is due, without end, for the first time after one period."""
    await asyncio.gather(
        *(_run(schedule, json.loads(outputs[schedule.output]), lambdas, region) for schedule in schedules)
    )


async def _run(schedule: Schedule, target: Mapping[str, Any], lambdas: Lambdas, region: str) -> None:
    while True:
        await asyncio.sleep(schedule.period_s)
        payload = target.get("Input") or json.dumps(_event(schedule.name, region))
        await lambdas.invoke_event(target["Arn"], payload.encode(), request_id=str(uuid.uuid4()))


def _event(rule: str, region: str) -> dict[str, object]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": [f"arn:aws:events:{region}:{ACCOUNT}:rule/{rule}"],
        "detail": {},
    }
