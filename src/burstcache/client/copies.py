"""A directory bucket of one's own for copies, next to a client without a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3

from burstcache.adapters.clients import Clients
from burstcache.client.client import HIT_VALUE_USD_PER_MILLION


def expire_copies(
    express_bucket: str,
    *,
    hit_value_usd_per_million: float = HIT_VALUE_USD_PER_MILLION,
    session: Any = None,
    endpoint_urls: Mapping[str, str] | None = None,
) -> None:
    """Have S3 delete copies from a directory bucket some days after they were put: once, for all who read it.

    It replaces the bucket's lifecycle rules. The bucket's policy must let S3's lifecycle service create sessions.

    Args:
        express_bucket: The directory bucket.
        hit_value_usd_per_million: As for `Client`, with which it must agree [USD].
        session: A boto3 session; None for a new one from the environment.
        endpoint_urls: As for `Client`.

    Raises:
        InvalidSettingError: The value is not accepted.
        ServiceError: S3 does not accept the rules (s3express:PutLifecycleConfiguration).
    """
    # Price sheets, which a client without copies never needs.
    from burstcache.adapters.express_bucket import ExpressBucket
    from burstcache.core.express import express_rule
    from burstcache.core.worth import sheet_of_region, wait_usd_from_text

    session = session or boto3.Session()
    worth_usd = wait_usd_from_text(f"{hit_value_usd_per_million:f}")
    rule = express_rule(sheet_of_region(session.region_name or ""), hit_value_usd=float(worth_usd))
    client = Clients("control", session=session, endpoint_urls=endpoint_urls).express
    ExpressBucket(express_bucket, client).let_expire(rule)
