"""Copies in S3 Express: put by a reader's own counts, refused after a write."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from moto import mock_aws

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_copies import TOMBSTONE_BYTES
from burstcache.core.errors import ServiceError
from burstcache.core.express import express_rule
from burstcache.core.keys import key_hash
from burstcache.core.prices import price_sheet
from burstcache.core.slices import SLICE_BYTES, Slice, SliceNames, Version
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.tier import FetchedSlices, Fill
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from support.clock import ManualClock
from support.express import COPIES, URLS, expire_all, make_copies, sizes_of

HASH = key_hash("key")


class Desk:
    """A reader's tier, and the bucket."""

    def __init__(self) -> None:
        self.clients = Clients("read", endpoint_urls=URLS)
        self.copies = make_copies(self.clients)
        self.clock = ManualClock(time.time())  # moto's time goes on

    def tier(self, *, hit_value_usd: float = 0, max_object_bytes: int = 1 << 20) -> ExpressTier:
        rule = express_rule(price_sheet("today-us-east-1"), hit_value_usd=hit_value_usd)
        return ExpressTier(self.copies, rule, self.clock, max_object_bytes=max_object_bytes)

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
    desk.copies.put_tombstone(HASH)
    after_a_write = missed(tier)
    desk.copies.put_tombstone(HASH)

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


@pytest.mark.parametrize(("reads", "is_copied"), [(3, False), (4, True)])
def test_what_s3_has_deleted_is_copied_again_at_once_if_its_reads_had_paid_for_it(
    desk: Desk, reads: int, is_copied: bool
) -> None:
    tier = desk.tier()
    for _ in range(4):
        missed(tier).put(entry())
    assert [tier.fetch(get()) for _ in range(reads)] == [entry()] * reads
    expire_all(desk.clients)

    missed(tier).put(entry())

    assert desk.is_copied == is_copied


def test_a_bucket_that_is_gone_is_an_error_that_opens_a_breaker(desk: Desk) -> None:
    desk.clients.express.delete_bucket(Bucket=COPIES)

    with pytest.raises(ServiceError, match="NoSuchBucket"):
        desk.tier().fetch(get())


def test_something_else_in_the_place_of_a_copy_concerns_one_key(desk: Desk) -> None:
    desk.clients.express.put_object(Bucket=COPIES, Key=HASH, Body=b"not an entry, and not sixteen bytes")

    with pytest.raises(ValueError, match="are not an entry"):
        desk.tier().fetch(get())


_VERSION = Version("key", HASH, '"1"', 3 * SLICE_BYTES + 16)
_SLICES = SliceNames("", "bucket").slices(_VERSION, 0, _VERSION.size_bytes)
_HIT_VALUE_USD = 10e-6


def bodies() -> dict[str, bytes]:
    return {each.name: bytes([number]) * each.size_bytes for number, each in enumerate(_SLICES)}


def store(fetched: FetchedSlices) -> None:
    fetched.store({name: body for name, body in bodies().items() if name in fetched.accepts})


def copy_at(tier: ExpressTier) -> int:
    """Read slices until they are copied, and return the number of reads."""
    for number in range(100):
        fetched = tier.fetch_slices(_SLICES[:3])
        if len(fetched.bodies) == 3:
            return number
        store(fetched)
    raise AssertionError("no copy")


def test_slices_are_copied_once_their_reads_have_paid_for_it_and_any_reader_gets_them(desk: Desk) -> None:
    reads = copy_at(desk.tier(hit_value_usd=_HIT_VALUE_USD))

    fetched = desk.tier(hit_value_usd=_HIT_VALUE_USD).fetch_slices(_SLICES)

    assert reads == express_rule(price_sheet("today-us-east-1"), hit_value_usd=_HIT_VALUE_USD).copy_at(SLICE_BYTES)
    assert fetched.bodies == {each.name: bodies()[each.name] for each in _SLICES[:3]}
    assert fetched.accepts == {_SLICES[3].name}


def test_a_slice_whose_copy_never_pays_is_neither_copied_nor_looked_for(desk: Desk) -> None:
    fetched = desk.tier().fetch_slices([Slice(_SLICES[0].name, 0, 1 << 20)])

    assert (fetched.bodies, fetched.accepts) == ({}, frozenset())


def test_a_slice_as_short_as_a_tombstone_is_never_a_hit_and_is_copied_once(desk: Desk) -> None:
    desk.clients.express.put_object(Bucket=COPIES, Key=_SLICES[3].name, Body=bytes(TOMBSTONE_BYTES))

    fetched = desk.tier(hit_value_usd=_HIT_VALUE_USD).fetch_slices(_SLICES[3:])

    assert (fetched.bodies, fetched.accepts) == ({}, frozenset())


def test_a_damaged_copy_of_a_slice_is_a_miss_and_is_replaced(desk: Desk) -> None:
    name = _SLICES[0].name
    desk.clients.express.put_object(Bucket=COPIES, Key=name, Body=b"cut off in the middle")
    tier = desk.tier(hit_value_usd=_HIT_VALUE_USD)

    assert tier.fetch_slices(_SLICES[:1]).accepts == {name}
    copy_at(tier)

    assert tier.fetch_slices(_SLICES[:1]).bodies == {name: bodies()[name]}


def test_of_two_readers_that_copy_a_slice_at_once_the_second_leaves_it(desk: Desk) -> None:
    tiers = [desk.tier(hit_value_usd=_HIT_VALUE_USD) for _ in range(2)]
    for _ in range(express_rule(price_sheet("today-us-east-1"), hit_value_usd=_HIT_VALUE_USD).copy_at(SLICE_BYTES)):
        both = [tier.fetch_slices(_SLICES[:1]) for tier in tiers]
        for fetched in both:
            store(fetched)

    assert [tier.fetch_slices(_SLICES[:1]).bodies for tier in tiers] == [
        {_SLICES[0].name: bodies()[_SLICES[0].name]}
    ] * 2


def test_a_bucket_that_is_gone_is_an_error_of_the_tier(desk: Desk) -> None:
    desk.clients.express.delete_bucket(Bucket=COPIES)

    with pytest.raises(ServiceError):
        desk.tier(hit_value_usd=_HIT_VALUE_USD).fetch_slices(_SLICES)
