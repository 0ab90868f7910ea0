"""Task integrations for Lambda functions and, through the AWS SDK integration, DynamoDB."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from burstcache_local.errors import FunctionNotFoundError, ThrottledError
from burstcache_local.functions import Outcome
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.execution import TRACE, Call


def invoke_of(lambdas: Lambdas) -> Call:
    """Return the integration `lambda:invoke`. If the function fails, the task's error is the exception's name."""

    async def invoke(arguments: dict[str, Any]) -> dict[str, Any]:
        name, payload = arguments["FunctionName"], json.dumps(arguments.get("Payload", {})).encode()
        request_id = str(uuid.uuid4())
        try:
            if arguments.get("InvocationType") == "Event":
                await lambdas.invoke_event(name, payload, request_id=request_id, trace=TRACE.get())
                return {"Payload": "", "StatusCode": 202}
            return result_of(await lambdas.invoke(name, payload, request_id=request_id, trace=TRACE.get()))
        except FunctionNotFoundError as error:
            raise StateError("Lambda.ResourceNotFoundException", str(error)) from error
        except ThrottledError as error:
            raise StateError("Lambda.TooManyRequestsException", str(error)) from error

    return invoke


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Convert a function's outcome to a task result, or raise StateError if the function failed."""
    body = json.loads(outcome.body)
    if outcome.error:
        raise StateError(body.get("errorType") or "Lambda.Unknown", outcome.body.decode())
    return {"ExecutedVersion": "$LATEST", "Payload": body, "StatusCode": 200}


def update_item_of(dynamodb: Callable[[], Any]) -> Call:
    """Return the integration `aws-sdk:dynamodb:updateItem`, with AWS's error names.

    Args:
        dynamodb: Returns the boto3 client to use.
    """

    def update(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = dict(dynamodb().update_item(**arguments))
        except ClientError as error:
            refusal, status = error.response["Error"], error.response["ResponseMetadata"]["HTTPStatusCode"]
            cause = f"{refusal['Message']} (Service: DynamoDb, Status Code: {status})"
            raise StateError(f"DynamoDb.{refusal['Code']}", cause) from error
        except BotoCoreError as error:
            raise StateError("DynamoDb.SdkClientException", str(error)) from error
        del answer["ResponseMetadata"]
        return answer

    async def update_item(arguments: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(update, arguments)

    return update_item
