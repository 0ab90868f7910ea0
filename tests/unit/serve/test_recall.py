"""Recall from memory at once, for an event loop that must not block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from burstcache.adapters.digest_reader import DigestReader
from burstcache.core.digest import Digest, Route, RoutedKey, prefix_of
from burstcache.core.errors import NodeAbsentError, ServiceError
from burstcache.core.keys import key_hash
from burstcache.core.slices import SliceNames
from burstcache.serve.large_objects import LargeObjects
from burstcache.serve.local_cache import IMMUTABLE_S, STRONG_S
from burstcache.serve.memory_tier import HeadCache, MemoryTier
from burstcache.serve.reader import Reader
from burstcache.serve.slices import Slices
from burstcache.serve.tier import Tier
from burstcache.web.entry import Entry, encode
from burstcache.web.ranges import ByteRange
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.clock import ManualClock
from support.memory_disk import MemoryDisk
from support.part_sources import MemoryPartSource

GET = Request("GET", "a", key_hash("a"), {}, None, "request-1", 1)


class S3:
    """Has every object, and counts the reads of it."""

    reads = 0

    def read(self, request: Request) -> Response:
        self.reads += 1
        return Response(200, {"etag": '"e"', "content-length": "4"}, b"body")

    def count(self, _: object) -> None:
        """Tell nobody."""


@dataclass
class Desk:
    """A reader of a stack, whose digest a test changes, and whose background work a test runs."""

    max_stale_s: float = 2.0
    has_stack: bool = True
    digest: Digest = field(default_factory=Digest)
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.s3, self.clock, self.readings = S3(), ManualClock(), 0
        stack = DigestReader(self.read_digest, self.clock, start=self.waiting.append) if self.has_stack else None
        self.reader = Reader(
            stack,
            self.s3,  # type: ignore[arg-type]
            lambda _: pytest.fail("no key has a tier"),
            self.clock,
            memory=MemoryTier(1 << 20, max_object_bytes=1000),
            max_stale_s=self.max_stale_s,
            start=self.waiting.append,
        )

    def read_digest(self) -> Digest:
        self.readings += 1
        return self.digest


def recalled(desk: Desk) -> Response | None:
    """Return the response from memory, after comparing it with the recalled entry."""
    response, found = desk.reader.local_cache.recall(GET), desk.reader.local_cache.recall_entry(GET)
    if response is None:
        assert found is None
    else:
        assert found is not None
        cached, bound_ms = found
        assert (cached.entry.body, str(bound_ms)) == (response.body, response.headers["x-cache-bound"])
    return response


def test_nothing_is_recalled_before_it_was_read() -> None:
    desk = Desk()

    assert recalled(desk) is None
    assert (desk.readings, desk.s3.reads) == (0, 0)


def test_what_was_read_is_recalled_without_asking_anybody() -> None:
    desk = Desk()
    desk.reader.read(GET)
    asked = desk.readings

    response = recalled(desk)

    assert response is not None
    assert (response.body, response.headers["x-cache-tier"], response.headers["x-cache"]) == (b"body", "memory", "hit")
    assert (desk.readings, desk.s3.reads) == (asked, 1)


def test_after_another_version_of_s3_the_copy_is_not_recalled() -> None:
    desk = Desk()
    desk.reader.read(GET)
    desk.clock.now_s = 1.0

    ticket = desk.reader.local_cache.ticket()
    desk.reader.local_cache.note_answer(GET, 200, {"etag": '"newer"'}, ticket)

    assert recalled(desk) is None


def test_beyond_the_bound_nothing_is_recalled() -> None:
    desk = Desk()
    desk.reader.read(GET)

    desk.clock.now_s = 2.1

    assert recalled(desk) is None


def test_before_the_bound_the_digest_is_read_in_the_background_and_drops_what_it_names() -> None:
    desk = Desk()
    desk.reader.read(GET)
    desk.digest = Digest(1, [prefix_of(GET.hash)])

    desk.clock.now_s = 1.5
    early, readings = recalled(desk), desk.readings
    for work in desk.waiting:
        work()

    assert early is not None
    assert desk.readings == readings + 1
    assert recalled(desk) is None


@pytest.mark.parametrize("has_stack", [False, True])
def test_without_other_tiers_only_s3_has_what_memory_lacks(has_stack: bool) -> None:
    desk = Desk(has_stack=has_stack)
    assert desk.reader.needs_s3(GET) is not has_stack

    desk.reader.read(GET)
    desk.clock.now_s = 3.0  # S3 confirms the copy without sending it again

    assert not desk.reader.needs_s3(GET)


def test_a_second_range_may_load_the_whole_object() -> None:
    assert not Desk(has_stack=False).reader.needs_s3(replace(GET, range=ByteRange(0, 1)))


@pytest.mark.parametrize(("max_stale_s", "is_recalled"), [(STRONG_S, False), (2.0, False), (IMMUTABLE_S, True)])
def test_without_a_stack_the_freshness_decides(max_stale_s: float, is_recalled: bool) -> None:
    desk = Desk(max_stale_s, has_stack=False)
    desk.reader.read(GET)

    desk.clock.now_s = 3.0

    assert (recalled(desk) is not None) is is_recalled


def test_a_reader_that_has_looked_ahead_does_not_read_the_digest_for_its_first_request() -> None:
    desk = Desk()

    desk.reader.prefetch_digest()
    assert desk.readings == 1
    desk.reader.read(GET)

    assert desk.readings == 1


def test_a_reader_without_a_stack_has_nothing_to_look_ahead_at() -> None:
    Desk(has_stack=False).reader.prefetch_digest()


class WithoutDynamoDB(Desk):
    def read_digest(self) -> Digest:
        raise ServiceError("DynamoDB does not answer")


def test_a_digest_that_cannot_be_read_ahead_fails_no_read() -> None:
    desk = WithoutDynamoDB()

    desk.reader.prefetch_digest()

    assert desk.reader.read(GET).body == b"body"


def test_looking_ahead_makes_the_tiers_that_serve_and_leaves_one_that_fails_to_its_reads() -> None:
    desk, made = Desk(), list[Route]()

    def make_tier(route: Route) -> Tier:
        made.append(route)
        raise NodeAbsentError("no such node")

    desk.reader._tiers._make = make_tier
    desk.digest = Digest(routes={"hash": RoutedKey(1, 2, "lambda", deadline_at_us=1 << 60)})

    desk.reader.prefetch_digest()

    assert made == [Route("lambda")]


_NAMES = SliceNames("", "bucket")
_BODY = bytes(range(200)) * 10


class DiskDesk(Desk):
    """A reader without memory, whose disk has an object that some process has stored."""

    def __init__(self, max_stale_s: float = IMMUTABLE_S, *, has_memory: bool = False) -> None:
        super().__init__(max_stale_s, has_stack=False)
        self.disk = MemoryDisk()
        self.reader = Reader(
            None,
            self.s3,  # type: ignore[arg-type]
            lambda _: pytest.fail("no key has a tier"),
            self.clock,
            memory=MemoryTier(1 << 20, max_object_bytes=1 << 16) if has_memory else None,
            heads=HeadCache(1 << 20, above_bytes=1 << 16),
            max_stale_s=max_stale_s,
        )
        slices = Slices(MemoryPartSource(), _NAMES, self.clock, disk=self.disk)  # type: ignore[arg-type]
        self.reader.large = LargeObjects(slices, 1 << 16)
        self.disk.bodies[self.name] = encode(Entry({"etag": '"e"', "content-length": str(len(_BODY))}, _BODY))

    @property
    def name(self) -> str:
        return _NAMES.head(GET.key)


def test_an_immutable_object_on_disk_is_recalled() -> None:
    desk = DiskDesk()

    response = desk.reader.recall(GET)

    assert response is not None
    assert (response.body, response.headers["x-cache-tier"], response.headers["x-cache"]) == (_BODY, "disk", "hit")
    assert desk.s3.reads == 0


@pytest.mark.parametrize("headers", [{}, {"cache-control": "max-age=5"}])
@pytest.mark.parametrize("max_stale_s", [STRONG_S, 2.0, IMMUTABLE_S])
def test_an_object_on_disk_that_s3_has_to_confirm_is_not_recalled(max_stale_s: float, headers: dict[str, str]) -> None:
    desk, request = DiskDesk(max_stale_s), replace(GET, headers=headers)
    is_confirmed = max_stale_s == IMMUTABLE_S and not headers

    assert (desk.reader.recall(request) is not None) is is_confirmed
    assert (desk.reader.recall_part(request) is not None) is is_confirmed
    assert desk.s3.reads == 0


def test_an_object_on_disk_that_takes_a_wait_is_not_recalled() -> None:
    desk = DiskDesk()
    desk.disk.cold.add(desk.name)

    assert (desk.reader.recall(GET), desk.reader.recall_part(GET)) == (None, None)
    assert isinstance(desk.reader.find(GET), Response)


def test_an_object_on_disk_that_this_process_has_overwritten_is_not_recalled() -> None:
    desk = DiskDesk()
    desk.reader.forget(GET.hash)

    assert (desk.reader.recall(GET), desk.reader.recall_part(GET)) == (None, None)


@pytest.mark.parametrize(("range_", "part"), [(None, (0, 2000)), (ByteRange(5, 9), (5, 10))])
def test_an_object_that_memory_does_not_keep_is_recalled_as_a_part(
    range_: ByteRange | None, part: tuple[int, int]
) -> None:
    found = DiskDesk().reader.recall_part(replace(GET, range=range_))

    assert found is not None
    response, piece = found
    assert (response.body, response.headers["content-length"]) == (b"", str(part[1] - part[0]))
    assert (piece.start, piece.end, piece.version.etag, piece.version.size_bytes) == (*part, '"e"', len(_BODY))


def test_an_object_that_memory_keeps_is_read_whole_and_kept() -> None:
    desk = DiskDesk(has_memory=True)

    assert desk.reader.recall_part(GET) is None
    assert desk.reader.recall(GET) is not None
    desk.disk.bodies.clear()

    kept = desk.reader.recall(GET)
    assert kept is not None
    assert (kept.body, kept.headers["x-cache-tier"]) == (_BODY, "memory")


def test_a_response_without_a_body_is_no_part() -> None:
    assert DiskDesk().reader.recall_part(replace(GET, method="HEAD")) is None
    assert DiskDesk().reader.recall_part(replace(GET, headers={"if-none-match": '"e"'})) is None
