"""A client whose threads and tasks read at once, and one that another thread closes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from typing import Any

import boto3
import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.client import AsyncClient, Client, Object
from burstcache.client.backend import THREADS
from burstcache.client.bounds import BoundArguments
from burstcache.core.errors import ObjectNotFoundError, RefusedRequestError
from support.answers_at_once import answer_at_once
from support.waiting import LIMIT_S

_ANY_MS = LIMIT_S * 1000  # that a read may be older, however long a busy machine takes to begin a hundred


def test_a_client_that_is_closed_between_two_steps_of_a_read_opens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(bucket="b", session=boto3.Session(region_name="eu-central-1"))

    def close_first(self: ThreadPoolExecutor, *arguments: Any) -> Future[Any]:
        monkeypatch.undo()
        client.close()
        return self.submit(*arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", close_first)
    with client:
        answer = client.submit(str.upper, "read").result(LIMIT_S)

    assert answer == "READ"


def test_errors_are_returned_in_the_place_of_their_keys_when_they_are_remembered_too() -> None:
    s3 = boto3.client("s3", "eu-central-1", aws_access_key_id="id", aws_secret_access_key="secret")
    answer_at_once(s3, lambda _: (404, {}, b"<Error><Code>NoSuchKey</Code></Error>"))

    with Client(bucket="b", s3=s3) as client:
        found = [client.get_many(["missing", ""], return_errors=True) for _ in range(2)]
        with pytest.raises(ObjectNotFoundError):
            client.get_many(["missing"])

    for each in found:
        assert list(map(type, each.values())) == [ObjectNotFoundError, RefusedRequestError]


class S3:
    """A bucket with one object; counts what it is asked, and first answers when a number of reads have begun."""

    def __init__(self, *, after: int) -> None:
        self.asked, self.began, self._after = 0, Semaphore(0), after
        self.client = boto3.client("s3", "eu-central-1", aws_access_key_id="id", aws_secret_access_key="secret")
        answer_at_once(self.client, self._answer)

    def _answer(self, request: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        self.asked += 1
        after, self._after = self._after, 0
        for _ in range(after):
            self.began.acquire()
        if request["method"] == "PUT":
            return 200, {}, b""
        return 200, {"etag": '"1"', "content-length": "6", "last-modified": "Sun, 22 Nov 2026 12:00:00 GMT"}, b"object"


@pytest.mark.parametrize("data", [b"object", bytearray(b"object"), memoryview(b"an object")[3:]])
def test_bytes_of_every_kind_are_written(data: bytes | bytearray | memoryview) -> None:
    s3, written = S3(after=0), []
    s3.client.meta.events.register("provide-client-params.s3", lambda params, **_: written.append(params["Body"]))

    with Client(bucket="b", s3=s3.client) as client:
        client.put("key", data)

    assert written == [b"object"]


@pytest.mark.parametrize("data", ["object", None, 6, [b"object"]])
def test_what_is_no_bytes_is_refused_with_what_is(data: Any) -> None:
    s3 = S3(after=0)

    with (
        Client(bucket="b", s3=s3.client) as client,
        pytest.raises(TypeError, match=f"{type(data).__name__}; accepted: bytes, bytearray, memoryview"),
    ):
        client.put("key", data)

    assert s3.asked == 0


def test_a_hundred_threads_that_read_a_cold_key_make_one_read_of_s3() -> None:
    s3 = S3(after=100)

    def read(client: Client) -> bytes:
        s3.began.release()
        return client.get("key").body

    with Client(bucket="b", s3=s3.client, max_stale_ms=_ANY_MS) as client, ThreadPoolExecutor(100) as threads:
        bodies = set(threads.map(read, [client] * 100))

    assert (bodies, s3.asked) == ({b"object"}, 1)


def test_a_hundred_tasks_that_read_a_cold_key_make_one_read_of_s3() -> None:
    s3 = S3(after=1)

    async def main() -> set[bytes]:
        async with AsyncClient(bucket="b", s3=s3.client, max_stale_ms=_ANY_MS) as client:
            reads = [asyncio.ensure_future(client.get("key")) for _ in range(100)]
            asyncio.get_running_loop().call_later(0, s3.began.release)  # all have begun
            return {each.body for each in await asyncio.gather(*reads)}

    assert (asyncio.run(main()), s3.asked) == ({b"object"}, 1)


@pytest.fixture
def waits_for_s3(monkeypatch: pytest.MonkeyPatch) -> Callable[[S3], None]:
    """Lets reads that wait for one under way count as begun, and wait for its end however busy the machine is."""

    def count(s3: S3) -> None:
        def wait_for(self: SystemClock, future: Future[Any], timeout_s: float | None = None) -> Any:
            s3.began.release()
            return future.result(LIMIT_S)

        monkeypatch.setattr(SystemClock, "wait_for", wait_for)

    return count


@pytest.mark.parametrize(
    "keeps", [BoundArguments(memory_bytes=0), BoundArguments(freshness="strong")], ids=["no memory", "strong"]
)
def test_a_hundred_threads_that_may_get_nothing_old_make_two_reads_of_s3(
    keeps: BoundArguments, waits_for_s3: Callable[[S3], None]
) -> None:
    s3 = S3(after=99)
    waits_for_s3(s3)

    with Client(bucket="b", s3=s3.client, **keeps) as client, ThreadPoolExecutor(100) as threads:
        bodies = {each.body for each in threads.map(client.get, ["key"] * 100)}

    assert (bodies, s3.asked) == ({b"object"}, 2)


@pytest.mark.parametrize(
    "keeps", [BoundArguments(memory_bytes=0), BoundArguments(freshness="strong")], ids=["no memory", "strong"]
)
def test_more_tasks_than_threads_that_may_get_nothing_old_make_two_reads_of_s3(
    keeps: BoundArguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = S3(after=1)
    # Reads wait for the one under way, however busy the machine is.
    monkeypatch.setattr(SystemClock, "wait_for", lambda self, future, timeout_s=None: future.result(LIMIT_S))
    monkeypatch.setattr("burstcache.adapters.single_flight.LEFT_AFTER_S", LIMIT_S)

    async def main() -> set[bytes]:
        async with AsyncClient(bucket="b", s3=s3.client, **keeps) as client:
            reads = [asyncio.ensure_future(client.get("key")) for _ in range(3 * THREADS)]
            asyncio.get_running_loop().call_later(0, s3.began.release)  # all have begun
            return {each.body for each in await asyncio.gather(*reads)}

    assert asyncio.run(main()) == {b"object"}
    assert s3.asked in (1, 2)  # those that come before the first read begins share it


def test_a_cancelled_task_does_not_fail_those_that_share_its_read() -> None:
    s3 = S3(after=1)

    async def main() -> list[object]:
        async with AsyncClient(bucket="b", s3=s3.client, max_stale_ms=_ANY_MS) as client:
            reads = [asyncio.ensure_future(client.get("key")) for _ in range(3)]
            await asyncio.sleep(0)
            reads[0].cancel()
            reads[1].cancel()
            asyncio.get_running_loop().call_later(0, s3.began.release)
            return list(await asyncio.gather(*reads, return_exceptions=True))

    first, second, third = asyncio.run(main())
    assert isinstance(first, asyncio.CancelledError)
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, Object)
    assert third.body == b"object"
