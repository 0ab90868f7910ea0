"""The reader's memory: what it serves by itself, what S3 has to confirm, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from burstcache.adapters.digest_reader import DigestReader, Start, at_once
from burstcache.core.digest import Digest, RoutedKey
from burstcache.core.errors import ObjectNotFoundError, OriginError, OriginUnavailableError
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.events import RequestsServed
from burstcache.serve.hit_counter import Served
from burstcache.serve.local_cache import IMMUTABLE_S, STRONG_S
from burstcache.serve.memory_tier import MemoryTier
from burstcache.serve.reader import Miss, Reader
from burstcache.serve.s3_tier import S3Tier
from burstcache.web.entry import Entry
from burstcache.web.ranges import ByteRange
from burstcache.web.request import Request
from burstcache.web.response import Response, error_response
from support.clock import ManualClock

_HASH = "0" * 32


def entry(version: int) -> Entry:
    return Entry({"etag": f'"{version}"', "content-length": "1"}, str(version).encode())


def get(method: str = "GET", key: str = "a") -> Request:
    return Request(method, key, _HASH if key == "a" else f"{key:0>32}", {}, None, "request-1", 1)


@dataclass
class S3:
    """An object of some version, none, or no answer; `asked` is what it was asked."""

    version: int | None = 1
    is_dead: bool = False
    asked: list[str] = field(default_factory=list)
    counted: list[Served] = field(default_factory=list)

    def read(self, request: Request) -> Response:
        self.asked.append("read")
        if self.is_dead or self.version is None:
            return error_response(503 if self.is_dead else 404, "Code", "message")
        held = entry(self.version)
        return Response(200, dict(held.meta), held.body)

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        self.asked.append("confirm")
        if self.is_dead or self.version is None:
            raise OriginError("dead") if self.is_dead else ObjectNotFoundError("gone")
        held = entry(self.version)
        return None if held.etag == known.etag else held

    def is_current(self, key: str, known: Entry) -> bool:
        self.asked.append("has")
        return self.version is not None and entry(self.version).etag == known.etag

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        self.asked.append("report")

    def count(self, batch: Sequence[Served]) -> None:
        self.counted += batch

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Tier:
    """Holds version 1; `asked` is how often."""

    asked: int = 0

    def fetch(self, request: Request) -> Entry | None:
        self.asked += 1
        return entry(1)

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Desk:
    """A reader with its surroundings."""

    max_stale_s: float = 2.0
    digest: Digest | None = None  # None: there is no stack
    s3: S3 = field(default_factory=S3)
    tier: Tier = field(default_factory=Tier)
    clock: ManualClock = field(default_factory=ManualClock)
    start: Start = at_once

    def __post_init__(self) -> None:
        known = self.digest
        digest = None if known is None else DigestReader(lambda: known, self.clock, start=at_once)
        memory = MemoryTier(1 << 20, max_object_bytes=100)
        self.reader = Reader(
            digest,
            self.s3,
            lambda _: self.tier,
            self.clock,
            memory=memory,
            max_stale_s=self.max_stale_s,
            start=self.start,
        )

    def tier_at(self, now_s: float, request: Request | None = None) -> str:
        self.clock.now_s = now_s
        return self.reader.read(request or get()).headers["x-cache-tier"]


def _in_lambda() -> Digest:
    return Digest(routes={_HASH: RoutedKey(1, 1, "lambda", deadline_at_us=2**62)})


def test_without_a_stack_memory_serves_until_the_bound_and_then_s3_confirms() -> None:
    desk = Desk()

    assert [desk.tier_at(now_s) for now_s in (0, 1, 2, 2.1, 4, 4.2)] == ["s3", *["memory"] * 5]
    assert desk.s3.asked == ["read", "confirm", "confirm"]


def test_a_confirmation_that_brings_a_new_object_is_a_miss_that_is_kept() -> None:
    desk = Desk()
    desk.tier_at(0)
    desk.s3.version = 2

    assert [desk.tier_at(now_s) for now_s in (1, 3, 4)] == ["memory", "s3", "memory"]
    assert desk.reader.read(get()).body == b"2"


def test_immutable_objects_are_never_asked_for_again() -> None:
    desk = Desk(max_stale_s=IMMUTABLE_S)

    assert [desk.tier_at(now_s) for now_s in (0, 1, 1e6)] == ["s3", "memory", "memory"]
    assert desk.s3.asked == ["read"]


def test_every_strong_read_is_confirmed_and_asks_no_tier() -> None:
    desk = Desk(max_stale_s=STRONG_S, digest=_in_lambda())

    assert [desk.tier_at(0) for _ in range(3)] == ["s3", "memory", "memory"]
    assert (desk.s3.asked, desk.tier.asked) == (["read", "confirm", "confirm"], 0)


def test_an_object_that_is_gone_is_forgotten() -> None:
    desk = Desk()
    desk.tier_at(0)
    desk.s3.version = None

    answers = [desk.tier_at(now_s) for now_s in (3, 3)]

    assert answers == ["s3", "s3"]
    assert desk.s3.asked == ["read", "confirm", "read", "read"]


def test_memory_beyond_the_bound_is_not_served_while_s3_is_dead_and_not_forgotten_either() -> None:
    desk = Desk()
    desk.tier_at(0)
    desk.s3.is_dead = True
    desk.clock.now_s = 3

    status = desk.reader.read(get()).status
    desk.s3.is_dead = False

    assert status == 503
    assert desk.tier_at(4) == "memory"


@pytest.mark.parametrize(("took_s", "status", "asked"), [(20.0, 503, ["confirm"]), (1.0, 200, ["confirm", "read"])])
def test_a_read_whose_confirmation_s3_has_failed_asks_s3_again_only_early(
    took_s: float, status: int, asked: list[str]
) -> None:
    @dataclass
    class Failing(S3):
        def revalidate(self, request: Request, known: Entry) -> Entry | None:
            self.asked.append("confirm")
            desk.clock.sleep(took_s)
            raise OriginUnavailableError("no answer")

    desk = Desk(max_stale_s=STRONG_S, s3=Failing())
    desk.tier_at(0)
    desk.s3.asked.clear()

    answer = desk.reader.read(get())

    assert (answer.status, desk.s3.asked) == (status, asked)


def test_head_is_served_from_memory_and_fills_it_not() -> None:
    desk = Desk()

    assert [desk.tier_at(0, get(method)) for method in ("HEAD", "HEAD", "GET", "HEAD")] == ["s3", "s3", "s3", "memory"]


@pytest.mark.parametrize(
    ("max_stale_s", "version", "tiers", "asked"),
    [
        (2.0, 1, ["lambda", "memory"], ["has"]),
        (2.0, 2, ["lambda", "lambda", "lambda"], ["has"]),
        (IMMUTABLE_S, 2, ["lambda", "memory"], []),
    ],
    ids=["confirmed", "the tier is behind", "immutable"],
)
def test_a_tiers_copy_is_kept_once_s3_has_confirmed_it(
    max_stale_s: float, version: int, tiers: list[str], asked: list[str]
) -> None:
    desk = Desk(max_stale_s=max_stale_s, digest=_in_lambda(), s3=S3(version))

    assert [desk.tier_at(0) for _ in tiers] == tiers
    assert desk.s3.asked == asked


def test_hits_of_many_keys_at_once_start_few_confirmations_at_a_time() -> None:
    begun: list[Callable[[], None]] = []
    requests = [get(key=f"{number:03}{0:029}") for number in range(100)]
    routes = {request.hash: RoutedKey(1, 1, "lambda", deadline_at_us=2**62) for request in requests}
    desk = Desk(digest=Digest(routes=routes), start=begun.append)

    most = 0
    while len(desk.s3.asked) < len(requests):
        for request in requests:
            desk.tier_at(0, request)
        most = max(most, len(begun))
        while begun:
            begun.pop()()

    assert 0 < most <= 8
    assert desk.s3.asked == ["has"] * len(requests)


def test_a_hit_is_served_where_no_thread_can_be_created_and_a_later_one_is_kept() -> None:
    has_threads = False

    def start(work: Callable[[], None]) -> None:
        if not has_threads:
            raise RuntimeError("can't start new thread")
        work()

    requests = [get(key=f"{number:03}{0:029}") for number in range(9)]
    routes = {request.hash: RoutedKey(1, 1, "lambda", deadline_at_us=2**62) for request in requests}
    desk = Desk(digest=Digest(routes=routes), start=start)

    refused = [desk.tier_at(0, request) for request in requests]
    has_threads = True

    assert refused == ["lambda"] * len(requests)
    assert [desk.tier_at(0, requests[0]) for _ in range(2)] == ["lambda", "memory"]


def test_a_hit_whose_thread_is_interrupted_is_kept_by_a_later_one() -> None:
    interruptions = [KeyboardInterrupt()]

    def start(work: Callable[[], None]) -> None:
        if interruptions:
            raise interruptions.pop()
        work()

    desk = Desk(digest=_in_lambda(), start=start)
    with pytest.raises(KeyboardInterrupt):
        desk.tier_at(0)

    assert [desk.tier_at(0) for _ in range(2)] == ["lambda", "memory"]


def test_hits_that_no_thread_can_report_are_served_and_reported_later() -> None:
    def start(work: Callable[[], None]) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    desk = Desk(digest=Digest(), start=start)

    tiers = [desk.tier_at(now_s) for now_s in (0, 0.5, 1.6, 1.7)]
    desk.reader.publish_hits()

    assert tiers == ["s3", "memory", "memory", "memory"]
    assert sum(len(served.reads) for served in desk.s3.counted) == 3


def test_a_range_that_memory_cannot_satisfy_is_no_hit_since_s3_serves_it() -> None:
    desk = Desk(digest=Digest())
    desk.tier_at(0)

    assert desk.reader.recall(replace(get(), range=ByteRange(9, None))) is None
    assert desk.reader.recall(get()) is not None
    desk.reader.publish_hits()

    assert sum(len(served.reads) for served in desk.s3.counted) == 1


def test_a_caller_that_loads_by_itself_fills_memory() -> None:
    desk = Desk()
    missed = desk.reader.find(get())
    assert isinstance(missed, Miss)

    desk.reader.keep(get(), entry(1), missed)

    found = desk.reader.find(get())
    assert isinstance(found, Response)
    assert (found.body, found.headers["x-cache-tier"]) == (b"1", "memory")


def test_hits_are_reported_a_second_after_the_first_and_at_the_end() -> None:
    desk = Desk(digest=Digest())
    counts = []
    for now_s in (0, 5, 5.5, 6.2, 6.3):
        desk.tier_at(now_s)
        counts.append(sum(len(served.reads) for served in desk.s3.counted))
    desk.reader.close()

    assert counts == [0, 0, 0, 3, 3]
    assert sum(len(served.reads) for served in desk.s3.counted) == 4


def test_nothing_is_reported_without_a_stack() -> None:
    desk = Desk()
    for now_s in (0, 0.5, 1, 1.9):
        desk.tier_at(now_s)
    desk.reader.close()

    assert desk.s3.counted == []


@pytest.mark.parametrize("key_bytes", [4, 1000])
def test_what_many_keys_were_served_is_reported_in_events_that_bus_and_scheduler_can_take(key_bytes: int) -> None:
    class Bus:
        def __init__(self) -> None:
            self.events: list[RequestsServed] = []

        def start(self, event: RequestsServed) -> None:
            self.events.append(event)

        def finish(self, report: None) -> None:
            """Nobody waits."""

    bus = Bus()
    batch = [Served(f"{number:0>{key_bytes}}", _HASH, '"e"', 1) for number in range(1000)]

    S3Tier(None, bus, ManualClock(), max_object_bytes=1).count(batch)  # type: ignore[arg-type]

    assert max(len(encode(event)) for event in bus.events) < 25_000
    assert max(len(event["keys"]) for event in bus.events) <= 100
    assert [served["key"] for event in bus.events for served in event["keys"]] == [served.key for served in batch]


def test_an_answer_of_memory_says_how_long_ago_a_change_may_have_been_announced() -> None:
    alone, with_digest = Desk(), Desk(digest=Digest())
    for desk in (alone, with_digest):
        desk.tier_at(0, get())
    with_digest.tier_at(1.0, get())
    with_digest.tier_at(1.6, get())  # the digest is read anew

    bounds = []
    for desk in (alone, with_digest):
        desk.clock.now_s = 1.9
        bounds.append(desk.reader.read(get()).headers["x-cache-bound"])

    assert bounds == ["1900", "300"]


def test_a_load_that_began_before_the_process_wrote_is_not_kept() -> None:
    desk = Desk()
    miss = desk.reader.find(get())
    assert isinstance(miss, Miss)
    desk.clock.now_s = 0.1
    desk.reader.forget(_HASH)

    desk.reader.keep(get(), entry(1), miss)
    assert desk.tier_at(0.2) == "s3"

    assert desk.tier_at(0.3) == "memory"
