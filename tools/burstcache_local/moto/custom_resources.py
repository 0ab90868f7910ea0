"""Custom resources: a function gets CloudFormation's request and answers by HTTP PUT, as on AWS."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burstcache_local.errors import TemplateError
from burstcache_local.functions import ACCOUNT

if TYPE_CHECKING:
    from burstcache_local.moto.services import Services

# There is no account on this machine; what runs here is tested by `burstcache doctor`, not at each start.
_NOT_HERE = frozenset({"Custom::Account", "Custom::SelfTest"})
LOCAL_TYPE, LOCAL_ID = "LocalResourceType", "LocalLogicalId"  # properties that the template module adds


def create(name: str, properties: Mapping[str, Any], services: Services) -> tuple[str, dict[str, Any]]:
    """Return the physical id and the attributes that the function answers with.

    Raises:
        TemplateError: The function failed, reported a failure or gave no answer.

    Source:
        AWS CloudFormation User Guide, "Custom resource request and response reference".
    """
    given = dict(properties)
    kind, logical_id = given.pop(LOCAL_TYPE), given.pop(LOCAL_ID)
    if kind in _NOT_HERE:
        return name, {}
    request_id = str(uuid.uuid4())
    request = {
        "RequestType": "Create",
        "ServiceToken": given["ServiceToken"],
        "ResponseURL": f"{services.lambda_url}/custom-resources/{request_id}",
        "StackId": f"arn:aws:cloudformation:{services.region}:{ACCOUNT}:stack/local/{request_id}",
        "RequestId": request_id,
        "ResourceType": kind,
        "LogicalResourceId": logical_id,
        "ResourceProperties": {part: value for part, value in given.items() if part != "ServiceTimeout"},
    }
    result = services.client("lambda").invoke(FunctionName=given["ServiceToken"], Payload=json.dumps(request).encode())
    if result.get("FunctionError"):
        raise TemplateError(f"{logical_id}: its function failed: {result['Payload'].read().decode()}")
    answer = services.answers.take(request_id, logical_id)
    if answer.get("Status") != "SUCCESS":
        raise TemplateError(f"{logical_id}: its function reports: {answer.get('Reason')}")
    return answer.get("PhysicalResourceId", name), answer.get("Data", {})
