"""The reader: which tier is asked, and how often one that fails."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.circuit_breaker import OPEN_S
from burstcache.core.digest import Route
from burstcache.core.errors import RedisDownError, ServiceError, SilentHolderError
from burstcache.serve.reader import Reader
from burstcache.serve.tier import Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.clock import ManualClock
from support.waiting import LIMIT_S

ENTRY = Entry({"etag": '"e"', "content-length": "4"}, b"body")


def get(key: str = "a") -> Request:
    return Request("GET", key, f"hash of {key}", {}, None, "request-1", 1)


class S3:
    def read(self, request: Request) -> Response:
        return Response(200, {}, b"from S3")


@dataclass
class Tier:
    """Gives the entry, or fails for these keys; `asked` are the keys that it was asked for."""

    failures: dict[str, Exception] = field(default_factory=dict)
    held: Entry | None = ENTRY
    asked: list[str] = field(default_factory=list)

    def fetch(self, request: Request) -> Entry | None:
        self.asked.append(request.key)
        if request.key in self.failures:
            raise self.failures[request.key]
        return self.held


@dataclass
class Table:
    """Routes every key to the same place."""

    place: Route | None
    backlog_s, is_behind = 0.0, False

    def route(self, _: str) -> Route | None:
        return self.place

    def home(self, _: str) -> Route | None:
        return None

    def forget(self, _: str) -> None:
        """Remember nothing."""


LAMBDA = Route("lambda")


def reader(tier: Tier, clock: ManualClock, table: Table | None = None) -> Reader:
    return Reader(table or Table(LAMBDA), S3(), lambda _: tier, clock)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("error", [RedisDownError("dead"), ServiceError("down", code="x"), OSError("?")], ids=repr)
def test_a_tier_that_fails_is_asked_once_and_for_no_key_until_its_breaker_closes(error: Exception) -> None:
    tier, clock = Tier({"a": error}), ManualClock()
    asking = reader(tier, clock)

    served = [asking.read(get(key)).body for key in "aabab"]
    clock.now_s = OPEN_S
    served.append(asking.read(get("b")).body)

    assert served == [b"from S3"] * 5 + [b"body"]
    assert tier.asked == ["a", "b"]


@dataclass
class Meanwhile(Tier):
    """Is asked for other keys by other threads before it fails."""

    asking: Reader | None = None
    others: str = ""

    def fetch(self, request: Request) -> Entry | None:
        if request.key == "late" and self.asking:
            with ThreadPoolExecutor(1) as thread:
                [*thread.map(self.asking.read, map(get, self.others))]
        return super().fetch(request)


@pytest.mark.parametrize(("others", "is_asked_again"), [("bc", True), ("b", False), ("", False)])
def test_a_tier_that_answers_more_reads_than_it_fails_meanwhile_is_asked_again(
    others: str, is_asked_again: bool
) -> None:
    tier = Meanwhile({"late": RedisDownError("no answer")}, others=others)
    tier.asking = asking = reader(tier, ManualClock())

    served = [asking.read(get(key)).body for key in ("late", "z")]

    assert served == [b"from S3", b"body" if is_asked_again else b"from S3"]


@pytest.mark.parametrize("error", [SilentHolderError("silent"), ValueError("no entry")], ids=repr)
def test_what_concerns_one_key_leaves_the_tiers_other_keys_alone(error: Exception) -> None:
    tier = Tier({"a": error})
    asking = reader(tier, ManualClock())

    served = [asking.read(get(key)).body for key in "aabab"]

    assert served == [b"from S3", b"from S3", b"body", b"from S3", b"body"]
    assert tier.asked == ["a", "b", "b"]


@pytest.mark.parametrize("error", [SilentHolderError("silent"), ValueError("no entry")], ids=repr)
def test_a_tier_that_answers_for_one_key_in_vain_is_back_for_all_others(error: Exception) -> None:
    tier, clock = Tier({"a": RedisDownError("dead")}), ManualClock()
    asking = reader(tier, clock)
    asking.read(get("a"))
    tier.failures["a"] = error
    clock.now_s = OPEN_S

    served = [asking.read(get(key)).body for key in "ab"]

    assert served == [b"from S3", b"body"]


@dataclass
class Hanging:
    """A tier that takes all of a read's patience and then fails."""

    patience: AdaptiveTimeout
    clock: ManualClock
    asked: int = 0

    def fetch(self, request: Request) -> Entry | None:
        self.asked += 1
        self.clock.sleep(self.patience.wait_s)
        raise RedisDownError("no answer")


@dataclass
class Refusing(Hanging):
    """A tier that fails at once."""

    def fetch(self, request: Request) -> Entry | None:
        self.asked += 1
        raise RedisDownError("connection refused")


@dataclass
class Slow(Table):
    """Takes a share of a read's patience before it says where."""

    patience: AdaptiveTimeout
    clock: ManualClock
    share: float

    def route(self, _: str) -> Route | None:
        with self.patience.waiting():
            self.clock.sleep(self.share * self.patience.wait_s)
        return self.place


@dataclass
class Fleeting(Table):
    """Routes a key to one tier after the other, each time that it is forgotten, and has a home for it."""

    nodes: int = 3

    def home(self, _: str) -> Route | None:
        return Route("redis", "home", is_guest=True)

    def forget(self, _: str) -> None:
        self.nodes -= 1
        self.place = Route("redis", f"node-{self.nodes}") if self.nodes else None


def test_a_read_waits_for_all_tiers_that_hang_as_long_as_for_one() -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    hanging = Hanging(patience, clock)
    asking = Reader(Fleeting(LAMBDA), S3(), lambda _: hanging, clock, adaptive_timeout=patience, has_express=True)  # type: ignore[arg-type, return-value]
    whole_s = patience.wait_s

    answer = asking.read(get())

    assert answer.body == b"from S3"
    assert clock.now_s == whole_s
    assert hanging.asked == 1


def test_one_read_finds_out_whether_a_tier_that_failed_is_well_and_no_other_waits_for_it() -> None:
    tier, clock = Tier({"a": RedisDownError("dead")}), ManualClock()
    asking = reader(tier, clock)
    asking.read(get("a"))
    clock.now_s = OPEN_S
    begun, may_end = threading.Event(), threading.Event()

    def hang(request: Request) -> Entry | None:
        tier.asked.append(request.key)
        begun.set()
        assert may_end.wait(LIMIT_S)
        return ENTRY

    tier.fetch = hang  # type: ignore[method-assign]
    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(asking.read, get("b"))
        assert begun.wait(LIMIT_S)
        others = [answer.body for answer in threads.map(asking.read, map(get, "cdefghij"))]
        may_end.set()

    assert (others, first.result().body, tier.asked) == ([b"from S3"] * 8, b"body", ["a", "b"])
    assert asking.read(get("k")).body == b"body"


def test_a_read_that_finds_out_whether_a_tier_is_back_waits_half_as_long() -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    hanging = Hanging(patience, clock)
    asking = Reader(Table(LAMBDA), S3(), lambda _: hanging, clock, adaptive_timeout=patience)  # type: ignore[arg-type, return-value]
    asking.read(get("a"))
    clock.now_s += OPEN_S
    whole_s, began_s = patience.wait_s, clock.now_s

    asking.read(get("b"))

    assert hanging.asked == 2
    assert clock.now_s - began_s == pytest.approx(whole_s / 2)


def test_after_a_silent_holder_one_read_finds_out_whether_it_is_the_relay() -> None:
    tier, clock = Tier({"a": SilentHolderError("silent")}), ManualClock()
    asking = reader(tier, clock)
    asking.read(get("a"))
    begun, may_end = threading.Event(), threading.Event()

    def hang(request: Request) -> Entry | None:
        tier.asked.append(request.key)
        begun.set()
        assert may_end.wait(LIMIT_S)
        raise RedisDownError("it is the relay")

    tier.fetch = hang  # type: ignore[method-assign]
    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(asking.read, get("b"))
        assert begun.wait(LIMIT_S)
        others = [answer.body for answer in threads.map(asking.read, map(get, "cdefghij"))]
        may_end.set()

    assert ({first.result().body, *others}, tier.asked) == ({b"from S3"}, ["a", "b"])


def test_a_tier_is_not_blamed_for_another_one_that_took_long() -> None:
    clock, tier = ManualClock(), Tier()
    patience = AdaptiveTimeout(clock=clock)
    hanging = Hanging(patience, clock)
    tiers = {"lambda": hanging, "redis": tier}
    table = Fleeting(LAMBDA)
    asking = Reader(table, S3(), lambda route: tiers[route.tier], clock, adaptive_timeout=patience)  # type: ignore[arg-type, return-value]
    asking.read(get())

    table.place = None
    found = asking.read(get())

    assert found.headers["x-cache-tier"] == "redis"


@pytest.mark.parametrize(
    ("failing", "taken", "asked"),
    [(Hanging, 0.0, 1), (Hanging, 0.4, 1), (Hanging, 0.6, 2), (Refusing, 0.0, 1), (Refusing, 0.6, 1)],
)
def test_a_tier_that_hangs_for_less_than_half_of_the_wait_is_asked_by_the_next_read(
    failing: type[Hanging], taken: float, asked: int
) -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    tier = failing(patience, clock)
    asking = Reader(Slow(LAMBDA, patience, clock, taken), S3(), lambda _: tier, clock, adaptive_timeout=patience)  # type: ignore[arg-type, return-value]

    for _ in range(2):
        asking.read(get())

    assert tier.asked == asked


def test_a_tier_that_does_not_hold_a_key_is_asked_again_at_the_next_read() -> None:
    tier = Tier(held=None)
    asking = reader(tier, ManualClock())
    missed = asking.read(get())
    tier.held = ENTRY

    found = asking.read(get())

    assert (missed.body, missed.headers["x-cache"]) == (b"from S3", "miss")
    assert (found.body, found.headers["x-cache"], found.headers["x-cache-tier"]) == (b"body", "hit", "lambda")


@pytest.mark.parametrize(("body", "filled"), [(b"", []), (b"body", [b"body"])], ids=["left to the caller", "whole"])
def test_a_tier_is_filled_with_whole_objects_only(body: bytes, filled: list[bytes]) -> None:
    class Filled(Tier):
        def fetch(self, request: Request) -> Fill:  # type: ignore[override]
            return Fill(lambda entry: found.append(entry.body), 100)

    class Leaving(S3):
        def read(self, request: Request) -> Response:
            return Response(200, {"etag": '"e"', "content-length": "4"}, body)

    found: list[bytes] = []
    asking = Reader(Table(None), Leaving(), lambda _: Filled(), ManualClock(), has_express=True)  # type: ignore[arg-type, return-value]

    asking.read(get())

    assert found == filled


@pytest.mark.parametrize("asks", ["", "no-cache", "max-age=1"])
def test_a_key_outside_of_the_prefix_is_as_if_absent_however_fresh_it_is_asked_for(asks: str) -> None:
    tier = Tier()
    asking = Reader(Table(LAMBDA), S3(), lambda _: tier, ManualClock(), prefix="public/")  # type: ignore[arg-type, return-value]
    headers = {"cache-control": asks} if asks else {}

    answer = asking.read(replace(get("private/a"), headers=headers))

    assert (answer.status, tier.asked) == (404, [])
    assert asking.read(replace(get("public/a"), headers=headers)).status == 200
