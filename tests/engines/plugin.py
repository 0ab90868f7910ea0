"""Plugin of pytest that starts an engine of DynamoDB's API, which answers the tests in place of moto: `--engine NAME`.

Each process of a parallel run has an engine of its own. A test that an engine cannot pass is expected to fail, for the
reason in `engines.limits`. It fails the run if it passes.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from engines.limits import limit_of
from engines.processes import NAMES, missing, running

_ENGINE = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the engine."""
    parser.addoption("--engine", choices=NAMES, required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Start the engine before anything reads its address."""
    name = config.getoption("engine")
    if problem := missing(name):
        raise pytest.UsageError(problem)
    stack = config.stash[_ENGINE] = ExitStack()
    os.environ["BURSTCACHE_TEST_DYNAMODB"] = f"127.0.0.1:{stack.enter_context(running(name))}"
    if name == "dynalite":
        from engines.transactions import Transactions
        from support import dynamodb_endpoint

        dynamodb_endpoint.forward = Transactions(dynamodb_endpoint.call).forward


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the engine."""
    from support import dynamodb_endpoint

    dynamodb_endpoint.close()
    if stack := config.stash.get(_ENGINE, None):
        stack.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect failures of the tests that the engine cannot pass."""
    for item in items:
        if reason := limit_of(config.getoption("engine"), item.nodeid):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
