"""Lambda functions, invoked by other functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import call_aws, translated_errors
from burstcache.core.errors import FunctionFailedError

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_lambda.type_defs import InvocationResponseTypeDef

_LOGGED_FIELDS = ("op", "id", "key", "node")  # of a payload, shown in error messages


def invoke_by_name(client: LambdaClient, function_name: str) -> Callable[[Mapping[str, object]], object]:
    """Return a synchronous invoker of a function, which returns its result or raises FunctionFailedError."""

    def invoke(payload: Mapping[str, object]) -> object:
        response = call_aws(client.invoke, FunctionName=function_name, Payload=json.dumps(payload).encode())
        return returned_value(response, function_name, payload)

    return invoke


def invoke_tenant(client: LambdaClient, function_name: str) -> Callable[[str, Mapping[str, object]], Any]:
    """Return a synchronous invoker of a function with tenant isolation, which raises FunctionFailedError."""

    def invoke(tenant_id: str, payload: Mapping[str, object]) -> Any:
        payload_bytes = json.dumps(payload).encode()
        response = call_aws(client.invoke, FunctionName=function_name, TenantId=tenant_id, Payload=payload_bytes)
        return returned_value(response, f"{function_name} for tenant {tenant_id}", payload)

    return invoke


def start_by_name(client: Callable[[], LambdaClient], function_name: str) -> Callable[[Mapping[str, object]], object]:
    """Return an asynchronous invoker of a function, which does not wait for the result.

    Args:
        client: Creates the client on the first call.
        function_name: Name or ARN of the function.
    """

    def start(payload: Mapping[str, object]) -> object:
        payload_bytes = json.dumps(payload).encode()
        return call_aws(client().invoke, FunctionName=function_name, InvocationType="Event", Payload=payload_bytes)

    return start


def read_payload(response: InvocationResponseTypeDef) -> Any:
    """Read and decode the payload of an invocation. Raise ServiceError if the connection breaks."""
    with translated_errors():
        return json.loads(response["Payload"].read())


def returned_value(response: InvocationResponseTypeDef, function: str, payload: Mapping[str, object]) -> Any:
    """Return the result of an invocation, or raise FunctionFailedError.

    Args:
        response: Lambda's response.
        function: The function's name, for error messages.
        payload: Payload of the invocation.
    """
    result = read_payload(response)
    if "FunctionError" in response:
        error = f"{result.get('errorType', 'error')}: {result.get('errorMessage', result)}"
        raise FunctionFailedError(f"{function} failed at {_logged_fields(payload)}: {error[:500]}")
    return result


def _logged_fields(payload: Mapping[str, object]) -> dict[str, object]:
    """Return the payload's fields that are safe to log. Other fields may contain a token."""
    hub = payload.get("hub")
    fields = {**(hub if isinstance(hub, Mapping) else {}), **payload}
    return {name: fields[name] for name in _LOGGED_FIELDS if name in fields}
