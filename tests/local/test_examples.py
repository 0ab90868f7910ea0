"""The examples against the local run: their answers are those of the programs without a cache, and come from it."""

from __future__ import annotations

import difflib
import gc
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from typing import Any

import boto3
import pandas as pd
import pytest

from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.project import PYTHONPATH, ROOT

EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text()
# What README.md shows as typed, and what it shows as printed.
CONSOLE = re.findall(r"^\$ (python examples/.*)\n((?:(?![$`]).*\n)+)", README, re.M)


@pytest.fixture(scope="module", autouse=True)
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """The local run as README.md starts it, and its environment."""
    options = LocalOptions(origin=EXAMPLES / "data", run_dir=tmp_path_factory.mktemp("logs"))
    with LocalCloud(options) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.variables.items():
            patch.setenv(name, value)
        yield running
        BurstcacheFileSystem.clear_instance_cache()
        gc.collect()  # what file systems have to report is sent while there is someone to take it


@pytest.fixture
def tiers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tier of each GET by a client of boto3's that is made from now on."""
    served: list[str] = []

    def note(parsed: dict[str, Any], **_: object) -> None:
        served.append(parsed["ResponseMetadata"]["HTTPHeaders"].get("x-cache-tier", "s3"))

    monkeypatch.setattr(boto3, "DEFAULT_SESSION", boto3.Session())
    boto3.DEFAULT_SESSION.events.register("after-call.s3.GetObject", note)
    return served


def program(path: str) -> ModuleType:
    """Return a program as its process would load it."""
    spec = importlib.util.spec_from_file_location("program", EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changes(example: str) -> list[str]:
    """Return the lines in which a program differs from the one without a cache, as diff shows them."""
    plain, cached = ((EXAMPLES / example / name).read_text().splitlines() for name in ("plain.py", "cached.py"))
    lines = difflib.unified_diff(plain, cached, lineterm="", n=0)
    return [line for line in lines if line[1:].strip() and not line.startswith(("---", "+++", "@@"))]


def test_pandas_reads_from_the_cache_when_one_line_of_its_program_names_another_protocol(
    cloud: LocalCloud,
) -> None:
    plain, cached = program("busiest_hours/plain.py"), program("busiest_hours/cached.py")
    expected = plain.busiest_hours(cloud.bucket_name)

    first, second, third = (cached.busiest_hours(cloud.bucket_name) for _ in range(3))

    assert changes("busiest_hours") == [
        '-TABLE = "s3://{bucket}/requests.parquet"',
        '+TABLE = "burstcache://{bucket}/requests.parquet"',
    ]
    for answer in (first, second, third):
        pd.testing.assert_frame_equal(answer, expected)
    tiers = BurstcacheFileSystem.current().stats().tiers
    assert (set(tiers), tiers["s3"].reads) == ({"s3", "memory"}, 1)


def test_boto3_reads_from_the_cache_when_one_line_of_its_program_wraps_the_client(
    cloud: LocalCloud, tiers: list[str]
) -> None:
    plain, cached = program("dead_links/plain.py"), program("dead_links/cached.py")
    expected = plain.dead_links(cloud.bucket_name)
    tiers.clear()

    with closing(cached.s3):
        answers = [cached.dead_links(cloud.bucket_name) for _ in range(3)]

    assert changes("dead_links") == [
        '-s3 = boto3.client("s3")',
        "+import burstcache",
        '+s3 = burstcache.wrap(boto3.client("s3"))',
    ]
    assert answers == [expected] * 3
    assert tiers == ["s3", "memory", "memory"]


def test_a_lambda_function_shares_what_it_has_read_among_its_invocations(cloud: LocalCloud) -> None:
    function = program("popularity/function.py")

    with function.client as client:
        answers = [function.handler({"path": "/ksc.html"}, None) for _ in range(3)]
        tier = client.get("pages.json").tier

    assert answers == [{"path": "/ksc.html", "requests": 1380}] * 3
    assert tier == "memory"


def test_every_program_is_described() -> None:
    programs = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.py") if path.name != "plain.py"}

    assert [program for program in sorted(programs) if f"`{program}`" not in README] == []


@pytest.mark.parametrize(("command", "printed"), CONSOLE)
def test_a_program_prints_what_the_readme_shows(command: str, printed: str) -> None:
    words = os.path.expandvars(command).split()[1:]

    ran = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=os.environ | {"PYTHONPATH": PYTHONPATH}, capture_output=True, text=True
    )

    assert ran.stdout.split() == printed.split(), ran.stderr
