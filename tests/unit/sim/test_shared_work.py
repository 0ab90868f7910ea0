"""Work that many candidates have in common is done once, and each gets what it would get alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.keys import key_hash
from burstcache.core.placement import node_for
from burstcache.core.prices import price_sheet
from burstcache.core.worth import Worth, tier_prices
from burstcache_sim.caching import Same
from burstcache_sim.engine import run as engine_run
from burstcache_sim.policies.node_use import Breakeven, weights_of
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario, homes_of, numbered_keys
from support.searches import search

SHEET = price_sheet("today-us-east-1")
SECOND = 1_000_000


@search(50)
@given(st.lists(st.text(), unique=True, max_size=20), st.lists(st.integers(1, 10), min_size=1, max_size=4))
def test_a_key_is_at_home_where_the_live_system_places_it_among_any_number_of_nodes(
    keys: list[str], numbers: list[int]
) -> None:
    for count in numbers:
        names = [f"node-{number}" for number in range(1, count + 1)]

        homes = homes_of(tuple(keys), count)

        assert [names[home] for home in homes] == [node_for(key_hash(key), names) for key in keys]


@search(200)
@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=20),
    st.sampled_from(["1e-9", "3e-7", "1e-5", "1"]),
    st.booleans(),
)
def test_many_sizes_have_the_weight_that_each_has_alone(sizes: list[int], wait_usd: str, has_express: bool) -> None:
    prices = tier_prices(SHEET, node_type="t4g.micro", cache_memory_mb=1024, has_express=has_express)
    worth = Worth(Fraction(wait_usd), prices)

    assert weights_of(worth, np.array(sizes, np.int64)).tolist() == [worth.weight_of(size) for size in sizes]


@pytest.mark.parametrize("policy", [Thesis.configured(9, 4), Breakeven.worth("1e-4")])
def test_a_run_with_more_spans_than_usual_has_all_of_them(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    t = np.array([burst * 7_200 * SECOND + each * SECOND for burst in range(3) for each in range(40)])
    two_keys = Trace(t, np.arange(len(t), dtype=np.int32) % 2, keys=numbered_keys(2))
    one_key, many = Scenario(Trace(t)), Scenario(two_keys, nodes=2)
    usual = [replay_each([policy], scenario, details=True) for scenario in (one_key, many)]
    assert all(len(run.redis_spans_us) + len(run.lambda_spans_us) > 1 for (run,) in usual)

    monkeypatch.setattr(engine_run, "_USUAL_SPANS", 1)

    assert [replay_each([policy], scenario, details=True) for scenario in (one_key, many)] == usual


def test_an_argument_compared_by_identity_is_equal_to_itself_alone() -> None:
    value, equal = [1], [1]

    assert Same(value) == Same(value)
    assert hash(Same(value)) == hash(Same(value))
    assert Same(value) != Same(equal)
