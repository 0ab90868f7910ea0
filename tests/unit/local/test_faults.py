"""Faults of AWS in a local cloud, applied to calls and events as they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from burstcache_local.faults import OBSERVER, CallFault, Faults
from burstcache_local.signed_requests import Refusal

_BODY = b"ten bytes!"
_REFUSAL = Refusal("ThrottlingException", "400 Bad Request", "made by a fault")


def service(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [_BODY]


def call(
    faults: Faults, service_name: str, operation: str, signer: str = "somebody", *, path: str = "/"
) -> tuple[str, list[bytes]]:
    """Return status and parts of the body of a call that a client of AWS makes."""
    environ: dict[str, Any] = {
        "HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential={signer}/20260101/us-east-2/{service_name}/aws4_request",
        "HTTP_X_AMZ_TARGET": f"Any.{operation}",
        "CONTENT_LENGTH": "0",
        "PATH_INFO": path,
        "wsgi.input": None,
    }
    environ |= {"wsgi.input": _Nothing()}
    answered: list[str] = []

    def start_response(status: str, *rest: object) -> Any:
        answered.append(status)

    parts = list(faults.before(service)(environ, start_response))
    return answered[0], parts


class _Nothing:
    def read(self, size: int) -> bytes:
        return b""


def test_a_service_refuses_the_operations_that_are_named_and_no_other_call() -> None:
    faults = Faults()

    with faults.inject_call_fault(CallFault("dynamodb", frozenset({"Query"}), refusal=_REFUSAL)):
        status, (body,) = call(faults, "dynamodb", "Query")
        others = [call(faults, "dynamodb", "GetItem"), call(faults, "states", "Query")]

    assert (status, json.loads(body)["__type"]) == ("400 Bad Request", "ThrottlingException")
    assert others == [("200 OK", [_BODY])] * 2
    assert call(faults, "dynamodb", "Query") == ("200 OK", [_BODY])


def test_a_fault_of_one_address_befalls_no_other() -> None:
    faults = Faults()

    with faults.inject_call_fault(CallFault("s3", path="/of/it", refusal=_REFUSAL)):
        assert call(faults, "s3", "GetObject", path="/of/another") == ("200 OK", [_BODY])
        assert call(faults, "s3", "GetObject", path="/bucket/of/it")[0] == "400 Bad Request"


def test_no_fault_befalls_who_only_looks_on() -> None:
    faults = Faults()

    with faults.inject_call_fault(CallFault("dynamodb", refusal=_REFUSAL)):
        assert call(faults, "dynamodb", "Query", OBSERVER) == ("200 OK", [_BODY])


def test_a_call_that_waits_goes_on_when_its_fault_is_over() -> None:
    faults, fault = Faults(), CallFault("s3", delay_s=1e6)

    with faults.inject_call_fault(fault):
        fault.is_over.set()

        assert call(faults, "s3", "GetObject") == ("200 OK", [_BODY])


def test_a_body_is_cut_in_its_middle() -> None:
    faults = Faults()

    with (
        faults.inject_call_fault(CallFault("s3", is_cut=True)),
        pytest.raises(ConnectionResetError, match="cut by a fault"),
    ):
        call(faults, "s3", "GetObject")


def test_faults_of_events_and_clocks_end_with_their_blocks() -> None:
    faults = Faults()

    with faults.schedule_events(lambda: (0.0, 30.0)), faults.shift_clocks((-1.0, 1.0)):
        meanwhile = faults.deliveries(), [faults.clock_ahead_s() for _ in range(3)]

    assert meanwhile == ((0.0, 30.0), [-1.0, 1.0, -1.0])
    assert (faults.deliveries(), faults.clock_ahead_s()) == ((0.0,), 0.0)
    assert faults.counts == {"events": 1, "clocks": 3}


def test_faults_of_nodes_end_with_their_blocks() -> None:
    faults = Faults()

    with faults.silence_nodes(), faults.fill_volumes():
        meanwhile = faults.is_silent(), faults.is_full()

    assert meanwhile == (True, True)
    assert (faults.is_silent(), faults.is_full()) == (False, False)
    assert faults.counts == {"nodes": 1, "volumes": 1}
