"""Copies in S3 Express next to everything else that follows a write, and over months as the simulator has them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from burstcache.adapters.clients import Clients
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.express_copies import TOMBSTONE_BYTES, ExpressCopies
from burstcache.core.errors import ServiceError
from burstcache.core.express import US_PER_DAY, ExpressRule, express_rule
from burstcache.core.keys import key_hash
from burstcache.core.prices import price_sheet
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.reader import Reader
from burstcache.web.request import Request
from burstcache_sim.world.express import Express
from support.aws import session
from support.express import URLS, expire, make_copies, sizes_of
from support.functions import MAX_OBJECT_BYTES
from support.world import World

TODAY = price_sheet("today-us-east-1")


@dataclass
class Stage:
    """A world with a directory bucket, and readers of both."""

    world: World
    rule: ExpressRule
    copies: ExpressCopies = field(init=False)

    def __post_init__(self) -> None:
        self.clients = Clients("control", session=session(), endpoint_urls=URLS)
        self.copies = make_copies(self.clients)
        self.world.origin_changes = replace(self.world.origin_changes, express=self.copies)

    def reader(self, *, memory_bytes: int = 0) -> Reader:
        """Return a reader with counts of its own."""
        tier = ExpressTier(self.copies, self.rule, self.world.clock, max_object_bytes=MAX_OBJECT_BYTES)
        return self.world.new_reader(memory_bytes=memory_bytes, express=tier)

    def read(self, reader: Reader, key: str = "k") -> str:
        return self.answer(reader, key)[0]

    def answer(self, reader: Reader, key: str = "k") -> tuple[str, bytes]:
        at_us = self.world.clock.now_us()
        response = reader.read(Request("GET", key, key_hash(key), {}, None, str(at_us), at_us))
        return response.headers["x-cache-tier"], response.body


@pytest.fixture
def make_stage(world: World) -> Callable[..., Stage]:
    def make(*, hit_value_usd: float = 1e-6) -> Stage:
        return Stage(world, express_rule(TODAY, hit_value_usd=hit_value_usd))

    return make


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A stage whose readers copy `k` at once, and have done so."""
    stage = make_stage()
    stage.world.put_object("k", b"old!")
    reader = stage.reader()
    assert [stage.read(reader), stage.read(reader)] == ["s3", "express"]
    return stage


def test_a_write_takes_the_copy_away_before_it_is_announced(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    announce = DigestTable.announce

    def noted(digest: DigestTable, hashes: Sequence[str], **more: Any) -> int:
        sizes.extend(sizes_of(stage.clients)[hash_] for hash_ in hashes)
        return announce(digest, hashes, **more)

    monkeypatch.setattr(DigestTable, "announce", noted)
    stage.world.put_object("k", b"new!")
    stage.world.written("k")

    assert sizes == [TOMBSTONE_BYTES]
    assert stage.answer(stage.reader()) == ("s3", b"new!")
    assert stage.answer(stage.reader()) == ("express", b"new!")


def test_a_write_of_an_object_without_a_copy_leaves_a_tombstone(stage: Stage) -> None:
    stage.world.put_object("other")
    stage.world.written("other")

    assert sizes_of(stage.clients)[key_hash("other")] == TOMBSTONE_BYTES


def test_an_event_that_express_did_not_hear_of_comes_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ServiceError("503", code="SlowDown")

    stage.world.put_object("k", b"new!")
    with monkeypatch.context() as patch:
        patch.setattr(ExpressCopies, "put_tombstone", fails)
        with pytest.raises(ServiceError, match="503"):
            stage.world.written("k")
    assert stage.answer(stage.reader()) == ("express", b"old!")

    stage.world.written("k")

    assert stage.answer(stage.reader()) == ("s3", b"new!")


def test_memory_keeps_a_copy_without_asking_s3_and_drops_it_at_the_announcement(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(stage.world.objects), "head", lambda *_: pytest.fail("S3 was asked"))
    reader = stage.reader(memory_bytes=1 << 20)
    assert [stage.read(reader), stage.read(reader)] == ["express", "memory"]

    stage.world.put_object("k", b"new!")
    stage.world.written("k")
    stage.world.clock.sleep(2.1)

    assert stage.answer(reader) == ("s3", b"new!")


def test_a_copy_that_was_read_before_its_write_was_announced_does_not_stay_in_memory(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stage.reader(memory_bytes=1 << 20)
    fetch = ExpressTier.fetch

    def overtaken(tier: ExpressTier, request: Request) -> Any:
        found = fetch(tier, request)
        stage.world.put_object("k", b"new!")
        stage.world.written("k")
        stage.world.clock.sleep(2.1)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(ExpressTier, "fetch", overtaken)
        assert stage.answer(reader) == ("express", b"old!")

    assert stage.answer(reader) == ("s3", b"new!")


def test_hits_of_express_make_a_key_hot(stage: Stage) -> None:
    stage.world.reader = stage.reader()

    for _ in range(8):
        assert stage.world.read("k") == "express"
        stage.world.clock.sleep(0.6)

    assert stage.world.row("k").phase == "lambda"


@pytest.mark.slow
def test_a_dead_bucket_costs_one_failure_and_s3_serves(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fails(_: ExpressCopies, hash_: str, **__: object) -> None:
        asked.append(hash_)
        raise ServiceError("503", code="ServiceUnavailable")

    monkeypatch.setattr(ExpressCopies, "read", fails)
    reader = stage.reader()

    assert [stage.read(reader) for _ in range(3)] == ["s3"] * 3
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("hit_value_usd", [0, 1e-6])
def test_live_readers_copy_and_copy_again_as_the_simulator_does(
    make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, hit_value_usd: float
) -> None:
    stage = make_stage(hit_value_usd=hit_value_usd)
    clock, draw = stage.world.clock, random.Random(7)
    monkeypatch.setattr("moto.s3.models.utcnow", lambda: _datetime(clock.now_us()))
    clock.sleep_until(-(-clock.now_us() // US_PER_DAY) * US_PER_DAY)
    start_us = clock.now_us()
    sizes = {f"k{at}": size for at, size in enumerate([700, 4_000, 4_000, 30_000, 100_000, 100_000, 400_000])}
    for key, size_bytes in sizes.items():
        stage.world.put_object(key, b"x" * size_bytes)
    times_us = sorted(draw.randrange(300 * 86_400) * 1_000_000 for _ in range(200))
    reads = [(at_us, draw.choice([*sizes, "k1", "k3"])) for at_us in times_us]
    reader, express = stage.reader(), Express(stage.rule)
    puts_bytes: list[int] = []
    stage.clients.express.meta.events.register(
        "provide-client-params.s3.PutObject", lambda params, **_: puts_bytes.append(len(params["Body"]))
    )

    live, simulated, expired = "", "", 0
    for at_us, key in reads:
        last_midnight_us = at_us - at_us % US_PER_DAY  # S3 deletes at each, and between two reads nothing is put
        expired += expire(stage.clients, stage.rule, start_us + last_midnight_us)
        clock.sleep_until(start_us + at_us)
        live += "X" if stage.read(reader, key) == "express" else "S"
        simulated += "X" if express.serves(list(sizes).index(key), at_us, sizes[key]) else "S"

    use = express.close(None)
    assert live == simulated
    assert (len(live), len(puts_bytes)) == (use.asks, use.copies)
    assert 0 <= sum(puts_bytes) - use.copied_bytes < 500 * use.copies  # with their headers
    assert live.count("X") > 50
    assert use.copies == expired + len(sizes_of(stage.clients))
    assert expired > 0


def _datetime(at_us: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_us / 1_000_000, datetime.UTC).replace(tzinfo=None)
