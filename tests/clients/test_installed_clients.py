"""Clients that `make clients` installs, and the examples for them. `make test-clients` runs these tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clients.recorded_s3 import BUCKET, RecordedS3
from clients.running import BUILT, INSTALLED, VERSIONS, RealClient, check, of_command_line, of_library, variables
from support.project import ROOT
from support.waiting import LIMIT_S

PYTHON = INSTALLED / "python"
NODE = ROOT / "tests" / "clients" / "node"
EXAMPLES = ROOT / "examples"
# What README.md shows as printed, by program.
SHOWN = dict(re.findall(r"^\$ \S+ (gateway/\S+) .*\n((?:(?![$`]).*\n)+)", (EXAMPLES / "README.md").read_text(), re.M))
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
def test_a_client_reads_what_was_written_last(
    client: RealClient, s3: RecordedS3, endpoint: str, tmp_path: Path
) -> None:
    version = check(client, s3, endpoint, tmp_path)

    assert version in VERSIONS


def _example(command: Sequence[str | Path], endpoint: str, folder: Path) -> str:
    ran = subprocess.run(
        [*command, BUCKET], env=variables(endpoint, folder), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _polars(program: Path, _: Path) -> list[str | Path]:
    return [PYTHON, program]


def _node(program: Path, folder: Path) -> list[str | Path]:
    """Return the program's command, in a folder that has its packages."""
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    return ["node", shutil.copy(program, folder)]


@pytest.mark.parametrize(
    ("program", "command", "key"),
    [
        ("gateway/busiest_hours.py", _polars, "requests.parquet"),
        ("gateway/dead_links.mjs", _node, "not-found.txt"),
    ],
)
def test_an_example_reads_from_the_cache_in_its_third_run(
    program: str,
    command: Callable[[Path, Path], list[str | Path]],
    key: str,
    s3: RecordedS3,
    gateway: str,
    tmp_path: Path,
) -> None:
    s3.client.upload_file(str(EXAMPLES / "data" / key), BUCKET, key)
    words = command(EXAMPLES / program, tmp_path)

    outputs, reads = [], []
    for _ in range(3):
        s3.read_paths.clear()
        outputs.append(_example(words, gateway, tmp_path).split())
        reads.append(s3.read_paths.count(f"/{BUCKET}/{key}"))

    assert outputs == [SHOWN[program].split()] * 3
    assert reads[0] > 0
    assert reads[2] == 0
