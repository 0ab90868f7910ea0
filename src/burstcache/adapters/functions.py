"""Lambda functions that another function calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.pool import Serve

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_lambda.type_defs import InvocationResponseTypeDef


def invoke_by_name(client: LambdaClient, function_name: str) -> Callable[[Mapping[str, object]], object]:
    """Return a caller of a function that returns its answer, or raises FunctionFailedError if it fails."""

    def invoke(payload: Mapping[str, object]) -> object:
        answer = ask(client.invoke, FunctionName=function_name, Payload=json.dumps(payload).encode())
        return _returned(answer, function_name, payload)

    return invoke


def invoke_tenant(client: LambdaClient, function_name: str) -> Callable[[str, Mapping[str, object]], Any]:
    """Return a caller of a function with tenant isolation, which returns its answer or raises FunctionFailedError."""

    def invoke(tenant_id: str, payload: Mapping[str, object]) -> Any:
        payload_bytes = json.dumps(payload).encode()
        answer = ask(client.invoke, FunctionName=function_name, TenantId=tenant_id, Payload=payload_bytes)
        return _returned(answer, f"{function_name} for tenant {tenant_id}", payload)

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


def wake_by_name(
    client: LambdaClient, function_name: str, threads: ThreadPoolExecutor
) -> Callable[[str, Serve], Awaitable[None]]:
    """Return what hands an event to a member of the pool, which Lambda runs soon after.

    Args:
        client: Is used by several threads.
        function_name: The members' function, by name or ARN.
        threads: As many as members that are woken at a time.
    """

    def invoke(member: str, payload: bytes) -> None:
        ask(client.invoke, FunctionName=function_name, InvocationType="Event", TenantId=member, Payload=payload)

    async def wake(member: str, event: Serve) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, invoke, member, json.dumps(event).encode())

    return wake


def _returned(answer: InvocationResponseTypeDef, what: str, payload: Mapping[str, object]) -> Any:
    """Return what a function returned, or raise FunctionFailedError."""
    returned = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        error = f"{returned.get('errorType', 'error')}: {returned.get('errorMessage', returned)}"
        raise FunctionFailedError(f"{what} failed at {payload}: {error[:500]}")
    return returned
