"""Endpoints for real clients (conftest): S3 in moto, and a gateway in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.recorded_s3 import RecordedS3, recorded_s3
from clients.running import gateway_in_front


@pytest.fixture(scope="module")
def s3() -> Iterator[RecordedS3]:
    """S3 in moto, with a bucket."""
    with recorded_s3() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(s3: RecordedS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of `burstcache gateway` in front of S3, with memory and a disk."""
    with gateway_in_front(s3.url, tmp_path_factory.mktemp("disk")) as url:
        yield url


@pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.weekly), "gateway"])
def endpoint(s3: RecordedS3, request: pytest.FixtureRequest) -> str:
    """URL that a client is given."""
    return s3.url if request.param == "s3" else str(request.getfixturevalue("gateway"))
