"""What makes a process that runs many tests quick, whichever they are."""

from __future__ import annotations

import functools
import gc
import io
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import botocore.loaders
import botocore.parsers
import pytest
import yaml
from botocore.hooks import EventAliaser
from hypothesis import HealthCheck, settings

from support.metrics import STACK, Sample, samples

# Each session reads the descriptions of its services anew, which takes longer than most tests: all share one reader.
botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)

# So it is with the names of events, which each client looks up in a table of a hundred rows, and with times in answers.
_Aliaser: Any = EventAliaser
_event_name = functools.cache(_Aliaser(None)._alias_event_name)
_Aliaser._alias_event_name = lambda self, event_name: _event_name(event_name)
botocore.parsers.DEFAULT_TIMESTAMP_PARSER = functools.lru_cache(botocore.parsers.DEFAULT_TIMESTAMP_PARSER)

# libyaml reads the template six times as fast as Python does.
yaml.SafeLoader, yaml.BaseLoader = yaml.CSafeLoader, yaml.CBaseLoader  # type: ignore[misc, assignment]

# Libraries and those descriptions are millions of objects that live to the end: at Python's own thresholds a fifth of
# the time goes into looking through them for garbage.
gc.set_threshold(200_000, 50, 1_000)

# No search fails because the machine is busy; `make test-fast` searches among a tenth of the examples
# (`support.searches`).
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("whole", _UNHURRIED)
settings.register_profile("quick", _UNHURRIED, max_examples=10)
settings.load_profile("whole")


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
