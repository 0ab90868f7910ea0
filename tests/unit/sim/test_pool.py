"""A simulated pool finds, loses, repairs and bills what it should."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.keep_alive import KeepAlivePrices
from burstcache.core.pool.redundancy import Load, LossModel, UpkeepPlan, availability_of
from burstcache.core.pool.retention import PoolTotals
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy
from burstcache.core.prices import price_sheet
from burstcache_cli.cli import main
from burstcache_sim.bill.pool import CONTROL_MB, counted_use, pool_bill, pool_use
from burstcache_sim.pool.reclaims import reclaim_process, usual
from burstcache_sim.pool.scenario import PoolRun, PoolScenario
from burstcache_sim.pool.world import simulate_pool
from burstcache_sim.traces.trace import KeySample, Trace

MB = 1024**2
HOUR_S = 3_600
STAY = KeepAlivePrices(idle_usd_per_ms=1e-8, wake_usd=3e-7)
NEVER = reclaim_process("none", 16)


def trace_of(*requests: tuple[float, int], size_bytes: int = 10 * MB) -> Trace:
    """Requests as seconds and key."""
    times_us = np.array([round(at_s * 1e6) for at_s, _ in requests], np.int64)
    ids = np.array([key for _, key in requests], np.int32)
    return Trace(times_us, ids, np.full(len(ids), size_bytes, np.int64), tuple(map(str, range(int(ids.max()) + 1))))


def in_turn(hours: float, every_s: float, keys: int, size_bytes: int = 10 * MB) -> Trace:
    count = int(hours * HOUR_S / every_s)
    return trace_of(*((i * every_s, i % keys) for i in range(count)), size_bytes=size_bytes)


def simulated(trace: Trace, **options: Any) -> PoolRun:
    scenario = PoolScenario(**{"reclaims": NEVER, **options})
    return simulate_pool(trace, scenario, object_bytes=1)


def test_a_slice_is_stored_at_its_second_read_and_found_at_its_third() -> None:
    total = simulated(trace_of((0, 0), (1, 0), (2, 0))).total

    assert (total.requests, total.hits) == (3, 1)
    assert (total.slice_reads, total.slice_writes, total.slice_hits) == (6, 2, 2)
    assert total.hit_bytes == 10 * MB


def test_infinicache_stores_a_whole_object_at_its_first_read() -> None:
    total = simulated(trace_of((0, 0), (1, 0)), whole_objects=True, pays_within_s=None).total

    assert (total.slice_reads, total.slice_writes, total.hits) == (2, 1, 1)


def test_a_request_takes_a_chunk_of_each_holder_and_nobody_else() -> None:
    trace = trace_of((0, 0), (100, 0), (200, 0), size_bytes=MB)

    total = simulated(trace, pays_within_s=None, redundancy=Redundancy(4, 1)).total

    assert total.serve_invocations == 3 * 5


def test_without_backup_a_reclaimed_member_is_repaired_and_too_many_are_a_loss(tmp_path: Path) -> None:
    for reclaimed, outcome in ((2, (1, 0)), (16, (0, 1))):
        path = tmp_path / f"{reclaimed}.json"
        path.write_text(json.dumps({reclaimed: 1}))
        process = reclaim_process(f"measured:{path}", 16)

        total = simulated(trace_of((0, 0), (90, 0), size_bytes=MB), pays_within_s=None, reclaims=process).total

        assert (total.slice_hits, total.slice_losses) == outcome


def test_a_backup_saves_what_was_stored_before_it() -> None:
    trace, process = in_turn(20, 120, 30, MB), reclaim_process("poisson:0.3", 16)

    without, with_backup = (simulated(trace, reclaims=process, backup_s=backup_s) for backup_s in (0, 120))

    assert without.availability < 0.9
    assert with_backup.availability > 0.97
    assert with_backup.total.backups > 0 == without.total.backups


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reclaims", "code", "backup_s"),
    [
        ("poisson:0.1", Redundancy(10, 1), 300),
        ("poisson:0.1", Redundancy(10, 1), 1_800),
        ("poisson:0.1", Redundancy(8, 4), 0),
        ("poisson:0.4", Redundancy(8, 4), 300),
        ("zipf:3.23", Redundancy(10, 2), 300),
    ],
)
def test_availability_is_what_the_choice_expects(reclaims: str, code: Redundancy, backup_s: int) -> None:
    process = reclaim_process(reclaims, 16)
    load = Load(Fraction(180), Fraction(1), stored_slices=60, slice_bytes=MB)  # each slice every 20 minutes

    expected = availability_of(UpkeepPlan(code, 60, backup_s), LossModel(process.minute, 60), load)

    found = simulated(in_turn(60, 20, 60, MB), reclaims=process, redundancy=code, backup_s=backup_s).availability
    assert expected > 0.87
    assert found == pytest.approx(expected, abs=0.025)


def test_more_parity_loses_less() -> None:
    trace, process = in_turn(20, 60, 20, MB), reclaim_process("poisson:0.2", 16)

    shares = [simulated(trace, reclaims=process, redundancy=Redundancy(10, p)).availability for p in (1, 2, 4)]

    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_what_does_not_fit_is_dropped_and_is_no_loss() -> None:
    run_ = simulated(in_turn(0.5, 6, 100, 40 * MB), memory_mb=256)
    total = run_.total

    assert total.slice_evictions > 0 == total.slice_losses
    assert run_.stored_bytes <= 16 * run_.scenario.capacity_bytes
    assert run_.availability == 1


def test_members_are_woken_while_something_is_stored_and_read_and_no_longer() -> None:
    total = simulated(trace_of((0, 0), (10, 0), (30 * HOUR_S, 0), (30 * HOUR_S + 1, 0)), pays_within_s=None).total

    assert 16 * 59 <= total.warm_ups <= 16 * 61  # an hour, then the pool ends
    assert total.losses == 1


def test_a_pool_that_stores_nothing_costs_nothing() -> None:
    total = simulated(trace_of((0, 0), (HOUR_S, 1), (2 * HOUR_S, 2))).total

    assert (total.warm_ups, total.ticks, total.environments, total.serve_invocations) == (0, 0, 0, 0)


def test_requests_that_come_soon_share_an_invocation() -> None:
    apart, together = (
        simulated(trace_of(*((i * gap_s, 0) for i in range(50)), size_bytes=MB), stay=STAY, pays_within_s=None).total
        for gap_s in (1, 0.01)
    )

    assert apart.serve_invocations == 50 * 12
    assert together.serve_invocations == 12
    together_usd, apart_usd = (
        total.serve_ms * STAY.idle_usd_per_ms + total.serve_invocations * STAY.wake_usd for total in (together, apart)
    )
    assert together_usd < apart_usd


def test_a_duration_is_rounded_up_to_what_lambda_bills() -> None:
    exact, rounded = (
        simulated(trace_of((0, 0), size_bytes=MB), pays_within_s=None, billed_in_ms=unit).total for unit in (1, 100)
    )

    assert rounded.serve_ms == 12 * 100
    assert exact.serve_ms < rounded.serve_ms / 10


def test_a_bill_is_what_was_counted_times_the_prices() -> None:
    run_ = simulated(in_turn(10, 60, 10), backup_s=300, reclaims=usual(16))
    prices, total = price_sheet("today-us-east-1"), run_.total

    billed = pool_bill(pool_use(run_, has_fargate_hub=True), prices)

    by_text = {line.text: line.usd for line in billed.lines}
    assert by_text["members, warm-up, invocations"] == pytest.approx(total.warm_ups * 2e-7)
    assert by_text["members, new environments"] == pytest.approx(total.environments * 1_769 / 1024 * 0.000167)
    assert by_text["hub, memory"] == pytest.approx(run_.period_us / 3.6e9 * 0.00114)
    assert billed.usd_exact == sum((line.usd_exact for line in billed.lines), Fraction(0))
    assert {line.text for line in pool_bill(pool_use(run_, only_members=True), prices).lines} < set(by_text)


def test_what_hubs_count_predicts_the_bill_of_the_run() -> None:
    run_ = simulated(in_turn(3, 60, 10), stay=STAY)
    total = run_.total
    simulated_use = pool_use(run_)
    totals = PoolTotals(
        control_requests=int(simulated_use.control_requests),
        control_ms=round(float(simulated_use.control_gb_s) * 1024 / CONTROL_MB * 1000),
        requests=total.slice_reads,
        hits=total.slice_hits,
        invocations=total.serve_invocations,
        served_ms=round(total.serve_ms),
        warm_ups=total.warm_ups,
        warm_ms=round(total.warm_up_ms),
        environments=total.environments,
    )

    use = counted_use(totals, members=16, memory_mb=1_769, minutes=Fraction(total.ticks))

    prices = price_sheet("today-us-east-1")
    assert pool_bill(use, prices).usd == pytest.approx(pool_bill(simulated_use, prices).usd, rel=0.001)


def test_the_same_seed_gives_the_same_run() -> None:
    trace, process = in_turn(5, 60, 10), reclaim_process("zipf:2.27", 16)

    one, two, other = (simulated(trace, reclaims=process, seed=seed).total for seed in (1, 1, 2))

    assert one == two != other


@pytest.mark.parametrize("text", ["often", "poisson:", "poisson:-1", "zipf:x", "measured:/nowhere"])
def test_reclaims_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InvalidSettingError, match="reclaims .*: expected none, poisson:MEAN"):
        reclaim_process(text, 16)


def test_a_pool_smaller_than_its_code_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="8 members: expected at least 12"):
        simulated(trace_of((0, 0)), members=8)


def test_a_sample_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="sample"):
        simulated(replace(trace_of((0, 0)), sample=KeySample(0.5, 2)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "large.csv"
    path.write_text("t,key,size\n" + "".join(f"{60 * i},key-{i % 5},{3 * SLICE_BYTES}\n" for i in range(300)))
    return path


@pytest.mark.slow
def test_the_command_shows_what_was_found_the_bill_and_what_else_one_could_buy(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "pool", str(log)]) == 0

    text = capsys.readouterr().out

    assert "300 requests in 4 h 59 min: 96.67 % of them" in text
    assert text.startswith("16 members of 1,769 MB, 10+1 chunks")
    assert "members, warm-up, invocations" in text
    for rival in ("s3-only", "s3-ranged-gets", "s3-express-all", "ec2:", "elasticache-valkey:", "infinicache"):
        assert rival in text


@pytest.mark.slow
def test_the_commands_json_has_the_counts_and_the_rivals(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "pool", str(log), "--code", "8+2", "--backup-s", "300", "--hub", "fargate", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)

    assert (found["code"], found["backup_s"], found["requests"], found["hits"]) == ("8+2", 300, 300, 290)
    assert {rival["name"].partition(":")[0] for rival in found["rivals"]} >= {"ec2", "s3-express-all"}
    assert found["usd"] == pytest.approx(sum(line["usd"] for line in found["lines"]))
    assert any(line["item"] == "hub, memory" for line in found["lines"])
