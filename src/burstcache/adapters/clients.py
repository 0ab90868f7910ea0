"""boto3 clients, made at first use and kept for the life of the execution environment."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
from botocore.config import Config

# A hanging service must not hold a read for longer than the fall-back to S3 may take, so connections are given a second
# and answers a few; the caller decides about trying again.
_CONFIG = Config(
    connect_timeout=1,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=16,
    tcp_keepalive=True,
)


@cache
def client(service: str) -> Any:
    """Return this process's client of `service`."""
    return boto3.client(service, config=_CONFIG)
