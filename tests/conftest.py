"""What all tests have: searches in two sizes, refused rights that fail, and a watch over what quick ones take."""

from __future__ import annotations

import gc
import io
import logging
import os
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import support.quick as _quick  # noqa: F401 (it is enough to import it)
from support.metrics import STACK, Sample, samples

# No search fails because the machine is busy; `make test-fast` searches among a tenth of the examples
# (`support.searches`).
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("whole", _UNHURRIED)
settings.register_profile("quick", _UNHURRIED, max_examples=10)
settings.load_profile("whole")

# What a quick test takes at most, by itself; CONTRIBUTING.md has the rule.
_QUICK_S = 0.2


class _Refusals(logging.Handler):
    """What roles were refused since the last test ended."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


_REFUSALS = _Refusals()
logging.getLogger("burstcache_local.iam.guard").addHandler(_REFUSALS)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what is imported by now out of every later look for garbage."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for garbage once where pytest would look five times, through all that the tests leave."""
    gc.collect()
    gc.freeze()


class _ProcessorTime:
    """Names the quick tests that take longer than they may, and fails none: a busy machine adds to what they take.

    A fixture that several tests share is no test's own. The first test that needs a library, or what a cache keeps,
    pays for all.
    """

    def __init__(self) -> None:
        self._shared_s = 0.0
        self._began_s = 0.0
        self._over_s: dict[str, float] = {}

    @staticmethod
    def _so_far_s() -> float:
        return sum(os.times()[:4])  # the process and its children that have ended

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
    """Watch what quick tests take; quick searches do without the constants of our sources, all of which are read."""
    if config.getoption("markexpr") == "not slow":
        config.pluginmanager.register(_ProcessorTime())
    if config.getoption("--hypothesis-profile", None) == "quick":
        constants: Any = providers
        constants._get_local_constants = lambda: constants._local_constants


@pytest.fixture(autouse=True)
def refusals() -> Iterator[list[str]]:
    """Fails a test in which a role lacked a right: a reader that may not ask a tier hides it, since S3 serves.

    Yields what was refused; a test that expects it takes it away.
    """
    yield _REFUSALS.messages
    refused, _REFUSALS.messages[:] = list(_REFUSALS.messages), []
    assert not refused


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Sample]]:
    """Has functions be those of a stack; returns the metrics that they have emitted since the last call."""
    printed = io.StringIO()
    monkeypatch.setenv("STACK_NAME", STACK)
    # Not by capturing all output: a log that is made meanwhile would keep writing there.
    monkeypatch.setattr("burstcache.metrics.sys", SimpleNamespace(stdout=printed))

    def since_the_last_call() -> list[Sample]:
        text = printed.getvalue()
        printed.seek(0)
        printed.truncate()
        return samples(text)

    return since_the_last_call
