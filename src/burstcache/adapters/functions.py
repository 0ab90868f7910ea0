"""Lambda functions that another function calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from burstcache.adapters.calls import ask
from burstcache.core.errors import FunctionFailedError

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient


def invoke_by_name(client: LambdaClient, function_name: str) -> Callable[[Mapping[str, object]], object]:
    """Return a caller of a function that returns its answer, or raises FunctionFailedError if it fails."""

    def invoke(payload: Mapping[str, object]) -> object:
        answer = ask(client.invoke, FunctionName=function_name, Payload=json.dumps(payload).encode())
        returned = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            what = f"{returned.get('errorType', 'error')}: {returned.get('errorMessage', returned)}"
            raise FunctionFailedError(f"{function_name} failed at {payload}: {what[:500]}")
        return returned

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
