"""Halves of a log: forecasts, what was measured, and how sure an answer is that rests on them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_sim.bill.halves import (
    Forecast,
    expected_next_pct,
    forecast_of_half,
    forecasts,
    half,
    margin_points,
    measured_pct,
)
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.locality import EVERYTHING_BYTES, Locality, locality_of
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.confidence import confidence_of, memory_text
from burstcache_sim.choose.advise.systems import Weighing
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from support.searches import seeds

PRICES = price_sheet("today-us-east-1")


def log(requests: int = 4_000, keys: int = 500, lasts_us: int = 4 * US_PER_H, seed: int = 1) -> Trace:
    """Requests by Zipf's law at random times, objects of 1 to 3 KB."""
    draw = np.random.default_rng(seed)
    ids = (draw.zipf(1.3, requests) % keys).astype(np.int32)
    times_us = np.sort(draw.integers(0, lasts_us, requests))
    return Trace(times_us, ids, draw.integers(1_000, 3_000, keys)[ids], tuple(map(str, range(keys))))


def locality(trace: Trace) -> Locality:
    return locality_of(trace, object_bytes=1_000, period_us=4 * US_PER_H)


def confidence(trace: Trace, *, period_us: int | None = None, same_objects: bool = False) -> tuple[str, Workload]:
    workload = replace(workload_of(trace, PRICES, Setup(), period_us=period_us), same_objects=same_objects)
    return confidence_of(Weighing(workload, LatencyModel(), Value()), 100_000).too_short, workload


@pytest.mark.parametrize("seed", seeds(12))
def test_what_is_measured_is_what_a_plain_cache_answers_after_the_first_half(seed: int) -> None:
    found = locality(log(150, 40, seed=seed))
    middle = half(found)

    for memory_bytes in (5_000, 20_000, 80_000, EVERYTHING_BYTES):
        held: OrderedDict[int, int] = OrderedDict()
        hits = []
        for key in found.ids.tolist():
            hits.append(key in held)
            held[key] = int(found.sizes_bytes[key])
            held.move_to_end(key)
            while sum(held.values()) > memory_bytes:
                held.popitem(last=False)
        expected = 100 * sum(hits[middle:]) / (len(hits) - middle)
        assert measured_pct(found, middle, [memory_bytes])[memory_bytes] == pytest.approx(expected), f"seed {seed}"


def test_a_next_span_without_new_objects_hits_all_and_with_them_as_many_fewer() -> None:
    found = locality(log())

    same = expected_next_pct(found, [EVERYTHING_BYTES], renews=False)[EVERYTHING_BYTES]
    new = expected_next_pct(found, [EVERYTHING_BYTES])[EVERYTHING_BYTES]

    assert same == 100
    assert 90 < new < 100


def test_more_memory_never_makes_a_forecast_lower() -> None:
    sizes = [2**power for power in range(12, 24)]

    expected = list(expected_next_pct(locality(log()), sizes).values())

    assert expected == sorted(expected)


def test_a_log_is_foretold_from_its_half_and_from_each_quarter() -> None:
    found = forecasts(locality(log()), [50_000, EVERYTHING_BYTES])

    assert [len(tried) for tried in found.values()] == [4, 4]
    assert 1_800 < found[50_000][0].requests < 2_200
    assert all(one.requests < 1_200 for one in found[50_000][1:])


def test_a_share_is_as_sure_as_twice_the_worst_forecast_or_as_chance_allows() -> None:
    worst = [Forecast(1, 90, 91, 10_000, is_of_half=True), Forecast(1, 80, 85, 2_000)]
    lucky = [Forecast(1, 50, 50, 400, is_of_half=True)]

    assert margin_points(worst) == 10
    assert margin_points(lucky) == pytest.approx(5)
    assert margin_points([]) is None


def test_quarters_say_nothing_about_a_second_half_with_few_requests() -> None:
    trace = log(1_000, lasts_us=US_PER_H)
    times_us = trace.arrivals_us.copy()
    times_us[-1] = 2 * US_PER_H
    few = locality(replace(trace, arrivals_us=times_us))

    series = forecasts(few, [50_000])[50_000]

    assert [one.is_of_half for one in series] == [False]
    assert margin_points(series) is None
    assert forecast_of_half(forecasts(locality(log()), [50_000])[50_000]) is not None


@pytest.mark.parametrize("requests", [1, 2, 150])
def test_few_requests_say_nothing(requests: int) -> None:
    too_short, _ = confidence(Trace(np.arange(requests) * 60_000_000))

    assert "but at least 100 are needed in each" in too_short
    assert too_short.startswith("1 request," if requests == 1 else f"{requests} requests,")


def test_a_log_without_a_second_half_says_nothing() -> None:
    at_us = np.concatenate((np.arange(5_000) * 1_000, [5 * US_PER_H]))

    too_short, _ = confidence(Trace(at_us))

    assert too_short.startswith("5,001 requests, 5,000 in the log's first half and 1 in its second")


def test_minutes_without_a_pause_say_nothing_about_a_month_and_a_daily_burst_does() -> None:
    burst = log(lasts_us=600_000_000)

    assert "but at least an hour is needed" in confidence(burst)[0]
    assert confidence(burst, period_us=24 * US_PER_H)[0] == ""
    assert confidence(log())[0] == ""


def test_parts_that_foretell_nothing_say_nothing() -> None:
    """Quarters that repeat one object, and quarters in which no object comes twice."""
    ids = np.concatenate([np.zeros(1_000), 1 + np.arange(1_000), np.zeros(1_000), 1_001 + np.arange(1_000)])
    trace = Trace(
        np.arange(4_000) * 4_000_000, ids.astype(np.int32), np.full(4_000, 100), tuple(map(str, range(2_001)))
    )

    too_short, _ = confidence(trace)

    assert too_short.startswith("by forecasts within the log, a hit ratio has an error of +/- ")


def test_the_same_objects_again_are_expected_where_somebody_says_so() -> None:
    trace = log()
    workloads = [confidence(trace, same_objects=same)[1] for same in (False, True)]

    found = [confidence_of(Weighing(one, LatencyModel(), Value()), EVERYTHING_BYTES) for one in workloads]

    assert found[0].new_objects > 0 == found[1].new_objects
    assert found[0].shares[0].month_pct < 99 < found[1].shares[0].month_pct
    assert found[0].shares[0].measured_pct == found[1].shares[0].measured_pct
    assert found[1].shares[0].sure_points is None  # nothing in the log says so


def test_objects_that_come_once_in_each_repetition_are_no_reason_to_say_nothing_if_somebody_knows_it() -> None:
    each_once = Trace(
        np.arange(1_000) * 20_000_000, np.arange(1_000, dtype=np.int32), None, tuple(map(str, range(1_000)))
    )

    too_short, workload = confidence(each_once, same_objects=True)

    assert too_short == ""
    assert confidence_of(Weighing(workload, LatencyModel(), Value()), EVERYTHING_BYTES).shares[0].month_pct > 99


def test_a_memory_is_named() -> None:
    assert memory_text(64 * 1024**2) == "a warm cache of 64 MB"
    assert memory_text(EVERYTHING_BYTES) == "a warm cache without evictions"
