"""Copies in S3 Express: put by a reader's own counts, refused after a write, put anew with age."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_copies import TOMBSTONE_BYTES
from burstcache.adapters.object_store import ObjectStore
from burstcache.core.errors import ServiceError
from burstcache.core.express import US_PER_DAY, express_rule
from burstcache.core.keys import key_hash
from burstcache.core.prices import price_sheet
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.tier import Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from support.clock import ManualClock
from support.express import COPIES, URLS, expire_all, make_copies, sizes_of

HASH = key_hash("key")
ORIGIN = "origin"
DAY_S = US_PER_DAY / 1_000_000


class Desk:
    """A reader's tier, and the bucket."""

    def __init__(self) -> None:
        self.clients = Clients("read", endpoint_urls=URLS)
        self.clients.s3.create_bucket(Bucket=ORIGIN)
        self.copies = make_copies(self.clients)
        self.clock = ManualClock(time.time())  # moto's time goes on

    def tier(self, *, hit_value_usd: float = 0, max_object_bytes: int = 1 << 20) -> ExpressTier:
        rule = express_rule(price_sheet("today-us-east-1"), hit_value_usd=hit_value_usd)
        store = ObjectStore(ORIGIN, self.clients.s3)
        return ExpressTier(self.copies, store, rule, self.clock, max_object_bytes=max_object_bytes)

    def noted(self, client: str, operation: str) -> list[Mapping[str, Any]]:
        """Return where the calls of an operation of S3 are noted from now on."""
        calls: list[Mapping[str, Any]] = []
        events = getattr(self.clients, client).meta.events
        events.register(f"provide-client-params.s3.{operation}", lambda params, **_: calls.append(params))
        return calls

    def write(self, body: bytes) -> Entry:
        """Write the object and return its entry; nobody hears of it."""
        self.clients.s3.put_object(Bucket=ORIGIN, Key="key", Body=body)
        return ObjectStore(ORIGIN, self.clients.s3).fetch("key", max_bytes=1 << 20)

    def hold_old_copy(self) -> tuple[ExpressTier, Entry]:
        """Return a tier that puts its copy anew at the next read, and the object."""
        tier, entry = self.tier(hit_value_usd=1e-6), self.write(b"1" * 4_000)
        missed(tier).put(entry)
        self.clock.now_s += 97 * DAY_S  # of 128
        return tier, entry

    @property
    def is_copied(self) -> bool:
        return sizes_of(self.clients).get(HASH, 0) > TOMBSTONE_BYTES


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws():
        yield Desk()


def get(method: str = "GET") -> Request:
    return Request(method, "key", HASH, {}, None, "1", 0)


def entry(version: int = 1, size_bytes: int = 4_000) -> Entry:
    body = str(version).encode() * size_bytes
    return Entry({"etag": f'"{version}"', "content-length": str(len(body))}, body)


def missed(tier: ExpressTier) -> Fill:
    fill = tier.fetch(get())
    assert isinstance(fill, Fill)
    return fill


def test_the_fourth_read_that_s3_serves_makes_a_copy_that_any_reader_gets(desk: Desk) -> None:
    tier, other = desk.tier(), desk.tier()

    copied = []
    for _ in range(4):
        missed(tier).put(entry())
        copied.append(desk.is_copied)

    assert copied == [False, False, False, True]
    assert other.fetch(get()) == entry()


def test_a_head_reads_the_headers_alone_and_copies_nothing(desk: Desk) -> None:
    tier = desk.tier(hit_value_usd=1)
    assert tier.fetch(get("HEAD")) is None
    missed(tier).put(entry(size_bytes=100_000))

    assert tier.fetch(get("HEAD")) == Entry(entry(size_bytes=100_000).meta, b"")


def test_what_is_too_large_for_the_prices_or_the_stack_is_not_taken(desk: Desk) -> None:
    assert missed(desk.tier()).max_object_bytes == pytest.approx(617 * 1073, rel=0.01)
    assert missed(desk.tier(max_object_bytes=1000)).max_object_bytes == 1000


def test_a_copy_of_what_was_read_before_a_write_is_refused(desk: Desk) -> None:
    tier = desk.tier(hit_value_usd=1)
    never_copied = missed(tier)
    desk.copies.bury(HASH)
    after_a_write = missed(tier)
    desk.copies.bury(HASH)

    never_copied.put(entry(1))
    after_a_write.put(entry(2))

    assert not desk.is_copied
    missed(tier).put(entry(3))
    assert tier.fetch(get()) == entry(3)


def test_of_two_readers_that_copy_the_second_changes_nothing(desk: Desk) -> None:
    one, two = (missed(desk.tier(hit_value_usd=1)) for _ in range(2))

    one.put(entry(1))
    two.put(entry(2))

    assert desk.tier().fetch(get()) == entry(1)


def test_a_copy_is_not_put_a_minute_after_the_bucket_was_asked(desk: Desk) -> None:
    fill = missed(desk.tier(hit_value_usd=1))
    desk.clock.now_s += 60.1

    fill.put(entry())

    assert not desk.is_copied


def test_an_old_copy_in_use_that_s3_confirms_is_put_anew_in_its_own_place(desk: Desk) -> None:
    tier, entry = desk.hold_old_copy()
    before = desk.copies.read(HASH)
    asked, puts = desk.noted("s3", "GetObject"), desk.noted("express", "PutObject")

    assert tier.fetch(get()) == entry

    assert before is not None
    assert [get["IfNoneMatch"] for get in asked] == [entry.etag]
    assert [(put["Key"], put["IfMatch"]) for put in puts] == [(HASH, before.etag)]


def test_an_old_copy_of_what_was_written_since_gives_way_to_the_object(desk: Desk) -> None:
    tier, _ = desk.hold_old_copy()
    newer = desk.write(b"2" * 5_000)

    assert tier.fetch(get()) == newer

    assert desk.tier().fetch(get()) == newer


@pytest.mark.parametrize("body", [None, b"2" * (1 << 20) + b"2"])
def test_an_old_copy_of_what_is_gone_or_has_grown_too_large_is_buried(desk: Desk, body: bytes | None) -> None:
    tier, _ = desk.hold_old_copy()
    if body is None:
        desk.clients.s3.delete_object(Bucket=ORIGIN, Key="key")
    else:
        desk.clients.s3.put_object(Bucket=ORIGIN, Key="key", Body=body)

    assert tier.fetch(get()) is None

    assert isinstance(desk.tier().fetch(get()), Fill)


def test_an_old_copy_that_s3_cannot_confirm_is_an_answer_and_not_put_anew(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, entry = desk.hold_old_copy()
    puts, tries = desk.noted("express", "PutObject"), list[str]()

    def fails(**parameters: str) -> None:
        tries.append(parameters["Key"])
        raise ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "GetObject")  # type: ignore[typeddict-item]

    monkeypatch.setattr(desk.clients.s3, "get_object", fails)

    assert [tier.fetch(get()) for _ in range(3)] == [entry] * 3
    assert (tries, puts) == (["key"] * 3, [])


def test_a_copy_that_cannot_be_put_anew_is_an_answer_all_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, entry = desk.hold_old_copy()

    def fails(**_: object) -> None:
        raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    monkeypatch.setattr(desk.clients.express, "put_object", fails)

    assert tier.fetch(get()) == entry


def test_what_s3_has_deleted_is_counted_from_the_start(desk: Desk) -> None:
    tier = desk.tier()
    for _ in range(4):
        missed(tier).put(entry())
    assert tier.fetch(get()) == entry()
    expire_all(desk.clients)

    missed(tier).put(entry())

    assert not desk.is_copied


def test_a_bucket_that_is_gone_is_an_error_that_opens_a_breaker(desk: Desk) -> None:
    desk.clients.express.delete_bucket(Bucket=COPIES)

    with pytest.raises(ServiceError, match="NoSuchBucket"):
        desk.tier().fetch(get())


def test_something_else_in_the_place_of_a_copy_concerns_one_key(desk: Desk) -> None:
    desk.clients.express.put_object(Bucket=COPIES, Key=HASH, Body=b"not an entry, and not sixteen bytes")

    with pytest.raises(ValueError, match="are no entry"):
        desk.tier().fetch(get())
