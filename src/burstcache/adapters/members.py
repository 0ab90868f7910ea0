"""Members of the pool, which hubs invoke on an event loop: no other caller of a function needs asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from burstcache.adapters.calls import ask
from burstcache.adapters.functions import returned
from burstcache.core.messages.pool import MemberState, Serve

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient


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
        return cast(MemberState, returned(answer, f"{function_name} for tenant {member}", event))

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
