"""Configuration of all tests (conftest): two search sizes, failure on denied permissions, a budget for quick tests."""

from __future__ import annotations

import gc
import io
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support import quick
from support.metrics import STACK, Sample, samples

quick.apply()

# No search fails because the machine is busy. `make test-fast` tries a tenth of the examples (`support.searches`).
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("whole", _UNHURRIED)
settings.register_profile("quick", _UNHURRIED, max_examples=10)
settings.load_profile("whole")

# Processor time that a quick test may take on its own. CONTRIBUTING.md has the rule.
_QUICK_S = 0.2


class _Refusals(logging.Handler):
    """Log handler that collects the permissions denied to roles since the last test ended."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


_REFUSALS = _Refusals()
logging.getLogger("burstcache_local.iam.guard").addHandler(_REFUSALS)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude everything imported so far from later garbage collections."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once. pytest would do it five times, through everything the tests left behind."""
    gc.collect()
    gc.freeze()


class _ProcessorTime:
    """Reporter of quick tests over their processor-time budget. It fails none: a busy machine adds to the time.

    The set-up of a fixture shared by several tests counts for no test. The first test that imports a library or fills a
    cache pays for all.
    """

    def __init__(self) -> None:
        self._shared_s = 0.0
        self._began_s = 0.0
        self._over_s: dict[str, float] = {}

    @staticmethod
    def _so_far_s() -> float:
        return sum(os.times()[:4])  # this process and its ended children

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        began_s, shared_s = self._so_far_s(), self._shared_s
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared_s = shared_s + self._so_far_s() - began_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._began_s = self._so_far_s() - self._shared_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            item.user_properties.append(("processor_s", self._so_far_s() - self._shared_s - self._began_s))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        took_s = dict(report.user_properties).get("processor_s", 0)
        if isinstance(took_s, float) and took_s > _QUICK_S:
            self._over_s[report.nodeid] = took_s

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._over_s:
            terminalreporter.section(f"over {_QUICK_S} s of processor time: make it cheaper or mark it slow")
        for test, took_s in sorted(self._over_s.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{took_s:.2f} s {test}")


def pytest_configure(config: pytest.Config) -> None:
    """Report quick tests over their budget. In quick searches, skip hypothesis's scan of our sources for constants."""
    if config.getoption("markexpr") == "not slow":
        config.pluginmanager.register(_ProcessorTime())
    if config.getoption("--hypothesis-profile", None) == "quick":
        quick.skip_local_constants()


@pytest.fixture(autouse=True)
def refusals() -> Iterator[list[str]]:
    """Fail a test in which a role lacked a permission. A reader would hide it, since S3 serves in place of the tier.

    Yields the denials. A test that expects one removes it.
    """
    yield _REFUSALS.messages
    refused, _REFUSALS.messages[:] = list(_REFUSALS.messages), []
    assert not refused


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Sample]]:
    """Run functions as those of a stack. The returned callable gives the metrics emitted since its last call."""
    printed = io.StringIO()
    monkeypatch.setenv("STACK_NAME", STACK)
    # Do not capture all output instead: a log handler created meanwhile would keep writing there.
    monkeypatch.setattr("burstcache.metrics.sys", SimpleNamespace(stdout=printed))

    def since_the_last_call() -> list[Sample]:
        text = printed.getvalue()
        printed.seek(0)
        printed.truncate()
        return samples(text)

    return since_the_last_call


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Let threads take turns after every few steps, so that a test meets their races."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval_s)
