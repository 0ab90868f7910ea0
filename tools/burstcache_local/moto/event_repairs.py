"""Patches that repair moto's EventBridge, and moto's S3 events and permissions."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from burstcache_local.moto.registry import repair
from burstcache_local.moto.services import of_region
from burstcache_local.traces import HEADER


@repair
def rules_reach_functions() -> None:
    """Deliver events to Lambda functions and queues, and only for enabled rules.

    moto raises NotImplementedError for functions, and also delivers events for disabled rules. It checks no policy of a
    queue.
    """
    from moto.events.models import Rule

    send = Rule.send_to_targets

    def send_to_targets(rule: Any, event: dict[str, Any], transform_input: bool = True) -> None:
        if rule.state != "ENABLED" or not rule.event_pattern.matches_event(event):
            return
        services = of_region(rule.region_name)
        deliver = services.deliver if services else None
        kinds = ("lambda", "sqs") if deliver else ("lambda",)  # without a local cloud nobody takes events of functions
        ours = [target for target in rule.targets if target["Arn"].split(":")[2] in kinds]
        if deliver:
            for target in ours:
                deliver(target, _payload(target, event), rule.arn, _trace_of(event))
        others = copy.copy(rule)
        others.targets = [target for target in rule.targets if target not in ours]
        send(others, copy.deepcopy(event), transform_input)

    Rule.send_to_targets = send_to_targets


@repair
def s3_events_use_the_default_bus() -> None:
    """Send S3 events only to the default bus. moto sends them to every bus, with outdated names, and hides errors."""
    from moto.events.models import events_backends
    from moto.s3 import notifications

    reasons = {"Put": "PutObject", "Post": "POST Object", "Copy": "CopyObject"}
    deletions = {"Delete": "Permanently Deleted", "DeleteMarkerCreated": "Delete Marker Created"}

    def send(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
        operation = event_name.split(":")[-1]
        is_deletion = "Removed" in event_name
        stored = {} if is_deletion else {"size": key.size, "etag": key.etag.strip('"')}
        version = {"version-id": key.version_id} if bucket.versioning_status else {}
        deletion = {"deletion-type": deletions[operation]} if is_deletion else {}
        backend = events_backends[account_id][bucket.region_name]
        event = {
            "Source": "aws.s3",
            "DetailType": notifications._detail_type(event_name),
            "Resources": [bucket.arn],
            "Detail": json.dumps(
                {
                    "version": "0",
                    "bucket": {"name": bucket.name},
                    "object": {
                        "key": key.name,
                        **stored,
                        **version,
                        "sequencer": f"{datetime.now(UTC).timestamp():.6f}",
                    },
                    "request-id": "LOCAL",
                    "requester": account_id,
                    "source-ip-address": "127.0.0.1",
                    "reason": "DeleteObject" if is_deletion else reasons.get(operation, operation),
                    **deletion,
                }
            ),
        }
        backend.put_events([event])

    notifications._send_event_bridge_message = send


@repair
def unsigned_requests_may_do_everything() -> None:
    """Allow all unsigned requests. moto allows only creating objects, but not replacing, reading or deleting them."""
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    get = FakeBucket.get_permission

    def get_permission(bucket: Any, action: str, resource: str) -> Any:
        permission = get(bucket, action, resource)
        return PermissionResult.PERMITTED if permission == PermissionResult.NEUTRAL else permission

    FakeBucket.get_permission = get_permission


def _trace_of(event: Mapping[str, Any]) -> str:
    """Return a PutEvents request's trace header. Events from AWS services belong to no trace."""
    from flask import has_request_context, request

    is_put = has_request_context() and not event["source"].startswith("aws.")
    return request.headers.get(HEADER, "") if is_put else ""


def _payload(target: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """Return the function's payload, which is the event or the output of the target's input transformer."""
    if "Input" in target:
        return str(target["Input"]).encode()
    at = datetime.fromtimestamp(float(event["time"]), UTC) if not isinstance(event["time"], str) else event["time"]
    message = {name: value for name, value in event.items() if name not in ("ingestion-time", "replay-name")}
    message["time"] = at if isinstance(at, str) else at.strftime("%Y-%m-%dT%H:%M:%SZ")
    if transformer := target.get("InputTransformer"):
        from moto.events.models import EventTemplateParser

        made = EventTemplateParser.parse(
            input_template=transformer["InputTemplate"],
            input_paths_map=transformer.get("InputPathsMap", {}),
            event=message,
        )
        return json.dumps(made).encode()
    return json.dumps(message).encode()
