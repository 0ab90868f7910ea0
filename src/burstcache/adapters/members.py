"""Members of the pool, invoked by hubs on an event loop. Invokers of other functions do not need asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from burstcache.adapters.calls import call_aws
from burstcache.adapters.functions import returned_value
from burstcache.core.messages.pool import MemberState, ServeChunks

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient


def wake_by_name(client: LambdaClient, function_name: str) -> Callable[[str, ServeChunks], Awaitable[MemberState]]:
    """Return a coroutine function that invokes a pool member and returns its result.

    Each invocation runs in its own daemon thread, since a member may serve for a quarter of an hour.

    Args:
        client: Lambda client, shared by these threads.
        function_name: Name or ARN of the members' function.
    """

    def invoke(member: str, event: ServeChunks) -> MemberState:
        payload = json.dumps(event).encode()
        response = call_aws(client.invoke, FunctionName=function_name, TenantId=member, Payload=payload)
        return cast(MemberState, returned_value(response, f"{function_name} for tenant {member}", event))

    async def wake(member: str, event: ServeChunks) -> MemberState:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[MemberState] = loop.create_future()

        def settle(state: MemberState | None, error: Exception | None) -> None:
            if result.done():  # the caller was cancelled
                return
            if error is not None:
                result.set_exception(error)
            elif state is not None:
                result.set_result(state)

        def work() -> None:
            state, failure = None, None
            try:
                state = invoke(member, event)
            except Exception as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, state, failure)

        threading.Thread(target=work, name=f"burstcache-{member}", daemon=True).start()
        return await result

    return wake
