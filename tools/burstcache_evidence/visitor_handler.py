"""The handler of the visitor, a program beside a stack. It reads through a gateway, and writes to a database of state.

A run deploys this file as a function with the gateway's layer, in the stack's VPC. In a local cloud the run calls it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import Any

LIBRARIES = "/opt/burstcache-gateway"  # those of the layer


def handler(event: dict[str, Any], context: object = None) -> dict[str, Any]:
    """Read an object through the gateway (`get`), or write and read a key of a database (`set`)."""
    began_s = time.perf_counter()
    if event["op"] == "get":
        import boto3
        from botocore.config import Config

        # botocore refuses dual-stack endpoints together with an endpoint of one's own.
        config = Config(use_dualstack_endpoint=False)
        s3 = boto3.client("s3", endpoint_url=event.get("gateway") or os.environ["AWS_ENDPOINT_URL_S3"], config=config)
        body = s3.get_object(Bucket=event["bucket"], Key=event["key"])["Body"].read()
        found = {"sha256": hashlib.sha256(body).hexdigest()}
    else:
        if LIBRARIES not in sys.path:
            sys.path.append(LIBRARIES)
        from burstcache.state import state

        with state(event["database"], **event.get("where", {})) as client:
            redis: Any = client  # redis-py's types are of clients that decode, too
            redis.set(event["key"], event["value"])
            found = {"value": str(redis.get(event["key"]), "utf-8")}
    return {**found, "ms": round((time.perf_counter() - began_s) * 1e3, 2)}
