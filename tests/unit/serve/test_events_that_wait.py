"""A reader while S3's events wait: copies say how old they may be, and beyond the bound S3 serves or confirms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.core.backlog import KEPT_S, Backlog
from burstcache.core.digest import Digest, Route, RoutedKey, RunningNode
from burstcache.serve.memory_tier import MemoryTier
from burstcache.serve.reader import Reader
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.clock import ManualClock

_HASH = "0" * 32
_BOUND_S = 2.0
_OLD, _NEW = (Entry({"etag": f'"{body}"', "content-length": "3"}, body.encode()) for body in ("old", "new"))
_NODES = {"node-1": RunningNode(7, 2, True, ("node-1",))}
_ROUTES = {_HASH: RoutedKey(1, 1, "lambda", deadline_at_us=2**62)}


@dataclass
class Stage:
    """A tier that has not followed a write, and S3, which has the new object."""

    digest: Digest
    max_stale_s: float = _BOUND_S
    clock: ManualClock = field(default_factory=lambda: ManualClock(1000.0))

    def __post_init__(self) -> None:
        digest = DigestReader(
            lambda: self.digest,
            self.clock,
            max_age_s=_BOUND_S,
            max_backlog_s=self.max_stale_s,
            start=at_once,
        )
        self.reader = Reader(
            digest,
            self,  # type: ignore[arg-type]
            lambda _: self,  # type: ignore[arg-type, return-value]
            self.clock,
            memory=MemoryTier(1 << 20, max_object_bytes=1 << 10),
            max_stale_s=self.max_stale_s,
            start=lambda _: None,
        )

    def wait(self, age_s: float) -> None:
        """Let S3's oldest event be of this age in the next digest."""
        now_us = self.clock.now_us()
        self.digest = Digest(
            1, (), self.digest.routes, self.digest.nodes, backlog=Backlog(now_us - round(age_s * 1e6), now_us)
        )
        self.clock.now_s += 1e-6

    def read_object(self) -> tuple[str, str, int]:
        """Return the body, the tier, and the bound [ms]."""
        answer = self.reader.read(Request("GET", "k", _HASH, {}, None, "r", self.clock.now_us()))
        return answer.body.decode(), answer.headers["x-cache-tier"], int(answer.headers["x-cache-bound"])

    # the tier and S3

    def fetch(self, request: Request) -> Entry:
        return _OLD

    def read(self, request: Request) -> Response:
        return Response(200, dict(_NEW.meta), _NEW.body)

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        return None if known.etag == _NEW.etag else _NEW

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Nobody asks."""

    def count(self, batch: object) -> None:
        """Nobody asks."""


_IN_LIFE, _GUEST = Digest(1, (), _ROUTES), Digest(1, (), {}, _NODES)


@pytest.mark.parametrize(("digest", "tier"), [(_IN_LIFE, "lambda"), (_GUEST, "redis")], ids=["life", "guest"])
@pytest.mark.parametrize(("age_s", "bound_ms"), [(0, 0), (1.5, 1500)])
def test_a_tier_says_how_long_an_event_waits(digest: Digest, tier: str, age_s: float, bound_ms: int) -> None:
    stage = Stage(digest)
    stage.wait(age_s)

    assert stage.read_object() == ("old", tier, bound_ms)


@pytest.mark.parametrize("digest", [_IN_LIFE, _GUEST], ids=["life", "guest"])
def test_no_tier_is_asked_while_an_event_waits_for_longer_than_the_bound(digest: Digest) -> None:
    stage = Stage(digest)
    stage.wait(2.1)

    assert stage.read_object() == ("new", "s3", 0)


def test_memory_is_confirmed_by_s3_while_an_event_waits_for_longer_than_the_bound() -> None:
    stage = Stage(_GUEST)
    assert [stage.read_object()[:2] for _ in range(2)] == [("old", "redis"), ("old", "memory")]

    stage.wait(0.5)
    stage.clock.now_s += 1.6
    assert stage.read_object() == ("old", "memory", 1600)  # loaded within the bound
    stage.clock.now_s += 0.5

    assert stage.read_object()[:2] == ("new", "s3")


def test_a_copy_from_a_tier_is_as_old_in_memory_as_the_event_that_waited() -> None:
    stage = Stage(_GUEST)
    stage.wait(1.5)
    assert stage.read_object()[1] == "redis"

    stage.clock.now_s += 0.4
    assert stage.read_object() == ("old", "memory", 1900)
    stage.clock.now_s += 0.2

    assert stage.read_object()[:2] == ("new", "s3")


def test_a_backlog_of_which_nobody_hears_any_more_is_over() -> None:
    stage = Stage(_IN_LIFE)
    stage.wait(5)
    stage.clock.now_s += KEPT_S + 1

    assert stage.read_object() == ("old", "lambda", 0)


def test_objects_that_never_change_wait_for_no_event() -> None:
    stage = Stage(_IN_LIFE, max_stale_s=math.inf)
    stage.wait(5)

    assert stage.read_object()[1] == "lambda"


def test_the_age_of_an_event_grows_until_the_next_batch() -> None:
    assert [Backlog(1_000_000, 2_000_000).age_s(at_us) for at_us in (2_000_000, 4_000_000)] == [1, 3]


def test_a_route_is_not_returned_while_events_wait_for_too_long() -> None:
    stage = Stage(_IN_LIFE)
    digest = DigestReader(lambda: stage.digest, stage.clock, max_backlog_s=_BOUND_S, start=at_once)
    assert digest.route(_HASH) == Route("lambda")
    stage.wait(2.1)
    stage.clock.now_s += 1.6

    assert (digest.route(_HASH), digest.home(_HASH)) == (None, None)
