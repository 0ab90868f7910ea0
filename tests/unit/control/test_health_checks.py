"""Trials: one after the other, with a limit, and each failure with what to do."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator

import pytest
import redis

from burstcache.adapters.clock import SystemClock
from burstcache.control.health_checks import Check, problem_text, run
from burstcache.core.errors import OriginError, RedisDownError, RelayDownError, ServiceError, ServiceTransientError
from burstcache.core.messages.self_test import CheckResult


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event that happens when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def caused_by(cause: Exception) -> RelayDownError:
    error = RelayDownError(f"no connection to the relay: {cause!r}")
    error.__cause__ = cause
    return error


def node_error(cause: Exception) -> RedisDownError:
    error = RedisDownError(f"node-1 at 10.0.0.5: {cause!r}")
    error.__cause__ = cause
    return error


def of_code(code: int) -> ssl.SSLCertVerificationError:
    """Return the refusal of a certificate for a reason of OpenSSL's."""
    error = ssl.SSLCertVerificationError("verify failed")
    error.verify_code = code
    return error


def test_a_part_that_works_has_no_problem() -> None:
    (tried,) = run([Check("table", lambda: "dynamodb:443", lambda: None)], SystemClock(), within_s=60)["tried"]

    assert tried == CheckResult(part="table", endpoint="dynamodb:443", duration_ms=tried["duration_ms"], problem="")


def test_parts_are_tried_one_after_the_other() -> None:
    order: list[int] = []
    trials = [Check(str(i), lambda: "", lambda i=i: order.append(i)) for i in range(20)]  # type: ignore[misc]

    run(trials, SystemClock(), within_s=60)

    assert order == list(range(20))


def test_a_part_that_hangs_keeps_nobody_waiting(never: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.control.health_checks._TURN_S", 0.01)
    works = Check("table", lambda: "dynamodb:443", lambda: None)
    hangs = Check("bus", lambda: "events:443", never.wait)

    tried = run([hangs, works], SystemClock(), within_s=2.0)["tried"]

    assert [each["part"] for each in tried] == ["bus", "table"]
    assert tried[0]["problem"].startswith("no answer; nothing answers there: the function's security group must")
    assert tried[1]["problem"] == ""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ServiceError("not authorized", code="AccessDeniedException"), "role lacks a permission"),
        (ServiceError("not authorized", code="UnauthorizedOperation"), "role lacks a permission"),
        (ServiceTransientError("ConnectTimeoutError: events"), "must let out this port"),
        (ServiceTransientError("slow down", code="ThrottlingException"), "slow down"),
        (ServiceError("no such parameter", code="ParameterNotFound"), "raise CredentialsIssue and deploy"),
        (caused_by(of_code(18)), "its certificate and the functions belong together"),
        (caused_by(of_code(9)), "it was made by was ahead, and a new one is valid: raise CredentialsIssue and deploy"),
        (caused_by(of_code(10)), "it is ten years old: raise CredentialsIssue and deploy"),
        (caused_by(ConnectionRefusedError("refused")), "the relay's task must run"),
        (caused_by(TimeoutError()), "the relay's task must run"),
        (caused_by(ConnectionResetError("reset")), "the passwords belong together"),
        (ZeroDivisionError("a mistake"), "ZeroDivisionError: a mistake"),
    ],
    ids=str,
)
def test_a_failure_says_what_to_do(error: Exception, said: str) -> None:
    assert said in problem_text(error, "the passwords belong together")


@pytest.mark.parametrize(
    "cause",
    [redis.TimeoutError("timed out"), redis.ConnectionError("closed"), TimeoutError(), ConnectionRefusedError()],
    ids=repr,
)
def test_remedy_for_a_silent_node_is_to_stop_it_and_keeps_the_passwords(cause: Exception) -> None:
    text = problem_text(node_error(cause))

    assert "the node does not answer: `burstcache redis stop`" in text
    assert "CredentialsIssue" not in text


@pytest.mark.parametrize("cause", [redis.AuthenticationError("WRONGPASS"), of_code(18)], ids=repr)
def test_remedy_for_a_node_that_refuses_its_client_is_new_credentials(cause: Exception) -> None:
    text = problem_text(node_error(cause))

    assert "raise CredentialsIssue and deploy" in text
    assert "redis stop" not in text


def test_a_part_may_know_better_than_its_error() -> None:
    assert problem_text(OriginError("403"), "look at its policy") == "OriginError: 403; look at its policy"
