"""A caller's log says each cause once."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.handlers._init import logs_requests
from burstcache.logs import OnceLog, log_structured_lines, logger


@pytest.fixture
def log() -> OnceLog:
    return OnceLog(logging.getLogger("burstcache.test"))


def test_a_cause_is_written_once_whatever_the_key(log: OnceLog, caplog: pytest.LogCaptureFixture) -> None:
    for key, hash_ in (("a", "0" * 32), ("b", "1" * 32)):
        log.warning("tier failed", tier="lambda", reason=f"no answer to get.{hash_}", key=key)
        log.warning("tier failed", tier="lambda", reason=f"the entry of {key!r} is cut short", key=key)

    assert caplog.messages == [
        f"tier failed (tier: lambda, reason: no answer to get.{'0' * 32}, key: a)",
        "tier failed (tier: lambda, reason: the entry of 'a' is cut short, key: a)",
    ]


def test_other_causes_are_written_as_well(log: OnceLog, caplog: pytest.LogCaptureFixture) -> None:
    log.warning("tier failed", reason="refused")
    log.warning("tier failed", reason="timed out")
    log.error("no answer from %s", "S3", exc_info=True)

    assert caplog.messages == [
        "tier failed (reason: refused)",
        "tier failed (reason: timed out)",
        "no answer from S3",
    ]


def test_causes_do_not_pile_up(log: OnceLog, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(5000):
        log.warning("tier failed", reason=str(number))

    assert len(caplog.messages) == 1000


def test_structured_lines_name_the_request_of_their_function() -> None:
    log_structured_lines()

    @logs_requests
    def keys_of_lines(event: dict[str, Any], context: Any) -> dict[str, str]:
        return logger().get_current_keys()  # type: ignore[attr-defined, no-any-return]

    for request_id in ("one", "two"):
        keys = keys_of_lines({}, SimpleNamespace(aws_request_id=request_id))

        assert keys["function_request_id"] == request_id
