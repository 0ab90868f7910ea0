"""The answer of a custom resource: without one, CloudFormation waits for an hour and cannot even roll back.

The same file stands in `burstcache.adapters` and in `custom_resources`, which are deployed apart: the package does not
need cryptography, nor do credentials need the package. `tests/template/test_functions.py` holds them equal.
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
_MAX_REASON_CHARACTERS = 1000  # the whole answer may have 4,096 bytes


def succeed(event: Mapping[str, Any], physical_id: str, attributes: Mapping[str, str] | None = None) -> None:
    """Report success to CloudFormation; `attributes` are the values of Fn::GetAtt.

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
        headers={"Content-Type": ""},  # the URL is signed for a request without one
    )
    for attempt in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                return
        except (OSError, http.client.HTTPException):  # a receipt that is late is no URLError
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(2**attempt)
