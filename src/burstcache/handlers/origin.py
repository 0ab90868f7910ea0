"""The origin function, which invalidates copies after a write that a writer or S3 reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from burstcache.access import names_of
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.origin_changes import OriginChanges
from burstcache.core.backlog import Batch
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Refreshed
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.origin import OriginSettings

_US_PER_MS = 1_000


@at_init
def changes() -> OriginChanges:
    """Build the component that invalidates copies."""
    logger()  # set up in INIT, since each write logs a line
    settings, clock, clients = OriginSettings.read(os.environ), SystemClock(), Clients("control")
    return OriginChanges(
        keys=KeyTable(settings.table_name, clients.dynamodb, clock),
        nodes=NodeTable(settings.table_name, clients.dynamodb, clock),
        node_names=names_of(settings.redis_nodes),
        digest=DigestTable(settings.table_name, clients.dynamodb),
        redis_control=invoke_by_name(Clients("patient").functions, settings.redis_control_function_name),
        express=ExpressCopies(settings.express_bucket, clients.express) if settings.express_bucket else None,
        clock=clock,
    )


@logs_requests
@answers_self_test("origin")
def handler(event: dict[str, Any], context: Any) -> Refreshed | None:
    """Invalidate the copies of written or deleted objects, which a writer, S3's queue or its event names."""
    if "Records" in event:
        _follow(event["Records"])
        return None
    key = event["key"] if "op" in event else _key_of(event)
    refreshed = changes().apply_writes([key])[key]
    logger().info("copies invalidated", extra={"key": key, "key_hash": key_hash(key), **refreshed})
    return refreshed


def _follow(records: Sequence[Mapping[str, Any]]) -> None:
    """Follow a batch of S3's events. If that fails, the queue delivers them again."""
    oldest_ms = min(int(record["attributes"]["SentTimestamp"]) for record in records)
    batch = Batch(len(records), oldest_ms * _US_PER_MS, changes().clock.now_us())
    keys = {_key_of(json.loads(record["body"])) for record in records}
    refreshed = changes().apply_writes(keys, batch=batch)
    copies = {key: each["copies"] for key, each in refreshed.items()}
    waited_ms = (batch.begun_us - batch.oldest_us) // _US_PER_MS
    logger().info("copies of a batch invalidated", extra={"copies": copies, "waited_ms": waited_ms})


def _key_of(event: Mapping[str, Any]) -> str:
    return str(event["detail"]["object"]["key"])
