"""Redis control function: every step of the machines that touches a node, by its `op`, and writes to the origin."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from burstcache.control.key_on_node import Life
from burstcache.control.operations import RedisControl
from burstcache.logs import logger
from burstcache.settings import settings

Event = dict[str, Any]

_OPERATIONS: dict[str, Callable[[RedisControl, Event], Event]] = {
    # key_lifecycle
    "join": lambda control, e: control.keys(e["key_hash"]).join(_life(e), e["token"]),
    "seed": lambda control, e: control.keys(e["key_hash"]).seed(_life(e), e["generation"]),
    "leave": lambda control, e: control.keys(e["key_hash"]).leave(
        _life(e), queue_us=e["queue_us"], is_failed=e["is_failed"], failures=e["failures"]
    ),
    # redis_node
    "start_node": lambda control, e: control.node(e["node"]).start(e["node"], e["generation"]),
    "await_node": lambda control, e: control.node(e["node"]).await_ready(e["node"], e["generation"]),
    "check_node": lambda control, e: control.node(e["node"]).check(
        e["node"], e["generation"], check_at_us=int(e["check_at_us"] or 0), checks=e["checks"]
    ),
    "stop_node": lambda control, e: control.node(e["node"]).stop(e["node"], e["generation"]),
    "abandon_node": lambda control, e: control.node(e["node"]).abandon(e["node"], e["generation"]),
    # by hand
    "hold": lambda control, e: control.hold(e["node"], e["for_s"]),
    "release": lambda control, e: control.node(e["node"]).stop_by_hand(e["node"]),
    "ping": lambda control, e: control.ping(e["node"]),
    "stop_cache": lambda control, e: control.stop_cache(e["key"]),
}


@cache
def _control() -> RedisControl:
    return RedisControl(settings())


def handler(event: Event, context: Any) -> Event:
    """Run one operation, or follow an S3 event of the origin bucket."""
    if event.get("source") == "aws.s3":
        answer = _control().origin_changed(event["detail"]["object"]["key"])
    else:
        answer = _OPERATIONS[event["op"]](_control(), event)
    told = {name: value for name, value in event.items() if name != "token"}  # whoever has a token can end its task
    logger().info(event.get("op", "origin_changed"), extra={"event": told, "answer": answer})
    return answer


def _life(event: Event) -> Life:
    return Life(event["key"], event["key_hash"], event["epoch"])
