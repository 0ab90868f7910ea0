"""The first range of an unknown object comes with its whole slices, so that the next range in them costs no GET."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from burstcache.client import Client
from burstcache.core.errors import RangeNotSatisfiableError
from burstcache.core.slices import SLICE_BYTES
from support.memory_s3 import MemoryS3

_BUCKET, _KEY = "bucket", "key"
_LARGE_BYTES = (9 << 20) + 1000


class _S3(MemoryS3):
    """A bucket that notes the ranges of all GETs."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(lambda: 0.0)
        self.ranges: list[str] = []
        self.boto3 = self.client(_BUCKET)
        self.body = self.write(_KEY, 1, size_bytes).body

    def _answer(self, name: str, key: str, headers: Mapping[str, str], sent: Any) -> tuple[int, dict[str, str], bytes]:
        if name == "GetObject":
            self.ranges.append(headers.get("range", ""))
        return super()._answer(name, key, headers, sent)


def _client(s3: _S3, **bounds: Any) -> Client:
    return Client(bucket=_BUCKET, s3=s3.boto3, max_stale_ms=600_000, **bounds)


def test_further_ranges_of_the_same_slices_cost_no_get() -> None:
    s3 = _S3(_LARGE_BYTES)
    start, end = 2 * SLICE_BYTES - 100, 2 * SLICE_BYTES + 50
    with _client(s3) as client:
        first = client.get(_KEY, range=f"bytes={start}-{end - 1}")
        others = [client.get(_KEY, range=f"bytes={at}-{at + 999}") for at in (SLICE_BYTES, 2 * SLICE_BYTES + 60_000)]

    assert first.body == s3.body[start:end]
    assert first.headers["content-range"] == f"bytes {start}-{end - 1}/{_LARGE_BYTES}"
    assert (first.headers["content-length"], first.size_bytes) == ("150", _LARGE_BYTES)
    assert (first.tier, first.is_hit) == ("s3", False)
    assert [each.tier for each in others] == ["memory", "memory"]
    assert others[1].body == s3.body[2 * SLICE_BYTES + 60_000 :][:1000]
    assert s3.ranges == [f"bytes={SLICE_BYTES}-{3 * SLICE_BYTES - 1}"]


def test_the_disk_keeps_the_slices_for_the_next_process(tmp_path: Path) -> None:
    s3 = _S3(_LARGE_BYTES)
    with _client(s3, memory_bytes=0, disk=tmp_path / "slices") as client:
        client.get(_KEY, range="bytes=100-199")
        client.large.slices._threads.shutdown()  # waits for the writes
    with _client(s3, memory_bytes=0, disk=tmp_path / "slices") as client:
        again = client.get(_KEY, range="bytes=200-299")

    assert (again.tier, again.body) == ("disk", s3.body[200:300])
    assert len(s3.ranges) == 1


@pytest.mark.parametrize(
    "range_", ["bytes=-100", "bytes=9000000-", f"bytes={SLICE_BYTES}-{2 * SLICE_BYTES - 1}", "bytes=5-16777216"]
)
def test_a_range_without_an_end_or_start_or_of_whole_slices_or_a_long_one_is_read_as_it_is(range_: str) -> None:
    s3 = _S3(_LARGE_BYTES)
    with _client(s3) as client:
        client.get(_KEY, range=range_)

    assert s3.ranges[0] == range_


@pytest.mark.parametrize("bounds", [{"memory_bytes": 0}, {"memory_bytes": 1 << 20}])
def test_a_client_that_keeps_no_slices_reads_no_more_than_the_range(bounds: Any) -> None:
    s3 = _S3(_LARGE_BYTES)
    with _client(s3, **bounds) as client:
        client.get(_KEY, range="bytes=100-199")

    assert s3.ranges == ["bytes=100-199"]


def test_a_read_from_s3_itself_reads_no_more_than_the_range() -> None:
    s3 = _S3(_LARGE_BYTES)
    with _client(s3) as client:
        client.get(_KEY, range="bytes=100-199", max_age_s=0)

    assert s3.ranges == ["bytes=100-199"]


def test_a_small_object_that_comes_whole_is_kept_whole() -> None:
    s3 = _S3(100_000)
    with _client(s3) as client:
        part, whole = client.get(_KEY, range="bytes=100-199"), client.get(_KEY)

    assert (part.body, part.headers["content-range"]) == (s3.body[100:200], "bytes 100-199/100000")
    assert (whole.tier, whole.body) == ("memory", s3.body)
    assert "content-range" not in whole.headers
    assert len(s3.ranges) == 1


def test_the_second_range_of_a_small_object_of_several_slices_loads_it_whole() -> None:
    s3 = _S3(3 * SLICE_BYTES)
    with _client(s3) as client:
        bodies = [client.get(_KEY, range=f"bytes={at}-{at + 99}").body for at in (100, 300_000, 600_000)]

    assert bodies == [s3.body[at : at + 100] for at in (100, 300_000, 600_000)]
    assert s3.ranges == [f"bytes=0-{SLICE_BYTES - 1}", ""]


@pytest.mark.parametrize("start", [_LARGE_BYTES, _LARGE_BYTES + 10, 100 * SLICE_BYTES])
def test_a_range_behind_the_end_is_not_satisfiable(start: int) -> None:
    s3 = _S3(_LARGE_BYTES)
    with _client(s3) as client, pytest.raises(RangeNotSatisfiableError):
        client.get(_KEY, range=f"bytes={start}-{start + 99}")


def test_a_range_beyond_the_end_is_cut_there() -> None:
    s3 = _S3(_LARGE_BYTES)
    with _client(s3) as client:
        found = client.get(_KEY, range=f"bytes={_LARGE_BYTES - 10}-{_LARGE_BYTES + 10}")

    assert found.body == s3.body[-10:]
    assert found.headers["content-range"] == f"bytes {_LARGE_BYTES - 10}-{_LARGE_BYTES - 1}/{_LARGE_BYTES}"


def test_a_condition_holds_for_the_range() -> None:
    s3 = _S3(_LARGE_BYTES)
    etag = s3.newest(_KEY).etag
    with _client(s3) as client:
        found = client.get(_KEY, range="bytes=100-199", if_match=etag)

    assert found.body == s3.body[100:200]
    assert s3.ranges == [f"bytes=0-{SLICE_BYTES - 1}"]
