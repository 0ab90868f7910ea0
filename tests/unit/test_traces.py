"""A function that is not traced does nothing for traces."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache import traces


def handler(event: dict[str, Any], context: Any) -> str:
    return "answered"


@pytest.mark.parametrize(
    "environment",
    [
        {"LAMBDA_TASK_ROOT": "/var/task", "POWERTOOLS_TRACE_DISABLED": "true"},
        {"LAMBDA_TASK_ROOT": "/var/task", "POWERTOOLS_TRACE_DISABLED": "false", "AWS_SAM_LOCAL": "true"},
        {"POWERTOOLS_TRACE_DISABLED": "false"},
        {},
    ],
    ids=["disabled", "under SAM CLI", "not in Lambda", "a caller's process"],
)
def test_a_handler_that_is_not_traced_stays_what_it_is(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert traces.traces_requests(handler) is handler


def test_without_a_trace_nothing_is_recorded_and_nothing_carried_on() -> None:
    with traces.subsegment("redis node-1"), traces.continue_trace("Root=1-0-0;Parent=0;Sampled=1", key_hash="abc"):
        traces.annotate(tier="redis", hit=True)
        traces.mark_failed()

        assert traces.trace_header() == ""


@pytest.mark.parametrize("caller", ["", "Sampled=1", "Root=1-0-0;Sampled=1", "Root=1-0-0;Parent=0;Sampled=0"])
def test_a_header_that_names_no_sampled_trace_hinders_no_answer(monkeypatch: pytest.MonkeyPatch, caller: str) -> None:
    monkeypatch.setattr(traces, "_tracer", object())  # would fail as soon as something is sent with it

    with traces.continue_trace(caller, key_hash="abc"):
        answered = True

    assert answered
