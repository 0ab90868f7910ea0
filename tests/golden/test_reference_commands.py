"""The commands print the reference's fields as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from burstcache_cli.cli import main
from support.reference import each_trace, trace_path

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs `burstcache … --json` and returns the object that it prints."""

    def run(*words: object) -> dict[str, Any]:
        assert main([*map(str, words), "--prices", "thesis-2022", "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


@each_trace
def test_run_prints_the_thesis_policys_fields(trace: dict[str, Any], call: Call) -> None:
    for expected in trace["thesis"]:
        policy = ("--policy", "thesis", "--rate", expected["rate"], "--sensitivity", expected["sensitivity"])

        found = call("sim", "run", trace_path(trace), *policy)

        assert {name: found[name] for name in expected["natural"]} == expected["natural"]
        if "horizon" in expected:
            found = call("sim", "run", trace_path(trace), *policy, "--until", trace["duration_s"])
            assert {name: found[name] for name in expected["horizon"]} == expected["horizon"]


@each_trace
def test_offline_prints_the_references_fields(trace: dict[str, Any], call: Call) -> None:
    assert call("research", "offline", trace_path(trace)) == trace["offline"]


@each_trace
def test_optimum_prints_the_references_fields(trace: dict[str, Any], call: Call) -> None:
    expected = trace["optimum"]

    found = call("research", "optimum", trace_path(trace))

    assert found == {name: value for name, value in expected.items() if name != "pareto"}
    for point in expected["pareto"]:
        found = call("research", "optimum", trace_path(trace), "--miss-penalty-usd", point["penalty"])
        names = ("penalty_units", "objective_units", "fewest_misses", "cost_units_at_fewest_misses")
        assert {name: found[name] for name in names} == {name: point[name] for name in names}
