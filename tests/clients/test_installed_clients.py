"""Clients that `make clients` installs. `make test-clients` runs these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.recorded_s3 import RecordedS3
from clients.running import BUILT, INSTALLED, RealClient, check, of_command_line, of_library
from support.project import ROOT

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
def test_a_client_reads_what_was_written_last(
    client: RealClient, s3: RecordedS3, endpoint: str, tmp_path: Path
) -> None:
    check(client, s3, endpoint, tmp_path)


def _example(command: Sequence[str | Path], endpoint: str, folder: Path) -> str:
    ran = subprocess.run(
        [*command, BUCKET], env=variables(endpoint, folder), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _polars(_: Path) -> list[str | Path]:
    return [PYTHON, EXAMPLES / "gateway" / "busiest_hours.py"]


def _node(folder: Path) -> list[str | Path]:
    """Return the program's command, in a folder that has its packages."""
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    return ["node", shutil.copy(EXAMPLES / "gateway" / "dead_links.mjs", folder)]


@pytest.mark.parametrize(
    ("command", "key", "shown"), [(_polars, "requests.parquet", "busiest"), (_node, "not-found.txt", "dead")]
)
def test_an_example_reads_from_the_cache_in_its_third_run(
    command: Callable[[Path], list[str | Path]], key: str, shown: str, s3: RecordedS3, gateway: str, tmp_path: Path
) -> None:
    s3.client.upload_file(str(EXAMPLES / "data" / key), BUCKET, key)
    words = command(tmp_path)
    expected = _example(words, s3.url, tmp_path)

    outputs, reads = [], []
    for _ in range(3):
        s3.read_paths.clear()
        outputs.append(_example(words, gateway, tmp_path))
        reads.append([path for path in s3.read_paths if path.endswith(f"/{key}")])

    assert [output.split() for output in outputs] == [expected.split()] * 3
    assert expected.split() == CONSOLE[shown].split()
    assert reads[0]
    assert reads[2] == []
