"""A gateway and a program of boto3 in front of it, against the S3 endpoint of the environment; fails if one breaks.

Run by `tests/ends/__main__.py` in environments with the oldest and the newest versions of the gateway's libraries.
"""

from __future__ import annotations

import os

import boto3

from support.gateway_process import KEYS, gateway
from support.span_collector import span_collector

_BUCKET, _BODY = "behind-a-gateway", bytes(range(256)) * 400


def main() -> None:
    """Read from S3 and from memory, write, and collect the spans."""
    boto3.client("s3").create_bucket(Bucket=_BUCKET)
    with span_collector() as collector:
        os.environ.update(collector.variables)
        with gateway(os.environ["AWS_ENDPOINT_URL"], _BUCKET, dict([KEYS]), ("test", "test")) as url:
            s3 = boto3.client("s3", endpoint_url=url, aws_access_key_id=KEYS[0], aws_secret_access_key=KEYS[1])
            for body in (_BODY, _BODY[::-1]):
                s3.put_object(Bucket=_BUCKET, Key="key", Body=body)
                reads = [s3.get_object(Bucket=_BUCKET, Key="key") for _ in range(2)]
                assert [read["Body"].read() for read in reads] == [body] * 2
                assert [read["ResponseMetadata"]["HTTPHeaders"]["x-cache-tier"] for read in reads] == ["s3", "memory"]
            s3.put_object(Bucket=_BUCKET, Key="large", Body=_BODY * 100)
            for _ in range(2):
                part = s3.get_object(Bucket=_BUCKET, Key="large", Range="bytes=300000-300009")
                assert part["Body"].read() == (_BODY * 100)[300_000:300_010]
    assert collector.of_kind("server"), "no span has come"


if __name__ == "__main__":
    main()
