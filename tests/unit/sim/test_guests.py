"""Guests of nodes and the use that boots them, by `docs/understand/simulation.md`, "Read-through entries"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import THESIS_PRICES, Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.generate import zipf
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import run_cost_units, usd
from burstcache_sim.world.result import RunResult
from support.runs import run_many

S, H = US_PER_S, 3600 * US_PER_S
KEYS = "abcdefgh"
# A hit pays for half a minute of the node, and for 6 s of a cache function, so that a second request starts one.
VALUED = Breakeven.worth("1e-4")
NO_RELAY = Breakeven(VALUED.parameters, has_relay=False)
BURST = [(second / 2, "a") for second in range(60)]


def trace_of(requests: Sequence[tuple[float, str]], sizes_bytes: dict[str, int] | None = None) -> Trace:
    """Return a trace of (time [s], key)."""
    ordered = sorted(requests, key=lambda request: request[0])
    return Trace(
        np.array([round(at_s * S) for at_s, _ in ordered], np.int64),
        np.array([KEYS.index(key) for _, key in ordered], np.int32),
        None if sizes_bytes is None else np.array([sizes_bytes[key] for _, key in ordered], np.int64),
        tuple(KEYS),
    )


def ready_s(result: RunResult) -> float:
    return result.redis_spans_us[0][0] / S


def tier_at(trace: Trace, result: RunResult, at_s: float) -> str:
    return result.tiers[int(np.searchsorted(trace.arrivals_us, round(at_s * S)))]


def test_keys_that_nobody_asks_for_again_boot_nothing_however_many() -> None:
    many = tuple(str(number) for number in range(2_000))
    trace = Trace(np.arange(2_000) * (S // 10), np.arange(2_000, dtype=np.int32), None, many)

    result = run_many(trace, VALUED)

    assert result.redis_starts == 0
    assert result.guests.seen_writes == result.guests.told == 2_000


def test_repeats_of_several_keys_boot_their_node_together() -> None:
    together = trace_of([(20 * turn + 2 * place, key) for turn in range(5) for place, key in enumerate(KEYS)])
    alone = trace_of([(20 * turn, "a") for turn in range(5)])

    assert run_many(together, NO_RELAY).redis_starts == 1
    assert run_many(alone, NO_RELAY).redis_starts == 0


def test_a_key_that_was_seen_more_than_a_day_ago_is_new() -> None:
    days = trace_of([(turn * 86_401, key) for turn in range(9) for key in KEYS])

    result = run_many(days, Breakeven.worth("1"))

    assert result.redis_starts == 0


def test_a_reader_brings_what_a_running_node_misses() -> None:
    trace = trace_of([*BURST, (61, "b"), (62, "b")])

    result = run_many(trace, NO_RELAY)

    assert ready_s(result) < 61
    assert result.tiers.endswith("SR")
    assert result.guests.fills == 1


def test_keys_seen_lately_are_loaded_at_the_boot_newest_first_up_to_half_of_the_memory() -> None:
    sizes_bytes = {"a": 10, "b": 30, "c": 10}
    trace = trace_of(
        [(0, "b"), (0.1, "c"), *((at_s + 1, "a") for at_s, _ in BURST), (61, "b"), (61.1, "c")], {**sizes_bytes}
    )

    result = run_many(trace, NO_RELAY, capacity_bytes=50)

    assert result.guests.loads == 2
    assert (tier_at(trace, result, 61), tier_at(trace, result, 61.1)) == ("S", "R")
    assert result.s3_requests == result.n_s3 + 2


def test_a_key_that_is_left_out_at_the_boot_counts_for_the_node_as_a_hit_would() -> None:
    """`b` is too old to be loaded; its request is the last, and the node goes on for it as for one of `a`."""
    end_s = BURST[-1][0] + 30
    bursts = {key: trace_of([(-5 * 3600, "b"), *BURST, (end_s, key)]) for key in "ab"}

    of_loaded, of_left_out = (run_many(trace, NO_RELAY) for trace in bursts.values())

    assert (of_loaded.guests.fills, of_left_out.guests.fills) == (0, 1)
    assert of_left_out.redis_spans_us == of_loaded.redis_spans_us


def test_a_cache_function_bridges_and_ends_when_its_node_is_ready() -> None:
    result = run_many(trace_of(BURST), VALUED)

    (_, lambda_end_us), *others = result.lambda_spans_us
    assert not others
    assert lambda_end_us == result.redis_spans_us[0][0]
    assert result.tiers.rstrip("R").endswith("L")
    assert "L" not in run_many(trace_of(BURST), NO_RELAY).tiers


def test_a_node_that_nobody_needs_stops_at_its_first_look() -> None:
    result = run_many(trace_of(BURST[:20]), NO_RELAY)

    ((since_us, stop_us),) = result.redis_spans_us
    assert stop_us == since_us + 60 * S
    assert result.checks == 1


def test_the_dearer_a_look_the_farther_apart_they_are() -> None:
    steady = trace_of([(5 * turn, "a") for turn in range(2_000)])
    free, dear = (Breakeven.worth("1e-4", replace(THESIS_PRICES, check_usd=Fraction(usd))) for usd in ("0", "8e-5"))

    assert run_many(steady, dear).checks < run_many(steady, free).checks / 3


def test_each_node_boots_for_its_own_keys() -> None:
    trace = trace_of(BURST)

    one, three = run_many(trace, NO_RELAY), run_many(trace, NO_RELAY, nodes=3)

    assert one == three


def test_a_node_that_is_always_on_takes_guests_from_the_beginning_and_boots_never() -> None:
    trace = trace_of([(1, "a"), (2, "a"), (3, "b"), (4, "a")])

    result = run_many(trace, VALUED, always_on=1)

    assert result.tiers == "SRSR"
    assert (result.redis_starts, result.checks, result.redis_spans_us) == (0, 0, ((0, 4 * S),))


def test_reports_go_out_once_in_ten_seconds_or_when_there_are_enough() -> None:
    trace = trace_of([(0, "a"), (9.9, "b"), (10, "c"), (15, "d"), (30, "e")])
    dear = Breakeven.worth("1e-4", replace(THESIS_PRICES, report_usd=Fraction("2.5e-5")))  # three hits are enough

    assert run_many(trace, VALUED).guests.told_batches == 3
    assert run_many(trace, dear).guests.told_batches == 2
    assert run_many(trace_of([(0, "a"), (299, "b"), (300, "c")]), dear).guests.told_batches == 2


@pytest.mark.parametrize(
    ("policy", "least_pct", "most_usd_per_h"),
    [(Breakeven.worth("1e-4"), 97.5, 0.0141), (Hazard.worth("1e-4"), 97.5, 0.0141)],
)
def test_a_hundred_keys_of_which_none_pays_alone_share_a_node(
    policy: Policy, least_pct: float, most_usd_per_h: float
) -> None:
    arrivals_us, key_ids = zipf(1, 10, 12 * 3600, 100, exponent=0)  # each key once in ten minutes
    trace = Trace(np.array(arrivals_us), np.array(key_ids, np.int32), None, tuple(map(str, range(100))))

    shared = run_many(trace, policy)
    alone = run_many(trace, Thesis.configured(9, 4))

    assert shared.in_memory_pct > least_pct
    assert float(usd(run_cost_units(shared))) / 12 < most_usd_per_h
    assert alone.in_memory_pct < 1
