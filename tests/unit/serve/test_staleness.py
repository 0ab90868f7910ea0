"""No answer of memory is older than promised, in whatever order objects are written, announced, loaded and read."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from burstcache.adapters.digest_reader import DigestReader
from burstcache.adapters.single_flight import NEXT_AFTER_S
from burstcache.core.backlog import Backlog
from burstcache.core.digest import Digest, RoutedKey, prefix_of
from burstcache.core.errors import ObjectNotFoundError, ServiceTransientError
from burstcache.serve.hit_counter import Served
from burstcache.serve.memory_tier import MemoryTier
from burstcache.serve.reader import Miss, Reader
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response, no_such_key
from support.clock import ManualClock
from support.searches import search
from support.waiting import LIMIT_S

T = TypeVar("T")
_BOUND_S = 2.0
_MOST_CHANGES = 3
_HASHES = {"a": "0" * 32, "b": "1" * 32}
_KEYS = st.sampled_from(sorted(_HASHES))
_TIMES_S = st.sampled_from([0.0, 0.1, 1.1, 2.1, 60.0])


def _entry(version: int) -> Entry:
    body = str(version).encode()
    return Entry({"etag": f'"{version}"', "content-length": str(len(body))}, body)


def _is_absent(version: int) -> bool:
    """Return whether the write of this version was a deletion."""
    return version % 4 == 3


@dataclass
class S3:
    """The newest versions of all objects; something may happen while an answer is on its way."""

    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_HASHES, 0))
    meanwhile: list[Callable[[], None]] = field(default_factory=list)

    def read(self, request: Request) -> Response:
        version = self.versions[request.key]
        while self.meanwhile:
            self.meanwhile.pop()()
        if _is_absent(version):
            return no_such_key(request)
        entry = _entry(version)
        return Response(200, dict(entry.meta), entry.body)

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        if _is_absent(self.versions[request.key]):
            raise ObjectNotFoundError("deleted")
        entry = _entry(self.versions[request.key])
        return None if entry.etag == known.etag else entry

    def is_current(self, key: str, known: Entry) -> bool:
        return _entry(self.versions[key]).etag == known.etag

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Nobody asks."""

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Tier:
    """Copies that may be of any age."""

    copies: dict[str, int] = field(default_factory=dict)

    def fetch(self, request: Request) -> Entry | None:
        return _entry(self.copies[request.key]) if request.key in self.copies else None

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


class Watched(ManualClock):
    """Says when a read waits for another thread's."""

    def __init__(self, now_s: float) -> None:
        super().__init__(now_s)
        self.is_waited = threading.Event()
        self.is_s3_slow = False  # so that the next read of it begins while the last one is under way

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        if self.is_s3_slow and timeout_s == NEXT_AFTER_S:
            raise TimeoutError
        self.is_waited.set()
        return super().wait_for(future)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2)


class Readings(RuleBasedStateMachine):
    """One reader; writes and announcements happen as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.s3, self.tier = Watched(1000.0), S3(), Tier()
        self.log: list[str] = []
        self.sequence = 0
        self.is_dead, self.slow_s, self.written_meanwhile = False, 0.0, ""
        self.announced_at_s: dict[tuple[str, int], float] = {}  # when a version was announced
        self.loads: list[tuple[str, Entry, Miss]] = []
        self.in_background: list[Callable[[], None]] = []
        self.backlog: Backlog | None = None
        self.written_at_s: dict[tuple[str, int], float] = {}
        digest = DigestReader(
            self._read_digest,
            self.clock,
            max_age_s=_BOUND_S,
            max_backlog_s=_BOUND_S,
            start=self.in_background.append,
        )
        self.reader = Reader(
            digest,
            self.s3,
            lambda _: self.tier,
            self.clock,
            memory=MemoryTier(1 << 20, max_object_bytes=1 << 10),
            max_stale_s=_BOUND_S,
            start=self.in_background.append,
        )

    def _read_digest(self) -> Digest:
        if self.is_dead:
            self.clock.now_s += self.slow_s
            raise ServiceTransientError("throttled")
        routes = {_HASHES[key]: RoutedKey(1, 1, "lambda", deadline_at_us=2**62) for key in self.tier.copies}
        seen = Digest(self.sequence, tuple(self.log), routes, backlog=self.backlog)
        if self.written_meanwhile:
            self.write(self.written_meanwhile, is_announced=True)
        self.written_meanwhile = ""
        self.clock.now_s += self.slow_s  # the answer is on its way for so long
        return seen

    @rule(key=_KEYS, is_announced=st.booleans())
    def write(self, key: str, is_announced: bool) -> None:
        self.s3.versions[key] += 1
        self.written_at_s[key, self.s3.versions[key]] = self.clock.now_s
        if is_announced:
            self.announce(key)

    @rule(key=_KEYS)
    def announce(self, key: str) -> None:
        self.sequence += 1
        self.log.append(prefix_of(_HASHES[key]))
        if len(self.log) > 2 * _MOST_CHANGES:
            del self.log[:-_MOST_CHANGES]
        self.announced_at_s.setdefault((key, self.s3.versions[key]), self.clock.now_s)

    @rule(keys=st.lists(_KEYS, min_size=_MOST_CHANGES, max_size=3 * _MOST_CHANGES))
    def announce_many(self, keys: list[str]) -> None:
        for key in keys:
            self.announce(key)

    @rule(age_s=_TIMES_S)
    def events_wait(self, age_s: float) -> None:
        self.backlog = Backlog(round((self.clock.now_s - age_s) * 1e6), self.clock.now_us())

    @rule()
    def no_event_waits(self) -> None:
        self.backlog = None

    @rule(key=_KEYS)
    def a_tier_takes_a_copy(self, key: str) -> None:
        self.tier.copies[key] = self.s3.versions[key]

    @rule(key=_KEYS)
    def a_tier_lets_go(self, key: str) -> None:
        self.tier.copies.pop(key, None)

    @rule(is_dead=st.booleans(), slow_s=st.sampled_from([0.0, 0.4, 1.5]))
    def dynamodb_changes(self, is_dead: bool, slow_s: float) -> None:
        self.is_dead, self.slow_s = is_dead, slow_s

    @rule(key=_KEYS, after_s=_TIMES_S)
    def write_while_the_digest_is_being_read(self, key: str, after_s: float) -> None:
        self.is_dead, self.slow_s, self.written_meanwhile = False, 1.5, key
        self.read_twice(key, 2.1, after_s)

    @rule(key=_KEYS)
    def somebody_begins_a_load(self, key: str) -> None:
        miss = self.reader.miss()
        self.loads.append((key, _entry(self.s3.versions[key]), miss))

    @precondition(lambda self: self.loads)
    @rule()
    def a_load_ends(self) -> None:
        key, entry, miss = self.loads.pop()
        self.reader.keep(self._request(key), entry, miss)

    @precondition(lambda self: self.in_background)
    @rule()
    def work_in_the_background_is_done(self) -> None:
        self.in_background.pop(0)()

    @rule(key=_KEYS, after_s=_TIMES_S)
    def read_once(self, key: str, after_s: float) -> None:
        self.clock.now_s += after_s
        self.read(key)

    @rule(key=_KEYS, after_s=_TIMES_S, again_after_s=_TIMES_S)
    def read_twice(self, key: str, after_s: float, again_after_s: float) -> None:
        self.read_once(key, after_s)
        self.read_once(key, again_after_s)

    @rule(
        key=_KEYS,
        written=st.sampled_from(["", "unannounced", "announced"]),
        after_s=_TIMES_S,
        is_s3_slow=st.booleans(),
    )
    def read_while_another_thread_reads(self, key: str, written: str, after_s: float, is_s3_slow: bool) -> None:
        later: list[tuple[float, Future[Response]]] = []

        def read_elsewhere() -> None:
            if written:
                self.write(key, is_announced=written == "announced")
            self.clock.now_s += after_s
            self.clock.is_waited.clear()
            self.clock.is_s3_slow = is_s3_slow
            answer = _threads().submit(self.reader.read, self._request(key))
            answer.add_done_callback(lambda _: self.clock.is_waited.set())
            later.append((self.clock.now_s, answer))
            assert self.clock.is_waited.wait(LIMIT_S)

        self.s3.meanwhile = [read_elsewhere]
        self.read(key)
        self.s3.meanwhile.clear()
        for began_s, answer in later:
            self._check(key, began_s, answer.result(LIMIT_S))

    @rule(key=_KEYS, overtaken_after_s=_TIMES_S, read_after_s=_TIMES_S)
    def load_that_a_write_overtakes(self, key: str, overtaken_after_s: float, read_after_s: float) -> None:
        self.somebody_begins_a_load(key)
        self.clock.now_s += overtaken_after_s
        self.write(key, is_announced=True)
        self.read_once("b" if key == "a" else "a", read_after_s)
        self.a_load_ends()
        self.read(key)

    def read(self, key: str) -> None:
        began_s = self.clock.now_s

        answer = self.reader.read(self._request(key))

        self._check(key, began_s, answer)

    def _check(self, key: str, began_s: float, answer: Response) -> None:
        if answer.headers["x-cache-tier"] in ("memory", "s3"):
            newest = self.s3.versions[key]
            version = int(answer.body) if answer.status == 200 else max(filter(_is_absent, range(newest + 1)))
            seen_s = [self.announced_at_s.get((key, each), math.inf) for each in range(version + 1, newest + 1)]
            assert all(began_s <= at_s + _BOUND_S for at_s in seen_s), (key, version, began_s, seen_s)
        if self._knows_of_late_events(began_s):
            assert answer.headers["x-cache-tier"] in ("memory", "s3")
            written_s = [self.written_at_s[key, each] for each in range(version + 1, newest + 1)]
            assert all(began_s <= at_s + _BOUND_S for at_s in written_s), (key, version, began_s, written_s)

    def _knows_of_late_events(self, at_s: float) -> bool:
        """Return whether every digest that may be in use says that an event waits for longer than the bound."""
        if self.backlog is None or self.backlog.seen_at_us / 1e6 >= at_s - _BOUND_S - self.slow_s:
            return False
        return self.backlog.age_s(round(at_s * 1e6)) > _BOUND_S

    def _request(self, key: str) -> Request:
        return Request("GET", key, _HASHES[key], {}, None, "r", self.clock.now_us())


TestReadings = Readings.TestCase
TestReadings.settings = settings(search(200), stateful_step_count=30)
