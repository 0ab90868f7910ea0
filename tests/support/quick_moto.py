"""Quick moto within a test's process, without HTTP requests."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from botocore.awsrequest import HeadersDict
from botocore.httpchecksum import AwsChunkedWrapper
from moto.core import models
from moto.core.models import botocore_stubber
from moto.core.request import Request
from moto.dynamodb.responses import DynamoHandler
from moto.ec2.responses import EC2Response
from moto.s3.responses import S3Response

from burstcache_local import speed
from burstcache_local.functions import ACCOUNT
from burstcache_local.moto import quicker


@functools.cache
def apply() -> None:
    """Apply the speed patches to this process's moto once, unless they are disabled."""
    if not speed.ENABLED:
        return
    quicker.apply()
    DynamoHandler.serialized = _items_handed_over(DynamoHandler.serialized)
    # 1,600 mocked routes for the requests library, which boto3 does not use.
    models.RESPONSES_METHODS.clear()


def _items_handed_over(serialized: Any) -> Any:
    def answer(self: Any, action_result: Any) -> Any:
        if "answered" not in vars(self) or not quicker.has_items(self, action_result):
            return serialized(self, action_result)  # a client other than those of `clients`
        self.answered = action_result.result
        return 200, self.response_headers, ""

    return answer


def dynamodb(request: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes | dict[str, Any]]:
    """Answer a boto3 request by moto's DynamoDB, bypassing werkzeug, which also parses the body as a form."""
    assert botocore_stubber.enabled, "there is no AWS outside of `mocked_aws`"
    handler: Any = DynamoHandler()
    handler.answered = None
    handler.headers, handler.querystring, handler.uri_match, handler.response_headers = request["headers"], {}, {}, {}
    handler.region, handler.current_account = request["url"].split(".")[1], ACCOUNT
    body = request["body"]
    if b'"B"' in body or b'"BS"' in body or handler._get_action() not in quicker.OF_ITEMS:
        handler.parse_parameters(_Json(request["headers"], body))
    else:
        handler.params = json.loads(body)  # without binary values, moto reads the JSON as it is
    status, headers, text = handler.call_action()
    return status, headers, text.encode() if handler.answered is None else handler.answered


def ec2(request: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
    """Answer a boto3 request by moto's EC2."""
    return _answered(EC2Response.dispatch, request, urlencode(request["body"]).encode())


def s3(request: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
    """Answer a boto3 request by moto's S3. The bucket's name is part of the host."""
    is_of_key = urlsplit(request["url"]).path.strip("/")
    respond = S3Response.key_dispatch if is_of_key else S3Response.bucket_dispatch
    if isinstance(request["body"], AwsChunkedWrapper):
        request["headers"]["X-Amz-Content-SHA256"] = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    return _answered(respond, request, request["body"])


def _answered(respond: Any, sent: Mapping[str, Any], body: Any) -> tuple[int, Mapping[str, str], bytes]:
    assert botocore_stubber.enabled, "there is no AWS outside of `mocked_aws`"
    request = Request.from_primitives(sent["method"], sent["url"], sent["headers"], body)
    status, headers, answered = respond(request, request.raw_url, request.headers)
    return status, HeadersDict(headers), answered.encode() if isinstance(answered, str) else answered


class _Json:
    """The parts of a request that `DynamoHandler` parses."""

    method, path, values = "POST", "/", None

    def __init__(self, headers: Mapping[str, str], body: bytes) -> None:
        self.headers, self.data, self.content_type = headers, body, headers["Content-Type"]
