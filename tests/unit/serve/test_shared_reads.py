"""Reads of one key at the same time: which of them S3 is asked for, and what is not remembered for too long."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.adapters.single_flight import NEXT_AFTER_S
from burstcache.core.digest import Digest, Route, prefix_of
from burstcache.serve.hit_counter import Served
from burstcache.serve.local_cache import IMMUTABLE_S, STRONG_S
from burstcache.serve.memory_tier import MemoryTier
from burstcache.serve.reader import Reader
from burstcache.serve.tier import Fill, Tier
from burstcache.web.entry import Entry
from burstcache.web.ranges import parse_range
from burstcache.web.request import Request
from burstcache.web.response import Response, error_response, no_such_key
from support.clock import ManualClock
from support.waiting import LIMIT_S, until

_HASH = "0" * 32
T = TypeVar("T")


def get(method: str = "GET", range_: str | None = None) -> Request:
    return Request(method, "a", _HASH, {}, parse_range(range_) if range_ else None, "request-1", 1)


@dataclass
class S3:
    """An object of some version, or none; something may happen while an answer is on its way."""

    version: int | None = 0
    status: int = 200
    meanwhile: Callable[[], None] = field(default=lambda: None)
    asked: int = 0
    confirmed: int = 0
    reported: int = 0
    size_bytes: int = 1

    def read(self, request: Request) -> Response:
        self.asked += 1
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        if self.version is None:
            answer = no_such_key(request)
        elif self.status != 200:
            answer = error_response(self.status, "Code", "message")
        else:
            body = str(self.version).encode() * self.size_bytes
            answer = Response(200, {"etag": f'"{self.version}"', "content-length": str(len(body))}, body)
        meanwhile()
        return answer

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        self.confirmed += 1
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return (
            None
            if known.etag == f'"{self.version}"'
            else Entry({"etag": f'"{self.version}"', "content-length": "1"}, str(self.version).encode())
        )

    def is_current(self, key: str, known: Entry) -> bool:
        raise AssertionError("there is no tier")

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        self.reported += 1

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


class Watched(ManualClock):
    """Counts the waits for another thread's read."""

    def __init__(self, now_s: float) -> None:
        super().__init__(now_s)
        self.waiting = 0
        self.gives_up = False  # at once, if ever

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        self.waiting += 1
        if self.gives_up and timeout_s is not None:
            raise TimeoutError
        return super().wait_for(future)


class Desk:
    """A reader, and reads in other threads while one of its own is under way."""

    def __init__(self, *, max_stale_s: float = 2.0, memory_bytes: int = 1 << 20, has_stack: bool = False) -> None:
        self.s3, self.clock = S3(), Watched(1000.0)
        self.digest = Digest()
        digest = DigestReader(lambda: self.digest, self.clock, start=at_once) if has_stack else None
        memory = MemoryTier(memory_bytes, max_object_bytes=100) if memory_bytes else None
        self.reader = Reader(
            digest, self.s3, _no_tier, self.clock, memory=memory, max_stale_s=max_stale_s, start=at_once
        )
        self.threads = ThreadPoolExecutor(100)

    def read_meanwhile(self, first: Callable[[], None] = lambda: None, request: Request | None = None) -> Response:
        """Return the answer of a read that begins while another one is under way, after `first`."""
        later: list[Future[Response]] = []

        def meanwhile() -> None:
            first()
            later.append(self.threads.submit(self.reader.read, request or get()))
            until(lambda: later[0].done() or self.clock.waiting)

        self.s3.meanwhile = meanwhile
        self.reader.read(get())
        return later[0].result(LIMIT_S)


def _no_tier(_: Route) -> Tier:
    raise AssertionError("there is no tier")


promise_the_newest_version = pytest.mark.parametrize(
    "keeps", [{"max_stale_s": STRONG_S}, {"memory_bytes": 0}], ids=["strong", "no memory"]
)


def test_a_hundred_reads_of_a_key_at_once_ask_s3_once() -> None:
    desk, began = Desk(), threading.Semaphore(0)

    def wait_for_all() -> None:
        for _ in range(100):
            began.acquire()

    desk.s3.meanwhile = wait_for_all

    def read(_: int) -> Response:
        began.release()
        return desk.reader.read(get())

    answers = list(desk.threads.map(read, range(100)))

    assert {answer.body for answer in answers} == {b"0"}
    assert desk.s3.asked == 1
    assert sorted(answer.headers["x-cache-tier"] for answer in answers) == ["memory"] * 99 + ["s3"]


def test_a_read_follows_one_that_began_within_the_bound() -> None:
    desk = Desk()

    answer = desk.read_meanwhile(lambda: desk.clock.sleep(1.9))

    assert (answer.body, answer.headers["x-cache-tier"], desk.s3.asked) == (b"0", "memory", 1)


@pytest.mark.parametrize(("version", "size_bytes"), [(0, 1), (0, 200), (None, 0)], ids=["kept", "too large", "absent"])
def test_the_age_of_what_another_read_has_got_counts_from_its_beginning(version: int | None, size_bytes: int) -> None:
    desk = Desk(has_stack=True)
    desk.s3.version, desk.s3.size_bytes = version, size_bytes

    answer = desk.read_meanwhile(lambda: desk.clock.sleep(60))

    assert (answer.headers["x-cache-tier"], answer.headers["age"]) == ("memory", "60")


@dataclass
class Copied:
    """A tier that has a copy, and takes as long as S3."""

    s3: S3
    copy: Entry

    def fetch(self, request: Request) -> Entry:
        self.s3.read(request)
        return self.copy

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


def test_the_age_of_a_copy_that_another_read_has_got_counts_from_s3() -> None:
    desk, request = Desk(), get()
    copy = Entry({"etag": '"0"', "content-length": "1"}, b"0").confirmed(request.at_us - 5_000_000)
    desk.reader._has_express, desk.reader._tiers._make = True, lambda _: Copied(desk.s3, copy)

    answer = desk.read_meanwhile(lambda: desk.clock.sleep(1.5))

    assert (answer.headers["x-cache-tier"], answer.headers["age"]) == ("memory", "7")


def test_a_read_does_not_follow_one_that_began_longer_ago_than_the_bound() -> None:
    desk = Desk()

    def write() -> None:
        desk.s3.version = 1
        desk.clock.sleep(2.1)

    assert desk.read_meanwhile(write).body == b"1"


def test_a_read_does_not_follow_one_that_began_before_a_change_that_is_known() -> None:
    desk = Desk(has_stack=True)

    def write() -> None:
        desk.s3.version = 1
        desk.digest = Digest(1, [prefix_of(_HASH)])
        desk.clock.sleep(1.6)  # the digest is read anew

    assert desk.read_meanwhile(write).body == b"1"


def test_a_read_follows_an_old_one_while_the_digest_knows_of_no_change() -> None:
    desk = Desk(has_stack=True)

    answer = desk.read_meanwhile(lambda: desk.clock.sleep(60))

    assert (answer.body, desk.s3.asked) == (b"0", 1)


def test_a_read_does_not_follow_one_that_began_before_its_caller_wrote() -> None:
    desk = Desk()

    def write() -> None:
        desk.s3.version = 1
        desk.reader.forget(_HASH)

    assert desk.read_meanwhile(write).body == b"1"


@promise_the_newest_version
def test_a_reader_that_promises_the_newest_version_shares_no_read_that_has_begun(keeps: dict[str, Any]) -> None:
    desk = Desk(**keeps)

    assert desk.read_meanwhile(lambda: setattr(desk.s3, "version", 1)).body == b"1"


@promise_the_newest_version
def test_a_hundred_reads_that_promise_the_newest_version_ask_s3_twice(keeps: dict[str, Any]) -> None:
    desk = Desk(**keeps)
    later: list[Future[Response]] = []

    def read_and_write() -> None:
        desk.s3.version = 1
        later.extend(desk.threads.submit(desk.reader.read, get()) for _ in range(99))
        until(lambda: desk.clock.waiting == 99)

    desk.s3.meanwhile = read_and_write
    first = desk.reader.read(get())

    assert (first.body, {each.result(LIMIT_S).body for each in later}) == (b"0", {b"1"})
    assert {each.result().headers["x-cache-tier"] for each in later} == {"s3"}
    assert (desk.s3.asked, desk.s3.reported) == (2, 98)  # S3's tier has reported those that asked


class Node:
    """A tier that holds nothing, and gives the right to fill it to the fifth that asks."""

    def __init__(self) -> None:
        self.filled: list[bytes] = []
        self._asks = itertools.count(1)

    def fetch(self, request: Request) -> Fill | None:
        return Fill(lambda entry: self.filled.append(entry.body), 100) if next(self._asks) == 5 else None

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


def test_what_is_shared_fills_a_tier_by_the_right_of_one_of_those_that_share_it() -> None:
    desk, node, later = Desk(), Node(), list[Future[Response]]()
    reader = Reader(None, desk.s3, lambda _: node, desk.clock, has_express=True)

    def read_and_write() -> None:
        desk.s3.version = 1
        later.extend(desk.threads.submit(reader.read, get()) for _ in range(9))
        until(lambda: desk.clock.waiting == 9)

    desk.s3.meanwhile = read_and_write
    reader.read(get())

    assert {each.result(LIMIT_S).body for each in later} == {b"1"}
    assert (desk.s3.asked, node.filled) == (2, [b"1"])


def test_a_read_that_promises_the_newest_version_does_not_wait_for_a_slow_one() -> None:
    desk = Desk(memory_bytes=0)
    desk.clock.gives_up = True

    def read() -> None:
        assert desk.threads.submit(desk.reader.read, get()).result(LIMIT_S).body == b"0"

    desk.s3.meanwhile = read
    desk.reader.read(get())

    assert (desk.s3.asked, desk.clock.waiting) == (2, 1)
    assert NEXT_AFTER_S < 0.05  # which a fault may add to S3's own delay


def test_a_read_leaves_one_that_it_follows_if_that_hangs() -> None:
    desk = Desk()
    desk.clock.gives_up = True

    def read() -> None:
        assert desk.threads.submit(desk.reader.read, get()).result(LIMIT_S).body == b"0"

    desk.s3.meanwhile = read
    desk.reader.read(get())

    assert desk.s3.asked == 2


@promise_the_newest_version
def test_those_that_share_a_read_get_its_error(keeps: dict[str, Any]) -> None:
    desk = Desk(**keeps)
    desk.s3.status = 503

    answer = desk.read_meanwhile()

    assert (answer.status, answer.headers["x-cache-tier"], desk.s3.reported) == (503, "s3", 0)


def test_a_reader_that_breaks_off_leaves_the_read_to_those_that_share_it() -> None:
    desk = Desk(memory_bytes=0)
    later: list[Future[Response]] = []

    def break_off() -> None:
        raise KeyboardInterrupt

    def read() -> None:
        later.extend(desk.threads.submit(desk.reader.read, get()) for _ in range(10))
        until(lambda: desk.clock.waiting == 10)
        desk.s3.meanwhile = break_off

    desk.s3.meanwhile = read
    desk.reader.read(get())

    outcomes = [each.exception(LIMIT_S) or each.result().body for each in later]
    assert [type(each) for each in outcomes].count(KeyboardInterrupt) == 1
    assert outcomes.count(b"0") == 9


@pytest.mark.parametrize("asks", [{"cache-control": "no-cache"}, {"cache-control": "max-age=0"}])
def test_reads_that_ask_for_what_s3_has_now_share_the_next_one(asks: dict[str, str]) -> None:
    desk, later = Desk(), list[Future[Response]]()

    def read() -> None:
        desk.s3.version = 1
        later.extend(desk.threads.submit(desk.reader.read, replace(get(), headers=asks)) for _ in range(9))
        until(lambda: desk.clock.waiting == 9)

    desk.s3.meanwhile = read
    desk.reader.read(get())

    assert {each.result(LIMIT_S).body for each in later} == {b"1"}
    assert desk.s3.asked == 2


_OTHER_READS = pytest.mark.parametrize(
    "request_",
    [get(range_="bytes=0-0"), get("HEAD"), replace(get(), headers={"if-none-match": '"1"'})],
    ids=["a part", "HEAD", "a condition"],
)


@_OTHER_READS
@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_a_read_of_something_else_shares_none(request_: Request, memory_bytes: int) -> None:
    desk = Desk(memory_bytes=memory_bytes)

    desk.read_meanwhile(request=request_)

    assert (desk.s3.asked, desk.clock.waiting) == (2, 0)


@_OTHER_READS
@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_equal_reads_of_parts_heads_and_conditions_are_two_reads_of_s3(request_: Request, memory_bytes: int) -> None:
    desk, later = Desk(memory_bytes=memory_bytes), list[Future[Response]]()

    def read() -> None:
        later.extend(desk.threads.submit(desk.reader.read, request_) for _ in range(30))
        until(lambda: desk.clock.waiting >= 30)

    desk.s3.meanwhile = read
    first = desk.reader.read(request_)

    assert {(each.result(LIMIT_S).status, each.result().body) for each in later} == {(first.status, first.body)}
    assert desk.s3.asked == 2


@pytest.mark.parametrize("max_stale_s", [STRONG_S, 2.0], ids=["strong", "bounded"])
@pytest.mark.parametrize("version", [0, 1], ids=["unchanged", "overwritten"])
def test_reads_of_all_kinds_share_the_confirmation_of_an_entry(version: int, max_stale_s: float) -> None:
    desk, later = Desk(max_stale_s=max_stale_s), list[Future[Response]]()
    desk.reader.read(get())
    desk.clock.sleep(10)
    asks = [get(), get("HEAD"), get(range_="bytes=0-0"), replace(get(), headers={"if-none-match": f'"{version}"'})] * 25

    def read() -> None:
        desk.s3.version = version
        later.extend(desk.threads.submit(desk.reader.read, ask) for ask in asks)
        until(lambda: desk.clock.waiting >= len(asks))

    desk.s3.meanwhile = read
    desk.reader.read(get())

    answers = [each.result(LIMIT_S) for each in later]
    assert [each.status for each in answers] == [200, 200, 206, 304] * 25
    assert {each.body for each in answers[::4]} == {str(version).encode()}
    assert desk.s3.asked == 1
    assert desk.s3.confirmed == (1 if max_stale_s else 2)  # a strong read shares the next one
    assert desk.s3.reported in (74, 75)  # the one that asked is reported by S3's tier, HEADs by nobody


def test_a_confirmation_under_way_is_not_followed_after_the_caller_wrote() -> None:
    desk = Desk()
    desk.reader.read(get())
    desk.clock.sleep(10)

    def write() -> None:
        desk.s3.version = 1
        desk.reader.forget(_HASH)

    assert desk.read_meanwhile(write).body == b"1"


def test_an_immutable_object_is_followed_for_ever() -> None:
    desk = Desk(max_stale_s=IMMUTABLE_S)

    desk.read_meanwhile(lambda: desk.clock.sleep(3600))

    assert desk.s3.asked == 1


def test_those_that_follow_get_the_error_of_the_one_that_asked() -> None:
    desk = Desk()
    desk.s3.status = 503

    answer = desk.read_meanwhile()

    assert (answer.status, answer.headers["x-cache-tier"], desk.s3.asked) == (503, "s3", 1)
    assert desk.reader.read(get()).status == 503
    assert desk.s3.asked == 2


def test_an_object_too_large_to_be_kept_is_read_once_and_counted_for_each() -> None:
    desk = Desk()
    desk.s3.size_bytes = 200

    answer = desk.read_meanwhile()

    assert (answer.body, desk.s3.asked, desk.s3.reported) == (b"0" * 200, 1, 1)


def test_a_read_whose_leader_broke_off_asks_s3_itself() -> None:
    desk = Desk()
    later: list[Future[Response]] = []

    def break_off() -> None:
        later.append(desk.threads.submit(desk.reader.read, get()))
        until(lambda: desk.clock.waiting)
        raise KeyboardInterrupt

    desk.s3.meanwhile = break_off

    with pytest.raises(KeyboardInterrupt):
        desk.reader.read(get())

    assert later[0].result(LIMIT_S).body == b"0"
    assert desk.s3.asked == 2


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_object_that_does_not_exist_is_remembered_for_the_bound(method: str) -> None:
    desk = Desk()
    desk.s3.version = None

    missed = desk.reader.read(get(method))
    desk.clock.sleep(1.9)
    remembered = desk.reader.read(get(method))

    assert (remembered.status, remembered.body) == (404, missed.body)
    assert (missed.headers["x-cache-tier"], remembered.headers["x-cache-tier"]) == ("s3", "memory")
    assert (missed.headers["age"], remembered.headers["age"]) == ("0", "1")
    assert (missed.headers["x-cache-bound"], remembered.headers["x-cache-bound"]) == ("0", "1900")
    assert desk.s3.asked == 1


@pytest.mark.parametrize("max_stale_s", [0.5, 2.0, 60.0, math.inf])
def test_an_absence_is_forgotten_after_two_seconds_or_the_bound(max_stale_s: float) -> None:
    desk = Desk(max_stale_s=max_stale_s)
    desk.s3.version = None
    desk.reader.read(get())
    desk.s3.version = 1

    desk.clock.sleep(min(max_stale_s, 2.0) + 0.1)

    assert desk.reader.read(get()).body == b"1"


def test_an_absence_is_forgotten_when_the_digest_names_the_key() -> None:
    desk = Desk(has_stack=True)
    desk.s3.version = None
    desk.reader.read(get())
    desk.s3.version, desk.digest = 1, Digest(1, [prefix_of(_HASH)])

    desk.clock.sleep(1.6)

    assert desk.reader.read(get()).body == b"1"


def test_an_absence_that_a_write_overtook_is_not_remembered() -> None:
    desk = Desk(has_stack=True)
    desk.s3.version = None

    def write() -> None:
        desk.s3.version, desk.digest = 1, Digest(1, [prefix_of(_HASH)])
        desk.clock.sleep(1.6)
        assert desk.reader.read(get("HEAD")).status == 200  # reads the digest anew

    desk.s3.meanwhile = write

    assert desk.reader.read(get()).status == 404
    assert desk.reader.read(get()).body == b"1"


def test_an_absence_is_forgotten_when_the_caller_writes() -> None:
    desk = Desk()
    desk.s3.version = None
    desk.reader.read(get())

    desk.s3.version = 1
    desk.reader.forget(_HASH)

    assert desk.reader.read(get()).body == b"1"


def test_an_absence_is_not_older_than_the_request_asks() -> None:
    desk = Desk()
    desk.s3.version = None
    desk.reader.read(get())
    asks = replace(get(), headers={"cache-control": "max-age=1"})

    desk.clock.sleep(0.9)
    assert desk.reader.read(asks).headers["x-cache-tier"] == "memory"
    desk.clock.sleep(0.2)
    desk.s3.version = 1

    assert desk.reader.read(asks).body == b"1"


def test_a_strong_reader_remembers_no_absence() -> None:
    desk = Desk(max_stale_s=STRONG_S)
    desk.s3.version = None
    desk.reader.read(get())

    desk.s3.version = 1

    assert desk.reader.read(get()).body == b"1"


def test_other_errors_of_s3_are_not_remembered() -> None:
    desk = Desk()
    desk.s3.status = 404  # no such bucket, say

    desk.reader.read(get())
    desk.reader.read(get())

    assert desk.s3.asked == 2
