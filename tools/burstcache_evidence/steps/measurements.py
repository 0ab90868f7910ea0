"""Steps of measurements: reads by size, and cold starts by memory."""

from __future__ import annotations

import base64
import itertools
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from burstcache_evidence.steps.target import BODY_BYTES, TIER, NotReachedError, Target

_SIZES = (1_024, 65_536, 1_048_576, 4_000_000)
_SIZE_SAMPLES = 8
_MEMORIES_MB, _ROUNDS, _WARM_CALLS = (128, 256, 512, 1_024), 3, 5
_BATCH = 10  # the batch size of the queue of S3's events
_DURATION = re.compile(r"\bDuration: ([0-9.]+) ms")


def reports(target: Target) -> dict[str, Any]:
    """Enable Lambda's report of each proxy call, whose duration the template's log level leaves out."""
    if target.is_on_aws:
        usual = target.stack.configuration(target.stack.functions["ProxyFunction"])["LoggingConfig"]
        _configure(target, "ProxyFunction", LoggingConfig={**usual, "SystemLogLevel": "INFO"})
    return {}


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
    return {"s3_proxy_ms": sizes, "cold_starts_ms": cold_starts(target)}


def invoke_proxy(target: Target, key: str) -> tuple[str, float, str]:
    """Invoke the proxy with one read. Return tier, duration [ms] and who measured it: Lambda, or this machine."""
    call = invoke_timed(target, "ProxyFunction", _read_event(key))
    if call.answer.get("statusCode") != 200:
        raise NotReachedError(f"the proxy answered {call.answer.get('statusCode', call.answer)}")
    headers = {header.lower(): value for header, value in call.answer["headers"].items()}
    return headers.get(TIER, ""), call.ms, "Lambda" if call.is_billed else "caller"


def _read_event(key: str) -> dict[str, Any]:
    return {
        "version": "2.0",
        "routeKey": "GET /objects/{key+}",
        "rawPath": f"/objects/{key}",  # an HTTP API decodes it
        "rawQueryString": "",
        "headers": {"host": "evidence"},
        "pathParameters": {"key": key},
        "requestContext": {"http": {"method": "GET", "path": f"/objects/{key}"}, "stage": "$default"},
        "isBase64Encoded": False,
    }


def _batch_event(target: Target) -> dict[str, Any]:
    """Return a batch of the queue of S3's events, about objects that no tier holds."""
    now_ms = str(round(time.time() * 1e3))
    keys = [f"evidence/batch-{uuid.uuid4().hex[:8]}" for _ in range(_BATCH)]
    bodies = [{"detail-type": "Object Created", "detail": {"object": {"key": key, "size": 1}}} for key in keys]
    records = [
        {"messageId": str(number), "body": json.dumps(body), "attributes": {"SentTimestamp": now_ms}}
        for number, body in enumerate(bodies)
    ]
    return {"Records": records}


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A synchronous invocation of a function.

    Attributes:
        answer: Its result.
        ms: Its duration [ms].
        is_billed: Whether Lambda measured the duration, or this machine.
        init_ms: The duration of the environment's INIT [ms], None if it was warm or not measured.
    """

    answer: Any
    ms: float
    is_billed: bool
    init_ms: float | None


def invoke_timed(target: Target, function: str, event: Mapping[str, Any]) -> TimedCall:
    """Invoke a function by its logical id. Raise NotReachedError if it fails."""
    began_s = time.perf_counter()
    answer = target.stack.client("lambda").invoke(
        FunctionName=target.stack.functions[function], Payload=json.dumps(event).encode(), LogType="Tail"
    )
    content = json.loads(answer["Payload"].read() or b"null")
    wall_ms = (time.perf_counter() - began_s) * 1e3
    if "FunctionError" in answer:
        raise NotReachedError(f"{function}: {content.get('errorMessage', content)}")
    log = base64.b64decode(answer.get("LogResult", "")).decode("utf-8", "replace")
    billed_ms = duration_ms(log)
    inits = [init[1] for line in log.splitlines() if (init := init_of(line)) is not None]
    return TimedCall(
        content, wall_ms if billed_ms is None else billed_ms, billed_ms is not None, next(iter(inits), None)
    )


def memory(target: Target) -> dict[str, Any]:
    """Measure cold starts and calls by memory: the proxy's read, and a batch of ten events in the origin function.

    In a local cloud memory gives a function no share of a processor, so there is one size, the template's.
    """
    if not target.plan.is_swept:
        return {}
    key = f"evidence/memory-{uuid.uuid4().hex[:8]}.txt"
    target.put(key, b"m" * BODY_BYTES)
    return {
        "proxy": _by_memory(target, "ProxyFunction", lambda: _read_event(key)),
        "origin_batch": _by_memory(target, "OriginFunction", lambda: _batch_event(target)),
    }


def _by_memory(target: Target, function: str, event: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return INIT, first and warm calls of a function by its memory [ms]. The function gets its memory back."""
    usual_mb = int(target.stack.configuration(target.stack.functions[function])["MemorySize"])
    sizes_mb = _MEMORIES_MB if target.is_on_aws else (usual_mb,)
    calls: dict[int, list[list[TimedCall]]] = {}
    problems: dict[str, str] = {}
    try:
        for _, memory_mb in itertools.product(range(_ROUNDS), sizes_mb):
            if target.is_on_aws:
                _configure(target, function, MemorySize=memory_mb)  # the next call starts a new environment
            try:
                calls.setdefault(memory_mb, []).append(
                    [invoke_timed(target, function, event()) for _ in range(1 + _WARM_CALLS)]
                )
            except NotReachedError as error:  # too little memory for the function
                problems[str(memory_mb)] = str(error)
    finally:
        if target.is_on_aws:
            _configure(target, function, MemorySize=usual_mb)
    found: dict[str, Any] = {str(memory_mb): _of_rounds(rounds) for memory_mb, rounds in calls.items()}
    return {**found, **({"problems": problems} if problems else {})}


def _of_rounds(rounds: list[list[TimedCall]]) -> dict[str, Any]:
    inits = [first.init_ms for first, *_ in rounds if first.init_ms is not None]
    warm = [call for _, *calls in rounds for call in calls]
    return {
        "by": "Lambda" if all(call.is_billed for call in warm) else "caller",
        **({"init_ms": summary(inits)} if inits else {}),
        "first_ms": summary([first.ms for first, *_ in rounds]),
        "warm_ms": summary([call.ms for call in warm]),
    }


def _configure(target: Target, function: str, **changes: Any) -> None:
    """Change a function's configuration, and wait until its calls have it."""
    client, name = target.stack.client("lambda"), target.stack.functions[function]
    client.update_function_configuration(FunctionName=name, **changes)
    client.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 300})


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
    least, most = round(ordered[0], 2), round(ordered[-1], 2)
    return {"n": len(values), "median": round(median(values), 2), "p90": round(p90, 2), "least": least, "most": most}


def cold_starts(target: Target) -> dict[str, Any]:
    """Return the cold starts (Init Duration) of the stack's functions by memory [ms], from the functions' logs."""
    found: dict[str, list[float]] = {}
    for line in target.lines(containing="initDurationMs" if target.is_on_aws else "Init Duration"):
        if (init := init_of(line)) is not None:
            found.setdefault(str(init[0]), []).append(init[1])
    return {memory_mb: summary(values) for memory_mb, values in sorted(found.items(), key=lambda each: int(each[0]))}


def init_of(message: str) -> tuple[int, float] | None:
    """Return memory [MB] and Init Duration [ms] of a REPORT line or a `platform.report`, or None for any other."""
    if message.startswith("{"):
        metrics = _report(message)
        return (metrics["memorySizeMB"], float(metrics["initDurationMs"])) if "initDurationMs" in metrics else None
    init, memory = re.search(r"Init Duration: ([0-9.]+) ms", message), re.search(r"Memory Size: (\d+) MB", message)
    return (int(memory[1]), float(init[1])) if init and memory else None
