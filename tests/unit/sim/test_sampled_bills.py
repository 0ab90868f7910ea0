"""A sample of a log's keys is billed as the whole log, within the error that it states."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_cli.cli import main
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.sampled import scale_to_log
from burstcache_sim.bill.setup import Setup
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.sampling import expected_error
from burstcache_sim.traces.trace import KeySample, Trace
from support.runs import run

RATE = 0.125
MB = 1_000_000


@cache
def zipf_log() -> Trace:
    random = np.random.default_rng(7)
    ids = (random.zipf(1.05, 200_000) % 20_000).astype(np.int32)
    arrivals_us = np.sort(random.integers(0, 86_400_000_000, len(ids)))
    return Trace(arrivals_us, ids, np.full(len(ids), MB), tuple(map(str, range(20_000))))


@cache
def sample() -> Trace:
    log = zipf_log()
    assert log.key_ids is not None
    assert log.sizes_bytes is not None
    kept = (np.random.default_rng(5).uniform(size=len(log.keys)) < RATE)[log.key_ids]
    share = KeySample(RATE, len(log))
    return Trace(log.arrivals_us[kept], log.key_ids[kept], log.sizes_bytes[kept], log.keys, share)


def offer(name: str, trace: Trace) -> Quote:
    demand = demand_of(trace, object_bytes=1)
    locality = locality_of(trace, object_bytes=1, period_us=demand.period_us)
    market = Market(
        demand=demand, locality=locality, prices=price_sheet("today-us-east-1"), setup=Setup(), repeats=Fraction(3)
    )
    return quotes(market, names=(name,))[0]


@pytest.mark.parametrize(
    "name",
    [
        "ec2:t4g.small",
        "ec2:r7g.medium",
        "ec2-scheduled:r7g.medium",
        "serverless-valkey:4GB",
        "s3-express-all",
        "reader-memory:1024MB",
    ],
)
def test_shares_of_hits_and_bills_of_a_sample_are_the_logs_within_the_stated_error(name: str) -> None:
    error = expected_error(sample())

    whole, found = offer(name, zipf_log()), offer(name, sample())

    assert 0 < error < 0.2
    assert found.in_memory_pct == pytest.approx(whole.in_memory_pct, abs=100 * error)
    assert found.bill.usd == pytest.approx(whole.bill.usd, rel=0.15)


def test_a_sample_with_a_popular_key_is_not_billed_for_the_bytes_of_more_such_keys() -> None:
    ids = np.concatenate([np.zeros(9_000, np.int32), np.arange(1, 1_001, dtype=np.int32)])
    arrivals_us = np.arange(len(ids)) * 1_000_000
    names = tuple(map(str, range(1_001)))
    kept = ids < 126  # an eighth of the keys, and nearly all requests
    log = Trace(arrivals_us, ids, np.full(len(ids), MB), names)
    sample = Trace(arrivals_us[kept], ids[kept], np.full(kept.sum(), MB), names, KeySample(RATE, len(ids)))

    whole, found = (
        {line.item: float(line.quantity) for line in offer("s3-express-all", trace).bill.lines}
        for trace in (log, sample)
    )

    assert found["s3-express-retrieval"] == pytest.approx(whole["s3-express-retrieval"], rel=0.01)


def test_a_runs_counts_grow_with_the_keys_and_its_node_does_not() -> None:
    result = run([at * 1_000_000 for at in range(300)], Thesis.configured(9, 4))
    trace = Trace(np.arange(300), np.zeros(300, np.int32), None, ("a",), KeySample(0.25, 1_300))

    whole = scale_to_log(result, trace, 1_300)

    assert (whole.n, whole.n_s3) == (1_300, 4 * result.n_s3)
    assert whole.n_lambda + whole.n_redis == 1_300 - whole.n_s3
    assert (whole.invocations, whole.handovers) == (4 * result.invocations, 4 * result.handovers)
    assert whole.redis_spans_us == result.redis_spans_us
    assert scale_to_log(result, Trace(trace.arrivals_us), 300) is result


def test_a_sample_without_a_hit_takes_no_count_below_nothing() -> None:
    hitless = replace(run([at * 1_000_000 for at in range(300)], Thesis.configured(9, 4)), n_lambda=0, n_redis=0)
    trace = Trace(np.arange(300), np.zeros(300, np.int32), None, ("a",), KeySample(0.25, 1_300))

    whole = scale_to_log(hitless, trace, 1_300)

    assert (whole.n_s3, whole.n_lambda, whole.n_redis) == (1_300, 0, 0)
    assert whole.s3_requests >= whole.n_s3


@pytest.mark.slow
def test_a_sample_gets_advice_under_a_policy_that_answers_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    keys = np.random.default_rng(1).zipf(1.6, size=4_000) % 200
    path.write_text("t,key,size\n" + "".join(f"{at * 40},{key},9000\n" for at, key in enumerate(keys)))

    options = ("--sample-keys", "0.4", "--hit-value-usd", "1e-9", "--candidates", "8", "--json")
    assert main(["advise", str(path), *options]) == 0

    found = json.loads(capsys.readouterr().out)
    assert all(system["usd_per_month"] > 0 for system in (*found["systems"], found["burstcache"], *found["front"]))


@pytest.mark.slow
def test_a_sampled_log_is_billed_as_the_whole_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    keys = np.random.default_rng(1).integers(500, size=50_000)  # each ten times a minute
    path.write_text("t,key,size\n" + "".join(f"{at * 0.012:.6f},{key},1000\n" for at, key in enumerate(keys)))

    def found(*options: str) -> Any:
        assert main(["sim", "compare", str(path), "--against", "s3-only", *options, "--json"]) == 0
        return {system["name"]: system for system in json.loads(capsys.readouterr().out)}

    whole, sampled = found(), found("--sample-keys", "0.25")

    assert sampled["s3-only"]["usd"] == whole["s3-only"]["usd"]
    ours, other = sampled["lambda-only"], whole["lambda-only"]  # keys share a node, which a sample cannot scale
    assert ours["in_memory_pct"] == pytest.approx(other["in_memory_pct"], abs=6)
    assert ours["usd"] == pytest.approx(other["usd"], rel=0.15)
