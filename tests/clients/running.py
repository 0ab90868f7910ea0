"""Running real clients against an endpoint, and what they have to read there."""

from __future__ import annotations

import array
import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from clients.recorded_s3 import BUCKET, REGION, RecordedS3
from clients.steps import COLUMN, RANGE_BYTES, RANGE_START, READS, digest
from support.project import PYTHONPATH, ROOT
from support.waiting import LIMIT_S

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
INSTALLED = ROOT / ".venv-clients" / "bin"
BUILT = ROOT / "build" / "clients"
_DOCUMENT = (ROOT / "docs" / "use" / "gateway-clients.md").read_text()
VERSIONS = re.findall(r"^\| [^|]+ \| (\d[\d.]+) \|", _DOCUMENT, re.M)  # that it says are tested

PROCESSES = 2  # of the gateway

_RANDOM = random.Random(7)
_LARGE_BYTES, _TABLE_BYTES, _ROWS, _COLUMNS = 64 << 20, 24 << 20, 200_000, 10
_FILES = {
    "first": array.array("q", range(1000)).tobytes(),
    "second": array.array("q", range(5000, 7000)).tobytes(),
    "large": _RANDOM.randbytes(_LARGE_BYTES),
}
_OLD = array.array("q", range(7)).tobytes()  # of objects that a client overwrites
_TABLE = _RANDOM.randbytes(_TABLE_BYTES)
_NUMBERS = {f"c{column}": array.array("q", _RANDOM.randbytes(8 * _ROWS)) for column in range(_COLUMNS)}
_ODD = ("odd/a b+c=ä%41", "odd/other")


@dataclass(frozen=True)
class RealClient:
    """A client, its form of objects and the steps that it has no operation for."""

    name: str
    command: tuple[str | Path, ...]
    suffix: str = ".bin"
    cannot: frozenset[str] = frozenset()

    def run(self, endpoint: str, folder: Path) -> dict[str, Any]:
        """Run the steps at an endpoint, and return what the client read and its version."""
        for name, content in _FILES.items():
            (folder / f"{name}.bin").write_bytes(content)
        done = subprocess.run(
            [*self.command, BUCKET, folder],
            env=variables(endpoint, folder),
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def expected(self) -> dict[str, list[Any]]:
        """Return the expected result of each step."""
        old, first, second, large = (digest(each) for each in (_OLD, *_FILES.values()))
        steps: dict[str, list[Any]] = {
            "range": [digest(_TABLE[RANGE_START : RANGE_START + RANGE_BYTES])] * READS,
            "column": [digest(_NUMBERS[COLUMN].tobytes())] * READS,
            "odd": [old] * READS,
            "large": [old] * READS + [large],
            "written": [first] * READS + [second] * READS,
            "copied": [old] * READS + [second] * READS,
            "listed": [stem + self.suffix for stem in _ODD],
            "deleted": [True] * READS,
        }
        return {name: values for name, values in steps.items() if name not in self.cannot}

    def fill(self, s3: S3Client) -> None:
        """Write the objects that the client finds."""
        for key, content in self._objects():
            s3.put_object(Bucket=BUCKET, Key=f"{self.name}/{key}", Body=content)

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        if "range" not in self.cannot:
            yield "table.bin", _TABLE
        if "column" not in self.cannot:
            yield "table.parquet", _table(_NUMBERS)
        for stem in (*_ODD, "large", "copied"):
            content = _OLD if self.suffix == ".bin" else _table({"n": array.array("q", _OLD)})
            if self.suffix:
                yield stem + self.suffix, content
            else:
                yield from _delta_table(stem, content)


def check(client: RealClient, s3: RecordedS3, endpoint: str, folder: Path) -> str:
    """Run a client's steps at an endpoint, and return its version.

    The client has to read what S3 has, and S3 has to have what the client wrote.
    """
    client.fill(s3.client)
    s3.read_paths.clear()

    result = client.run(endpoint, folder)

    version = str(result.pop("version"))
    assert result == client.expected()
    if endpoint != s3.url and client.suffix == ".bin":  # each process misses once after each of two writes
        assert s3.read_paths.count(f"/{BUCKET}/{client.name}/written.bin") <= 2 * PROCESSES
    if client.suffix == ".bin":
        key = f"{client.name}/large.bin"
        assert digest(s3.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == digest(_FILES["large"])
    return version


@contextmanager
def gateway_in_front(url: str, disk: Path) -> Iterator[str]:
    """Run `burstcache gateway` in two processes in front of an S3 for the duration of a `with`, and yield its URL."""
    command = [sys.executable, "-m", "burstcache.command", "gateway", "--bucket", BUCKET, "--origin-endpoint", url]
    options = ["--port", "0", "--processes", str(PROCESSES), "--disk", str(disk), "--region", REGION]
    variables = {**KEYS, "PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH}
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=variables)
    try:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        assert first_line.startswith("http://"), process.wait(LIMIT_S)
        yield first_line.partition(" ")[0]
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0


def of_library(name: str, python: Path, suffix: str = ".bin", cannot: str = "") -> RealClient:
    """Return a library as a client. The steps that it cannot do stand between spaces."""
    return RealClient(name, (python, "-m", "clients.libraries", name), suffix, frozenset(cannot.split()))


def of_command_line(name: str, cannot: str = "") -> RealClient:
    """Return a command line as a client. None reads columns of a table."""
    command = (sys.executable, "-m", "clients.command_lines", name)
    return RealClient(name, command, cannot=frozenset({"column", *cannot.split()}))


def _table(columns: Mapping[str, array.array[int]]) -> bytes:
    table = pa.table(
        {
            name: pa.Array.from_buffers(pa.int64(), len(each), [None, pa.py_buffer(each)])
            for name, each in columns.items()
        }
    )
    file = io.BytesIO()
    parquet.write_table(table, file, row_group_size=_ROWS // 8, compression="none")
    return file.getvalue()


def _delta_table(stem: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the objects of a table of delta-rs: one file and the commit that adds it."""
    field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    file = {
        "path": "part-0.parquet",
        "partitionValues": {},
        "size": len(content),
        "modificationTime": 0,
        "dataChange": True,
    }
    commit = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "table", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                      "partitionColumns": [], "configuration": {}, "createdTime": 0}},
        {"add": file},
    ]  # fmt: skip
    yield f"{stem}/part-0.parquet", content
    yield f"{stem}/_delta_log/{0:020}.json", "\n".join(json.dumps(action) for action in commit).encode()


def variables(endpoint: str, folder: Path) -> dict[str, str]:
    """Return the whole environment of a client: an endpoint, a region and keys."""
    return {
        **KEYS,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ALLOW_HTTP": "true",  # without it, Rust's object_store insists on HTTPS
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join((str(BUILT), str(INSTALLED), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT / "tests"),
    }
