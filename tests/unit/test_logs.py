"""A caller's log says each cause once."""

from __future__ import annotations

import logging

import pytest

from burstcache.logs import OnceLog


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
