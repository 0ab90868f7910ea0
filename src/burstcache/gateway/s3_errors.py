"""S3's errors: codes, statuses and XML bodies, as S3 itself sends them."""

from __future__ import annotations

import os
from xml.sax.saxutils import escape

from burstcache.gateway.http_messages import HttpRequest, response_head

_STATUSES = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadRequest": 400,
    "EntityTooLarge": 400,
    "ExpiredToken": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidRequest": 400,
    "InvalidToken": 400,
    "InvalidURI": 400,
    "MalformedXML": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchKey": 404,
    "NotImplemented": 501,
    "RequestHeaderSectionTooLarge": 400,
    "RequestTimeTooSkewed": 403,
    "RequestTimeout": 400,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "XAmzContentSHA256Mismatch": 400,
}


class S3Error(Exception):
    """A refusal with one of S3's error codes."""

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status or _STATUSES[code]


def error_answer(error: S3Error, request: HttpRequest) -> tuple[int, bytes, bytes]:
    """Return the status, the head and the body of the response to a refused request."""
    request_id = os.urandom(8).hex().upper()
    resource = escape(request.target.partition(b"?")[0].decode("latin-1"))
    xml = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message><Resource>{resource}</Resource>"
        f"<RequestId>{request_id}</RequestId></Error>"
    ).encode("ascii", "xmlcharrefreplace")
    has_body = request.method != b"HEAD" and error.status != 304
    headers = [("content-type", "application/xml"), ("x-amz-request-id", request_id)]
    if has_body:
        headers.append(("content-length", str(len(xml))))
    elif request.method == b"HEAD":
        headers.append(("content-length", "0"))
    return error.status, response_head(error.status, headers), xml if has_body else b""
