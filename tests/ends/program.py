"""A program as a user writes one: every way to read, against the S3 endpoint of the environment; fails if one breaks.

Run by `tests/ends/__main__.py` in environments with the oldest and the newest versions of the libraries it brings.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import boto3
import fsspec

import burstcache
from burstcache.client import AsyncClient, Client
from burstcache.results import cached

_BUCKET, _BODY = "bucket", bytes(range(256)) * 400


def main() -> None:
    """Read by each way, twice: from S3 and from memory."""
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=_BUCKET)
    s3.put_object(Bucket=_BUCKET, Key="key", Body=_BODY)
    s3.put_object(Bucket=_BUCKET, Key="large", Body=_BODY * 100)

    wrapped = burstcache.wrap(boto3.client("s3"), bucket=_BUCKET)
    for options in ({}, {}, {"Range": "bytes=10-19"}, {"ChecksumMode": "ENABLED"}):
        expected = _BODY[10:20] if "Range" in options else _BODY
        assert wrapped.get_object(Bucket=_BUCKET, Key="key", **options)["Body"].read() == expected
    assert wrapped.head_object(Bucket=_BUCKET, Key="key")["ContentLength"] == len(_BODY)
    wrapped.put_object(Bucket=_BUCKET, Key="key", Body=_BODY[::-1])
    assert wrapped.get_object(Bucket=_BUCKET, Key="key")["Body"].read() == _BODY[::-1]
    wrapped.put_object(Bucket=_BUCKET, Key="key", Body=_BODY)

    with Client(bucket=_BUCKET) as client:
        tiers = [client.get("key").tier for _ in range(2)]
        assert tiers == ["s3", "memory"], tiers
        with ThreadPoolExecutor(8) as threads:
            assert {found.body for found in threads.map(client.get, ["key"] * 40)} == {_BODY}
        with client.open("large") as file:
            assert file.read() == _BODY * 100

    async def read() -> bytes:
        async with AsyncClient(bucket=_BUCKET) as reader:
            return (await reader.get("key")).body

    assert asyncio.run(read()) == _BODY

    files = fsspec.filesystem("burstcache")
    assert files.cat(f"{_BUCKET}/key") == _BODY
    assert sorted(files.find(_BUCKET)) == [f"{_BUCKET}/key", f"{_BUCKET}/large"]
    with files.open(f"{_BUCKET}/large") as file:
        file.seek(5)
        assert file.read(10) == _BODY[5:15]

    computed = []

    @cached(arguments=["number"], ttl_s=60)
    def double(number: int) -> int:
        computed.append(number)
        return 2 * number

    assert [double(4), double(4), double(5)] == [8, 8, 10]
    assert computed == [4, 5]


if __name__ == "__main__":
    main()
