"""Calls of a boto3 client that are answered in this process, without the request that HTTP would carry.

boto3 checks and serializes the parameters and parses the answer as always. What lies between is left out: the request's
headers, its signature, the events around them and the search for a retry, which take longer than moto's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from botocore.parsers import create_parser

# From a request with `url`, `headers` and `body` to the answer's status, headers and body.
Respond = Callable[[Mapping[str, Any]], tuple[int, Mapping[str, str], bytes]]


def answer_at_once(client: Any, respond: Respond) -> None:
    """Answer a client's calls by `respond` from now on; what else hears of its calls does so before."""
    service = client.meta.service_model
    parser = create_parser(service.resolved_protocol)
    endpoint: tuple[str, dict[str, str], dict[str, Any]] = (client.meta.endpoint_url, {}, {})

    def answer(model: Any, params: Mapping[str, Any], **_: object) -> tuple[Any, dict[str, Any]]:
        status, headers, body = respond(params)
        response = {"status_code": status, "headers": headers, "body": body, "context": {"operation_name": model.name}}
        parsed = parser.parse(response, model.output_shape)
        shape = service.shape_for_error_code(parsed["Error"]["Code"]) if status >= 300 else None
        if shape is not None:
            parsed |= parser.parse(response, shape)
        return SimpleNamespace(status_code=status), parsed

    client._resolve_endpoint_ruleset = lambda *_: endpoint
    event = f"before-call.{service.service_id.hyphenize()}"
    client.meta.events.unregister(event, unique_id="at once")
    client.meta.events.register_last(event, answer, unique_id="at once")
