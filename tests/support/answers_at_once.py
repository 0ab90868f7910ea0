"""Answers at once: calls of a boto3 client answered within this process, without an HTTP request.

boto3 validates and serializes the parameters and parses the answer as always. A speed patch skips the steps between:
headers, signature, their events and the retry decision. They take longer than moto's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.httpchecksum import apply_request_checksum
from botocore.parsers import create_parser
from botocore.response import StreamingBody

from burstcache_local import speed

# Maps a request with `method`, `url`, `headers` and `body` to the answer's status, headers and body. The body may
# already be parsed, as boto3 would parse it.
Respond = Callable[[Mapping[str, Any]], tuple[int, Mapping[str, str], bytes | dict[str, Any]]]


_ID = "at once"


def answer_at_once(client: Any, respond: Respond) -> None:
    """Answer a client's calls by `respond` from now on. The client's other event handlers run first."""
    if speed.ENABLED:
        _answer_before_the_call(client, respond)
    else:
        events = client.meta.events
        events.unregister("before-send", unique_id=_ID)  # of an earlier call: the first handler that answers wins
        events.register_first("before-send", lambda request, **_: _response(request, respond), unique_id=_ID)


def _response(request: AWSPreparedRequest, respond: Respond) -> AWSResponse:
    texts = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
    headers = HTTPHeaders.from_dict(texts)  # botocore's prepared requests have some values as bytes
    sent = {"method": request.method, "url": request.url, "headers": headers, "body": request.body}
    status, answered, body = respond(sent)
    assert isinstance(body, bytes)
    return AWSResponse(str(request.url), status, HTTPHeaders.from_dict(answered), _Raw(body))


class _Raw(BytesIO):
    """Body of an answer with urllib3's interface."""

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


def _answer_before_the_call(client: Any, respond: Respond) -> None:
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

    if service.service_name != "s3":  # its address contains the bucket
        client._resolve_endpoint_ruleset = lambda *_: endpoint
    event = f"before-call.{service.service_id.hyphenize()}"
    client.meta.events.unregister(event, unique_id=_ID)
    client.meta.events.register_last(event, answer, unique_id=_ID)
