"""The limits of engines name tests that exist, and an engine that a machine lacks is named in a sentence."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from engines import __main__ as program
from engines import processes
from engines.limits import LIMITS, limit_of
from support.project import ROOT


def test_every_engine_has_its_limits() -> None:
    assert LIMITS.keys() == set(processes.NAMES)


def test_a_limit_names_tests_that_exist() -> None:
    named = itertools.chain.from_iterable(tests for limits in LIMITS.values() for tests in limits.values())

    for test in named:
        path, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}" in (ROOT / path).read_text()


def test_a_limit_of_a_function_is_one_of_its_cases_and_of_no_longer_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.limits.LIMITS", {"ministack": {"why": ("tests/a.py::test_a",)}})

    found = [limit_of("ministack", f"tests/a.py::{name}") for name in ("test_a", "test_a[1]", "test_a_b")]

    assert found == ["why", "why", ""]


def test_an_engine_that_cannot_run_is_named_and_does_not_fail_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["engines", "--short", "--engine", "dynalite"])

    assert program.main() == 0
    assert "NOT RUN: dynalite needs Node, and there is none on the PATH." in capsys.readouterr().out
