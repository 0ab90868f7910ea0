"""The policies of the live system by name."""

from __future__ import annotations

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import parameters_from_text
from burstcache.core.policies import POLICIES, live_policy, thesis
from burstcache.core.prices import price_sheet
from burstcache.core.worth import Worth, tier_prices, wait_usd_from_text

PARAMETERS = parameters_from_text(rate="9", sensitivity="4")


def worth() -> Worth:
    prices = tier_prices(price_sheet("today-us-east-1"), node_type="t4g.micro", cache_memory_mb=256)
    return Worth(wait_usd_from_text("10"), prices)


def never() -> Worth:
    raise AssertionError("nothing is weighed")


def test_the_thesis_policy_weighs_nothing_and_takes_no_guests() -> None:
    policy = live_policy("thesis", PARAMETERS, never)

    assert policy == thesis(PARAMETERS)
    assert not policy.takes_guests


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "thesis"])
def test_every_other_policy_judges_nodes_by_their_use(name: str) -> None:
    policy = live_policy(name, PARAMETERS, worth)

    assert policy.takes_guests
    assert policy == live_policy(name, PARAMETERS, worth)


def test_a_policy_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidSettingError, match="policy 'best': expected one of thesis, breakeven, hazard"):
        live_policy("best", PARAMETERS, worth)
