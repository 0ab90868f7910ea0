"""Expiry of the copies in your own directory bucket, for clients without a stack."""

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
    """Make S3 expire the copies in a directory bucket some days after they were written.

    Call it once per bucket. It replaces the bucket's lifecycle rules. The bucket's policy must allow S3's lifecycle
    service to create sessions.

    Args:
        express_bucket: The directory bucket.
        hit_value_usd_per_million: The same value as for `Client` [USD].
        session: A boto3 session. None: a new one from the environment.
        endpoint_urls: As for `Client`.

    Raises:
        InvalidSettingError: `hit_value_usd_per_million` is invalid.
        ServiceError: S3 rejects the rules (s3express:PutLifecycleConfiguration).
    """
    # Lazy imports (price sheets): a client without copies never needs them.
    from burstcache.adapters.express_bucket import ExpressBucket
    from burstcache.core.express import express_rule
    from burstcache.core.worth import sheet_of_region, wait_usd_from_text

    session = session or boto3.Session()
    worth_usd = wait_usd_from_text(f"{hit_value_usd_per_million:f}")
    rule = express_rule(sheet_of_region(session.region_name or ""), hit_value_usd=float(worth_usd))
    client = Clients("control", session=session, endpoint_urls=endpoint_urls).express
    ExpressBucket(express_bucket, client).set_expiry(rule)
