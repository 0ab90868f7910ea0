"""API operations of requests as botocore sends them, for each kind of request that S3 has."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config

from burstcache.gateway.api_operations import ApiOperations
from burstcache.gateway.s3_requests import Target, parse_target

_OBJECT = {"Bucket": "examples", "Key": "a/b"}
_UPLOAD = {**_OBJECT, "UploadId": "u"}
_SENT: dict[str, dict[str, Any]] = {
    "AbortMultipartUpload": _UPLOAD,
    "CompleteMultipartUpload": _UPLOAD,
    "CopyObject": {**_OBJECT, "CopySource": "examples/c"},
    "CreateBucket": {},
    "CreateMultipartUpload": _OBJECT,
    "DeleteBucketCors": {},
    "DeleteObject": {**_OBJECT, "VersionId": "v"},
    "DeleteObjectTagging": _OBJECT,
    "DeleteObjects": {"Delete": {"Objects": [{"Key": "a"}]}},
    "GetBucketAnalyticsConfiguration": {"Id": "i"},
    "GetBucketLifecycleConfiguration": {},
    "GetBucketLocation": {},
    "GetObject": {**_OBJECT, "PartNumber": 1, "ResponseContentType": "text/plain"},
    "GetObjectAcl": _OBJECT,
    "GetObjectAttributes": {**_OBJECT, "ObjectAttributes": ["ETag"]},
    "HeadBucket": {},
    "HeadObject": _OBJECT,
    "ListBucketAnalyticsConfigurations": {},
    "ListMultipartUploads": {"Prefix": "a"},
    "ListObjectVersions": {"Prefix": "a"},
    "ListObjects": {"Prefix": "a"},
    "ListObjectsV2": {"Prefix": "a"},
    "ListParts": _UPLOAD,
    "PutObject": {**_OBJECT, "Body": b"body"},
    "RestoreObject": _OBJECT,
    "UploadPart": {**_UPLOAD, "PartNumber": 1, "Body": b"body"},
    "UploadPartCopy": {**_UPLOAD, "PartNumber": 1, "CopySource": "examples/c"},
}


class _CaughtError(Exception):
    """Ends a call of boto3 before anything is sent."""


@pytest.fixture(scope="module")
def s3() -> Any:
    return boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url="http://localhost",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}),
    )


@pytest.fixture(scope="module")
def operations(s3: Any) -> ApiOperations:
    return ApiOperations(s3.meta.service_model)


def sent(s3: Any, operation: str, parameters: dict[str, Any]) -> AWSPreparedRequest:
    """Return the request that boto3 sends for an operation."""
    caught: list[AWSPreparedRequest] = []

    def catch(request: AWSPreparedRequest, **_: object) -> None:
        caught.append(request)
        raise _CaughtError

    s3.meta.events.register("before-send.s3", catch)
    try:
        with pytest.raises(_CaughtError):
            s3._make_api_call(operation, {"Bucket": "examples", **parameters})
    finally:
        s3.meta.events.unregister("before-send.s3", catch)
    return caught[0]


@pytest.mark.parametrize("operation", _SENT)
def test_a_request_is_named_by_the_operation_that_botocore_has_sent(
    s3: Any, operations: ApiOperations, operation: str
) -> None:
    request = sent(s3, operation, _SENT[operation])

    target = parse_target(request.url.removeprefix("http://localhost").encode(), "")

    assert operations.name(request.method, target, {each.lower() for each in request.headers}) == operation


def test_operations_that_a_client_has_called_keep_their_names(s3: Any) -> None:
    for operation in ("GetObject", "PutObject", "ListObjectsV2"):
        sent(s3, operation, _SENT[operation])

    operations = ApiOperations(s3.meta.service_model)

    assert operations.name("GET", Target("examples", "a", "", ()), ()) == "GetObject"
    assert operations.name("PUT", Target("examples", "a", "", ()), ()) == "PutObject"
    assert operations.name("GET", Target("examples", "", "", (("list-type", "2"),)), ()) == "ListObjectsV2"


def test_a_service_has_lists_of_buckets_and_unknown_methods_have_no_name(operations: ApiOperations) -> None:
    service, bucket = Target("", "", "", ()), Target("examples", "", "", ())

    assert operations.name("GET", service, ()) == "ListBuckets"
    assert operations.name("OPTIONS", bucket, ()) == operations.name("POST", service, ()) == ""


def test_a_presigned_copy_has_its_source_in_the_query(operations: ApiOperations) -> None:
    target = parse_target(b"/examples/a?x-amz-copy-source=examples%2Fc", "")

    assert operations.name("PUT", target, ()) == "CopyObject"
