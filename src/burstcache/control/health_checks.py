"""Health checks for self-tests: a runner, and sentences that explain failures."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.redis_connection import is_refusal, is_silence
from burstcache.core.errors import (
    AccessDeniedError,
    PartDownError,
    RedisDownError,
    RelayDownError,
    ServiceError,
    ServiceTransientError,
)
from burstcache.core.messages.self_test import CheckResult, SelfTestResult

_DENIED = frozenset({"403", "AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"})
_LET_OUT = (
    "nothing answers there: the function's security group must let out this port, and the route table of its subnet"
    " must lead there: to AWS's services over IPv6, or with Network ipv4 to a NAT gateway or an interface endpoint"
)
_LET_IN = (
    "nothing answers there: the function's security group must let out this port, that of the relay or its balancer"
    " must let it in, and the relay's task must run: see the events of its service in ECS"
)
_GRANT = (
    "the function's role lacks a permission: compare its policies, the permissions boundary and the organisation's"
    " policies with template.yaml"
)
_STOP = (
    "the node does not answer: `burstcache redis stop`, after which the next load boots a new one; if that one does not"
    " answer either, a security group must let port 6379 through"
)
_REPLACE = "raise CredentialsIssue and deploy"
_PASSWORD = "its password and that of the functions belong together"
_CERTIFICATE = "its certificate and the functions belong together"
# Causes of invalid certificate dates, by OpenSSL's error code. The function's own clock is right, since AWS sets it.
_TIMES = {9: "the clock that it was made by was ahead, and a new one is valid", 10: "it is ten years old"}
# A server that rejects a user sends an error and closes the connection. A client may see either event first.
_ENDED = (BrokenPipeError, ConnectionResetError)
_TURN_S = 3.0
_MOST_CHARACTERS = 300  # maximum length of an error excerpt


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one part that a function depends on."""

    part: str
    endpoint: Callable[[], str]
    attempt: Callable[[], object]  # raises if it fails
    remedy: str = ""  # for errors without a specific remedy


def run(checks: Sequence[Check], clock: Clock, *, within_s: float) -> SelfTestResult:
    """Start each check after the previous one has ended, or after 3 s. Count a check that exceeds `within_s` as failed.

    Checks that start simultaneously would share a function's fraction of a CPU and exceed their own timeouts.

    Args:
        checks: The checks.
        clock: Measures their durations.
        within_s: The time limit for all checks together [s].
    """
    began_s = clock.monotonic_s()

    def left_s() -> float:
        return max(0.0, began_s + within_s - clock.monotonic_s())

    pool = ThreadPoolExecutor(max(1, len(checks)), thread_name_prefix="self-test")
    futures = []
    for check in checks:
        futures.append(pool.submit(_attempt, check, clock))
        wait(futures[-1:], min(_TURN_S, left_s()))
    wait(futures, left_s())
    pool.shutdown(wait=False)  # a thread that hangs must not delay the answer
    waited_ms = _ms(clock.monotonic_s() - began_s)
    return SelfTestResult(
        tried=[_result(check, future, waited_ms) for check, future in zip(checks, futures, strict=True)]
    )


def _attempt(check: Check, clock: Clock) -> tuple[int, str]:
    """Run a check. Return its duration [ms] and its problem, which is empty after a success."""
    began_s = clock.monotonic_s()
    problem = ""
    try:
        check.attempt()
    except Exception as error:  # any failure is a result of the test
        problem = problem_text(error, check.remedy)
    return _ms(clock.monotonic_s() - began_s), problem


def _result(check: Check, future: Future[tuple[int, str]], waited_ms: int) -> CheckResult:
    is_over = future.done()
    duration_ms, problem = future.result() if is_over else (waited_ms, f"no answer; {_LET_OUT}")
    return CheckResult(part=check.part, endpoint=check.endpoint(), duration_ms=duration_ms, problem=problem)


def problem_text(error: Exception, remedy: str = "") -> str:
    """Return a sentence that describes an error and its remedy."""
    text = str(error) if isinstance(error, PartDownError) else f"{type(error).__name__}: {error}"
    remedy = _remedy(error) or remedy
    return f"{text[:_MOST_CHARACTERS]}; {remedy}" if remedy else text[:_MOST_CHARACTERS]


def _remedy(error: Exception) -> str:
    """Return the remedy for this type of error, or an empty string."""
    cause = error.__cause__
    match error:
        case ServiceError(code=code) if code in _DENIED:
            return _GRANT
        case AccessDeniedError():
            return f"{_GRANT}; a policy of the bucket may forbid it as well"
        case ServiceTransientError(code=""):
            return _LET_OUT
        case ServiceError(code="ParameterNotFound"):
            return f"the parameter is missing: {_REPLACE}"
        case RelayDownError() | RedisDownError() if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{_TIMES.get(cause.verify_code, _CERTIFICATE)}: {_REPLACE}"
        case RedisDownError() if is_refusal(cause):
            return f"{_PASSWORD}: {_REPLACE}"
        case RedisDownError() if is_silence(cause):
            return _STOP
        case RelayDownError() if isinstance(cause, OSError) and not isinstance(cause, _ENDED):
            return _LET_IN
    return ""


def _ms(duration_s: float) -> int:
    return round(duration_s * 1000)
