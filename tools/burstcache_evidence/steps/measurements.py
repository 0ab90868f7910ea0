"""Steps of measurements: reads by size, and cold starts by memory."""

from __future__ import annotations

import base64
import json
import re
import time
import uuid
from collections.abc import Iterator
from statistics import median
from typing import Any

from burstcache_cli.stack import Stack
from burstcache_evidence.steps.target import TIER, NotReachedError, Target

_SIZES = (1_024, 65_536, 1_048_576, 4_000_000)
_SIZE_SAMPLES = 8
_DURATION = re.compile(r"\bDuration: ([0-9.]+) ms")


def measure(target: Target) -> dict[str, Any]:
    """Read objects of several sizes from S3 through the proxy, and collect the functions' cold starts."""
    sizes: dict[str, Any] = {}
    for size in _SIZES if target.plan.parameters.get("FrontDoor") != "alb" else ():
        calls = []
        for _ in range(_SIZE_SAMPLES):
            key = f"evidence/size-{uuid.uuid4().hex[:8]}.bin"
            target.put(key, b"s" * size)
            calls.append(invoke_proxy(target, key))
        sizes[str(size)] = by_tier(iter(calls))
    return {"s3_proxy_ms": sizes, "cold_starts_ms": cold_starts(target.stack)}


def invoke_proxy(target: Target, key: str) -> tuple[str, float, str]:
    """Invoke the proxy with one read. Return tier, duration [ms] and who measured it: Lambda, or this machine."""
    event = {
        "version": "2.0",
        "routeKey": "GET /objects/{key+}",
        "rawPath": f"/objects/{key}",  # an HTTP API decodes it
        "rawQueryString": "",
        "headers": {"host": "evidence"},
        "pathParameters": {"key": key},
        "requestContext": {"http": {"method": "GET", "path": f"/objects/{key}"}, "stage": "$default"},
        "isBase64Encoded": False,
    }
    client, name = target.stack.client("lambda"), target.stack.functions["ProxyFunction"]
    began_s = time.perf_counter()
    answer = client.invoke(FunctionName=name, Payload=json.dumps(event).encode(), LogType="Tail")
    body = json.loads(answer["Payload"].read())
    wall_ms = (time.perf_counter() - began_s) * 1e3
    if body.get("statusCode") != 200:
        raise NotReachedError(f"the proxy answered {body.get('statusCode', body)}")
    headers = {header.lower(): value for header, value in body["headers"].items()}
    by_lambda = duration_ms(base64.b64decode(answer.get("LogResult", "")).decode("utf-8", "replace"))
    return (
        headers.get(TIER, ""),
        wall_ms if by_lambda is None else by_lambda,
        "caller" if by_lambda is None else "Lambda",
    )


def duration_ms(log: str) -> float | None:
    """Return the duration of an invocation from the tail of its log, in text or JSON, or None [ms]."""
    for line in log.splitlines():
        if line.startswith("{") and (report := _report(line)):
            return float(report["durationMs"])
        if line.startswith("REPORT") and (match := _DURATION.search(line)):
            return float(match[1])
    return None


def _report(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return dict(entry["record"]["metrics"]) if entry.get("type") == "platform.report" else {}


def by_tier(calls: Iterator[tuple[str, float, str]]) -> dict[str, Any]:
    by_tier: dict[str, list[float]] = {}
    clocks = set()
    for tier, ms, clock in calls:
        by_tier.setdefault(tier, []).append(ms)
        clocks.add(clock)
    return {"by": sorted(clocks), **{tier: summary(values) for tier, values in by_tier.items()}}


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return {"n": len(values), "median": round(median(values), 2), "p90": round(p90, 2), "least": round(ordered[0], 2)}


def cold_starts(stack: Stack) -> dict[str, Any]:
    """Return the cold starts (Init Duration) of the stack's functions by memory [ms], from the functions' logs."""
    logs, found = stack.client("logs"), dict[str, list[float]]()
    groups = [each.physical_id for each in stack.resources if each.type == "AWS::Logs::LogGroup"]
    for group in groups:
        for message in _messages(logs, group):
            if (init := init_of(message)) is not None:
                found.setdefault(str(init[0]), []).append(init[1])
    return {memory_mb: summary(values) for memory_mb, values in sorted(found.items(), key=lambda each: int(each[0]))}


def _messages(logs: Any, group: str) -> Iterator[str]:
    for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
        yield from (event["message"] for event in page["events"] if "nit" in event["message"])


def init_of(message: str) -> tuple[int, float] | None:
    """Return memory [MB] and Init Duration [ms] of a REPORT line or a `platform.report`, or None for any other."""
    if message.startswith("{"):
        metrics = _report(message)
        return (metrics["memorySizeMB"], float(metrics["initDurationMs"])) if "initDurationMs" in metrics else None
    init, memory = re.search(r"Init Duration: ([0-9.]+) ms", message), re.search(r"Memory Size: (\d+) MB", message)
    return (int(memory[1]), float(init[1])) if init and memory else None
