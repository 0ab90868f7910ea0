"""Hits as metrics: gathered, and printed alongside a later call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from burstcache.forks import after_fork
from burstcache.metrics import RESULT_CALLS
from burstcache.results import cached, open_cache
from burstcache.results.backends import _take_timeout, backend_urls
from burstcache.results.meter import VARIABLE
from support.clock import ManualClock
from support.metrics import MetricId, samples
from support.project import ROOT


def counts(text: str) -> dict[MetricId, float]:
    return {sample.metric: sample.value for sample in samples(text)}


def of(source: str) -> MetricId:
    return MetricId("Burstcache", "ResultCalls", frozenset({("Application", "shop"), ("Source", source)}))


def test_calls_are_printed_every_ten_seconds_by_what_answered_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "shop")
    clock = ManualClock(1_000_000.0)
    echo = cached(backend=open_cache("memory://", clock=clock))(lambda text: text)

    for text in ("a", "a", "b"):
        echo(text)
    assert capsys.readouterr().out == ""
    clock.sleep(10)
    echo("a")

    assert counts(capsys.readouterr().out) == {of("memory"): 1, of("computed"): 2}


def test_a_call_in_an_environment_that_was_frozen_has_the_time_of_the_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "shop")
    clock = ManualClock(1_000_000.0)
    echo = cached(backend=open_cache("memory://", clock=clock))(lambda text: text)
    echo("a")

    clock.sleep(60)
    thawed_ms = clock.now_us() // 1000
    echo("a")
    clock.sleep(10)
    echo("a")

    at_ms = {sample.metric: sample.at_ms for sample in samples(capsys.readouterr().out)}
    assert at_ms == {of("computed"): thawed_ms - 60_000, of("memory"): thawed_ms}


def test_the_child_of_a_fork_prints_nothing_that_its_parent_has_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "shop")
    clock = ManualClock(1_000_000.0)
    echo = cached(backend=open_cache("memory://", clock=clock))(lambda text: text)
    echo("a")

    after_fork()
    echo("a")
    clock.sleep(10)
    echo("a")

    assert counts(capsys.readouterr().out) == {of("memory"): 1}


_PROGRAM = """
from burstcache.results import cached
echo = cached(lambda text: text)
echo("a"), echo("a")
"""


def test_a_program_that_ends_prints_its_last_calls() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={"PYTHONPATH": str(ROOT / "src"), VARIABLE: "shop"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert counts(done.stdout) == {of("memory"): 1, of("computed"): 1}


def test_nothing_is_printed_unless_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    clock = ManualClock(1_000_000.0)
    echo = cached(backend=open_cache("memory://", clock=clock))(lambda text: text)

    echo("a")
    clock.sleep(10)
    echo("a")

    assert capsys.readouterr().out == ""


def test_every_source_is_a_value_of_the_metric() -> None:
    assert {"memory", "unix", "redis", "stack", "s3"} < set(RESULT_CALLS.values)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("", ["memory://"]),
        ("redis://h", ["redis://h"]),
        ("memory://, redis://h  s3://b/p", ["memory://", "redis://h", "s3://b/p"]),
    ],
)
def test_urls_come_from_the_environment_in_their_order(
    monkeypatch: pytest.MonkeyPatch, text: str, urls: list[str]
) -> None:
    monkeypatch.setenv("BURSTCACHE_RESULTS", text)

    assert backend_urls(None) == urls


@pytest.mark.parametrize(
    ("url", "rest", "timeout_ms"),
    [
        ("unix:///run/r.sock", "unix:///run/r.sock", None),
        ("unix:///run/r.sock?timeout_ms=50&db=2", "unix:///run/r.sock?db=2", 50),
        ("redis://u:p%40@h:1/2?timeout_ms=50", "redis://u:p%40@h:1/2", 50),
        ("burstcache://Stack?timeout_ms=50", "burstcache://Stack", 50),
    ],
)
def test_a_time_out_is_taken_out_of_a_url(url: str, rest: str, timeout_ms: int | None) -> None:
    assert _take_timeout(url) == (rest, timeout_ms)


def test_an_error_shows_no_password() -> None:
    with pytest.raises(Exception, match="…@host") as error:
        open_cache("redis://user:secret@host?timeout_ms=x")

    assert "secret" not in str(error.value)
