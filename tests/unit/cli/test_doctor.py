"""`burstcache doctor` shows what was tried, names what fails with what to do, and ends with its exit code."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from burstcache.core.messages.self_test import FunctionCheckResult, StackTestResult
from burstcache_cli import doctor
from burstcache_terminal.exit_codes import ExitCode

CLOSED = "EndpointConnectionError: no route; nothing answers there: let out this port"


def tried(function: str, part: str, *, problem: str = "") -> FunctionCheckResult:
    return FunctionCheckResult(function=function, part=part, endpoint="events.aws:443", duration_ms=12, problem=problem)


def run(monkeypatch: pytest.MonkeyPatch, *results: FunctionCheckResult, as_json: bool = False) -> ExitCode:
    asked: list[Any] = []

    def invoke(stack: object, output: str, payload: Any) -> StackTestResult:
        asked.append((output, payload["op"]))
        return StackTestResult(tried=list(results))

    monkeypatch.setattr(doctor, "invoke", invoke)
    monkeypatch.setattr(doctor, "stack_of", lambda args: object())
    code = doctor.doctor(argparse.Namespace(json=as_json, gateway=""))
    assert asked == [("SelfTestFunctionName", "self_test")]
    return code


def test_a_stack_that_works_is_a_table_and_a_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tried("s-proxy", "table"), tried("s-proxy", "bus s")) == ExitCode.SUCCESS

    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["FUNCTION", "PART", "ENDPOINT", "MS"],
        ["s-proxy", "table", "events.aws:443", "12", "ok"],
        ["s-proxy", "bus", "s", "events.aws:443", "12", "ok"],
        ["2", "of", "2", "parts", "work"],
    ]
    assert err == ""


def test_what_fails_in_two_functions_is_one_sentence_and_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [tried(function, "bus s", problem=CLOSED) for function in ("s-proxy", "s-cache")]

    assert run(monkeypatch, tried("s-proxy", "table"), *broken) == ExitCode.FAILURE

    out, err = capsys.readouterr()
    assert out.endswith("1 of 3 parts works\n")
    assert out.count("FAILED") == 2
    assert " ".join(err.split()) == f"s-proxy, s-cache: bus s at events.aws:443: {CLOSED}"


def test_json_is_the_answer_of_the_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tried("s-proxy", "table", problem=CLOSED)

    assert run(monkeypatch, broken, as_json=True) == ExitCode.FAILURE

    assert json.loads(capsys.readouterr().out) == {"tried": [broken]}
