"""Ranges of large objects: what was sent is billed, what was asked for is held, whole objects decide what is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from burstcache.core.prices import BYTES_PER_GB, price_sheet
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import memory_misses, own_memory_misses
from burstcache_sim.choose.advise.advice import advise
from burstcache_sim.choose.advise.large_objects import large_objects
from burstcache_sim.choose.advise.steps import steps
from burstcache_sim.choose.advise.verdict import verdict_lines
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.traces.trace import Trace
from unit.sim.test_traces_formats import log_of, s3_row

KIB, MIB, MB = 1024, 1024**2, 1_000_000
FILES, REQUESTS, FILE_BYTES = 40, 4_000, 300 * MB
TODAY = price_sheet("today-us-east-1")
DAY_S = 86_400
SENT_BYTES = REQUESTS // 2 * (64 * KIB + MIB)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """A day of a data lake: footers of 64 KiB and column chunks of 1 MiB of Parquet files, each as often."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    rows = (
        s3_row(
            time=(start + timedelta(seconds=DAY_S * i // REQUESTS)).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            key=f"part-{i // 2 % FILES}.parquet",
            status="206 -",
            sizes=f"{(64 * KIB, MIB)[i % 2]} {FILE_BYTES}",
        )
        for i in range(REQUESTS)
    )
    trace = log_of(tmp_path_factory.mktemp("lake"), *rows).trace
    return workload_of(trace, TODAY, Setup(), period_us=DAY_S * 1_000_000)


def market_of(workload: Workload, **setup: object) -> Market:
    trace, demand = workload.trace, workload.demand
    locality = locality_of(trace, object_bytes=1, period_us=demand.period_us)
    return Market(demand=demand, locality=locality, prices=TODAY, setup=replace(Setup(), **setup))  # type: ignore[arg-type]


def offer(market: Market, name: str) -> Quote:
    return quotes(market, names=(name,))[0]


def test_nodes_on_a_schedule_share_ranges(lake: Workload) -> None:
    one, two = (offer(market_of(lake), f"ec2-scheduled:{nodes}t4g.nano") for nodes in ("", "2x"))

    assert one.in_memory_pct <= two.in_memory_pct < 100


def test_cloudfront_transfers_the_ranges_and_not_their_files(lake: Workload) -> None:
    found = {line.item: line for line in offer(market_of(lake), "cloudfront").bill.lines}

    assert found["cloudfront-transfer"].quantity * BYTES_PER_GB == SENT_BYTES
    month_usd = 730 / 24 * sum(line.usd for line in found.values())
    assert month_usd == pytest.approx(5.5, abs=0.5)  # and not 3,273: 38 TB of whole files


def test_a_reader_s_memory_holds_the_ranges(lake: Workload) -> None:
    market = market_of(lake)

    assert market.locality.stored_bytes == FILES * (64 * KIB + MIB)  # 42 MiB
    assert offer(market, "range-memory:64MB").in_memory_pct == pytest.approx(100 * (1 - 2 * FILES / REQUESTS))
    assert offer(market, "reader-memory:64MB").in_memory_pct == pytest.approx(100 * (1 - 2 * FILES / REQUESTS))
    assert {found.name for found in quotes(market) if found.name.startswith("range-memory")} == {"range-memory:64MB"}
    assert own_memory_misses(market.locality, 1, 42 * 1024**2 + 2**19).again.sum() == 0


def test_a_footer_is_one_ranged_get(lake: Workload) -> None:
    assert lake.demand.slices == REQUESTS

    found = large_objects(lake, lake.prices.usd("s3-get"))

    assert found is not None
    gets = [line.quantity for line in found.ranged.bill.lines if line.item == "s3-get"]
    assert sum(gets) == REQUESTS  # not 38 for each
    assert found.demand.stored_bytes == FILES * (64 * KIB + MIB)


def test_readers_keep_slices_of_objects_that_the_stack_redirects(lake: Workload) -> None:
    locality = market_of(lake).locality
    setup = Setup(reader_memory_bytes=64 * MIB, nodes=0)

    assert lake.redirected == REQUESTS
    assert not memory_misses(locality, setup).again.any()
    for without in (replace(setup, reader_memory_bytes=4 * MIB), replace(setup, readers="internet")):
        assert memory_misses(locality, without).again.all()


def test_ranges_are_kept_by_the_library_with_nothing_to_deploy(lake: Workload) -> None:
    found = advise(lake, Value(usd_per_hit=1e-4), LatencyModel(), candidates=8)

    assert (found.verdict, found.winner.name) == ("use the library", "reader-memory:64MB")
    said = " ".join(verdict_lines(found))
    assert said.startswith(
        "USE THE LIBRARY, with nothing to deploy: 64 MB of memory per reader. <0.01 USD a month, 99.9 %"
    )
    assert "memory_bytes=67_108_864" in steps(found)[1]
    assert found.confidence.shares[0].memory_bytes == 64 * MIB


@pytest.mark.parametrize(("unsized", "is_stated"), [(REQUESTS // 2, True), (REQUESTS // 1_000, False)])
def test_the_answer_says_what_it_takes_for_granted_of_objects_without_a_size(
    lake: Workload, unsized: int, is_stated: bool
) -> None:
    small = replace(lake.trace, object_bytes=None, unsized_ranges=unsized)
    workload = workload_of(small, TODAY, Setup(), period_us=lake.demand.period_us)

    said = " ".join(verdict_lines(advise(workload, Value(usd_per_hit=1e-4), LatencyModel(), candidates=8)))

    assert said.startswith("USE THE LIBRARY")
    assert (f"{unsized:,} requests read ranges of objects whose size the log does not show" in said) == is_stated


def test_cloudfront_keeps_no_file_above_its_limit() -> None:
    ids, sizes_bytes = np.arange(100, dtype=np.int32) % 2, np.array([50 * BYTES_PER_GB, 51 * BYTES_PER_GB])
    trace = Trace(np.arange(100) * DAY_S * 1_000_000, ids, sizes_bytes[ids], ("a", "b"))

    found = offer(market_of(workload_of(trace, TODAY, Setup())), "cloudfront")

    assert found.in_memory_pct == 49.0


def test_a_range_takes_its_own_time_and_not_its_file_s(lake: Workload) -> None:
    clock = LatencyModel().for_log(lake.trace, object_bytes=1, front_door="http-api")

    assert clock.s3_ms == pytest.approx(25 + (64 * KIB + MIB) / 2 / 270e3)
    assert clock.cacheable.mean == 0


def test_everybody_that_bills_bytes_bills_those_that_were_sent() -> None:
    count = 1_000
    whole = Trace(np.arange(count) * 1_000_000, np.zeros(count, np.int32), np.full(count, 100 * MB), ("a",))
    cut_off = replace(whole, sent_bytes=np.full(count, 25 * MB))

    def billed(trace: Trace, name: str, item: str, readers: str) -> float:
        demand = demand_of(trace, object_bytes=1)
        locality = locality_of(trace, object_bytes=1, period_us=demand.period_us)
        market = Market(demand=demand, locality=locality, prices=TODAY, setup=Setup(readers=readers))  # type: ignore[arg-type]
        return sum(float(line.quantity) for line in offer(market, name).bill.lines if line.item == item)

    for name, item, readers in (
        ("cloudfront", "cloudfront-transfer", "internet"),
        ("s3-only", "internet-transfer", "internet"),
        ("ec2:t4g.nano", "http-api-request", "internet"),
        ("efs", "efs-read", "aws"),
        ("s3-express-all", "s3-express-retrieval", "aws"),
        ("serverless-valkey", "serverless-ecpu:valkey", "aws"),
    ):
        assert billed(cut_off, name, item, readers) == pytest.approx(billed(whole, name, item, readers) / 4, rel=0.01)
