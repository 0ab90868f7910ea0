"""Signed requests as they arrive at the local endpoint: who asks, for what, and what a refusal looks like."""

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

_XML = {  # what stands around an error
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
    """One call, in the words of the service's API."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


class MalformedRequestError(Exception):
    """A request is not whole, or says nothing that its service could do: its sender may have given up in its midst."""

    def __init__(self, service: str, message: str) -> None:
        super().__init__(message)
        self.service = service


def signer_of(authorization: str) -> tuple[str, str]:
    """Return the access key and the service of a signature, both empty if there is none."""
    signed = _SIGNED.search(authorization)
    return (signed[1], signed[2]) if signed else ("", "")


def request_of(environ: WSGIEnvironment) -> Request:
    """Return what a signed request asks for; its body can still be read afterwards.

    Raises:
        MalformedRequestError: Its body has not come whole, or is not what its type says.
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
    if service in ("s3", "s3express"):  # whose objects may be of any type
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
    """Return the operation of a path such as /2016-08-19/account-settings/, which is a GET of all that we call."""
    last = path.rstrip("/").rpartition("/")[2]
    return "Get" + "".join(part.title() for part in last.split("-"))


def _query(form: Mapping[str, list[str]]) -> tuple[str, dict[str, Any]]:
    """Return the operation and the parameters of a form; numbered ones become a list under their plural."""
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
        raise ValueError(f"{len(body)} of {length} bytes have come")
    environ["wsgi.input"] = io.BytesIO(body)
    return body


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error."""

    code: str
    status: str = "403 Forbidden"
    message: str = ""


def access_denied(service: str, message: str) -> Refusal:
    """Return what a service answers to a caller that may not."""
    return Refusal(_ACCESS_DENIED.get(service, "AccessDeniedException"), message=message)


def refusing_malformed(application: WSGIApplication) -> WSGIApplication:
    """Return an application that answers 400, as AWS does, where `application` raises MalformedRequestError."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return application(environ, start_response)
        except MalformedRequestError as error:
            code = _MALFORMED.get(error.service, "ValidationException")
            return refuse(error.service, Refusal(code, "400 Bad Request", str(error)), start_response)

    return answer


def refuse(service: str, refusal: Refusal, start_response: StartResponse) -> Iterable[bytes]:
    """Answer an error as a service does."""
    if service in _XML:
        error = f"<Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message></Error>"
        kind, text = "text/xml", _XML[service].format(error)
    else:
        kind, text = "application/json", json.dumps({"__type": refusal.code, "message": refusal.message})
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("x-amzn-ErrorType", refusal.code)]
    start_response(refusal.status, headers)
    return [body]
