"""Price sheets: every row is a price with a source, and a missing price is an error."""

from __future__ import annotations

from fractions import Fraction

import pytest

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.prices import SHEETS, UNCHECKED, PriceSheet, price_sheet
from burstcache_sim.bill.cost import BILLED, Usage
from burstcache_sim.units import UNITS_PER_USD

TODAY = ("today-us-east-1", "today-eu-central-1")


@pytest.mark.parametrize("sheet", SHEETS.values(), ids=list(SHEETS))
def test_every_row_has_a_price_a_unit_and_a_source(sheet: PriceSheet) -> None:
    assert [row for row in sheet.rows if row.usd_exact <= 0 or not row.unit or len(row.source) < 5] == []
    assert len({row.item for row in sheet.rows}) == len(sheet.rows)


@pytest.mark.parametrize("sheet", SHEETS.values(), ids=list(SHEETS))
def test_every_sheet_has_a_date_and_a_region(sheet: PriceSheet) -> None:
    assert sheet.looked_up.startswith("20")
    assert sheet.region in ("us-east-1", "eu-central-1")
    assert SHEETS[sheet.name] is sheet


def test_all_but_seven_prices_have_been_read_somewhere() -> None:
    unread = [(sheet.name, row.item) for sheet in SHEETS.values() for row in sheet.rows if UNCHECKED in row.source]

    lent = ("lambda-tenant", "alarm-metric", "nlb-lcu")
    items = (*lent, "fargate-spot-vcpu:arm", "fargate-spot-memory:arm", "sqs-request", "internet-transfer")
    assert unread == [("today-eu-central-1", item) for item in items]


@pytest.mark.parametrize("name", TODAY)
def test_a_valkey_node_costs_a_fifth_less_than_the_same_of_redis(name: str) -> None:
    sheet = price_sheet(name)
    both = set(sheet.kinds("elasticache-valkey:")) & set(sheet.kinds("elasticache-redis:"))

    assert both
    assert {sheet.usd(f"elasticache-valkey:{kind}") / sheet.usd(f"elasticache-redis:{kind}") for kind in both} == {
        Fraction(4, 5)
    }


@pytest.mark.parametrize("architecture", ["arm", "x86"])
@pytest.mark.parametrize("name", TODAY)
def test_todays_sheets_price_everything_that_the_system_uses(name: str, architecture: str) -> None:
    sheet = price_sheet(name)

    rules = [rule for rule in BILLED.values() if not rule.is_optional]
    items = [item for rule in rules for _, item, _ in rule.parts(Usage(architecture=architecture))]
    for item in items:
        if name == TODAY[0] or not item.startswith("s3-express"):  # Frankfurt has no S3 Express
            assert sheet.usd(item) > 0


def test_every_price_of_the_thesis_is_a_whole_number_of_cost_units() -> None:
    sheet = price_sheet("thesis-2022")
    per_ms_and_second = {"GB-s": 1000, "h": 3600}

    units = {
        row.item: row.usd_exact * UNITS_PER_USD / per_ms_and_second.get(row.unit, 1)
        for row in sheet.rows
        if not row.item.startswith("elasticache")
    }

    assert units == {
        "lambda-duration:x86": 6_012_000,
        "lambda-request": 72_000_000,
        "ec2:t2.micro": 1_340_000_000,
        "s3-get": 154_800_000,
    }


def test_a_quotient_is_exact() -> None:
    assert price_sheet("today-us-east-1").usd("ebs-gp3") * 730 == Fraction(8, 100)


def test_a_missing_instance_type_is_named_with_those_that_are_known() -> None:
    with pytest.raises(PriceMissingError, match=r"thesis-2022 has no price for ec2:r7g\.large; it has t2\.micro"):
        price_sheet("thesis-2022").usd("ec2:r7g.large")


def test_a_missing_service_is_named_with_the_remedy() -> None:
    with pytest.raises(PriceMissingError, match=r"no price for transition; .*--only-cache"):
        price_sheet("thesis-2022").usd("transition")


def test_an_unknown_sheet_is_named_with_those_that_exist() -> None:
    with pytest.raises(InvalidSettingError, match=r"'2023': expected one of thesis-2022, today-us-east-1"):
        price_sheet("2023")
