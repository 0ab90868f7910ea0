"""The boto3 wrapper: entries it keeps or forgets, and calls it leaves to boto3."""

from __future__ import annotations

import gc
import io
import pickle
import threading
import weakref
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import FlexibleChecksumError
from botocore.stub import Stubber
from moto.s3.models import s3_backends

import burstcache
from burstcache.client import Client
from burstcache.core.errors import InvalidSettingError
from support.aws import BUCKET, REGION, mocked_aws, session
from support.boto3_calls import Requests

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

BODY = b"0123456789"


@pytest.fixture
def plain() -> Iterator[S3Client]:
    with mocked_aws():
        s3: S3Client = session().client("s3")
        for bucket in (BUCKET, "other"):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
            s3.put_object(Bucket=bucket, Key="key", Body=BODY)
        yield s3


@pytest.fixture
def wrapped(plain: S3Client) -> S3Client:
    """A client whose cache keeps what it has read until it learns otherwise."""
    return burstcache.wrap(plain, bucket=BUCKET, freshness="immutable")


@pytest.fixture
def sent(plain: S3Client) -> Iterator[Requests]:
    with Requests(plain) as requests:
        yield requests


def read(s3: S3Client, key: str = "key", bucket: str = BUCKET, **parameters: Any) -> bytes:
    return s3.get_object(Bucket=bucket, Key=key, **parameters)["Body"].read()


# What is kept


def test_an_object_that_was_read_to_its_end_is_not_requested_again(wrapped: S3Client, sent: Requests) -> None:
    assert [read(wrapped) for _ in range(3)] == [BODY] * 3
    assert sent == ["GetObject"]


def test_a_hit_names_the_tier_that_served_it(wrapped: S3Client) -> None:
    read(wrapped)

    headers = wrapped.get_object(Bucket=BUCKET, Key="key")["ResponseMetadata"]["HTTPHeaders"]

    assert (headers["x-cache"], headers["x-cache-tier"]) == ("hit", "memory")


def test_an_object_that_was_read_in_chunks_is_kept(wrapped: S3Client, sent: Requests) -> None:
    chunks = wrapped.get_object(Bucket=BUCKET, Key="key")["Body"].iter_chunks(3)

    assert list(chunks) == [b"012", b"345", b"678", b"9"]
    assert read(wrapped) == BODY
    assert sent == ["GetObject"]


@pytest.mark.parametrize("size_bytes", [0, 9])
def test_an_object_that_was_read_in_part_is_not_kept(wrapped: S3Client, sent: Requests, size_bytes: int) -> None:
    wrapped.get_object(Bucket=BUCKET, Key="key")["Body"].read(size_bytes)

    assert read(wrapped) == BODY
    assert sent == ["GetObject", "GetObject"]


def test_an_object_that_did_not_come_as_it_was_sent_is_not_kept(
    plain: S3Client, wrapped: S3Client, sent: Requests
) -> None:
    plain.put_object(Bucket=BUCKET, Key="key", Body=BODY, ChecksumAlgorithm="SHA256")
    s3_backends["123456789012"]["aws"].buckets[BUCKET].keys["key"].checksum_value = b64encode(bytes(32)).decode()
    sent.clear()

    for _ in range(2):
        with pytest.raises(FlexibleChecksumError):
            read(wrapped)

    assert sent == ["GetObject", "GetObject"]


def test_a_range_that_s3_served_is_not_taken_for_the_object(wrapped: S3Client, sent: Requests) -> None:
    assert read(wrapped, Range="bytes=0-3") == b"0123"
    assert read(wrapped) == BODY
    assert read(wrapped, Range="bytes=0-3") == b"0123"
    assert sent == ["GetObject", "GetObject"]


def test_an_object_that_is_too_large_is_not_kept(plain: S3Client, sent: Requests) -> None:
    large = b"x" * 100_000
    plain.put_object(Bucket=BUCKET, Key="large", Body=large)
    sent.clear()
    wrapped = burstcache.wrap(plain, bucket=BUCKET, freshness="immutable", memory_bytes=100_000)

    assert read(wrapped, "large") == read(wrapped, "large") == large
    assert sent == ["GetObject", "GetObject"]


def test_threads_share_a_wrapped_client(wrapped: S3Client) -> None:
    bodies: list[bytes] = []
    threads = [threading.Thread(target=lambda: bodies.extend(read(wrapped) for _ in range(20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert bodies == [BODY] * 160


# What a program writes, it reads


def test_a_program_reads_what_it_puts(wrapped: S3Client) -> None:
    read(wrapped)
    wrapped.put_object(Bucket=BUCKET, Key="key", Body=b"new")

    assert read(wrapped) == b"new"


def test_a_program_does_not_read_what_it_has_deleted(wrapped: S3Client) -> None:
    read(wrapped)
    wrapped.delete_object(Bucket=BUCKET, Key="key")

    with pytest.raises(wrapped.exceptions.NoSuchKey):
        read(wrapped)


def test_a_program_does_not_read_what_it_has_deleted_with_others(wrapped: S3Client) -> None:
    read(wrapped)
    wrapped.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "absent"}, {"Key": "key"}]})

    with pytest.raises(wrapped.exceptions.NoSuchKey):
        read(wrapped)


def test_a_program_reads_what_it_copies(wrapped: S3Client) -> None:
    wrapped.put_object(Bucket=BUCKET, Key="source", Body=b"copied")
    read(wrapped)
    wrapped.copy_object(Bucket=BUCKET, Key="key", CopySource={"Bucket": BUCKET, "Key": "source"})

    assert read(wrapped) == b"copied"


def test_a_program_reads_what_it_uploads_in_parts(wrapped: S3Client) -> None:
    read(wrapped)
    upload = wrapped.create_multipart_upload(Bucket=BUCKET, Key="key")["UploadId"]
    part = wrapped.upload_part(Bucket=BUCKET, Key="key", UploadId=upload, PartNumber=1, Body=b"parts")
    wrapped.complete_multipart_upload(
        Bucket=BUCKET,
        Key="key",
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )

    assert read(wrapped) == b"parts"


def test_a_body_that_a_write_has_overtaken_is_not_kept(plain: S3Client) -> None:
    with Client(bucket=BUCKET, s3=plain, freshness="immutable") as client:
        wrapped = burstcache.wrap(plain, client=client)
        former = wrapped.get_object(Bucket=BUCKET, Key="key")["Body"]
        wrapped.put_object(Bucket=BUCKET, Key="key", Body=b"new")

        assert former.read() == BODY
        assert client.get("key").body == read(wrapped) == b"new"


def test_a_write_is_forgotten_for_other_readers_of_the_client(plain: S3Client) -> None:
    with Client(bucket=BUCKET, s3=plain, freshness="immutable") as client:
        wrapped = burstcache.wrap(plain, client=client)
        assert client.get("key").body == BODY
        wrapped.put_object(Bucket=BUCKET, Key="key", Body=b"new")

        assert client.get("key").body == b"new"


def test_a_write_leaves_other_keys_in_the_cache(wrapped: S3Client, sent: Requests) -> None:
    read(wrapped)
    wrapped.put_object(Bucket=BUCKET, Key="another", Body=b"")
    read(wrapped)

    assert sent == ["GetObject", "PutObject"]


# What boto3 builds on a client


def test_files_are_downloaded_through_the_cache(wrapped: S3Client, sent: Requests, tmp_path: Path) -> None:
    for name in ("first", "second"):
        wrapped.download_file(BUCKET, "key", str(tmp_path / name))
    buffer = io.BytesIO()
    wrapped.download_fileobj(BUCKET, "key", buffer)

    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes() == buffer.getvalue() == BODY
    assert sent == ["HeadObject", "GetObject"]


def test_files_that_are_uploaded_are_read(wrapped: S3Client) -> None:
    read(wrapped)
    wrapped.upload_fileobj(io.BytesIO(b"uploaded"), BUCKET, "key")
    assert read(wrapped) == b"uploaded"

    wrapped.copy({"Bucket": "other", "Key": "key"}, BUCKET, "key")
    assert read(wrapped) == BODY


def test_a_resource_reads_through_a_wrapped_client_that_it_is_given(wrapped: S3Client, sent: Requests) -> None:
    s3: Any = session().resource("s3")
    s3.meta.client = wrapped

    bodies = [s3.Object(BUCKET, "key").get()["Body"].read() for _ in range(2)]

    assert bodies == [BODY, BODY]
    assert sent == ["GetObject"]


def test_other_operations_and_buckets_are_s3s(wrapped: S3Client, sent: Requests) -> None:
    pages = wrapped.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    assert [each["Key"] for page in pages for each in page["Contents"]] == ["key"]
    wrapped.get_waiter("object_exists").wait(Bucket=BUCKET, Key="key")
    assert read(wrapped, bucket="other") == read(wrapped, bucket="other") == BODY
    assert sent == ["ListObjectsV2", "HeadObject", "GetObject", "GetObject"]


def test_presigned_urls_are_boto3s(plain: S3Client, wrapped: S3Client) -> None:
    urls = [
        client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "key"}).partition("?")[0]
        for client in (plain, wrapped)
    ]

    assert urls[0] == urls[1]


def test_handlers_of_events_decide_which_object_is_read(plain: S3Client, wrapped: S3Client) -> None:
    plain.put_object(Bucket=BUCKET, Key="tenant/key", Body=b"tenant's")
    read(wrapped)
    wrapped.meta.events.register(
        "before-parameter-build.s3.GetObject", lambda params, **_: params.update(Key=f"tenant/{params['Key']}")
    )

    assert read(wrapped) == read(wrapped) == b"tenant's"


@pytest.mark.parametrize(
    "headers", [{"x-amz-request-payer": "requester"}, {"X-Tenant": "b"}, {"Cache-Control": "no-cache"}]
)
def test_what_handlers_add_to_a_request_reaches_s3(wrapped: S3Client, sent: Requests, headers: dict[str, str]) -> None:
    read(wrapped)
    wrapped.meta.events.register("before-call.s3.GetObject", lambda params, **_: params["headers"].update(headers))
    read(wrapped)

    assert sent == ["GetObject", "GetObject"]


@pytest.mark.parametrize("headers", [{"range": "bytes=2-4"}, {"RANGE": "bytes=2-4"}])
def test_a_range_that_a_handler_adds_is_followed(wrapped: S3Client, headers: dict[str, str]) -> None:
    read(wrapped)
    wrapped.meta.events.register("before-call.s3.GetObject", lambda params, **_: params["headers"].update(headers))

    assert read(wrapped) == BODY[2:5]


def test_headers_that_trace_a_request_change_no_answer(wrapped: S3Client, sent: Requests) -> None:
    wrapped.meta.events.register(
        "before-call.s3.GetObject", lambda params, **_: params["headers"].update({"X-Amzn-Trace-Id": "Root=1"})
    )

    assert read(wrapped) == read(wrapped) == BODY
    assert sent == ["GetObject"]


def test_handlers_see_the_answer_of_a_hit(wrapped: S3Client) -> None:
    seen: list[tuple[int, str]] = []
    read(wrapped)
    wrapped.meta.events.register(
        "after-call.s3.GetObject",
        lambda http_response, parsed, **_: seen.append((http_response.status_code, parsed["ETag"])),
    )
    etag = wrapped.get_object(Bucket=BUCKET, Key="key")["ETag"]

    assert seen == [(200, etag)]


def test_a_stubbed_answer_comes_before_the_cache(wrapped: S3Client) -> None:
    read(wrapped)
    with Stubber(wrapped) as stubber:
        stubber.add_response("head_object", {"ContentLength": 7})

        assert wrapped.head_object(Bucket=BUCKET, Key="key")["ContentLength"] == 7


# What a wrapped client is


def test_the_client_that_was_wrapped_stays_as_it_was(plain: S3Client, wrapped: S3Client, sent: Requests) -> None:
    read(wrapped)
    sent.clear()

    assert read(plain) == read(plain) == BODY
    assert sent == ["GetObject", "GetObject"]


def test_a_wrapped_client_is_a_client_of_its_class(plain: S3Client, wrapped: S3Client) -> None:
    assert_type(burstcache.wrap(plain, bucket=BUCKET), "S3Client")

    assert isinstance(wrapped, type(plain))
    assert isinstance(wrapped, BaseClient)
    assert type(wrapped).__name__ == type(plain).__name__
    assert set(dir(plain)) <= set(dir(wrapped))
    assert wrapped.meta is plain.meta
    assert wrapped.exceptions.NoSuchKey is plain.exceptions.NoSuchKey


def test_a_wrapped_client_cannot_be_pickled_either(plain: S3Client, wrapped: S3Client) -> None:
    for client in (plain, wrapped):
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            pickle.dumps(client)


def test_a_wrapped_client_keeps_the_one_that_it_wraps(plain: S3Client) -> None:
    """Handlers of botocore's refer to it weakly, the one that follows a bucket to its region for example."""
    with Client(bucket=BUCKET, s3=plain) as client:
        s3 = session().client("s3")
        alive = weakref.ref(s3)
        wrapped = burstcache.wrap(s3, client=client)
        del s3
        gc.collect()

        assert alive() is not None
        assert read(wrapped) == BODY


def test_two_buckets_are_wrapped_one_after_the_other(wrapped: S3Client, sent: Requests) -> None:
    both = burstcache.wrap(wrapped, bucket="other", freshness="immutable")

    assert {read(both, bucket=bucket) for bucket in (BUCKET, "other") for _ in range(2)} == {BODY}
    assert sent == ["GetObject", "GetObject"]


@pytest.mark.parametrize(
    ("client", "named"),
    [("s3", "'s3'"), (boto3.Session, "Session"), (boto3.session.Session(region_name=REGION), "Session")],
)
def test_only_a_client_of_s3_is_wrapped(client: Any, named: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"{named}.*accepted"):
        burstcache.wrap(client, bucket=BUCKET)


def test_a_client_of_another_service_is_refused() -> None:
    with mocked_aws(), pytest.raises(InvalidSettingError, match="DynamoDB.*accepted"):
        burstcache.wrap(session().client("dynamodb"), bucket=BUCKET)


def test_a_client_and_what_would_make_one_exclude_each_other(plain: S3Client) -> None:
    with Client(bucket=BUCKET, s3=plain) as client, pytest.raises(InvalidSettingError, match="client.*bucket"):
        burstcache.wrap(plain, client=client, bucket=BUCKET)
