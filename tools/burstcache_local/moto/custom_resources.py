"""Custom resources: a function gets CloudFormation's request and answers by HTTP PUT, as on AWS."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from burstcache_local.errors import TemplateError
from burstcache_local.functions import ACCOUNT
from burstcache_local.moto import endpoints

_answers: dict[str, dict[str, Any]] = {}
_arrived = threading.Condition()

LOCAL_TYPE, LOCAL_ID = "LocalResourceType", "LocalLogicalId"  # properties that the template module adds


def create(name: str, properties: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the physical id and the attributes that the function answers with.

    Raises:
        TemplateError: The function failed, reported a failure or gave no answer.

    Source:
        AWS CloudFormation User Guide, "Custom resource request and response reference".
    """
    given = dict(properties)
    kind, logical_id = given.pop(LOCAL_TYPE), given.pop(LOCAL_ID)
    request_id = str(uuid.uuid4())
    request = {
        "RequestType": "Create",
        "ServiceToken": given["ServiceToken"],
        "ResponseURL": f"{endpoints.here.lambda_url}/custom-resources/{request_id}",
        "StackId": f"arn:aws:cloudformation:{endpoints.here.region}:{ACCOUNT}:stack/local/{request_id}",
        "RequestId": request_id,
        "ResourceType": kind,
        "LogicalResourceId": logical_id,
        "ResourceProperties": {part: value for part, value in given.items() if part != "ServiceTimeout"},
    }
    result = endpoints.client("lambda").invoke(FunctionName=given["ServiceToken"], Payload=json.dumps(request).encode())
    if result.get("FunctionError"):
        raise TemplateError(f"{logical_id}: its function failed: {result['Payload'].read().decode()}")
    answer = _take(request_id, logical_id)
    if answer.get("Status") != "SUCCESS":
        raise TemplateError(f"{logical_id}: its function reports: {answer.get('Reason')}")
    return answer.get("PhysicalResourceId", name), answer.get("Data", {})


def answered(request_id: str, answer: dict[str, Any]) -> None:
    """Accept a function's PUT to its ResponseURL."""
    with _arrived:
        _answers[request_id] = answer
        _arrived.notify_all()


def _take(request_id: str, logical_id: str) -> dict[str, Any]:
    with _arrived:
        if not _arrived.wait_for(lambda: request_id in _answers, 5):
            raise TemplateError(f"{logical_id}: its function returned without an answer to the ResponseURL")
        return _answers.pop(request_id)
