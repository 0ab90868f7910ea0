"""The Express bucket: deletion by age through S3's lifecycle rules, and removal of the bucket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_bucket import ExpressBucket, lifecycle_rules
from burstcache.adapters.express_copies import TOMBSTONE_BYTES
from burstcache.core.express import express_rule
from burstcache.core.prices import price_sheet
from burstcache.web.entry import Entry, encode
from support.express import COPIES, URLS, days_of, make_copies, sizes_of

RULES = {value: express_rule(price_sheet("today-us-east-1"), hit_value_usd=value) for value in (0, 1e-6, 1e-5, 1e-4)}


@given(st.integers(TOMBSTONE_BYTES + 1, 20_000_000), st.sampled_from(sorted(RULES)))
def test_each_copy_is_deleted_by_one_rule_after_the_days_that_it_is_kept(size_bytes: int, hit_value_usd: float) -> None:
    rule = RULES[hit_value_usd]

    assert days_of(size_bytes, rule) == rule.keep_days(size_bytes)


@pytest.mark.parametrize("hit_value_usd", sorted(RULES))
def test_tombstones_are_deleted_after_a_day_and_nothing_earlier(hit_value_usd: float) -> None:
    rules = lifecycle_rules(RULES[hit_value_usd])

    assert days_of(TOMBSTONE_BYTES, RULES[hit_value_usd]) == 1
    assert min(each["Expiration"]["Days"] for each in rules) == 1
    assert len({each["ID"] for each in rules}) == len(rules) <= 9


def test_the_smallest_copy_is_larger_than_a_tombstone() -> None:
    assert len(encode(Entry({"etag": "", "content-length": "0"}, b""))) > TOMBSTONE_BYTES


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws():
        yield Clients("patient", endpoint_urls=URLS)


def test_a_bucket_is_emptied(clients: Clients) -> None:
    copies = make_copies(clients)
    for at in range(5):
        copies.put_tombstone(str(at))

    assert ExpressBucket(COPIES, clients.express).empty() == 5
    assert sizes_of(clients) == {}


def test_a_bucket_that_is_gone_is_empty(clients: Clients) -> None:
    assert ExpressBucket("gone--use1-az4--x-s3", clients.express).empty() == 0


def test_the_rules_are_those_of_the_bucket(clients: Clients) -> None:
    make_copies(clients)

    ExpressBucket(COPIES, clients.express).set_expiry(RULES[0])

    kept = clients.express.get_bucket_lifecycle_configuration(Bucket=COPIES)["Rules"]
    assert [(each["ID"], each["Expiration"]["Days"]) for each in kept][:2] == [
        ("tombstones", 1),
        ("copies-128-days", 128),
    ]
