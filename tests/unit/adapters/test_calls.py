"""Calls of AWS: botocore's exceptions become our errors, by code and status alone."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, NoCredentialsError

from burstcache.adapters.calls import call_aws, translated_transient_errors, write_if
from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    ObjectNotFoundError,
    OriginUnavailableError,
    RelayDownError,
    ServiceError,
    ServiceTransientError,
)


def refused(code: str, status: int = 400) -> ClientError:
    response = {"Error": {"Code": code, "Message": "Throttling"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetItem")  # type: ignore[arg-type]


def raiser(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (refused("AccessDenied"), ServiceError, "AccessDenied"),
        (refused("ThrottlingException"), ServiceTransientError, "ThrottlingException"),
        (refused("InternalServerError", 500), ServiceTransientError, "InternalServerError"),
        (ConnectTimeoutError(endpoint_url="http://x"), ServiceTransientError, ""),
        (NoCredentialsError(), ServiceError, ""),
    ],
)
def test_failure_is_named_by_its_kind(error: Exception, kind: type[ServiceError], code: str) -> None:
    with pytest.raises(ServiceError) as caught:
        call_aws(raiser, error)

    assert (type(caught.value), caught.value.code) == (kind, code)


@pytest.mark.parametrize(
    "error",
    [
        refused("RequestLimitExceeded"),
        refused("InternalError", 500),
        ConnectTimeoutError(endpoint_url="http://x"),
        OriginUnavailableError("S3 answered 503 SlowDown for 'k'"),
        ServiceTransientError("slow down", code="Throttling"),
    ],
)
def test_passing_failure_of_any_service_leaves_a_function_under_one_name(error: Exception) -> None:
    with pytest.raises(ServiceTransientError), translated_transient_errors():
        raise error


@pytest.mark.parametrize("error", [ObjectNotFoundError("gone"), AccessDeniedError("no"), RelayDownError("down")])
def test_other_failures_leave_a_function_under_their_own_names(error: BurstcacheError) -> None:
    with pytest.raises(type(error)) as caught, translated_transient_errors():
        raise error

    assert caught.value is error


def test_answer_is_passed_on() -> None:
    assert call_aws(max, 1, 2) == 2


def test_condition_that_does_not_hold_is_no_failure() -> None:
    assert write_if(raiser, refused("ConditionalCheckFailedException")) is None
    with pytest.raises(ServiceError, match="AccessDenied"):
        write_if(raiser, refused("AccessDenied"))
