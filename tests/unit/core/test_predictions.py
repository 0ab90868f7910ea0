"""Numbers that are derived from the rules agree with the rules, whatever has been observed."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from burstcache.core import policy
from burstcache.core.node_use import NodeUse, UseRule, stops_at_us, weight_until
from burstcache.core.parameters import US_PER_S, Parameters, parameters_from_text
from burstcache.core.policy import RecordedRequest
from burstcache.core.worth import MICRO
from support.policies import BY_USE, policy_named

S = US_PER_S
PARAMETERS = [
    parameters_from_text(rate="9", sensitivity="4"),
    parameters_from_text(rate="2", sensitivity="3", overrides="lambda_window_elements=4,lambda_threshold_s=30"),
]
TIMES_US = st.lists(st.integers(0, 200), max_size=12).map(lambda times: [at_s * S for at_s in sorted(times)])
PER_MILLION = ["100", "10", "0.1"]
NODE_RULES = [use.node for name in BY_USE for each in PER_MILLION if (use := policy_named(name, per_million=each).use)]


@given(times_us=TIMES_US, later_s=st.integers(0, 60), parameters=st.sampled_from(PARAMETERS))
def test_fewest_requests_that_start_a_key_are_the_fewest(
    times_us: list[int], later_s: int, parameters: Parameters
) -> None:
    window = [RecordedRequest(at_us, f"r{number}") for number, at_us in enumerate(times_us)]
    now_us = (times_us[-1] if times_us else 0) + later_s * S + 1
    changed_at_us = times_us[len(times_us) // 2] if times_us else 0

    requests = policy.requests_to_start(window, now_us=now_us, changed_at_us=changed_at_us, parameters=parameters)

    for count in range(1, requests + 1):
        following = [*window, *(RecordedRequest(now_us, f"s{number}") for number in range(count))]
        starts = policy.starts(following, now_us=now_us, changed_at_us=changed_at_us, parameters=parameters)
        assert starts == (count == requests)


@given(count=st.integers(0, 20), parameters=st.sampled_from(PARAMETERS))
def test_requests_that_are_missing_for_redis_are_the_fewest(count: int, parameters: Parameters) -> None:
    missing = policy.requests_to_promotion(count, parameters)

    for more in range(missing + 1):
        life = policy.LambdaLife(deadline_us=0, count=count + more)
        assert policy.wants_promotion(life, parameters) == (more == missing)


@given(times_us=TIMES_US, later_s=st.integers(0, 300), rule=st.sampled_from(NODE_RULES), weight=st.integers(1, MICRO))
def test_least_weight_that_boots_a_node_is_the_least(
    times_us: list[int], later_s: int, rule: UseRule, weight: int
) -> None:
    use, now_us = used(rule, times_us), (times_us[-1] if times_us else 0) + later_s * S
    needed = weight_until(rule, use, now_us, lambda use: rule.boots(use, now_us))
    assert needed is not None
    weight = max(weight, needed // 50)  # not too many steps

    hits = ceil(needed / weight)
    for count in range(hits + 1):
        assert rule.boots(use, now_us) == (count == hits)
        use = rule.observe(use, now_us, weight)


@given(times_us=TIMES_US, look_s=st.integers(0, 300), rule=st.sampled_from(NODE_RULES))
def test_node_without_hits_stops_at_the_first_look_that_finds_it_idle(
    times_us: list[int], look_s: int, rule: UseRule
) -> None:
    use = used(rule, times_us)
    since_us = times_us[-1] if times_us else 0
    check_at_us = since_us + look_s * S

    stops_us = stops_at_us(rule, use, since_us=since_us, check_at_us=check_at_us)

    assert rule.next_check_us(use, since_us=since_us, at_us=stops_us) is None
    is_first = rule.next_check_us(use, since_us=since_us, at_us=check_at_us) is None
    assert (stops_us == check_at_us) == is_first
    assert rule.stop_us(use, since_us) <= stops_us


def used(rule: UseRule, times_us: list[int]) -> NodeUse:
    """Return a use with arrivals at these times."""
    use = rule.first()
    for at_us in times_us:
        use = rule.observe(use, at_us, rule.arrival_weight)
    return use
