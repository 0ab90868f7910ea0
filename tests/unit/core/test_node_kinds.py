"""Kinds of nodes by name, the sizes of tasks on Fargate, and their prices."""

from __future__ import annotations

from fractions import Fraction

import pytest

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.node_kinds import (
    FARGATE_SIZES,
    fallback_name,
    node_items,
    node_kind,
    node_names,
    node_usd_per_h,
    task_size,
    with_address,
    without_address,
)
from burstcache.core.prices import SHEETS, THESIS, price_sheet
from burstcache.core.worth import tier_prices

VIRGINIA = price_sheet("today-us-east-1")
# AWS's limits of a task's memory by its vCPUs [GB].
LIMITS_GB = {"1/4": (0.5, 2), "1/2": (1, 4), "1": (2, 8), "2": (4, 16), "4": (8, 30), "8": (16, 60), "16": (32, 120)}


def test_each_size_has_the_fewest_vcpus_that_aws_allows() -> None:
    """Fewer vCPUs would not be sold with the memory, and more would only cost more."""
    for vcpu, gb in FARGATE_SIZES.values():
        sold = [Fraction(text) for text, (least, most) in LIMITS_GB.items() if least <= gb <= most]
        assert vcpu == min(sold)


def test_a_name_says_the_kind() -> None:
    """An EC2 type has no colon, and a task on Fargate has its memory behind one."""
    assert [node_kind(name) for name in ("t4g.micro", "fargate:0.5GB", "fargate-spot:120GB")] == [
        "ec2",
        "fargate",
        "fargate-spot",
    ]


@pytest.mark.parametrize("name", ["fargate-spot:3TB", "fargate:", "lambda:2GB", "fargate-spot:2gb", ":2GB"])
def test_a_bad_name_is_refused_with_the_names_that_are_accepted(name: str) -> None:
    """The message has both kinds and all sizes."""
    with pytest.raises(InvalidSettingError) as raised:
        node_items(name)
    assert all(part in str(raised.value) for part in (repr(name), "fargate:SIZE", "fargate-spot:SIZE", *FARGATE_SIZES))


def test_a_task_costs_its_processor_and_its_memory() -> None:
    """By hand: a quarter of 0.01034 and twice 0.00114 USD an hour for 2 GB on Spot, which is 3.55 USD a month."""
    usd_per_h = node_usd_per_h(VIRGINIA, "fargate-spot:2GB")
    assert usd_per_h == Fraction("0.002585") + Fraction("0.00228")
    assert round(float(730 * usd_per_h), 2) == 3.55
    assert round(float(730 * node_usd_per_h(VIRGINIA, "fargate:30GB")), 2) == 172.51
    assert node_usd_per_h(VIRGINIA, "t4g.micro") == VIRGINIA.usd("ec2:t4g.micro")


@pytest.mark.parametrize("kind", ["fargate", "fargate-spot"])
def test_a_task_with_a_public_address_costs_that_as_well(kind: str) -> None:
    """AWS bills the address by the hour, whatever the task's size."""
    for size in FARGATE_SIZES:
        plain, public = f"{kind}:{size}", with_address(f"{kind}:{size}")
        assert node_usd_per_h(VIRGINIA, public) == node_usd_per_h(VIRGINIA, plain) + Fraction("0.005")
        assert (node_kind(public), task_size(public)) == (node_kind(plain), task_size(plain))
        assert (without_address(public), without_address(plain)) == (plain, plain)


def test_what_replaces_a_public_task_on_spot_has_an_address_too() -> None:
    """It runs in the same subnet."""
    assert fallback_name("fargate-spot:2GB+ipv4") == "fargate:2GB+ipv4"
    assert fallback_name("fargate:2GB+ipv4") == ""


def test_a_policy_weighs_the_task_by_the_same_price() -> None:
    """The live system derives its prices from the name."""
    prices = tier_prices(VIRGINIA, node_type="fargate-spot:2GB", cache_memory_mb=256)
    assert prices.redis_usd_per_s == node_usd_per_h(VIRGINIA, "fargate-spot:2GB") / 3600


def test_sheets_without_fargate_have_no_tasks() -> None:
    """The thesis's sheet sells instances alone."""
    thesis = SHEETS[THESIS]
    assert node_names(thesis, "fargate-spot") == ()
    assert "t2.micro" in node_names(thesis, "ec2")
    assert node_names(VIRGINIA, "fargate")[0] == "fargate:0.5GB"
    with pytest.raises(PriceMissingError, match="fargate-vcpu:arm"):
        node_usd_per_h(thesis, "fargate:1GB")
