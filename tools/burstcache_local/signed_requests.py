"""Signed requests to the local endpoint, with their signers, operations and error responses."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_SIGNED = re.compile(r"Credential=([^/]+)/\d+/[^/]+/([^/]+)/")
_FORM = "application/x-www-form-urlencoded"
_OF_OBJECTS = {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
_OF_BUCKETS = {"GET": "ListObjectsV2", "HEAD": "ListObjectsV2", "POST": "DeleteObjects", "PUT": "PutBucketLifecycle"}

_XML = {  # error response envelopes by service
    "cloudformation": "<ErrorResponse>{}</ErrorResponse>",
    "ec2": "<Response><Errors>{}</Errors><RequestID>local</RequestID></Response>",
    "iam": "<ErrorResponse>{}</ErrorResponse>",
    "s3": "{}",
    "s3express": "{}",
}
_ACCESS_DENIED = dict.fromkeys(_XML, "AccessDenied") | {"ec2": "UnauthorizedOperation"}

_MALFORMED = dict.fromkeys(_XML, "MalformedInput") | {"s3": "IncompleteBody", "s3express": "IncompleteBody"}


@dataclass(frozen=True, slots=True)
class Request:
    """One API call."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


class MalformedRequestError(Exception):
    """A truncated or unparsable request. The sender may have disconnected."""

    def __init__(self, service: str, message: str) -> None:
        super().__init__(message)
        self.service = service


def signer_of(authorization: str) -> tuple[str, str]:
    """Return a signature's access key and service, or empty strings if there is no signature."""
    match = _SIGNED.search(authorization)
    return (match[1], match[2]) if match else ("", "")


def request_of(environ: WSGIEnvironment) -> Request:
    """Parse a signed request without consuming its body.

    Raises:
        MalformedRequestError: The body is truncated, or does not match its content type.
    """
    _, service = signer_of(environ.get("HTTP_AUTHORIZATION", ""))
    try:
        return _request(service, environ)
    except (LookupError, ValueError) as error:
        raise MalformedRequestError(service, f"the request cannot be read: {error!r}") from error


def _request(service: str, environ: WSGIEnvironment) -> Request:
    if target := environ.get("HTTP_X_AMZ_TARGET", ""):
        return Request(service, target.rpartition(".")[2], json.loads(_body(environ) or b"{}"))
    path, method = str(environ["REQUEST_URI"]).partition("?")[0], str(environ["REQUEST_METHOD"])
    if service in ("s3", "s3express"):  # objects may have any content type
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        names = _OF_OBJECTS if key else _OF_BUCKETS
        condition = {"IfMatch": environ["HTTP_IF_MATCH"]} if "HTTP_IF_MATCH" in environ else {}
        return Request(service, names.get(method, method), {"Bucket": bucket, "Key": key, **condition})
    if environ.get("CONTENT_TYPE", "").startswith(_FORM):
        return Request(service, *_query(parse_qs(_body(environ).decode())))
    if path.endswith("/invocations"):
        return Request(service, "Invoke", {"FunctionName": unquote(path.split("/")[3])})
    return Request(service, _named(path), {})


def _named(path: str) -> str:
    """Return the operation of a REST path such as /2016-08-19/account-settings/. Only GET requests are expected."""
    last = path.rstrip("/").rpartition("/")[2]
    return "Get" + "".join(part.title() for part in last.split("-"))


def _query(form: Mapping[str, list[str]]) -> tuple[str, dict[str, Any]]:
    """Return a form's operation and parameters. `Name.1` and `Name.2` become the list `Names`."""
    parameters: dict[str, Any] = {}
    for name, (value, *_) in form.items():
        stem, _, number = name.partition(".")
        if number.isdigit():
            parameters.setdefault(f"{stem}s", []).append(value)
        else:
            parameters[name] = value
    return parameters.pop("Action"), parameters


def _body(environ: WSGIEnvironment) -> bytes:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) < length:
        raise ValueError(f"{len(body)} of {length} bytes received")
    environ["wsgi.input"] = io.BytesIO(body)
    return body


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error response."""

    code: str
    status: str = "403 Forbidden"
    message: str = ""


def access_denied(service: str, message: str) -> Refusal:
    """Return a service's error for an unauthorized caller."""
    return Refusal(_ACCESS_DENIED.get(service, "AccessDeniedException"), message=message)


def refusing_malformed(application: WSGIApplication) -> WSGIApplication:
    """Return an application that responds with 400, as AWS does, when `application` raises MalformedRequestError."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return application(environ, start_response)
        except MalformedRequestError as error:
            code = _MALFORMED.get(error.service, "ValidationException")
            return refuse(error.service, Refusal(code, "400 Bad Request", str(error)), start_response)

    return answer


def refuse(service: str, refusal: Refusal, start_response: StartResponse) -> Iterable[bytes]:
    """Respond with an error in the service's format."""
    if service in _XML:
        error = f"<Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message></Error>"
        kind, text = "text/xml", _XML[service].format(error)
    else:
        kind, text = "application/json", json.dumps({"__type": refusal.code, "message": refusal.message})
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("x-amzn-ErrorType", refusal.code)]
    start_response(refusal.status, headers)
    return [body]
