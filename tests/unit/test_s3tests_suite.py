"""Runs of Ceph's conformance suite: a script takes the place of its Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from s3tests.suite import Suite
from s3tests.tables import Outcome, read_table, write_table

_PASSED = Outcome("passed")
# Passes each test and notes its id in `ran`. At the test `dies` it ends like a process that is killed.
# It notes in `seen` how many lines the table had when it began.
_SCRIPT = f"""#!{sys.executable}
import json, os, pathlib, sys
table = pathlib.Path("table.tsv")
with open("seen", "a") as seen:
    print(len(table.read_text().splitlines()) if table.exists() else 0, file=seen)
for test in (argument for argument in sys.argv if "::" in argument):
    with open(os.environ["S3TESTS_OUTCOMES"], "a") as outcomes, open("ran", "a") as ran:
        print(json.dumps({{"id": test}}), file=outcomes)
        print(test, file=ran)
        if test.endswith("dies"):
            break
        print(json.dumps({{"id": test, "outcome": "passed"}}), file=outcomes)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    python = tmp_path / "python"
    python.write_text(_SCRIPT)
    python.chmod(0o700)
    return Suite(tmp_path, python, tmp_path / "run")


def test_each_process_adds_its_outcomes_to_the_table(suite: Suite, tmp_path: Path) -> None:
    tests = [f"f::test_{number}" for number in range(60)]
    path = tmp_path / "table.tsv"

    table = suite.run("http://127.0.0.1:1", tests, path, owner="")

    assert table == read_table(path) == dict.fromkeys(tests, _PASSED)
    assert (tmp_path / "seen").read_text().split() == ["0", "51"]


def test_a_test_that_ends_its_process_hangs_and_the_others_run(suite: Suite, tmp_path: Path) -> None:
    table = suite.run("http://127.0.0.1:1", ["f::a", "f::dies", "f::b"], tmp_path / "table.tsv", owner="")

    assert table == {"f::a": _PASSED, "f::dies": Outcome("hangs"), "f::b": _PASSED}


def test_an_interrupted_run_goes_on_where_it_was(suite: Suite, tmp_path: Path) -> None:
    path, before = tmp_path / "table.tsv", {"f::a": Outcome("failed", "why"), "f::other": _PASSED}
    write_table(path, before)

    table = suite.run("http://127.0.0.1:1", ["f::a", "f::b"], path, owner="")

    assert table == read_table(path) == {"f::a": Outcome("failed", "why"), "f::b": _PASSED}
    assert (tmp_path / "ran").read_text().split() == ["f::b"]
