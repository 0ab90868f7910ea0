"""Fifty threads or tasks that read one cold range of a large object cost one GET, by every way to read."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig, create_transfer_manager

import burstcache
from burstcache.adapters.clock import SystemClock
from burstcache.client import AsyncClient, Client
from burstcache.client.boto3_wrapper import CachedBucket
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache.core.slices import SLICE_BYTES, Slice
from burstcache.serve.reader import Miss
from burstcache.serve.slice_memory import SliceMemory
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.memory_s3 import MemoryS3
from support.waiting import LIMIT_S, until

_BUCKET, _KEY = "bucket", "key"
_PATH = f"{_BUCKET}/{_KEY}"
_READERS = 50
_ANY_MS = LIMIT_S * 1000  # that a read may be older, however busy the machine is
_SIZE_BYTES = (8 << 20) + 16 * 1024  # too large to be kept whole
_START, _END = 3 * SLICE_BYTES + 10, 3 * SLICE_BYTES + 5_000
_RANGE = f"bytes={_START}-{_END - 1}"
_SLICE = f"bytes=0-{SLICE_BYTES - 1}"


class _S3(MemoryS3):
    """A bucket that counts requests by operation, and holds its first GET until it is released."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.asked: Counter[str] = Counter()
        self.release = Event()
        self.boto3 = self.client(_BUCKET)
        self.body = self.write(_KEY, 1, _SIZE_BYTES).body

    def _answer(self, name: str, key: str, headers: Mapping[str, str], sent: Any) -> tuple[int, dict[str, str], bytes]:
        self.asked[name] += 1
        if name == "GetObject" and self.asked[name] == 1:
            assert self.release.wait(LIMIT_S)
        return super()._answer(name, key, headers, sent)


class _Files(BurstcacheFileSystem):
    """A file system of the bucket."""

    cachable = False

    def __init__(self, s3: _S3) -> None:
        super().__init__(use_listings_cache=False, max_stale_ms=_ANY_MS)
        self._bucket_in_memory = s3

    def _connect(self) -> Any:
        return self._bucket_in_memory.boto3


Read = Callable[[], bytes]


def _by_get(s3: _S3) -> tuple[Read, Read]:
    client = Client(bucket=_BUCKET, s3=s3.boto3, max_stale_ms=_ANY_MS)
    return lambda: client.head(_KEY).body, lambda: client.get(_KEY, range=_RANGE).body


def _by_open(s3: _S3) -> tuple[Read, Read]:
    client = Client(bucket=_BUCKET, s3=s3.boto3, max_stale_ms=_ANY_MS)

    def read() -> bytes:
        with client.open(_KEY) as file:
            file.seek(_START)
            return file.read(_END - _START)

    return lambda: client.head(_KEY).body, read


def _by_get_object(s3: _S3) -> tuple[Read, Read]:
    wrapped = burstcache.wrap(s3.boto3, bucket=_BUCKET, max_stale_ms=_ANY_MS)

    def head() -> bytes:
        wrapped.head_object(Bucket=_BUCKET, Key=_KEY)
        return b""

    return head, lambda: wrapped.get_object(Bucket=_BUCKET, Key=_KEY, Range=_RANGE)["Body"].read()


def _by_download_file(s3: _S3) -> Read:
    wrapped = burstcache.wrap(s3.boto3, bucket=_BUCKET, max_stale_ms=_ANY_MS, memory_bytes=256 << 20)

    def read() -> bytes:
        into = io.BytesIO()
        with create_transfer_manager(wrapped, TransferConfig()) as transfers:  # what `download_fileobj` does
            transfers.download(_BUCKET, _KEY, into).result()
        return into.getvalue()

    return read


def _by_cat_file(s3: _S3) -> tuple[Read, Read]:
    files = _Files(s3)
    return lambda: bytes(files.size(_PATH) > _SIZE_BYTES), lambda: files.cat_file(_PATH, _START, _END)


def _by_cat_ranges(s3: _S3) -> tuple[Read, Read]:
    files = _Files(s3)

    def read() -> bytes:
        middle = (_START + _END) // 2
        return b"".join(files.cat_ranges([_PATH] * 2, [_START, middle], [middle, _END], on_error="raise"))

    return lambda: bytes(files.size(_PATH) > _SIZE_BYTES), read


def _by_fsspec_open(s3: _S3) -> tuple[Read, Read]:
    files = _Files(s3)

    def read() -> bytes:
        with files.open(_PATH) as file:
            file.seek(_START)
            return bytes(file.read(_END - _START))

    return lambda: bytes(files.size(_PATH) > _SIZE_BYTES), read


_WAYS = (_by_get, _by_open, _by_get_object, _by_cat_file, _by_cat_ranges, _by_fsspec_open)


@pytest.fixture
def s3() -> Iterator[_S3]:
    s3 = _S3()
    yield s3
    s3.release.set()


def _read_at_once(s3: _S3, read: Read) -> set[bytes]:
    """Read in many threads. All have begun when S3 answers."""
    begun = list[int]()

    def begin(number: int) -> bytes:
        begun.append(number)
        return read()

    with ThreadPoolExecutor(_READERS) as threads:
        reads = [threads.submit(begin, number) for number in range(_READERS)]
        until(lambda: (len(begun) == _READERS and s3.asked["GetObject"] > 0) or any(each.done() for each in reads))
        s3.release.set()
        return {each.result(LIMIT_S) for each in reads}


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Future[Any]]:
    """Collect the reads of other threads for which reads wait. On a busy machine these may take more than 4 s."""
    waiting: list[Future[Any]] = []

    def wait_for(self: SystemClock, future: Future[Any], timeout_s: float | None = None) -> Any:
        waiting.append(future)
        return future.result(LIMIT_S)

    monkeypatch.setattr(SystemClock, "wait_for", wait_for)
    return waiting


@pytest.mark.parametrize("way", _WAYS, ids=lambda way: way.__name__)
def test_threads_on_a_cold_range_of_a_known_object_cost_one_get(
    way: Callable[[_S3], tuple[Read, Read]], s3: _S3, waiting: list[Future[Any]]
) -> None:
    head, read = way(s3)
    head()

    assert _read_at_once(s3, read) == {s3.body[_START:_END]}
    assert s3.asked["GetObject"] == 1


# fsspec's loop begins the parts of `cat_ranges` in fewer threads, by `cat_file`.
@pytest.mark.parametrize("way", [way for way in _WAYS if way != _by_cat_ranges], ids=lambda way: way.__name__)
def test_threads_on_a_cold_range_of_an_unknown_object_cost_a_head_or_get_or_two_and_a_slice(
    way: Callable[[_S3], tuple[Read, Read]], s3: _S3, waiting: list[Future[Any]]
) -> None:
    """A read that began after another one may be promised a newer object, so it may need a read of its own."""
    _, read = way(s3)
    with ThreadPoolExecutor(_READERS) as threads:
        reads = [threads.submit(read) for _ in range(_READERS)]
        # A client reads the parts of files in 32 threads.
        until(lambda: len(waiting) >= (30 if way is _by_open else _READERS - 1))
        s3.release.set()

        assert {each.result(LIMIT_S) for each in reads} == {s3.body[_START:_END]}
    assert s3.asked["GetObject"] <= 5
    assert s3.asked["HeadObject"] <= 2


def test_of_two_threads_on_cold_slices_one_loads_all_of_them(
    s3: _S3, waiting: list[Future[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thread is held between its first and its second slice until the other one has asked S3."""
    client, look_up = Client(bucket=_BUCKET, s3=s3.boto3, max_stale_ms=_ANY_MS), SliceMemory.get
    client.head(_KEY)
    held, go_on = Event(), Event()

    def held_at_the_second_slice(self: SliceMemory, slice_: Slice, start: int, end: int) -> Any:
        if slice_.start == SLICE_BYTES and not held.is_set():
            held.set()
            assert go_on.wait(LIMIT_S)
        return look_up(self, slice_, start, end)

    monkeypatch.setattr(SliceMemory, "get", held_at_the_second_slice)

    def read() -> bytes:
        return client.get(_KEY, range=f"bytes=0-{2 * SLICE_BYTES - 1}").body

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(read)
        assert held.wait(LIMIT_S)
        second = threads.submit(read)
        until(lambda: s3.asked["GetObject"])
        go_on.set()
        s3.release.set()
        assert first.result(LIMIT_S) == second.result(LIMIT_S) == s3.body[: 2 * SLICE_BYTES]
    assert s3.asked["GetObject"] == 1


def test_threads_that_download_a_cold_object_cost_one_get_for_each_part_of_8_mib(
    s3: _S3, frequent_switches: None, waiting: list[Future[Any]]
) -> None:
    """A download begins with a GET of an unknown object, whose body goes to its caller alone if nobody waits yet."""
    read = _by_download_file(s3)
    with ThreadPoolExecutor(_READERS) as threads:
        reads = [threads.submit(read) for _ in range(_READERS)]
        until(lambda: len(waiting) >= _READERS - 1)
        s3.release.set()

        assert {each.result(LIMIT_S) for each in reads} == {s3.body}
    assert s3.asked == {"GetObject": 2}


def test_a_read_that_another_one_overtakes_before_it_asks_s3_reads_its_slices(
    s3: _S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.release.set()
    wrapped = burstcache.wrap(s3.boto3, bucket=_BUCKET, max_stale_ms=_ANY_MS)
    find, overtaking = CachedBucket.find, list[bytes]()

    def read() -> bytes:
        return wrapped.get_object(Bucket=_BUCKET, Key=_KEY, Range=_SLICE)["Body"].read()  # type: ignore[no-any-return]

    def overtaken(self: CachedBucket, request: Request) -> Response | Miss:
        found = find(self, request)
        if not overtaking:
            overtaking.append(b"")
            overtaking[0] = read()
        return found

    monkeypatch.setattr(CachedBucket, "find", overtaken)

    assert read() == overtaking[0] == s3.body[:SLICE_BYTES]
    assert s3.asked == {"GetObject": 1}


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_tasks_on_a_cold_range_cost_one_get(is_known: bool, s3: _S3) -> None:
    async def read() -> set[bytes]:
        async with AsyncClient(bucket=_BUCKET, s3=s3.boto3, max_stale_ms=_ANY_MS) as client:
            if is_known:
                await client.head(_KEY)
            reads = [asyncio.ensure_future(client.get(_KEY, range=_RANGE)) for _ in range(_READERS)]
            asyncio.get_running_loop().call_later(0, s3.release.set)  # all have begun
            return {each.body for each in await asyncio.gather(*reads)}

    assert asyncio.run(read()) == {s3.body[_START:_END]}
    assert s3.asked["GetObject"] == 1
