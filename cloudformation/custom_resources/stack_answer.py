"""Custom resources' answers to CloudFormation. Without one, each deployment and rollback waits for `ServiceTimeout`.

The same file is in `burstcache.adapters` and in `custom_resources`, which are deployed separately. The package does not
need cryptography, and credentials do not need the package. `tests/template/test_functions.py` checks that they are
equal.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

_ATTEMPTS = 4
_TIMEOUT_S = 5
_MAX_REASON_CHARACTERS = 1000  # within CloudFormation's limit of 4,096 bytes per response


def succeed(event: Mapping[str, Any], physical_id: str, attributes: Mapping[str, str] | None = None) -> None:
    """Report success to CloudFormation. `attributes` are the values for Fn::GetAtt.

    Raises:
        OSError, http.client.HTTPException: The answer could not be delivered.
    """
    _answer(event, {"Status": "SUCCESS", "PhysicalResourceId": physical_id, "Data": dict(attributes or {})})


def fail(event: Mapping[str, Any], physical_id: str, reason: str) -> None:
    """Report a failure and its reason to CloudFormation.

    Raises:
        OSError, http.client.HTTPException: The answer could not be delivered.
    """
    _answer(event, {"Status": "FAILED", "PhysicalResourceId": physical_id, "Reason": reason[:_MAX_REASON_CHARACTERS]})


def _answer(event: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
    same = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    request = urllib.request.Request(
        event["ResponseURL"],
        data=json.dumps({**same, **outcome}).encode(),
        method="PUT",
        headers={"Content-Type": ""},  # the presigned URL is signed without a content type
    )
    for attempt in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                return
        except (OSError, http.client.HTTPException):  # a late response is no URLError
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(2**attempt)
