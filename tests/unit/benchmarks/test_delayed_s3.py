"""The delayed S3 of the benchmarks answers as S3 does, as late and as slowly as it is told, and counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks.support.delayed_s3 import DelayedS3, delayed_s3
from benchmarks.support.pool_clients import generated_s3

pytestmark = pytest.mark.slow

BODY = bytes(range(256)) * 4_096  # 1 MiB


def client(store: DelayedS3) -> Any:
    return generated_s3(int(store.url.rpartition(":")[2]))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DelayedS3]:
    folder = tmp_path_factory.mktemp("objects")
    for key in ("a.bin", "few/b c.bin", "few/d.bin", "many/e.bin"):
        (folder / key).parent.mkdir(exist_ok=True)
        (folder / key).write_bytes(BODY)
    with delayed_s3(folder, delay_ms=0, mb_per_s=0) as running:
        yield running


@pytest.fixture(scope="module")
def s3(store: DelayedS3) -> Any:
    return client(store)


@pytest.mark.parametrize(
    ("range_", "expected"),
    [("bytes=5-9", BODY[5:10]), ("bytes=1048570-2000000", BODY[-6:]), ("bytes=-7", BODY[-7:]), ("bytes=9-", BODY[9:])],
)
def test_range_is_sent_as_a_part(range_: str, expected: bytes, s3: Any) -> None:
    answer = s3.get_object(Bucket="bucket", Key="a.bin", Range=range_)

    assert answer["Body"].read() == expected
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert answer["ContentRange"].endswith("/1048576")


def test_whole_object_and_its_head_have_one_description(s3: Any) -> None:
    answer, head = s3.get_object(Bucket="bucket", Key="few/b c.bin"), s3.head_object(Bucket="bucket", Key="few/b c.bin")

    assert answer["Body"].read() == BODY
    assert {name: head[name] for name in ("ETag", "LastModified", "ContentLength", "AcceptRanges")} == {
        name: answer[name] for name in ("ETag", "LastModified", "ContentLength", "AcceptRanges")
    }


@pytest.mark.parametrize(
    ("status", "key", "options"),
    [
        (404, "none.bin", {}),
        (404, "../a.bin", {}),
        (416, "a.bin", {"Range": "bytes=1048576-"}),
        (412, "a.bin", {"IfMatch": '"other"'}),
    ],
)
def test_request_that_cannot_be_met_has_the_status_of_s3(status: int, key: str, options: Any, s3: Any) -> None:
    with pytest.raises(ClientError) as refusal:
        s3.get_object(Bucket="bucket", Key=key, **options)

    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


def test_conditions_compare_the_etag(s3: Any) -> None:
    etag = s3.head_object(Bucket="bucket", Key="a.bin")["ETag"]

    with pytest.raises(ClientError) as refusal:
        s3.get_object(Bucket="bucket", Key="a.bin", IfNoneMatch=etag)

    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 304
    assert s3.get_object(Bucket="bucket", Key="a.bin", IfMatch=etag)["Body"].read() == BODY


def test_listing_has_pages_prefixes_and_sizes(s3: Any) -> None:
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", PaginationConfig={"PageSize": 3}))
    level = s3.list_objects_v2(Bucket="bucket", Delimiter="/")
    below = s3.list_objects_v2(Bucket="bucket", Prefix="few/", Delimiter="/")
    nothing = s3.list_objects_v2(Bucket="bucket", MaxKeys=0)

    keys = [each["Key"] for page in pages for each in page["Contents"]]
    assert [len(page["Contents"]) for page in pages] == [3, 1]
    assert keys == ["a.bin", "few/b c.bin", "few/d.bin", "many/e.bin"]
    assert [each["Prefix"] for each in level["CommonPrefixes"]] == ["few/", "many/"]
    assert [(each["Key"], each["Size"]) for each in level["Contents"]] == [("a.bin", len(BODY))]
    assert [each["Key"] for each in below["Contents"]] == ["few/b c.bin", "few/d.bin"]
    assert (nothing["KeyCount"], nothing["IsTruncated"]) == (0, False)


def test_requests_and_bytes_are_counted(s3: Any, store: DelayedS3) -> None:
    before = store.counts()

    s3.get_object(Bucket="bucket", Key="a.bin", Range="bytes=0-99")["Body"].read()
    s3.head_object(Bucket="bucket", Key="a.bin")

    after = store.counts()
    assert after["requests"]["GET"] - before["requests"].get("GET", 0) == 1
    assert after["by_object"]["HEAD a.bin"] - before["by_object"].get("HEAD a.bin", 0) == 1
    assert after["sent_bytes"] - before["sent_bytes"] == 100


def test_answer_is_late_and_slow(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(BODY)

    with delayed_s3(tmp_path, delay_ms=100, mb_per_s=10) as running:
        s3 = client(running)
        began_s = time.monotonic()
        body = s3.get_object(Bucket="bucket", Key="a.bin")["Body"].read()
        took_s = time.monotonic() - began_s

    assert body == BODY
    assert took_s > 0.1 + len(BODY) / 10e6
