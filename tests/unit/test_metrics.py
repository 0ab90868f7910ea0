"""Metrics as lines, which are the same as Powertools writes."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from burstcache.control.cache_tools import End
from burstcache.metrics import (
    FAILED_READS,
    LATENCY_MS,
    LIVES,
    METRICS,
    NAMESPACE,
    PROMOTIONS,
    READ_BYTES,
    emf_line,
    put,
    write,
)
from support.metrics import STACK, MetricId, samples


def test_a_metric_is_one_of_the_stack(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STACK_NAME", STACK)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "redis-control")

    put((PROMOTIONS, 1))

    (sample,) = samples(capsys.readouterr().out)
    assert sample.metric == MetricId("Burstcache", "Promotions", frozenset({("Stack", STACK)}))
    assert (sample.unit, sample.value) == ("Count", 1)


def test_a_process_that_is_no_function_of_a_stack_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STACK_NAME", raising=False)

    put((PROMOTIONS, 1))

    assert capsys.readouterr().out == ""


def test_a_line_of_ours_is_one_of_powertools() -> None:
    dimensions = {"Stack": STACK, "Tier": "redis"}
    line = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service="", dimension_set=dimensions)
    line.add_metric(LATENCY_MS.name, LATENCY_MS.unit, 2.5)
    line.add_metric(READ_BYTES.name, READ_BYTES.unit, 100)
    theirs: Any = line.serialize_metric_set()

    at_ms = theirs["_aws"]["Timestamp"]
    ours = json.loads(emf_line({LATENCY_MS: [2.5], READ_BYTES: [100]}, dimensions, at_ms=at_ms))

    assert ours == theirs


class BrokenPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def closed_file() -> io.StringIO:
    file = io.StringIO()
    file.close()
    return file


@pytest.mark.parametrize("stdout", [BrokenPipe(), closed_file(), None], ids=["broken pipe", "closed", "none"])
def test_a_line_that_cannot_be_written_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO | None
) -> None:
    monkeypatch.setenv("STACK_NAME", STACK)
    monkeypatch.setattr("burstcache.metrics.sys", SimpleNamespace(stdout=stdout))

    put((PROMOTIONS, 1))


def test_no_lines_do_not_flush_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.metrics.sys", SimpleNamespace())

    write([])


def test_metrics_have_units_that_cloudwatch_knows() -> None:
    from aws_lambda_powertools.metrics import MetricUnit

    known = {unit.value for unit in MetricUnit} | {"None"}

    assert {metric.unit for metric in METRICS} - known == set()
    assert FAILED_READS in METRICS


def test_every_end_of_a_life_has_its_metric() -> None:
    ends = set(get_args(End)) - {"handed_over", "stopped"} | {"promoted"}  # a life that is handed over goes on

    assert set(LIVES.values) == ends | {"left_redis"}
