"""Small objects on disk: the next process reads them from there, and S3 confirms each without sending a byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import burstcache
from burstcache.client import AsyncClient, Client
from burstcache.client.boto3_wrapper import cached_bucket
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache.core.keys import key_hash
from support.memory_s3 import MemoryS3

BUCKET = "small"
_SIZES = {"empty": 0, "byte": 1, "middle": 300 << 10, "large": 5 << 20, "limit": 8 << 20}
Read = Callable[[Any, str, Path, int], bytes]


class _CountedS3(MemoryS3):
    """S3 in memory that counts the bytes it sends."""

    sent_bytes = 0

    def _answer(self, name: str, key: str, headers: Any, sent: Any) -> tuple[int, dict[str, str], bytes]:
        status, described, body = super()._answer(name, key, headers, sent)
        self.sent_bytes += len(body)
        return status, described, body


class _Files(BurstcacheFileSystem):
    """A file system of the bucket in memory."""

    cachable = False

    def __init__(self, s3: Any, **bounds: Any) -> None:
        super().__init__(use_listings_cache=False, **bounds)
        self._of_memory = s3

    def _connect(self) -> Any:
        return self._of_memory

    def close(self) -> None:
        """Wait until the disk has what was read, as a process does that ends."""
        if self._client is not None:
            cached_bucket(self._client, BUCKET).close()


def _by_client(s3: Any, key: str, disk: Path, memory_bytes: int) -> bytes:
    with Client(bucket=BUCKET, s3=s3, disk=disk, memory_bytes=memory_bytes) as client:
        return client.get(key).body


def _by_file(s3: Any, key: str, disk: Path, memory_bytes: int) -> bytes:
    with Client(bucket=BUCKET, s3=s3, disk=disk, memory_bytes=memory_bytes) as client, client.open(key) as file:
        return file.read()


def _by_tasks(s3: Any, key: str, disk: Path, memory_bytes: int) -> bytes:
    async def read() -> bytes:
        async with AsyncClient(bucket=BUCKET, s3=s3, disk=disk, memory_bytes=memory_bytes) as client:
            return (await client.get(key)).body

    return asyncio.run(read())


def _by_wrapped(s3: Any, key: str, disk: Path, memory_bytes: int) -> bytes:
    with Client(bucket=BUCKET, s3=s3, disk=disk, memory_bytes=memory_bytes) as client:
        body: bytes = burstcache.wrap(s3, client=client).get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body


def _by_fsspec(s3: Any, key: str, disk: Path, memory_bytes: int) -> bytes:
    files = _Files(s3, disk=disk, memory_bytes=memory_bytes)
    body: bytes = files.cat_file(f"{BUCKET}/{key}")
    files.close()
    return body


_WAYS = [_by_client, _by_file, _by_tasks, _by_wrapped, _by_fsspec]


@pytest.fixture
def s3() -> _CountedS3:
    s3 = _CountedS3(lambda: 1_000_000.0)
    for number, (key, size_bytes) in enumerate(_SIZES.items()):
        s3.write(key, number, size_bytes)
    return s3


@pytest.mark.parametrize("memory_bytes", [0, 64 << 20])
@pytest.mark.parametrize("read", _WAYS)
def test_the_next_process_reads_no_byte_from_s3(s3: _CountedS3, read: Read, memory_bytes: int, tmp_path: Path) -> None:
    boto3 = s3.client(BUCKET)
    for key in _SIZES:
        _by_client(boto3, key, tmp_path / "slices", memory_bytes)
    s3.sent_bytes = s3.requests = 0

    bodies = {key: read(boto3, key, tmp_path / "slices", memory_bytes) for key in _SIZES}

    assert bodies == {key: s3.newest(key).body for key in _SIZES}
    assert s3.sent_bytes == 0
    if read is not _by_file or memory_bytes:
        assert s3.requests == len(_SIZES)


@pytest.mark.parametrize("read", _WAYS)
def test_each_way_to_read_keeps_objects_for_the_next_process(s3: _CountedS3, read: Read, tmp_path: Path) -> None:
    boto3 = s3.client(BUCKET)
    for key in _SIZES:
        read(boto3, key, tmp_path / "slices", 64 << 20)
    s3.sent_bytes = 0

    for key in _SIZES:
        _by_client(boto3, key, tmp_path / "slices", 64 << 20)

    assert s3.sent_bytes == 0


@pytest.mark.parametrize("read", _WAYS)
def test_an_object_overwritten_meanwhile_is_read_anew_once(s3: _CountedS3, read: Read, tmp_path: Path) -> None:
    boto3 = s3.client(BUCKET)
    _by_client(boto3, "middle", tmp_path / "slices", 64 << 20)
    newer = s3.write("middle", 77, _SIZES["middle"])  # of the same length
    s3.sent_bytes = 0

    bodies = [read(boto3, "middle", tmp_path / "slices", 64 << 20) for _ in range(2)]

    assert bodies == [newer.body] * 2
    assert s3.sent_bytes == newer.size_bytes


@pytest.mark.parametrize("at", [0, 30, 300, 100_000, -1])
def test_a_flipped_byte_costs_a_read_of_s3(s3: _CountedS3, at: int, tmp_path: Path) -> None:
    boto3 = s3.client(BUCKET)
    _by_client(boto3, "middle", tmp_path / "slices", 64 << 20)
    (file,) = tmp_path.glob("slices/??/*.slice")
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    s3.sent_bytes = 0

    assert _by_client(boto3, "middle", tmp_path / "slices", 64 << 20) == s3.newest("middle").body
    assert s3.sent_bytes == _SIZES["middle"]


def test_a_full_disk_fails_no_read(s3: _CountedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = s3.client(BUCKET)
    _by_client(boto3, "middle", tmp_path / "slices", 64 << 20)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("burstcache.adapters.slice_files._write_all", full)

    assert {key: _by_client(boto3, key, tmp_path / "slices", 64 << 20) for key in _SIZES} == {
        key: s3.newest(key).body for key in _SIZES
    }


def test_an_immutable_object_needs_no_request(s3: _CountedS3, tmp_path: Path) -> None:
    boto3 = s3.client(BUCKET)
    _by_client(boto3, "middle", tmp_path / "slices", 64 << 20)
    s3.requests = 0

    with Client(bucket=BUCKET, s3=boto3, disk=tmp_path / "slices", freshness="immutable") as client:
        tiers = [client.get("middle").tier for _ in range(2)]

    assert tiers == ["disk", "memory"]
    assert s3.requests == 0


@pytest.mark.parametrize(("freshness", "requests"), [("bounded", 1), ("strong", 3)])
def test_s3_confirms_objects_from_disk_as_those_in_memory(
    s3: _CountedS3, freshness: Any, requests: int, tmp_path: Path
) -> None:
    boto3 = s3.client(BUCKET)
    _by_client(boto3, "middle", tmp_path / "slices", 64 << 20)
    s3.requests = s3.sent_bytes = 0

    with Client(bucket=BUCKET, s3=boto3, disk=tmp_path / "slices", freshness=freshness, max_stale_ms=600_000) as client:
        tiers = [client.get("middle").tier for _ in range(3)]
        counted = client.stats()

    assert tiers == ["disk", "memory", "memory"]
    assert (s3.requests, s3.sent_bytes) == (requests, 0)
    assert counted.tiers["disk"].reads == 1


@pytest.mark.parametrize("memory_bytes", [0, 64 << 20])
@pytest.mark.parametrize("key", ["middle", "limit"])
def test_a_client_of_immutable_objects_reads_what_it_has_written_itself(
    s3: _CountedS3, key: str, memory_bytes: int, tmp_path: Path
) -> None:
    boto3 = s3.client(BUCKET)
    with Client(
        bucket=BUCKET, s3=boto3, disk=tmp_path / "slices", freshness="immutable", memory_bytes=memory_bytes
    ) as client:
        client.get(key)
        newer = s3.write(key, 99, _SIZES[key])
        client._current.reader.forget(key_hash(key))  # as after a write by this client

        assert client.get(key).body == newer.body
