"""Trials: what a self-test tries, and how what fails is put into words."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.core.errors import (
    AccessDeniedError,
    PartDownError,
    RedisDownError,
    RelayDownError,
    ServiceError,
    ServiceTransientError,
)
from burstcache.core.messages.self_test import SelfTested, Tried

_DENIED = frozenset({"403", "AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"})
_LET_OUT = (
    "nothing answers there: the function's security group must let out this port, and the route table of its subnet"
    " must lead there, over IPv6 to AWS's services"
)
_LET_IN = (
    "nothing answers there: the function's security group must let out this port, that of the relay or its balancer"
    " must let it in, and the relay's task must run: see the events of its service in ECS"
)
_GRANT = (
    "the function's role lacks a permission: compare its policies, the permissions boundary and the organisation's"
    " policies with template.yaml"
)
_REPLACE = "raise CredentialsIssue and deploy"
_CERTIFICATE = "its certificate and the functions belong together"
# Of a certificate whose time is wrong, by OpenSSL's code: a function's own clock is set by AWS.
_TIMES = {9: "the clock that it was made by was ahead, and a new one is valid", 10: "it is ten years old"}
# A server that refuses a user says so and hangs up, and which of both is noticed first is chance.
_ENDED = (BrokenPipeError, ConnectionResetError)
_TURN_S = 3.0
_MOST_CHARACTERS = 300  # of an error's own text


@dataclass(frozen=True, slots=True)
class Trial:
    """One part that a function works with."""

    part: str
    endpoint: Callable[[], str]
    attempt: Callable[[], object]  # raises what fails
    remedy: str = ""  # where the error itself does not suggest one


def run(trials: Sequence[Trial], clock: Clock, *, within_s: float) -> SelfTested:
    """Try one after the other, though none waits for long for one that hangs; what has not ended by then has failed.

    All at once they would share the small part of a CPU that a function has, and miss their own time-outs.

    Args:
        trials: What to try.
        clock: Measures how long each takes.
        within_s: How long to wait for the last one [s].
    """
    began_s = clock.monotonic_s()

    def left_s() -> float:
        return max(0.0, began_s + within_s - clock.monotonic_s())

    pool = ThreadPoolExecutor(max(1, len(trials)), thread_name_prefix="self-test")
    futures = []
    for trial in trials:
        futures.append(pool.submit(_try, trial, clock))
        wait(futures[-1:], min(_TURN_S, left_s()))
    wait(futures, left_s())
    pool.shutdown(wait=False)  # a thread that hangs must not keep the answer back
    waited_ms = _ms(clock.monotonic_s() - began_s)
    return SelfTested(tried=[_tried(trial, future, waited_ms) for trial, future in zip(trials, futures, strict=True)])


def _try(trial: Trial, clock: Clock) -> tuple[int, str]:
    began_s = clock.monotonic_s()
    problem = ""
    try:
        trial.attempt()
    except Exception as error:  # whatever fails is what the test is for
        problem = problem_text(error, trial.remedy)
    return _ms(clock.monotonic_s() - began_s), problem


def _tried(trial: Trial, future: Future[tuple[int, str]], waited_ms: int) -> Tried:
    is_over = future.done()
    duration_ms, problem = future.result() if is_over else (waited_ms, f"no answer; {_LET_OUT}")
    return Tried(part=trial.part, endpoint=trial.endpoint(), duration_ms=duration_ms, problem=problem)


def problem_text(error: Exception, remedy: str = "") -> str:
    """Return what happened and what to do."""
    text = str(error) if isinstance(error, PartDownError) else f"{type(error).__name__}: {error}"
    remedy = _remedy(error) or remedy
    return f"{text[:_MOST_CHARACTERS]}; {remedy}" if remedy else text[:_MOST_CHARACTERS]


def _remedy(error: Exception) -> str:
    """Return what the kind of an error suggests, or nothing."""
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
        case RelayDownError() if isinstance(cause, OSError) and not isinstance(cause, _ENDED):
            return _LET_IN
    return ""


def _ms(duration_s: float) -> int:
    return round(duration_s * 1000)
