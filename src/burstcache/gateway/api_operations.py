"""API operations of S3's requests, by the names that SDKs and CloudTrail have for them, from botocore's model of S3."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qsl

from burstcache.gateway.s3_requests import Target

_COPY_SOURCE = "x-amz-copy-source"  # the only header that decides which operation a request is
_OF_OTHER_ENDPOINTS = frozenset({"ListDirectoryBuckets", "WriteGetObjectResponse"})
_Marks = frozenset[str]


class ApiOperations:
    """Names of S3's operations."""

    def __init__(self, model: Any) -> None:
        """Read the operations.

        Args:
            model: botocore's model of S3: `client.meta.service_model`.
        """
        found: dict[tuple[str, int], list[tuple[_Marks, str]]] = {}
        for name in model.operation_names:
            operation = model.operation_model(name)
            if operation.deprecated or name in _OF_OTHER_ENDPOINTS:
                continue
            query = operation.http["requestUri"].partition("?")[2]
            marks = _marks(parse_qsl(query, keep_blank_values=True)) | _required(operation)
            found.setdefault((operation.http["method"], _level(operation)), []).append((marks, name))
        # The most specific one first.
        self._operations = {which: sorted(names, key=lambda each: -len(each[0])) for which, names in found.items()}

    def name(self, method: str, target: Target, headers: Collection[str]) -> str:
        """Return the name of a request's operation, such as GetObject. Empty: S3 has none.

        Args:
            method: The method.
            target: What the request addresses.
            headers: Names of the request's headers, in lower case.
        """
        level = 2 if target.key else 1 if target.bucket else 0
        marks = _marks(target.query)
        if _COPY_SOURCE in headers or any(name == _COPY_SOURCE for name, _ in target.headers):
            marks |= {_COPY_SOURCE}
        return next((name for needed, name in self._operations.get((method, level), ()) if needed <= marks), "")


def _marks(query: Collection[tuple[str, str]]) -> _Marks:
    """Return the parameters of a query by which operations differ."""
    return frozenset(f"{name}=2" if name == "list-type" and value == "2" else name for name, value in query)


def _level(operation: Any) -> int:
    """Return 0 for an operation of the service, 1 of a bucket, 2 of an object.

    The path does not tell: botocore removes the bucket from it in an operation's first call.
    """
    shape = operation.input_shape
    members = () if shape is None else shape.members.values()
    return sum(each.serialization.get("location") == "uri" for each in members)


def _required(operation: Any) -> _Marks:
    """Return the names of the parameters, and of the header, that an operation must have."""
    shape = operation.input_shape
    if shape is None:
        return frozenset()
    required = [shape.members[each].serialization for each in shape.required_members]
    return frozenset(
        each["name"]
        for each in required
        if each.get("location") == "querystring" or each.get("name", "").lower() == _COPY_SOURCE
    )
