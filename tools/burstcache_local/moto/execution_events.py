"""Execution events of the local Step Functions, which is independent of moto, on moto's default event bus."""

from __future__ import annotations

import json

from burstcache_local.functions import ACCOUNT


def publish_end(region: str, execution_arn: str, machine_arn: str, status: str) -> None:
    """Publish the end of an execution on the default event bus.

    Source:
        AWS Step Functions Developer Guide, "Automating Step Functions event delivery with EventBridge".
    """
    from moto.events.models import events_backends

    detail = {
        "executionArn": execution_arn,
        "stateMachineArn": machine_arn,
        "name": execution_arn.rpartition(":")[2],
        "status": status,
    }
    event = {
        "Source": "aws.states",
        "DetailType": "Step Functions Execution Status Change",
        "Resources": [execution_arn],
        "Detail": json.dumps(detail),
    }
    events_backends[ACCOUNT][region].put_events([event])
