"""Steps of requests: the self-test, a read, writes, and a burst through every tier."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from burstcache.client import Client
from burstcache.core.messages.self_test import SELF_TEST, SelfTest, StackTestResult, problems
from burstcache_cli.operate import invoke
from burstcache_evidence.steps.measurements import by_tier, invoke_proxy, summary
from burstcache_evidence.steps.target import BODY_BYTES, HOT_KEY, PAUSE_S, SAMPLES, NotReachedError, Target

_BULK, _UPLOADERS = 400, 16
_FOLLOWED = "copies of a batch"


def self_test(target: Target) -> dict[str, Any]:
    """Run the stack's self-test."""
    event = SelfTest(op=SELF_TEST, run=uuid.uuid4().hex)
    tested: StackTestResult = invoke(target.stack, "SelfTestFunctionName", event)
    tried = [
        {"function": each["function"], "part": each["part"], "ms": each["duration_ms"], "ok": not each["problem"]}
        for each in tested["tried"]
    ]
    return {"tried": tried, "problems": problems(tested)}


def read(target: Target) -> dict[str, Any]:
    """Read an object by the front door, by HEAD and by the client library."""
    key, body = f"evidence/read-{uuid.uuid4().hex[:8]}.txt", b"r" * BODY_BYTES
    target.put(key, body)
    answer, head = target.ask(key), target.ask(key, "HEAD")
    found: dict[str, Any] = {
        "status": answer.status,
        "is_right": answer.body == body,
        "tier": answer.tier,
        "ms": answer.ms,
        "head_status": head.status,
        "head_length": head.headers.get("content-length", ""),
        "length": len(body),
    }
    with client_of(target) as client:
        began_s = time.perf_counter()
        item = client.get(key)
        found["client"] = {
            "is_right": item.body == body,
            "tier": item.tier,
            "ms": round((time.perf_counter() - began_s) * 1e3, 2),
        }
    return found


def client_of(target: Target) -> Client:
    stack = target.stack
    urls = dict(stack.endpoint_urls) or None
    return Client(stack_name=stack.name, session=stack.session, endpoint_urls=urls, memory_bytes=0, disk="")


def write(target: Target) -> dict[str, Any]:
    """Write by the front door, if the stack takes writes: text, bytes that are no UTF-8, a condition, a large body."""
    if target.plan.parameters.get("Writes") != "iam":
        return {}
    key, found = f"evidence/write-{uuid.uuid4().hex[:8]}.txt", dict[str, Any]()
    for name, body in (("text", b"written"), ("latin", "Grüße".encode("latin-1"))):
        put = target.ask(key, "PUT", body, signs=True)
        back = target.stack.client("s3").get_object(Bucket=target.bucket, Key=key)["Body"].read()
        found[name] = {"status": put.status, "is_right": back == body, "ms": put.ms}
    seen = target.ask(key, "PUT", b"seen", signs=True).headers.get("etag", "")
    for name, etag in (("conditional", seen), ("stale", seen)):  # the second one is no longer the object's
        put = target.ask(key, "PUT", b"written anew", signs=True, headers={"If-Match": etag})
        found[name] = {"status": put.status}
    large = target.ask(key, "PUT", b"x" * 5_000_000, signs=True)
    found["large"] = {"status": large.status}
    deleted = target.ask(key, "DELETE", signs=True)
    found["delete"] = {"status": deleted.status}
    return found


def burst(target: Target) -> dict[str, Any]:
    """Read one key until every tier of the plan has served it, then overwrite it in S3 and wait for the new object."""
    first, second = b"1" * BODY_BYTES, b"2" * BODY_BYTES
    target.put(HOT_KEY, first)
    if "lambda" not in target.plan.tiers:
        target.hold_node()  # so little traffic boots no node by its policy
    seen: dict[str, list[float]] = {}
    first_s: dict[str, float] = {}
    failed, began_s = 0, time.monotonic()

    def is_complete() -> bool:
        nonlocal failed
        reply = target.ask(HOT_KEY)
        if reply.status != 200 or reply.body != first:
            failed += 1
            return False
        first_s.setdefault(reply.tier, round(time.monotonic() - began_s, 2))
        seen.setdefault(reply.tier, []).append(reply.ms)
        return all(tier in seen for tier in target.plan.tiers) and len(seen[target.plan.tiers[-1]]) >= SAMPLES

    problem = ""
    try:
        target.await_(f"tiers {', '.join(target.plan.tiers)} of a hot key", is_complete, PAUSE_S)
    except NotReachedError as error:
        problem = str(error)
    inside = by_tier(invoke_proxy(target, HOT_KEY) for _ in range(SAMPLES))
    target.put(HOT_KEY, second)
    announced_s = target.await_("a write to S3 at the readers", lambda: target.ask(HOT_KEY).body == second, PAUSE_S)
    is_monotonic = all(target.ask(HOT_KEY).body == second for _ in range(SAMPLES))
    return {
        "key": HOT_KEY,
        "first_s": first_s,
        "front_ms": {tier: summary(values) for tier, values in seen.items()},
        "proxy_ms": inside,
        "failed": failed,
        "announced_s": announced_s,
        "is_monotonic": is_monotonic,
        "tiers_missing": problem,
    }


def bulk(target: Target) -> dict[str, Any]:
    """Upload many objects at once, and wait until the origin function has followed each of their events."""
    if target.plan.parameters.get("OriginEvents", "queue") != "queue":
        return {}
    prefix = f"evidence/bulk-{uuid.uuid4().hex[:8]}/"
    keys, s3 = [f"{prefix}{number}" for number in range(_BULK)], target.stack.client("s3")
    began_s = time.monotonic()
    with ThreadPoolExecutor(_UPLOADERS) as uploaders:
        list(uploaders.map(lambda key: s3.put_object(Bucket=target.bucket, Key=key, Body=b"bulk"), keys))
    upload_s = round(time.monotonic() - began_s, 2)

    def has_followed_all() -> bool:
        return {key for batch, _ in _batches(target, prefix) for key in batch} >= set(keys)

    followed_s = target.await_("the events of a bulk upload", has_followed_all)
    batches = list(_batches(target, prefix))
    return {
        "objects": len(keys),
        "upload_s": upload_s,
        "followed_s": followed_s,
        "batch": summary([float(len(batch)) for batch, _ in batches]),
        "waited_ms": summary([waited_ms for _, waited_ms in batches]),
    }


def _batches(target: Target, prefix: str) -> Iterator[tuple[list[str], float]]:
    """Yield the keys with a prefix of each batch of events, and how long the oldest had waited [ms]."""
    for line in target.lines("OriginFunction", containing=_FOLLOWED):
        entry = json.loads(line)
        if keys := [key for key in entry["copies"] if key.startswith(prefix)]:
            yield keys, float(entry["waited_ms"])
