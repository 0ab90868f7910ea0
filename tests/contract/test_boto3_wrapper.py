"""Contract of the boto3 wrapper: each call behaves as boto3's own, whether S3 or the cache answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError

import burstcache
from burstcache.client import Client
from burstcache_local.moto.server import moto_server
from support.aws import BUCKET, REGION
from support.boto3_calls import CALLS, KEYS, READS, Call, Read, Requests, fill, outcome

# The cache keeps what describes the object; what S3 says about its storage is missing in a hit (`docs/use/client.md`).
_OF_THE_OBJECT = frozenset(
    {
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "expires",
        "last-modified",
        "x-amz-meta-colour",
        "x-amz-meta-two-words",
    }
)
_WHOLE = next(call for call in CALLS if call.name == "get: the object")


@pytest.fixture(scope="module")
def endpoint_url() -> Iterator[str]:
    with moto_server() as services:
        yield services.cloud_url


@pytest.fixture(scope="module")
def session() -> boto3.Session:
    return boto3.Session("id", "secret", region_name=REGION)


@pytest.fixture(scope="module")
def plain(session: boto3.Session, endpoint_url: str) -> Any:
    client = session.client("s3", endpoint_url=endpoint_url)
    fill(client, BUCKET, REGION)
    return client


@pytest.fixture(scope="module")
def known(plain: Any) -> dict[str, Any]:
    head = plain.head_object(Bucket=BUCKET, Key="key")
    return {"ETAG": head["ETag"], "LAST-MODIFIED": head["LastModified"]}


@pytest.fixture(scope="module")
def missing(plain: Any) -> Any:
    """A client whose cache never has anything."""
    with Client(bucket=BUCKET, s3=plain, memory_bytes=0) as client:
        yield burstcache.wrap(plain, client=client)


@pytest.fixture(scope="module")
def hitting(plain: Any) -> Any:
    """A client whose cache has all objects."""
    with Client(bucket=BUCKET, s3=plain, freshness="immutable") as client:
        wrapped = burstcache.wrap(plain, client=client)
        for key in KEYS:
            wrapped.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        yield wrapped


@pytest.fixture
def sent(plain: Any) -> Iterator[Requests]:
    """Record the requests sent to S3 by any of the three clients, which share their events."""
    with Requests(plain) as requests:
        yield requests


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_table_says_what_boto3_does(plain: Any, known: dict[str, Any], call: Call) -> None:
    seen = outcome(plain, call, BUCKET, known)

    if isinstance(call.becomes, int):
        assert seen["ResponseMetadata"]["HTTPStatusCode"] == call.becomes
    elif call.becomes == "ParamValidationError":
        assert seen["raised"] is ParamValidationError
    else:
        assert issubclass(seen["raised"], ClientError)
        assert seen["response"]["Error"]["Code"] == call.becomes


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_miss_is_what_boto3_makes_of_it(plain: Any, missing: Any, known: dict[str, Any], call: Call) -> None:
    assert outcome(missing, call, BUCKET, known) == outcome(plain, call, BUCKET, known)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_hit_is_what_boto3_makes_of_it_and_asks_nobody(
    plain: Any, hitting: Any, known: dict[str, Any], sent: Requests, call: Call
) -> None:
    s3s = outcome(plain, call, BUCKET, known)
    before = len(sent)

    seen = outcome(hitting, call, BUCKET, known)

    assert _of_the_object(seen) == _of_the_object(s3s)
    assert (len(sent) == before) == (call.is_cacheable or call.becomes == "ParamValidationError")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_body_is_read_as_boto3s(plain: Any, missing: Any, hitting: Any, known: dict[str, Any], read: Read) -> None:
    s3s = outcome(plain, _WHOLE, BUCKET, known, read)

    assert outcome(missing, _WHOLE, BUCKET, known, read) == s3s
    assert outcome(hitting, _WHOLE, BUCKET, known, read)["read"] == s3s["read"]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_body_on_its_way_into_the_cache_is_read_as_boto3s(plain: Any, known: dict[str, Any], read: Read) -> None:
    with Client(bucket=BUCKET, s3=plain, freshness="immutable") as client:
        loading = burstcache.wrap(plain, client=client)

        assert outcome(loading, _WHOLE, BUCKET, known, read) == outcome(plain, _WHOLE, BUCKET, known, read)


def test_every_404_of_a_deleted_version_names_its_delete_marker(plain: Any) -> None:
    bucket = f"{BUCKET}-with-versions"
    plain.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    plain.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    plain.put_object(Bucket=bucket, Key="key", Body=b"text")
    plain.delete_object(Bucket=bucket, Key="key")

    markers = []
    with Client(bucket=bucket, s3=plain, freshness="immutable") as client:
        wrapped = burstcache.wrap(plain, client=client)
        for _ in range(3):
            with pytest.raises(ClientError) as raised:
                wrapped.head_object(Bucket=bucket, Key="key")
            markers.append(raised.value.response["ResponseMetadata"]["HTTPHeaders"].get("x-amz-delete-marker"))

    assert markers == ["true"] * 3


def _of_the_object(seen: dict[str, Any]) -> dict[str, Any]:
    """Return the description of the object and the outcome of the call."""
    response = seen.get("response") or seen
    kept = {name: value for name, value in seen.items() if not name.startswith("Checksum")}
    if "ResponseMetadata" not in response:
        return kept
    metadata = response["ResponseMetadata"]
    # What S3 repeats in a 304 differs from one of its own to another, and boto3 gives a program nothing of it.
    names = {"etag"} if metadata["HTTPStatusCode"] == 304 else _OF_THE_OBJECT
    metadata["HTTPHeaders"] = {name: value for name, value in metadata["HTTPHeaders"].items() if name in names}
    metadata.pop("ChecksumAlgorithm", None)
    return kept
