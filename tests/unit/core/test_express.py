"""S3 Express copies: when they pay, and for how long they are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import PriceMissingError
from burstcache.core.express import US_PER_DAY, CopyCounts, expires_us, express_rule
from burstcache.core.prices import price_sheet

TODAY = price_sheet("today-us-east-1")
GB = 1024**3


@pytest.mark.parametrize(
    ("hit_value_usd", "size_bytes", "copied_at"),
    [
        (0, 4_000, 4), (0, 100_000, 5), (0, 250_000, 9), (0, 500_000, 30), (0, 663_000, 0),
        (1e-6, 4_000, 1), (1e-6, 100_000, 2), (1e-6, 250_000, 2), (1e-6, 500_000, 4),
        (1e-5, 2_000_000, 2), (1e-5, 20_000_000, 0),
    ],
)  # fmt: skip
def test_an_object_is_copied_at_the_read_at_which_the_prices_say_so(
    hit_value_usd: float, size_bytes: int, copied_at: int
) -> None:
    assert express_rule(TODAY, hit_value_usd=hit_value_usd).copy_at(size_bytes) == copied_at


def test_copying_at_the_k_th_read_costs_no_more_than_those_reads_would_have_saved() -> None:
    rule = express_rule(TODAY, hit_value_usd=1e-6)

    for size_bytes in range(0, 1_500_000, 10_007):
        if count := rule.copy_at(size_bytes):
            assert (count - 1) * rule.saved_usd(size_bytes) < rule.copy_usd(size_bytes)
            assert count * rule.saved_usd(size_bytes) >= rule.copy_usd(size_bytes)


def test_a_copy_is_kept_while_its_rent_is_two_thirds_of_what_it_cost_and_saves() -> None:
    rule = express_rule(TODAY, hit_value_usd=0)
    rent_usd_per_h = 0.11 / 730 * 100_000 / GB
    copy_usd = 1.13e-6 + 0.0032 * 100_000 / GB + rent_usd_per_h
    saved_usd = 0.37e-6 - 0.0006 * 100_000 / GB
    days = 2 / 3 * (copy_usd + saved_usd) / rent_usd_per_h / 24

    assert 2 < days < 4 < 2**2.5
    assert rule.keep_days(100_000) == 4


@pytest.mark.parametrize(("size_bytes", "days"), [(0, 128), (1_000, 128), (4_000, 64), (500_000, 1), (5_000_000, 1)])
def test_a_copy_is_kept_from_a_day_to_four_months(size_bytes: int, days: int) -> None:
    assert express_rule(TODAY, hit_value_usd=0).keep_days(size_bytes) == days


@given(st.integers(0, 10**8), st.integers(0, 10**8), st.sampled_from([0, 1e-6, 1e-5, 1e-4]))
def test_a_larger_object_is_kept_no_longer(size_bytes: int, more_bytes: int, hit_value_usd: float) -> None:
    rule = express_rule(TODAY, hit_value_usd=hit_value_usd)

    assert rule.keep_days(size_bytes + more_bytes) <= rule.keep_days(size_bytes)


def test_a_copy_expires_at_the_first_midnight_after_its_days() -> None:
    assert expires_us(0, 1) == US_PER_DAY
    assert expires_us(1, 1) == 2 * US_PER_DAY
    assert expires_us(US_PER_DAY - 1, 4) == 5 * US_PER_DAY


def counts(hit_value_usd: float = 0) -> CopyCounts[str]:
    return CopyCounts(express_rule(TODAY, hit_value_usd=hit_value_usd), {})


def test_a_reader_copies_at_the_fourth_read_that_s3_serves() -> None:
    reader = counts()

    assert [reader.read_s3("a", 4_000) for _ in range(5)] == [False, False, False, True, True]
    assert not reader.read_s3("b", 4_000)
    assert [reader.read_s3("large", 663_000) for _ in range(50)] == [False] * 50


def test_reads_before_a_copy_was_lost_do_not_count() -> None:
    reader = counts()
    for _ in range(4):
        reader.read_s3("a", 4_000)
    reader.note_put("a")
    for _ in range(3):
        reader.read_copy("a", 4_000)

    assert [reader.read_s3("a", 4_000) for _ in range(4)] == [False, False, False, True]


def test_a_copy_whose_reads_had_paid_for_it_is_bought_again_at_once() -> None:
    reader = counts()
    for _ in range(4):
        reader.read_copy("a", 4_000)

    assert reader.read_s3("a", 4_000)


def test_what_is_bought_again_is_one_purchase_of_the_balance() -> None:
    reader = counts()
    for _ in range(4):
        reader.read_copy("a", 4_000)

    reader.read_s3("a", 4_000)

    assert reader.balance.spent_usd == reader.rule.copy_usd(4_000)


def test_keys_that_never_return_are_no_longer_copied_at_their_first_read() -> None:
    reader = counts(1e-5)

    copied = sum(reader.read_s3(f"new-{at}", 100_000) for at in range(1_000))

    assert 100 <= copied <= 106  # what the balance trusts copies for, and forgets meanwhile
    assert not reader.read_s3("last", 100_000)
    assert reader.read_s3("last", 100_000)  # it came back


def test_keys_that_return_are_copied_at_their_first_read_again() -> None:
    reader = counts(1e-5)
    for at in range(1_000):
        reader.read_s3(f"new-{at}", 100_000)

    for _ in range(200):
        reader.read_copy("back", 100_000)

    assert reader.read_s3("new", 100_000)


def test_a_sheet_without_prices_of_express_has_no_rule() -> None:
    with pytest.raises(PriceMissingError, match="s3-express"):
        express_rule(price_sheet("today-eu-central-1"), hit_value_usd=0)
