"""The steps that a run takes in each stack. A step returns its findings as JSON and may be repeated."""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from burstcache.access import parse_nodes
from burstcache.client import Client
from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.self_test import SELF_TEST, SelfTest, StackTestResult, problems
from burstcache_cli.operate import invoke, ping_redis, start_redis, stop_redis
from burstcache_cli.stack import Stack
from burstcache_evidence.plan import StackPlan

HOT_KEY = "evidence/a+b%20c d.txt"  # S3's events have to bring it unencoded
_BODY_BYTES = 4_096
_SAMPLES = 20
_PAUSE_S = 0.06  # between reads, below the front door's default throttle of 25 a second
_POLL_S = 0.5
_IN_A_ROW = 10  # reads that the interrupted node did not serve, before the fallback counts as complete
_HOLD_S = 900
_SIZES = (1_024, 65_536, 1_048_576, 4_000_000)
_SIZE_SAMPLES = 8
_DURATION = re.compile(r"\bDuration: ([0-9.]+) ms")
_TIMEOUT_S = 35.0
_TRACES = 5  # most ids of one BatchGetTraces
_TIER = "x-cache-tier"


class NotReachedError(BurstcacheError):
    """A step did not reach in time what it waited for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the front door."""

    status: int
    tier: str
    body: bytes
    headers: Mapping[str, str]
    ms: float


@dataclass(frozen=True)
class Target:
    """A deployed stack under test."""

    stack: Stack
    url: str
    plan: StackPlan
    limit_s: float  # of each wait

    @property
    def bucket(self) -> str:
        """The origin."""
        return self.stack.output("BucketName")

    @property
    def node(self) -> str:
        """The stack's only Redis node."""
        return self.stack.node_name("")

    def put(self, key: str, body: bytes) -> None:
        """Put an object straight into S3."""
        self.stack.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body, ContentType="text/plain")

    def ask(self, key: str, method: str = "GET", body: bytes | None = None, *, signs: bool = False) -> Reply:
        """Send a request to the front door. A status of 400 or more is a reply, too."""
        url, headers = f"{self.url}/objects/{quote(key)}", {"Content-Type": "text/plain"}
        if signs:
            signed = AWSRequest(method=method, url=url, data=body, headers=headers)
            credentials, region = self.stack.session.get_credentials(), self.stack.session.region_name
            SigV4Auth(credentials, "execute-api", region).add_auth(signed)
            headers = dict(signed.headers.items())
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        began_s = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._tls()) as answer:
                content, status, found = answer.read(), answer.status, answer.headers
        except HTTPError as error:
            content, status, found = error.read(), error.code, error.headers
        ms = (time.perf_counter() - began_s) * 1e3
        lowered = {name.lower(): value for name, value in found.items()}
        return Reply(status, lowered.get(_TIER, ""), content, lowered, round(ms, 2))

    def _tls(self) -> ssl.SSLContext | None:
        """Return a context that accepts the self-signed certificate of the run's own load balancer."""
        if not self.url.startswith("https:") or self.plan.parameters.get("FrontDoor") != "alb":
            return None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def await_(self, what: str, is_so: Callable[[], bool], pause_s: float = _POLL_S) -> float:
        """Wait for a condition, and return how long that took [s]. Raises NotReachedError after the limit."""
        began_s = time.monotonic()
        while not is_so():
            if time.monotonic() - began_s > self.limit_s:
                raise NotReachedError(f"{what}: not within {self.limit_s:g} s")
            time.sleep(pause_s)
        return round(time.monotonic() - began_s, 2)

    def hold_node(self) -> float:
        """Start the node by hand, and wait until its row says so. Return how long that took [s].

        Redis answers before the row says `running`. A stop in between counts as a failed boot, with a cool-down.
        """
        start_redis(self.stack, self.node, _HOLD_S)
        return self.await_(f"PONG of {self.node}", lambda: self._has(phase="running", pong=True))

    def release_node(self) -> float:
        """Stop the node by hand, and wait for its machine's end. Return how long that took [s]."""
        stop_redis(self.stack, self.node)
        return self.await_(f"end of {self.node}", lambda: self._has(phase="stopped"))

    def _has(self, **wanted: Any) -> bool:
        answer = ping_redis(self.stack, self.node).answer
        return all(answer[name] == value for name, value in wanted.items())


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
    key, body = f"evidence/read-{uuid.uuid4().hex[:8]}.txt", b"r" * _BODY_BYTES
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
    with _client(target) as client:
        began_s = time.perf_counter()
        item = client.get(key)
        found["client"] = {
            "is_right": item.body == body,
            "tier": item.tier,
            "ms": round((time.perf_counter() - began_s) * 1e3, 2),
        }
    return found


def _client(target: Target) -> Client:
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
    large = target.ask(key, "PUT", b"x" * 5_000_000, signs=True)
    found["large"] = {"status": large.status}
    deleted = target.ask(key, "DELETE", signs=True)
    found["delete"] = {"status": deleted.status}
    return found


def boot(target: Target) -> dict[str, Any]:
    """Boot the Redis node and stop it, by hand."""
    boot_s = target.hold_node()
    answer = ping_redis(target.stack, target.node).answer
    found = {"machine": answer["machine"], "task_kind": answer["task_kind"], "boot_s": boot_s}
    if answer["machine"] == "instance":
        return {**found, "stop_s": target.release_node()}
    cluster, task = _task(target)
    released_s, ecs = target.release_node(), target.stack.client("ecs")  # an ending task counts as off at once

    def has_stopped() -> bool:
        tasks = ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"]
        return not tasks or tasks[0]["lastStatus"] == "STOPPED"

    return {**found, "stop_s": round(released_s + target.await_(f"stop of the task of {target.node}", has_stopped), 2)}


def burst(target: Target) -> dict[str, Any]:
    """Read one key until every tier of the plan has served it, then overwrite it in S3 and wait for the new object."""
    first, second = b"1" * _BODY_BYTES, b"2" * _BODY_BYTES
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
        return all(tier in seen for tier in target.plan.tiers) and len(seen[target.plan.tiers[-1]]) >= _SAMPLES

    problem = ""
    try:
        target.await_(f"tiers {', '.join(target.plan.tiers)} of a hot key", is_complete, _PAUSE_S)
    except NotReachedError as error:
        problem = str(error)
    inside = _by_tier(_invoke_proxy(target, HOT_KEY) for _ in range(_SAMPLES))
    target.put(HOT_KEY, second)
    announced_s = target.await_("a write to S3 at the readers", lambda: target.ask(HOT_KEY).body == second, _PAUSE_S)
    is_monotonic = all(target.ask(HOT_KEY).body == second for _ in range(_SAMPLES))
    return {
        "key": HOT_KEY,
        "first_s": first_s,
        "front_ms": {tier: _summary(values) for tier, values in seen.items()},
        "proxy_ms": inside,
        "failed": failed,
        "announced_s": announced_s,
        "is_monotonic": is_monotonic,
        "tiers_missing": problem,
    }


def interrupt(target: Target) -> dict[str, Any]:
    """Stop the running node by its service, as a failure would, and read on."""
    target.hold_node()
    target.put(HOT_KEY, b"i" * _BODY_BYTES)
    target.await_("Redis before the interruption", lambda: target.ask(HOT_KEY).tier == "redis", _PAUSE_S)
    _stop_machine(target)
    statuses: list[int] = []
    tiers: list[str] = []
    began_s, fallback_s, elsewhere = time.monotonic(), 0.0, 0

    def is_over() -> bool:
        nonlocal fallback_s, elsewhere
        reply = target.ask(HOT_KEY)
        statuses.append(reply.status)
        if not tiers or tiers[-1] != reply.tier:
            tiers.append(reply.tier)
        if reply.tier == "redis":
            fallback_s, elsewhere = round(time.monotonic() - began_s, 2), 0
        else:
            elsewhere += 1
        return elsewhere >= _IN_A_ROW

    target.await_("a fallback after the interruption", is_over, _PAUSE_S)
    failed = sum(status != 200 for status in statuses)
    found = {"fallback_s": fallback_s, "reads": len(statuses), "failed": failed, "tiers": tiers}
    return {**found, "stop_s": target.release_node()}


def _stop_machine(target: Target) -> None:
    (node,) = (each for each in parse_nodes(target.stack.output("RedisNodes")) if each.name == target.node)
    if node.is_task:
        cluster, task = _task(target)
        target.stack.client("ecs").stop_task(cluster=cluster, task=task, reason="evidence: an interruption")
    else:
        target.stack.client("ec2").stop_instances(InstanceIds=[node.instance_id])


def _task(target: Target) -> tuple[str, str]:
    """Return cluster and ARN of the task on which the node runs."""
    ecs = target.stack.client("ecs")
    for cluster in _clusters(target.stack):
        arns = [arn for page in ecs.get_paginator("list_tasks").paginate(cluster=cluster) for arn in page["taskArns"]]
        for task in ecs.describe_tasks(cluster=cluster, tasks=arns)["tasks"] if arns else ():
            if task.get("startedBy", "").startswith(f"{target.node}/") and task["desiredStatus"] == "RUNNING":
                return cluster, task["taskArn"]
    raise NotReachedError(f"{target.stack.name} has no running task of {target.node}")


def _clusters(stack: Stack) -> list[str]:
    return [each.physical_id for each in stack.resources if each.type == "AWS::ECS::Cluster"]


def measure(target: Target) -> dict[str, Any]:
    """Read objects of several sizes from S3 through the proxy, and collect the functions' cold starts."""
    sizes: dict[str, Any] = {}
    for size in _SIZES if target.plan.parameters.get("FrontDoor") != "alb" else ():
        calls = []
        for _ in range(_SIZE_SAMPLES):
            key = f"evidence/size-{uuid.uuid4().hex[:8]}.bin"
            target.put(key, b"s" * size)
            calls.append(_invoke_proxy(target, key))
        sizes[str(size)] = _by_tier(iter(calls))
    return {"s3_proxy_ms": sizes, "cold_starts_ms": cold_starts(target.stack)}


def _invoke_proxy(target: Target, key: str) -> tuple[str, float, str]:
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
        headers.get(_TIER, ""),
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


def _by_tier(calls: Iterator[tuple[str, float, str]]) -> dict[str, Any]:
    by_tier: dict[str, list[float]] = {}
    clocks = set()
    for tier, ms, clock in calls:
        by_tier.setdefault(tier, []).append(ms)
        clocks.add(clock)
    return {"by": sorted(clocks), **{tier: _summary(values) for tier, values in by_tier.items()}}


def _summary(values: list[float]) -> dict[str, float]:
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
    return {memory_mb: _summary(values) for memory_mb, values in sorted(found.items(), key=lambda each: int(each[0]))}


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


def state(target: Target) -> dict[str, Any]:
    """Wake a database of state, release it, and look for its snapshot."""
    name = target.plan.parameters.get("StateDatabases", "")
    if not name:
        return {}

    def held(operation: str) -> Mapping[str, Any]:
        event = {"op": operation, "database": name, "holder": "evidence", "for_s": 300}
        answer: Mapping[str, Any] = invoke(target.stack, "StateFunctionArn", event)
        return answer

    began_s = time.monotonic()
    held("acquire")
    target.await_(f"database {name}", lambda: held("look")["phase"] == "running")
    awake_s = round(time.monotonic() - began_s, 2)
    held("release")
    asleep_s = target.await_(f"sleep of database {name}", lambda: held("look")["phase"] == "stopped")
    listed = target.stack.client("s3").list_objects_v2(Bucket=target.stack.output("StateBucketName"))
    return {"awake_s": awake_s, "asleep_s": asleep_s, "snapshots": listed.get("KeyCount", 0)}


def metrics(target: Target) -> dict[str, Any]:
    """Look up what AWS shows of the stack: the janitor's metrics, the functions in traces, and tags."""
    function, now = target.stack.functions["JanitorFunction"], datetime.now(UTC)
    found: dict[str, Any] = {"tagged": dict(_tagged(target))}
    cloudwatch = target.stack.client("cloudwatch")
    for name in ("Errors", "Invocations"):
        answer = cloudwatch.get_metric_statistics(
            Namespace="AWS/Lambda",
            MetricName=name,
            Dimensions=[{"Name": "FunctionName", "Value": function}],
            StartTime=now - timedelta(hours=3),
            EndTime=now,
            Period=300,
            Statistics=["Sum"],
        )
        found[name.lower()] = len(answer["Datapoints"])
    if target.plan.parameters.get("Tracing") == "Active" and target.stack.is_deployed:
        found["traced"] = sorted(_traced(target.stack, now))
    return found


def _traced(stack: Stack, now: datetime) -> set[str]:
    """Return the stack's functions that have segments in traces of the last hour in which a cache function served."""
    xray, names = stack.client("xray"), set(stack.functions.values())
    pages = xray.get_paginator("get_trace_summaries").paginate(StartTime=now - timedelta(hours=1), EndTime=now)
    ids = [each["Id"] for page in pages for each in page["TraceSummaries"]]
    found: set[str] = set()
    for first in range(0, len(ids), _TRACES):
        for trace in xray.batch_get_traces(TraceIds=ids[first : first + _TRACES])["Traces"]:
            document = "".join(segment["Document"] for segment in trace["Segments"])
            found |= {name for name in names if name in document}
    return found


def _tagged(target: Target) -> Iterator[tuple[str, bool]]:
    """Yield whether the stack's running tasks and its volumes have a tag of the stack."""
    stack, ecs = target.stack, target.stack.client("ecs")
    for cluster in _clusters(stack):
        arns = [arn for page in ecs.get_paginator("list_tasks").paginate(cluster=cluster) for arn in page["taskArns"]]
        tasks = ecs.describe_tasks(cluster=cluster, tasks=arns, include=["TAGS"])["tasks"] if arns else []
        for task in tasks:
            is_relay = task["group"].startswith("service:")
            yield "task of a service" if is_relay else "task of a node", bool(task.get("tags"))
    nodes = [node.instance_id for node in parse_nodes(stack.outputs.get("RedisNodes", "")) if not node.is_task]
    if nodes:
        of_nodes = [{"Name": "attachment.instance-id", "Values": nodes}]
        for volume in stack.client("ec2").describe_volumes(Filters=of_nodes)["Volumes"]:
            yield "volume of a node", bool(volume.get("Tags"))


STEPS: dict[str, Callable[[Target], dict[str, Any]]] = {
    "self-test": self_test,
    "read": read,
    "write": write,
    "boot": boot,
    "burst": burst,
    "interrupt": interrupt,
    "state": state,
    "measure": measure,
    "metrics": metrics,
}
