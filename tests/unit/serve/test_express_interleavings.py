"""No read after an announced write gets an older version from S3 Express, in whatever order readers and events come."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from burstcache.adapters.express_copies import ExpressHit
from burstcache.core.express import US_PER_DAY, express_rule
from burstcache.core.prices import price_sheet
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.tier import Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from support.clock import ManualClock
from support.searches import search

_HASH = "0" * 32
_DAY_S = US_PER_DAY / 1_000_000
_READERS = st.integers(0, 2)
_MEANWHILE = st.lists(st.sampled_from(["write", "event", "other read", "expiry"]), max_size=4)
_RULE = express_rule(price_sheet("today-us-east-1"), hit_value_usd=1)  # each read of S3 makes a copy


class Bucket:
    """A directory bucket as `ExpressCopies` shows it: a dictionary that keeps S3's conditions."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._found: dict[str, tuple[ExpressHit, int]] = {}  # with the instant at which it was put [us]
        self._etags = map(str, count())  # none is given twice

    def read(self, hash_: str, *, only_meta: bool = False) -> ExpressHit | None:
        found, _ = self._found.get(hash_, (None, 0))
        return found

    def put(self, hash_: str, data: bytes, *, replaces: str) -> bool:
        found = self.read(hash_)
        if (found.etag if found is not None else "") != replaces:
            return False
        self._found[hash_] = ExpressHit(next(self._etags), data, len(data)), self._clock.now_us()
        return True

    def put_tombstone(self, hash_: str) -> None:
        self._found[hash_] = ExpressHit(next(self._etags), None, 16), self._clock.now_us()

    def expire(self) -> None:
        day_ago_us = self._clock.now_us() - US_PER_DAY
        self._found = {hash_: (found, put_us) for hash_, (found, put_us) in self._found.items() if put_us > day_ago_us}


class Copies(RuleBasedStateMachine):
    """One object, three readers; the steps of reads, writes and their events happen as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(1000.0)
        self.bucket = Bucket(self.clock)
        self.version = self.announced = 0  # S3 has this one; readers may have heard of this one
        self.events: list[int] = []  # of versions; they come late, twice and out of order
        self.tiers = [self._tier() for _ in range(3)]
        self.asked: list[Fill] = []  # reads that are about to ask S3
        self.read: list[tuple[Fill, Entry]] = []  # reads that have S3's answer, which they may put

    def _tier(self) -> ExpressTier:
        return ExpressTier(self.bucket, _RULE, self.clock, max_object_bytes=1 << 20)  # type: ignore[arg-type]

    def entry(self) -> Entry:
        body = str(self.version).encode()
        return Entry({"etag": f'"{self.version}"', "content-length": str(len(body))}, body)

    @rule(reader=_READERS)
    def asks_express(self, reader: int) -> None:
        heard_of = self.announced

        found = self.tiers[reader].fetch(Request("GET", "key", _HASH, {}, None, "r", 0))

        if isinstance(found, Fill):
            self.asked.append(found)
        else:
            assert found is not None
            assert int(found.body) >= heard_of

    @rule(which=st.integers(0, 9))
    def asks_s3(self, which: int) -> None:
        if self.asked:
            fill = self.asked.pop(which % len(self.asked))
            self.read.append((fill, self.entry()))

    @rule(which=st.integers(0, 9), is_lost=st.booleans())
    def puts(self, which: int, is_lost: bool) -> None:
        if self.read:
            fill, entry = self.read.pop(which % len(self.read))
            if not is_lost:
                fill.put(entry)

    @rule(reader=_READERS, meanwhile=_MEANWHILE, other=_READERS)
    def reads_slowly(self, reader: int, meanwhile: list[str], other: int) -> None:
        self.asks_express(reader)
        self.asks_s3(len(self.asked) - 1)
        self.happens(meanwhile, other=other)
        self.puts(len(self.read) - 1, is_lost=False)
        self.asks_express(other)

    def happens(self, steps: list[str], *, other: int) -> None:
        for step in steps:
            match step:
                case "write":
                    self.is_written()
                case "event":
                    self.event_comes(len(self.events) - 1, comes_again=False)
                case "other read":
                    self.reads_slowly(other, [], other)
                case "expiry":
                    self.s3_expires_what_is_a_day_old()

    @rule(which=st.integers(0, 9))
    def event_is_lost(self, which: int) -> None:
        if self.events:
            self.events.pop(which % len(self.events))

    @rule()
    def is_written(self) -> None:
        self.version += 1
        self.events.append(self.version)

    @rule(which=st.integers(0, 9), comes_again=st.booleans())
    def event_comes(self, which: int, comes_again: bool) -> None:
        if self.events:
            written = self.events[which % len(self.events)]
            if not comes_again:
                self.events.remove(written)
            self.bucket.put_tombstone(_HASH)
            self.announced = max(self.announced, written)

    @rule(reader=_READERS)
    def reader_starts_anew(self, reader: int) -> None:
        self.tiers[reader] = self._tier()

    @rule(after_s=st.sampled_from([1.0, 59.0, 61.0, 100 * _DAY_S]))
    def time_passes(self, after_s: float) -> None:
        self.clock.now_s += after_s

    @rule()
    def s3_expires_what_is_a_day_old(self) -> None:
        self.clock.now_s += _DAY_S
        self.bucket.expire()


TestCopies = Copies.TestCase
TestCopies.settings = settings(search(300), stateful_step_count=20)
