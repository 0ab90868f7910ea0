"""Calls of AWS services: whatever botocore raises becomes one of our errors, by its code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from burstcache.core.errors import OriginUnavailableError, ServiceError, ServiceTransientError

_P = ParamSpec("_P")
_R = TypeVar("_R")
# What DynamoDB, Step Functions, EC2, EventBridge, Systems Manager and Lambda answer when they are asked too often, or
# while another call is under way.
_PASSING = frozenset(
    {
        "EC2ThrottledException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "TransactionConflictException",
    }
)


def ask(call: Callable[_P, _R], *args: _P.args, **arguments: _P.kwargs) -> _R:
    """Return a service's answer.

    Raises:
        ServiceError: The service refused (its `code` says why) or could not be asked.
    """
    with failures_named():
        return call(*args, **arguments)


@contextmanager
def failures_named() -> Iterator[None]:
    """Raise ServiceError for what botocore raises: ServiceTransientError if asking again later may help."""
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        reasons = tuple(reason.get("Code", "") for reason in error.response.get("CancellationReasons", ()))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_passing = status >= 500 or code in _PASSING
        kind = ServiceTransientError if is_passing else ServiceError
        raise kind(str(error), code=code, reasons=reasons) from error
    except (HTTPClientError, NoConnectionError) as error:
        raise ServiceTransientError(f"{type(error).__name__}: {error}") from error
    except BotoCoreError as error:
        raise ServiceError(f"{type(error).__name__}: {error}") from error


@contextmanager
def passing_failures_named() -> Iterator[None]:
    """Give every passing failure of AWS the one name under which the state machines repeat a step.

    It stands at the edge of the functions that the machines call: throttling, a 5xx, a time-out or a connection error
    of any service, S3 included, leaves them as ServiceTransientError.
    """
    try:
        with failures_named():
            yield
    except OriginUnavailableError as error:
        raise ServiceTransientError(str(error)) from error


def write_if(write: Callable[_P, _R], *args: _P.args, **arguments: _P.kwargs) -> _R | None:
    """Return the answer to a conditional write; None if its condition did not hold.

    Raises:
        ServiceError: As for `ask`.
    """
    try:
        return ask(write, *args, **arguments)
    except ServiceError as error:
        if error.code == "ConditionalCheckFailedException":
            return None
        raise
