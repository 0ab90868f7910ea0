"""Lambda functions that another function calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask, failures_named
from burstcache.core.errors import FunctionFailedError

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_lambda.type_defs import InvocationResponseTypeDef

_NAMES = ("op", "id", "key", "node")  # of a payload's fields, what an error says


def invoke_by_name(client: LambdaClient, function_name: str) -> Callable[[Mapping[str, object]], object]:
    """Return a caller of a function that returns its answer, or raises FunctionFailedError if it fails."""

    def invoke(payload: Mapping[str, object]) -> object:
        answer = ask(client.invoke, FunctionName=function_name, Payload=json.dumps(payload).encode())
        return returned(answer, function_name, payload)

    return invoke


def invoke_tenant(client: LambdaClient, function_name: str) -> Callable[[str, Mapping[str, object]], Any]:
    """Return a caller of a function with tenant isolation, which returns its answer or raises FunctionFailedError."""

    def invoke(tenant_id: str, payload: Mapping[str, object]) -> Any:
        payload_bytes = json.dumps(payload).encode()
        answer = ask(client.invoke, FunctionName=function_name, TenantId=tenant_id, Payload=payload_bytes)
        return returned(answer, f"{function_name} for tenant {tenant_id}", payload)

    return invoke


def start_by_name(client: Callable[[], LambdaClient], function_name: str) -> Callable[[Mapping[str, object]], object]:
    """Return a caller of a function that does not wait for its answer.

    Args:
        client: Makes the client, at the first call.
        function_name: The function's name or ARN.
    """

    def start(payload: Mapping[str, object]) -> object:
        payload_bytes = json.dumps(payload).encode()
        return ask(client().invoke, FunctionName=function_name, InvocationType="Event", Payload=payload_bytes)

    return start


def payload_of(answer: InvocationResponseTypeDef) -> Any:
    """Return what an invocation has brought; raise ServiceError if the connection breaks on the way."""
    with failures_named():
        return json.loads(answer["Payload"].read())


def returned(answer: InvocationResponseTypeDef, what: str, payload: Mapping[str, object]) -> Any:
    """Return what a function returned, or raise FunctionFailedError."""
    answered = payload_of(answer)
    if "FunctionError" in answer:
        error = f"{answered.get('errorType', 'error')}: {answered.get('errorMessage', answered)}"
        raise FunctionFailedError(f"{what} failed at {_named_in(payload)}: {error[:500]}")
    return answered


def _named_in(payload: Mapping[str, object]) -> dict[str, object]:
    """Return what a payload is about: it may have a token, which no log may have."""
    hub = payload.get("hub")
    named = {**(hub if isinstance(hub, Mapping) else {}), **payload}
    return {name: named[name] for name in _NAMES if name in named}
