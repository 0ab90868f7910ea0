"""Lambda functions that another function calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from burstcache.adapters.calls import ask, failures_named
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.pool import MemberState, Serve

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_lambda.type_defs import InvocationResponseTypeDef

_NAMES = ("op", "id", "key", "node")  # of a payload's fields, what an error says


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


def wake_by_name(client: LambdaClient, function_name: str) -> Callable[[str, Serve], Awaitable[MemberState]]:
    """Return what invokes a member of the pool and returns its answer, on an event loop, when it has returned.

    Each invocation has a thread of its own, which nothing waits for: a member may serve for a quarter of an hour.

    Args:
        client: Is used by all these threads.
        function_name: The members' function, by name or ARN.
    """

    def invoke(member: str, event: Serve) -> MemberState:
        payload = json.dumps(event).encode()
        answer = ask(client.invoke, FunctionName=function_name, TenantId=member, Payload=payload)
        return cast(MemberState, _returned(answer, f"{function_name} for tenant {member}", event))

    async def wake(member: str, event: Serve) -> MemberState:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[MemberState] = loop.create_future()

        def settle(state: MemberState | None, error: Exception | None) -> None:
            if answer.done():  # nobody waits any more
                return
            if error is not None:
                answer.set_exception(error)
            elif state is not None:
                answer.set_result(state)

        def work() -> None:
            state, failure = None, None
            try:
                state = invoke(member, event)
            except Exception as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                loop.call_soon_threadsafe(settle, state, failure)

        threading.Thread(target=work, name=f"burstcache-{member}", daemon=True).start()
        return await answer

    return wake


def payload_of(answer: InvocationResponseTypeDef) -> Any:
    """Return what an invocation has brought; raise ServiceError if the connection breaks on the way."""
    with failures_named():
        return json.loads(answer["Payload"].read())


def _returned(answer: InvocationResponseTypeDef, what: str, payload: Mapping[str, object]) -> Any:
    """Return what a function returned, or raise FunctionFailedError."""
    returned = payload_of(answer)
    if "FunctionError" in answer:
        error = f"{returned.get('errorType', 'error')}: {returned.get('errorMessage', returned)}"
        raise FunctionFailedError(f"{what} failed at {_named_in(payload)}: {error[:500]}")
    return returned


def _named_in(payload: Mapping[str, object]) -> dict[str, object]:
    """Return what a payload is about: it may have a token, which no log may have."""
    hub = payload.get("hub")
    named = {**(hub if isinstance(hub, Mapping) else {}), **payload}
    return {name: named[name] for name in _NAMES if name in named}
