"""Endpoints for real clients: S3 in moto."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest

from burstcache_local.moto.server import moto_server
from clients.running import BUCKET, REGION

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Client]:
    """S3 in moto, with a bucket."""
    with moto_server() as services:
        keys = {"aws_access_key_id": "own", "aws_secret_access_key": "own"}
        client = boto3.client("s3", endpoint_url=services.cloud_url, region_name=REGION, **keys)
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        yield client


@pytest.fixture(params=["s3"])
def endpoint(s3: S3Client, request: pytest.FixtureRequest) -> str:
    """URL that a client is given."""
    return s3.meta.endpoint_url
