"""Plugin of pytest that starts an engine of DynamoDB's API, which answers the tests in place of moto: `--engine NAME`.

Each process of a parallel run has an engine of its own. A test that an engine cannot pass is expected to fail, for the
reason in `engines.limits`. It fails the run if it passes.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from engines.limits import limit_of
from engines.processes import NAMES, missing, running
from engines.transactions import Transactions
from support import dynamodb_endpoint
from support.dynamodb_endpoint import Answer, Forward


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the engine."""
    parser.addoption("--engine", choices=NAMES, required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Start the engine."""
    name = config.getoption("engine")
    if problem := missing(name):
        raise pytest.UsageError(problem)
    stack = ExitStack()
    config.add_cleanup(stack.close)
    os.environ[dynamodb_endpoint.VARIABLE] = f"127.0.0.1:{stack.enter_context(running(name))}"
    stack.callback(dynamodb_endpoint.close)
    counted = Counted(name, dynamodb_endpoint.call)
    config.pluginmanager.register(counted)
    dynamodb_endpoint.forward = Transactions(counted.forward).forward if name == "dynalite" else counted.forward
    dynamodb_endpoint.apply()  # some tests start moto by themselves


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect failures of the tests that the engine cannot pass."""
    for item in items:
        if reason := limit_of(config.getoption("engine"), item.nodeid):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


class Counted:
    """Calls that the engine answers, counted for the last lines of a run. A run without any proves nothing, and fails.

    Args:
        engine: Name of the engine.
        call: The engine.
    """

    def __init__(self, engine: str, call: Forward) -> None:
        self._engine, self._call = engine, call
        self._lock = threading.Lock()
        self._calls, self._refusals, self._tests = Counter[str](), Counter[str](), 0

    def forward(self, operation: str, body: bytes) -> Answer:
        """Answer a call."""
        status, headers, text = self._call(operation, body)
        with self._lock:
            self._calls[operation] += 1
            if status != 200:
                self._refusals[str(json.loads(text).get("__type", status)).rpartition("#")[2]] += 1
        return status, headers, text

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, bool | None, bool | None]:
        """Count a test that calls the engine."""
        before = self._calls.total()
        try:
            return (yield)
        finally:
            self._tests += self._calls.total() > before

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that has not called the engine."""
        if session.testscollected and not self._tests:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show what the engine has answered."""
        for what, counts in (("answered", self._calls), ("refused", self._refusals)):
            parts = ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
            terminalreporter.write_line(f"{self._engine} {what} {counts.total():,}: {parts}")
        terminalreporter.write_line(f"{self._tests:,} tests called {self._engine}")
