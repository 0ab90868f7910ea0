"""Calls to AWS services, with botocore's exceptions translated into Burstcache's errors by error code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from burstcache.core.errors import OriginUnavailableError, ServiceError, ServiceTransientError

_P = ParamSpec("_P")
_R = TypeVar("_R")
# Throttling and concurrency errors of DynamoDB, Step Functions, EC2, EventBridge, Systems Manager and Lambda.
_TRANSIENT = frozenset(
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


def call_aws(call: Callable[_P, _R], *args: _P.args, **arguments: _P.kwargs) -> _R:
    """Call a service and return its response.

    Raises:
        ServiceError: The service rejected the call (see `code`) or is unreachable.
    """
    with translated_errors():
        return call(*args, **arguments)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate botocore's exceptions into ServiceError, or ServiceTransientError if a later retry may help."""
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        reasons = tuple(reason.get("Code", "") for reason in error.response.get("CancellationReasons", ()))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_transient = status >= 500 or code in _TRANSIENT
        kind = ServiceTransientError if is_transient else ServiceError
        raise kind(str(error), code=code, reasons=reasons) from error
    except (HTTPClientError, NoConnectionError) as error:
        raise ServiceTransientError(f"{type(error).__name__}: {error}") from error
    except BotoCoreError as error:
        raise ServiceError(f"{type(error).__name__}: {error}") from error


@contextmanager
def translated_transient_errors() -> Iterator[None]:
    """Translate every transient failure of AWS into ServiceTransientError, which the state machines retry.

    Use it in handlers of functions that state machines invoke. It covers throttling, 5xx responses, timeouts and
    connection errors of all services, including S3.
    """
    try:
        with translated_errors():
            yield
    except OriginUnavailableError as error:
        raise ServiceTransientError(str(error)) from error


def write_if(write: Callable[_P, _R], *args: _P.args, **arguments: _P.kwargs) -> _R | None:
    """Make a conditional write and return its response, or None if the condition did not hold.

    Raises:
        ServiceError: As for `call_aws`.
    """
    try:
        return call_aws(write, *args, **arguments)
    except ServiceError as error:
        if error.code == "ConditionalCheckFailedException":
            return None
        raise
