"""A gateway shows what it does: metrics, health and an access log that `advise` reads, over several processes, too."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from burstcache_local.moto.server import moto_server
from burstcache_sim.traces.read import read_trace
from support.project import PYTHONPATH
from support.waiting import LIMIT_S, free_port, until

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

KEY, SECRET, REGION, BUCKET = "AKIDSEEN", "secret-of-seen", "us-east-1", "seen-bucket"
SMALL, LARGE = b"small" * 200, os.urandom(3 << 20)


def client_of(url: str, secret: str = SECRET) -> S3Client:
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=secret,
        config=config,
    )


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Run an S3 with objects."""
    with moto_server() as services:
        s3 = client_of(services.cloud_url)
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="small", Body=SMALL)
        s3.put_object(Bucket=BUCKET, Key="odd/a b+c=ä%41", Body=SMALL)
        s3.put_object(Bucket=BUCKET, Key="large", Body=LARGE)
        yield services.cloud_url


@contextmanager
def gateway(origin: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "burstcache.gateway", "--port", "0", "--bucket", BUCKET, "--region", REGION]
    variables = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(
        [*command, "--origin-endpoint", origin, *options],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("http://"), f"it ended with {process.wait(LIMIT_S)}"
            yield line.split()[0], process
        finally:
            process.terminate()


def get(url: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT_S)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def metrics(url: str, path: str = "/-/metrics") -> dict[str, float]:
    """Return the values by name and labels, without the common prefix. Those that are 0 are left out."""
    status, text = get(url, path)
    assert status == 200
    lines = re.findall(r"^(?:burstcache_gateway_)?(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines if float(value)}


def requests(values: dict[str, float]) -> dict[tuple[str, ...], float]:
    """Return the numbers of requests by operation, tier and outcome."""
    return {
        tuple(re.findall(r'"(\w+)"', name)): value
        for name, value in values.items()
        if name.startswith("requests_total")
    }


def test_requests_are_counted_by_tier_and_outcome_and_s3s_by_operation(origin: str) -> None:
    with gateway(origin) as (url, _):
        s3 = client_of(url)
        for _ in range(3):
            assert s3.get_object(Bucket=BUCKET, Key="small")["Body"].read() == SMALL
        s3.head_object(Bucket=BUCKET, Key="small")
        s3.put_object(Bucket=BUCKET, Key="written", Body=SMALL)
        s3.list_objects_v2(Bucket=BUCKET)
        with pytest.raises(ClientError):
            s3.get_object(Bucket=BUCKET, Key="absent")
        with pytest.raises(ClientError):
            client_of(url, "another-secret").get_object(Bucket=BUCKET, Key="small")

        values = metrics(url)

    assert requests(values) == {
        ("get", "s3", "ok"): 1,
        ("get", "memory", "ok"): 2,
        ("head", "memory", "ok"): 1,
        ("write", "s3", "ok"): 1,
        ("other", "s3", "ok"): 1,
        ("get", "s3", "client_error"): 1,
        ("get", "none", "client_error"): 1,
    }
    assert values['sent_bytes_total{tier="memory"}'] == 2 * len(SMALL)
    assert values['refused_requests_total{code="SignatureDoesNotMatch"}'] == 1
    assert values['s3_requests_total{operation="get",outcome="ok"}'] == 2  # small, and the list
    assert values['s3_requests_total{operation="get",outcome="client_error"}'] == 1
    assert values['s3_requests_total{operation="write",outcome="ok"}'] == 1
    assert values['s3_request_seconds_count{operation="get"}'] == 3
    assert values['request_seconds_bucket{tier="memory",le="+Inf"}'] == 3
    assert values["s3_received_bytes_total"] > len(SMALL)
    assert values["memory_bytes"] > len(SMALL)
    assert values["memory_limit_bytes"] == 64 << 20
    assert values["process_start_time_seconds"] > 1.6e9
