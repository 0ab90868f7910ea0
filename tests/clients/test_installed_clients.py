"""Clients that `make clients` installs. `make test-clients` runs these tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clients.running import BUILT, INSTALLED, RealClient, check, of_command_line, of_library
from support.project import ROOT

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

PYTHON = INSTALLED / "python"
NODE = ROOT / "tests" / "clients" / "node"
CLIENTS = (
    of_library("s3fs", PYTHON, cannot="column"),
    of_library("obstore", PYTHON, cannot="column"),
    of_library("polars", PYTHON, ".parquet", cannot="range copied deleted"),
    of_library("duckdb", PYTHON, ".parquet", cannot="range copied deleted"),
    of_library("deltalake", PYTHON, "", cannot="range column odd copied listed deleted"),
    of_command_line("aws"),
    of_command_line("s5cmd", cannot="range"),
    of_command_line("rclone"),
    of_command_line("s3cmd", cannot="range"),
    RealClient("aws-sdk-js", ("node", NODE / "client.mjs"), cannot=frozenset({"column"})),
    RealClient("aws-sdk-go", (BUILT / "sdk",), cannot=frozenset({"column"})),
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_reads_what_was_written_last(client: RealClient, s3: S3Client, endpoint: str, tmp_path: Path) -> None:
    check(client, s3, endpoint, tmp_path)
