"""Custom resources, whose functions receive CloudFormation's request and respond by HTTP PUT, as on AWS."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burstcache_local.errors import TemplateError
from burstcache_local.functions import ACCOUNT

if TYPE_CHECKING:
    from burstcache_local.moto.services import Services

# These types are skipped, because there is no AWS account and `burstcache doctor` replaces the self-test.
_NOT_HERE = frozenset({"Custom::Account", "Custom::SelfTest"})
LOCAL_TYPE, LOCAL_ID = "LocalResourceType", "LocalLogicalId"  # properties added by the template pipeline


def create(name: str, properties: Mapping[str, Any], services: Services) -> tuple[str, dict[str, Any]]:
    """Create a custom resource, and return the physical id and attributes from its function's response.

    Raises:
        TemplateError: The function failed, reported a failure or sent no response.

    Source:
        AWS CloudFormation User Guide, "Custom resource request and response reference".
    """
    values = dict(properties)
    kind, logical_id = values.pop(LOCAL_TYPE), values.pop(LOCAL_ID)
    if kind in _NOT_HERE:
        return name, {}
    request_id = str(uuid.uuid4())
    request = {
        "RequestType": "Create",
        "ServiceToken": values["ServiceToken"],
        "ResponseURL": f"{services.lambda_url}/custom-resources/{request_id}",
        "StackId": f"arn:aws:cloudformation:{services.region}:{ACCOUNT}:stack/local/{request_id}",
        "RequestId": request_id,
        "ResourceType": kind,
        "LogicalResourceId": logical_id,
        "ResourceProperties": {part: value for part, value in values.items() if part != "ServiceTimeout"},
    }
    result = services.client("lambda").invoke(FunctionName=values["ServiceToken"], Payload=json.dumps(request).encode())
    if result.get("FunctionError"):
        raise TemplateError(f"{logical_id}: its function failed: {result['Payload'].read().decode()}")
    answer = services.answers.take(request_id, logical_id)
    if answer.get("Status") != "SUCCESS":
        raise TemplateError(f"{logical_id}: its function reports: {answer.get('Reason')}")
    return answer.get("PhysicalResourceId", name), answer.get("Data", {})
