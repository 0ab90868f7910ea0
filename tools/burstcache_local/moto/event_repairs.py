"""Repairs to moto's EventBridge, and to its S3's events and permissions."""

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
    """moto raises NotImplementedError for a function as target, and delivers for disabled rules too."""
    from moto.events.models import Rule

    send = Rule.send_to_targets

    def send_to_targets(rule: Any, event: dict[str, Any], transform_input: bool = True) -> None:
        if rule.state != "ENABLED" or not rule.event_pattern.matches_event(event):
            return
        functions = [target for target in rule.targets if ":lambda:" in target["Arn"]]
        services = of_region(rule.region_name)
        if services and services.deliver:
            for target in functions:
                services.deliver(target, _payload(target, event), rule.arn, _trace_of(event))
        others = copy.copy(rule)
        others.targets = [target for target in rule.targets if target not in functions]
        send(others, copy.deepcopy(event), transform_input)

    Rule.send_to_targets = send_to_targets


@repair
def s3_events_use_the_default_bus() -> None:
    """moto offers S3's events to the rules of every bus, under names of the older notifications, and hides errors."""
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
    """moto lets a request without a signature make an object, but not replace, read or delete it."""
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    ask = FakeBucket.get_permission

    def get_permission(bucket: Any, action: str, resource: str) -> Any:
        known = ask(bucket, action, resource)
        return PermissionResult.PERMITTED if known == PermissionResult.NEUTRAL else known

    FakeBucket.get_permission = get_permission


def _trace_of(event: Mapping[str, Any]) -> str:
    """Return the header of the trace that PutEvents came in. Events of AWS's services are in none."""
    from flask import has_request_context, request

    is_put = has_request_context() and not event["source"].startswith("aws.")
    return request.headers.get(HEADER, "") if is_put else ""


def _payload(target: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """Return the function's payload: the event, or what the target makes of it."""
    if "Input" in target:
        return str(target["Input"]).encode()
    at = datetime.fromtimestamp(float(event["time"]), UTC) if not isinstance(event["time"], str) else event["time"]
    sent = {name: value for name, value in event.items() if name not in ("ingestion-time", "replay-name")}
    sent["time"] = at if isinstance(at, str) else at.strftime("%Y-%m-%dT%H:%M:%SZ")
    if transformer := target.get("InputTransformer"):
        from moto.events.models import EventTemplateParser

        made = EventTemplateParser.parse(
            input_template=transformer["InputTemplate"],
            input_paths_map=transformer.get("InputPathsMap", {}),
            event=sent,
        )
        return json.dumps(made).encode()
    return json.dumps(sent).encode()
