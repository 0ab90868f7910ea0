"""Many keys, each asked for rarely, through the deployed functions and machines: what their memory serves and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from burstcache.core.parameters import US_PER_S, configure
from burstcache.core.policies import LivePolicy, live_policy, thesis
from burstcache.core.prices import price_sheet
from burstcache.core.worth import TierPrices, Worth
from support.world import World

_KEYS, _PER_MIN = 100, Fraction(1, 10)
_HOURS = Fraction(1, 3)
_THESIS = configure(Fraction(1), Fraction(4))  # two requests within 96 s start a cache function
_SHEET = price_sheet("thesis-2022")
_PRICES = TierPrices(
    s3_get_usd=_SHEET.usd("s3-get"),
    redis_usd_per_s=_SHEET.usd("ec2:t2.micro") / 3600,
    lambda_usd_per_s=_SHEET.usd("lambda-duration:x86"),
)
_NODE_USD_PER_HOUR = float(_PRICES.redis_usd_per_s) * 3600

pytestmark = pytest.mark.slow


@dataclass
class Stretch:
    """Requests of an interval by tier, and the hourly cost of memory in it."""

    tiers: Counter[str]
    usd_per_hour: float  # the node, the cache functions

    @property
    def share(self) -> float:
        """Return the share of requests that a cache function or Redis served."""
        return 1 - self.tiers["s3"] / self.tiers.total()


def stretch_of(world: World, monkeypatch: pytest.MonkeyPatch) -> Stretch:
    """Ask for each key at its rate; all have been seen once before."""
    monkeypatch.setattr("support.functions.BOOT_S", 30)
    keys = [f"key {number}" for number in range(_KEYS)]
    for key in keys:
        world.put_object(key)
        world.read(key)
    lambda_s, since_us, node_us = 0.0, 0, 0
    hold = world._hold_object

    def held(*arguments: Any) -> Any:
        nonlocal lambda_s
        began_us = world.clock.now_us()
        answer = hold(*arguments)
        lambda_s += (world.clock.now_us() - began_us) / US_PER_S
        return answer

    monkeypatch.setattr(world, "_hold_object", held)
    random, tiers, last_us = Random(1), Counter[str](), world.clock.now_us()
    end_us = last_us + int(_HOURS * 3600) * US_PER_S
    while world.clock.now_us() < end_us:
        since_us = world.clock.now_us()
        was_running = world.node().phase == "running"
        world.clock.sleep(random.expovariate(float(_KEYS * _PER_MIN / 60)))
        tiers[world.read(random.choice(keys))] += 1
        node_us += (world.clock.now_us() - since_us) * was_running
    usd = _PRICES.redis_usd_per_s * node_us / US_PER_S + _PRICES.lambda_usd_per_s * Fraction(lambda_s)
    return Stretch(tiers, float(usd / _HOURS))


def by_use(name: str) -> LivePolicy:
    return live_policy(name, _THESIS, lambda: Worth(Fraction(1, 10_000), _PRICES))


def test_the_rule_of_single_keys_leaves_lukewarm_keys_to_s3_and_costs_more_than_one_node(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(policy=thesis(_THESIS), runs_machines=True)
    world.scheduler.hot_keys.max_hot_keys = _KEYS

    found = stretch_of(world, monkeypatch)

    assert found.share < 0.3
    assert found.usd_per_hour > _NODE_USD_PER_HOUR


@pytest.mark.parametrize("name", ["breakeven", "hazard"])
def test_the_use_of_all_keys_brings_them_into_memory_at_the_price_of_one_node(
    name: str, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(policy=by_use(name), runs_machines=True, has_relay=False)

    found = stretch_of(world, monkeypatch)

    assert found.share > 0.95
    assert found.usd_per_hour <= _NODE_USD_PER_HOUR
