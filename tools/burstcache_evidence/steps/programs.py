"""Steps of programs beside the stack: the gateway, a database of state, the pool with its hub."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from burstcache.core.messages.state import DatabaseHeld
from burstcache.core.pool.costs import member_price
from burstcache.core.worth import sheet_of_region
from burstcache.queries.pool import read_pool
from burstcache_cli.operate import invoke
from burstcache_evidence import visitor_handler
from burstcache_evidence.steps.requests import client_of
from burstcache_evidence.steps.target import BODY_BYTES, NotReachedError, Target
from burstcache_evidence.visitor import deploy_visitor, visit

_POOLED_BYTES = 8_000_000
_THAW_S = 30.0  # an environment that is not invoked is frozen at once
_POOL_PAUSE_S = 5.0  # each read of an unreachable pool sends the object to this machine


def gateway(target: Target) -> dict[str, Any]:
    """Read through a gateway on this machine, and through that of the visitor's layer: cold, warm and thawed."""
    key, body = f"evidence/gateway-{uuid.uuid4().hex[:8]}.bin", os.urandom(BODY_BYTES)
    target.put(key, body)
    wanted = hashlib.sha256(body).hexdigest()
    with _gateway_here(target) as url:
        s3 = target.stack.session.client("s3", endpoint_url=url)
        found: dict[str, Any] = {"here": [_is_same(s3, target.bucket, key, body) for _ in range(2)]}
    if not (target.is_on_aws and target.plan.parameters.get("StateDatabases")):
        return found
    deploy_visitor(target.stack, target.tags)
    visits = []
    for pause_s in (0.0, 0.0, _THAW_S):
        time.sleep(pause_s)
        visits.append(visit(target.stack, {"op": "get", "bucket": target.bucket, "key": key}))
    return {
        **found,
        "lambda": [each["sha256"] == wanted for each in visits],
        "lambda_ms": [each["ms"] for each in visits],
    }


def _is_same(s3: Any, bucket: str, key: str, body: bytes) -> bool:
    return bool(s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body)


@contextmanager
def _gateway_here(target: Target) -> Iterator[str]:
    """Run a gateway on this machine in front of the stack's bucket, and yield its URL."""
    stack = target.stack
    command = [sys.executable, "-m", "burstcache.gateway", "--port", "0", "--bucket", target.bucket]
    command += ["--region", str(stack.session.region_name)]
    if url := stack.endpoint_urls.get(""):
        command += ["--origin-endpoint", url]
    keys = stack.session.get_credentials().get_frozen_credentials()
    variables = {"AWS_ACCESS_KEY_ID": keys.access_key, "AWS_SECRET_ACCESS_KEY": keys.secret_key}
    variables |= {"AWS_SESSION_TOKEN": keys.token} if keys.token else {}
    environment = os.environ | variables | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith("http://"):
                raise NotReachedError(f"the gateway on this machine ended with {process.wait()}")
            yield line.split()[0]
        finally:
            process.terminate()


def state(target: Target) -> dict[str, Any]:
    """Wake a database of state, have the visitor write to it, release it, and look for its snapshot."""
    name = target.plan.parameters.get("StateDatabases", "")
    if not name:
        return {}

    def held(operation: str) -> DatabaseHeld:
        event = {"op": operation, "database": name, "holder": "evidence", "for_s": 300}
        answer: DatabaseHeld = invoke(target.stack, "StateFunctionArn", event)
        return answer

    began_s = time.monotonic()
    held("acquire")
    target.await_(f"database {name}", lambda: held("look")["phase"] == "running")
    awake_s = round(time.monotonic() - began_s, 2)
    event: dict[str, Any] = {"op": "set", "database": name, "key": "evidence", "value": uuid.uuid4().hex}
    if target.is_on_aws:
        deploy_visitor(target.stack, target.tags)
        written = visit(target.stack, event)
    else:
        stack = target.stack
        where = {"stack": stack.name, "session": stack.session, "endpoint_urls": stack.endpoint_urls}
        written = visitor_handler.handler({**event, "where": where})
    held("release")
    asleep_s = target.await_(f"sleep of database {name}", lambda: held("look")["phase"] == "stopped")
    listed = target.stack.client("s3").list_objects_v2(Bucket=target.stack.output("StateBucketName"))
    return {
        "awake_s": awake_s,
        "is_right": written["value"] == event["value"],
        "asleep_s": asleep_s,
        "snapshots": listed.get("KeyCount", 0),
    }


def pool(target: Target) -> dict[str, Any]:
    """Read a large object until the pool's hub reports, which it does once its task runs.

    In an account this machine cannot reach the hub, and S3 serves the reads.
    """
    if target.plan.parameters.get("PoolHub") != "fargate":
        return {}
    key, body, tiers = "evidence/pooled.bin", random.Random(1).randbytes(_POOLED_BYTES), list[str]()
    target.put(key, body)
    settings = json.loads(target.stack.output("PoolSettings"))
    price = member_price(sheet_of_region(settings["AWS_REGION"]), int(settings["POOL_MEMORY_MB"]))
    with client_of(target) as client:

        def has_hub() -> bool:
            item = client.get(key)
            if item.body != body:
                raise NotReachedError("a pooled object has other bytes than in S3")
            tiers.append(item.tier)
            return bool(read_pool(target.stack.system(), price).hubs) and (target.is_on_aws or item.tier == "pool")

        hub_s = target.await_("report of the pool's hub", has_hub, _POOL_PAUSE_S if target.is_on_aws else 0.1)
    return {"hub_s": hub_s, "tiers": sorted(set(tiers)), "reads": len(tiers)}
