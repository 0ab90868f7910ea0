"""Janitor function: runs on a schedule, switches off what has lost its owner."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from burstcache.adapters.clock import now_us
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.janitor import Janitor, invoke_by_name
from burstcache.logs import logger
from burstcache.settings import settings


@cache
def _janitor() -> Janitor:
    known = settings()
    # Stopping an instance takes a minute or more; one that takes longer than this run goes on without us.
    patient = boto3.client("lambda", config=Config(read_timeout=280, retries={"total_max_attempts": 1}))
    return Janitor(
        keys=KeyTable(known.table_name),
        nodes=NodeTable(known.table_name),
        executions=Executions(),
        instances=Instances(known),
        key_lifecycle_arn=known.key_lifecycle_arn,
        redis_node_arn=known.redis_node_arn,
        node_names=[node.name for node in known.redis_nodes],
        redis_control=invoke_by_name(patient, known.redis_control_function_name),
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, list[str]]:
    """Clean up; the event has nothing to say."""
    cleaned = _janitor().clean(now_us())
    if any(cleaned.values()):
        logger().warning("cleaned up what had lost its owner", extra=cleaned)
    return cleaned
