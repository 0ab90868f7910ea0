"""Calls of a boto3 client that are answered in this process, without the request that HTTP would carry.

boto3 checks and serializes the parameters and parses the answer as always. What lies between is left out: the request's
headers, its signature, the events around them and the search for a retry, which take longer than moto's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from botocore.httpchecksum import apply_request_checksum
from botocore.parsers import create_parser
from botocore.response import StreamingBody

# From a request with `method`, `url`, `headers` and `body` to the answer's status, headers and body, or to what boto3
# would parse the body to.
Respond = Callable[[Mapping[str, Any]], tuple[int, Mapping[str, str], bytes | dict[str, Any]]]


def answer_at_once(client: Any, respond: Respond) -> None:
    """Answer a client's calls by `respond` from now on; what else hears of its calls does so before."""
    service = client.meta.service_model
    parser = create_parser(service.resolved_protocol)
    endpoint: tuple[str, dict[str, str], dict[str, Any]] = (client.meta.endpoint_url, {}, {})

    def answer(model: Any, params: dict[str, Any], **_: object) -> tuple[Any, dict[str, Any]]:
        apply_request_checksum(params)
        status, headers, body = respond(params)
        if isinstance(body, dict):
            metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers, "RetryAttempts": 0}
            return SimpleNamespace(status_code=status), {**body, "ResponseMetadata": metadata}
        response = {"status_code": status, "headers": headers, "body": body, "context": {"operation_name": model.name}}
        if model.has_streaming_output and status < 300:
            response["body"] = StreamingBody(BytesIO(body), len(body))
        parsed = parser.parse(response, model.output_shape)
        shape = service.shape_for_error_code(parsed["Error"]["Code"]) if status >= 300 else None
        if shape is not None:
            parsed |= parser.parse(response, shape)
        return SimpleNamespace(status_code=status), parsed

    if service.service_name != "s3":  # whose address has the bucket in it
        client._resolve_endpoint_ruleset = lambda *_: endpoint
    event = f"before-call.{service.service_id.hyphenize()}"
    client.meta.events.unregister(event, unique_id="at once")
    client.meta.events.register_last(event, answer, unique_id="at once")
