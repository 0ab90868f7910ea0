"""Express bucket function: a custom resource that lets copies expire, and empties the bucket when the stack goes."""

from __future__ import annotations

import os
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_bucket import ExpressBucket
from burstcache.adapters.stack_answer import fail, succeed
from burstcache.core.express import express_rule
from burstcache.core.worth import sheet_of_region, wait_usd_from_text
from burstcache.handlers._init import logs_requests
from burstcache.logs import logger


@logs_requests
def handler(event: dict[str, Any], context: Any) -> None:
    """Do what CloudFormation asks for, and answer it, whatever happens. The resource is known by the bucket's name."""
    asked = event["ResourceProperties"]
    physical_id = str(asked.get("BucketName") or event.get("PhysicalResourceId") or event["LogicalResourceId"])
    try:
        bucket = ExpressBucket(physical_id, Clients("patient").express)
        if event["RequestType"] == "Delete":
            logger().info("copies deleted", count=bucket.empty())
        else:
            worth_usd = float(wait_usd_from_text(asked["HitValueUsdPerMillion"]))
            bucket.let_expire(express_rule(sheet_of_region(os.environ["AWS_REGION"]), hit_value_usd=worth_usd))
    except Exception as error:
        logger().exception("bucket not as wanted")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
        return
    succeed(event, physical_id)
