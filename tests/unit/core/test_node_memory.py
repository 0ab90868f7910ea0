"""Memory of a node over its checks: evictions, lost hits, runs and sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.node_memory import (
    MemorySample,
    NodeMemory,
    decode_memory,
    encode_memory,
    sampled,
    with_missed,
)
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO

HOUR_US = 3600 * US_PER_S
FULL = MemorySample(used_bytes=90, limit_bytes=100, evicted=50)


def test_evictions_between_two_checks_make_a_node_full() -> None:
    first = sampled(NodeMemory(), replace(FULL, evicted=0), ran_us=HOUR_US, is_same_run=False)
    second = sampled(first, FULL, ran_us=HOUR_US, is_same_run=True)
    third = sampled(second, FULL, ran_us=HOUR_US, is_same_run=True)

    assert [each.is_evicting for each in (first, second, third)] == [False, True, False]
    assert (third.evicted, third.watched_us) == (50, 3 * HOUR_US)


def test_redis_counts_from_0_in_each_run_and_after_a_crash() -> None:
    before = sampled(NodeMemory(), FULL, ran_us=HOUR_US, is_same_run=False)

    assert sampled(before, FULL, ran_us=HOUR_US, is_same_run=True).evicted == 50
    assert sampled(before, FULL, ran_us=HOUR_US, is_same_run=False).evicted == 100
    assert sampled(before, replace(FULL, evicted=7), ran_us=HOUR_US, is_same_run=True).evicted == 57


def test_a_hit_is_lost_to_memory_only_after_an_eviction() -> None:
    few = sampled(NodeMemory(), replace(FULL, evicted=3), ran_us=HOUR_US // 2, is_same_run=False)

    assert with_missed(few, 2 * MICRO).lost_per_h == 4
    assert with_missed(few, 9 * MICRO).lost_per_h == 6


def test_a_node_of_another_size_is_counted_anew() -> None:
    small = with_missed(sampled(NodeMemory(), FULL, ran_us=HOUR_US, is_same_run=False), MICRO)

    large = sampled(small, MemorySample(90, 200, 0), ran_us=HOUR_US, is_same_run=False)

    assert large == NodeMemory(used_bytes=90, limit_bytes=200, watched_us=HOUR_US)


def test_rates_follow_the_last_days_of_running() -> None:
    memory = NodeMemory()
    for _ in range(10 * 24):
        memory = with_missed(sampled(memory, FULL, ran_us=HOUR_US, is_same_run=False), MICRO)
    for _ in range(7 * 24):
        memory = sampled(memory, replace(FULL, evicted=0), ran_us=HOUR_US, is_same_run=False)

    assert memory.watched_us <= 48 * HOUR_US
    assert memory.lost_per_h < 0.05
    assert memory.evicted_per_h < 2


@given(
    st.builds(
        NodeMemory,
        *[st.integers(0, 2**64 - 1)] * 3,
        st.booleans(),
        *[st.integers(0, 2**64 - 1)] * 3,
    )
)
def test_what_is_encoded_is_decoded(memory: NodeMemory) -> None:
    assert decode_memory(encode_memory(memory)) == memory


@pytest.mark.parametrize("data", [b"", b"of another version"])
def test_anything_else_is_a_node_never_checked(data: bytes) -> None:
    assert decode_memory(data) == NodeMemory()
