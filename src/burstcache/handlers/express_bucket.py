"""The Express bucket function, a custom resource that sets the expiry of copies, and empties the bucket on deletion."""

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
    """Handle a CloudFormation request, and always answer it. The resource's ID is the bucket's name."""
    properties = event["ResourceProperties"]
    physical_id = str(properties.get("BucketName") or event.get("PhysicalResourceId") or event["LogicalResourceId"])
    try:
        bucket = ExpressBucket(physical_id, Clients("patient").express)
        if event["RequestType"] == "Delete":
            logger().info("copies deleted", count=bucket.empty())
        else:
            worth_usd = float(wait_usd_from_text(properties["HitValueUsdPerMillion"]))
            bucket.set_expiry(express_rule(sheet_of_region(os.environ["AWS_REGION"]), hit_value_usd=worth_usd))
    except Exception as error:
        logger().exception("the bucket cannot be set up")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
        return
    succeed(event, physical_id)
