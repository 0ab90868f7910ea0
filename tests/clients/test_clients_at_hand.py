"""Clients that the development environment has: boto3, pyarrow and curl."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clients.recorded_s3 import RecordedS3
from clients.running import VERSIONS, RealClient, check, of_command_line, of_library

CLIENTS = (
    of_library("boto3", Path(sys.executable), cannot="column"),
    of_library("pyarrow", Path(sys.executable)),
    of_command_line("curl"),
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_reads_what_was_written_last(
    client: RealClient, s3: RecordedS3, endpoint: str, tmp_path: Path
) -> None:
    version = check(client, s3, endpoint, tmp_path)

    assert version in VERSIONS or client.name == "curl"
