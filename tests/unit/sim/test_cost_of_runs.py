"""Cost of simulated runs in units of the live system: counts from the code, and the idle bill of the documents."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.core.digest import Digest
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.control import SWEEP_READS, ControlCounts, control_usage
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, TEMPLATE_NODE, Readers, Relay, Setup
from burstcache_sim.bill.usage import DoorTraffic, live_usage
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import GuestUse, RunResult
from support.clock import ManualClock
from support.project import ROOT

TODAY = price_sheet("today-us-east-1")
HOUR_US = US_PER_H
READERS: tuple[Readers, ...] = ("aws", "internet")
NOTHING = RunResult(
    n=0, n_s3=0, n_lambda=0, n_redis=0, lambda_ms=0, invocations=0, cold_starts=0, redis_s=0, redis_starts=0,
    s3_requests=0, lambda_us_exact=0, redis_us_exact=0, end_us=0,
)  # fmt: skip
UNPROMOTED = replace(NOTHING, n=3, n_s3=2, n_lambda=1, invocations=1, lambda_ms=5000, cold_starts=1, s3_requests=3)
PROMOTED = replace(
    UNPROMOTED, redis_starts=1, s3_requests=4, redis_s=120, redis_us_exact=120_000_000, checks=2,
    redis_spans_us=((0, 120_000_000),),
)  # fmt: skip


def test_an_unpromoted_life_takes_four_transitions() -> None:
    assert live_usage(UNPROMOTED, Setup(), period_us=0).transitions == 4


def test_a_promoted_life_takes_seven_and_the_nodes_run_nine_with_two_checks() -> None:
    assert live_usage(PROMOTED, Setup(), period_us=0).transitions == 7 + 9


def test_a_key_that_goes_straight_to_redis_takes_five() -> None:
    straight = replace(PROMOTED, invocations=0, cold_starts=0, s3_requests=3, n_lambda=0, redis_starts=0, checks=0)

    assert live_usage(replace(straight, redis_us_exact=0), Setup(), period_us=0).transitions == 5


def test_the_transitions_are_those_of_the_machine() -> None:
    states = json.loads((ROOT / "statemachines/key_lifecycle.asl.json").read_text())["States"]

    def steps(state: str, choices: dict[str, str]) -> int:
        following = choices.get(state, states[state].get("Next"))
        return 1 + (steps(following, choices) if following else 0)

    assert steps("IsNodeRunning", {"IsNodeRunning": "Lambda", "IsPromoted": "ReturnToS3"}) == 4
    assert steps("IsNodeRunning", {"IsNodeRunning": "Lambda", "IsPromoted": "RedisBootup"}) == 7
    assert steps("IsNodeRunning", {"IsNodeRunning": "RedisBootup"}) == 5


def test_the_node_is_billed_from_running_to_the_stop() -> None:
    node_s = live_usage(PROMOTED, Setup(), period_us=0).node_h * 3600

    assert node_s == 14 + 120 + 3  # running 16 s after the start, ready after 30 s; stopped up to 3 s late


def test_a_short_run_of_the_node_is_billed_a_minute() -> None:
    short = replace(PROMOTED, redis_s=60, redis_us_exact=1_000_000, redis_spans_us=((0, 1_000_000),))

    assert live_usage(short, Setup(), period_us=0).node_h * 3600 == 60


def test_a_node_that_still_boots_at_the_horizon_is_billed_a_minute() -> None:
    booting = replace(PROMOTED, redis_s=0, redis_us_exact=0, redis_spans_us=(), checks=0)

    assert live_usage(booting, Setup(), period_us=0).node_h * 3600 == 60


def test_runs_of_which_only_the_sum_is_known_are_billed_too() -> None:
    assert live_usage(replace(PROMOTED, redis_spans_us=()), Setup(), period_us=0).node_h * 3600 == 137


def test_a_life_that_lasts_longer_than_an_invocation_takes_a_transition_for_each_further_one() -> None:
    once, long = (live_usage(replace(UNPROMOTED, handovers=each), Setup(), period_us=0) for each in (0, 4))

    assert (long.cache_requests, long.transitions) == (once.cache_requests + 4, once.transitions + 4)
    assert long.s3_gets == once.s3_gets + 2 * 4
    assert long.control_gb_s == once.control_gb_s
    assert long.metric_h == once.metric_h


def test_only_what_s3_served_becomes_an_event_and_a_write_of_the_scheduler() -> None:
    served = replace(NOTHING, n=10, n_s3=4, n_lambda=6, s3_requests=4)

    near, far = (live_usage(served, Setup(readers=where), period_us=0) for where in READERS)

    assert (near.events_64kb, near.dynamodb_writes, near.front_door_512kb) == (4, 4, 0)
    assert (far.events_64kb, far.dynamodb_writes, far.front_door_512kb) == (4, 4, 10)
    assert (near.function_requests, far.function_requests) == (4, 14)


def test_readers_in_the_vpc_read_the_digest_once_in_each_second_that_has_a_request_and_pay_for_no_door() -> None:
    hits = replace(NOTHING, n=10, n_lambda=10)
    usage, twice, many = (
        live_usage(hits, Setup(reader_processes=count, reader_memory_bytes=1), period_us=HOUR_US, busy_s=3)
        for count in (1, 2, 20)
    )

    assert (usage.dynamodb_reads, twice.dynamodb_reads, many.dynamodb_reads) == (3, 6, 10)
    assert (usage.proxy_gb_s, usage.init_gb_s, usage.alb_h, usage.internet_gb) == (0, 0, 0, 0)


def test_a_digest_that_vouches_for_no_memory_takes_half_a_unit() -> None:
    hits = replace(NOTHING, n=10, n_redis=10)

    usage = live_usage(hits, Setup(), period_us=HOUR_US, busy_s=3)

    assert usage.dynamodb_reads == Fraction(3, 2)


@pytest.mark.parametrize("mean_s", [0.01, 0.4, 1.5, 4])
def test_a_reader_reads_the_digest_as_often_as_is_billed(mean_s: float) -> None:
    times_us = np.cumsum(np.random.default_rng(3).exponential(mean_s * US_PER_S, 500).astype(np.int64))
    clock, reads = ManualClock(), 0

    def read() -> Digest:
        nonlocal reads
        reads += 1
        return Digest()

    reader = DigestReader(read, clock, start=at_once)
    for at_us in times_us.tolist():
        clock.now_s = at_us / US_PER_S
        reader.route("0" * 32)

    demand = demand_of(Trace(times_us), object_bytes=1)
    usage = live_usage(replace(NOTHING, n=500), Setup(), period_us=0, digest_reads=demand.digest_reads)
    assert usage.dynamodb_reads == Fraction(reads, 2)


def test_each_environment_of_the_proxy_reads_the_digest_once_a_second() -> None:
    hits = replace(NOTHING, n=1_000, n_lambda=1_000)

    usage = live_usage(hits, Setup(readers="internet"), period_us=HOUR_US, busy_s=4)

    assert usage.dynamodb_reads == Fraction(4 + 10, 2)  # a thousand hits keep one busy for 10 s


def test_metrics_are_billed_for_the_time_of_the_requests_however_long_the_stack_stands() -> None:
    lives = replace(NOTHING, n=100, n_lambda=100, invocations=50)

    day, month = (live_usage(lives, Setup(), period_us=hours * HOUR_US, span_us=3 * HOUR_US) for hours in (24, 730))

    assert (day.metric_h, month.metric_h) == (2 * 3, 2 * 3)


def test_a_metric_that_is_emitted_once_is_billed_for_an_hour() -> None:
    life = replace(NOTHING, n=10, n_lambda=10, invocations=1)

    usage = live_usage(life, Setup(), period_us=24 * HOUR_US)

    assert usage.metric_h == 2 * 1


def test_an_idle_stack_has_no_metrics() -> None:
    assert live_usage(NOTHING, Setup(readers="internet"), period_us=24 * HOUR_US).metric_h == 0


def test_the_proxy_has_metrics_for_each_tier_that_answers() -> None:
    reads = replace(NOTHING, n=3_000, n_s3=1_000, n_lambda=1_000, n_express=1_000, s3_requests=1_000)

    usage = live_usage(reads, Setup(readers="internet"), period_us=HOUR_US)

    assert usage.metric_h == 3 * 2


@pytest.mark.parametrize(("keys", "units"), [(1, 1), (25, 1), (26, 2), (100, 4)])
def test_a_read_of_the_digest_takes_a_unit_per_25_keys_in_tiers(keys: int, units: int) -> None:
    minute = replace(NOTHING, n=6_000, n_lambda=6_000, invocations=keys, lambda_us_exact=keys * 60 * 1_000_000)

    usage = live_usage(replace(minute, cold_starts=keys, s3_requests=keys), Setup(), period_us=HOUR_US, busy_s=60)

    assert usage.dynamodb_reads == (4 + SWEEP_READS) * keys + Fraction(60 * units, 2)


def test_what_the_api_metered_is_billed_instead_of_the_mean_size() -> None:
    traffic = DoorTraffic(requests=3, hits=1, metered_512kb=17, door_bytes=3, internet_bytes=1024**3, wakes=0)

    usage = live_usage(UNPROMOTED, Setup(readers="internet"), period_us=0, traffic=traffic)

    assert (usage.front_door_512kb, usage.internet_gb) == (17, 1)


def test_the_largest_object_is_the_templates() -> None:
    template = (ROOT / "template.yaml").read_text()

    limits = set(re.findall(r'MAX_OBJECT_BYTES: !If \[UsesAlb, "(\d+)", "(\d+)"\]', template))

    assert limits == {(str(LARGEST_OBJECT_BYTES["alb"]), str(LARGEST_OBJECT_BYTES["http-api"]))}


def test_behind_a_load_balancer_there_is_no_http_api() -> None:
    usage = live_usage(UNPROMOTED, Setup(front_door="alb", readers="internet"), period_us=HOUR_US)

    assert (usage.front_door_512kb, usage.alb_h, usage.ipv4_h) == (0, 1, 2)
    assert usage.alb_lcu_h > 0


def test_nobody_asking_costs_the_hour_but_no_more() -> None:
    billed = bill(live_usage(NOTHING, Setup(), period_us=HOUR_US), TODAY)

    assert billed.variable_usd_exact == 0
    assert billed.fixed_usd_exact > 0


@pytest.mark.parametrize(
    ("column", "setup"),
    [
        (3, Setup(relay="nlb", instance_type=TEMPLATE_NODE)),
        (4, Setup(relay="direct", instance_type=TEMPLATE_NODE)),
        (5, Setup(relay="none", instance_type=TEMPLATE_NODE)),
        (6, Setup(relay="none", instance_type="t4g.micro")),
        (7, Setup(relay="none", nodes=0)),
    ],
    ids=["nlb", "direct", "none", "instance", "no node"],
)
def test_the_idle_month_is_that_of_the_documents(column: int, setup: Setup) -> None:
    table = (ROOT / "docs/operate/costs.md").read_text().split("## Idle")[1].split("## In use")[0]
    (documented,) = (line.split("|")[column + 1].strip(" *") for line in table.splitlines() if "**Sum**" in line)

    month = bill(live_usage(NOTHING, setup, period_us=730 * HOUR_US), TODAY)

    assert month.usd == pytest.approx(float(documented), abs=0.03)  # some items, each rounded to a cent


def test_a_hit_costs_what_the_documents_say() -> None:
    hits = replace(NOTHING, n=1_000_000, n_lambda=1_000_000)
    billed = bill(live_usage(hits, Setup(readers="internet"), period_us=0), TODAY)

    items = {line.text: line.usd for line in billed.lines}

    assert items["HTTP API"] == pytest.approx(1.0)
    assert items["proxy, duration"] == pytest.approx(0.067, abs=0.001)
    assert items["DynamoDB reads"] == pytest.approx(0.0625)  # none had another within its second


@pytest.mark.parametrize(("lives", "promotions"), [(2, 0), (0, 2)], ids=["cache function", "straight to Redis"])
def test_a_start_reads_a_row_and_a_half_to_sweep_the_set_of_started_keys(lives: int, promotions: int) -> None:
    counts = ControlCounts(lives=lives, promotions=promotions, handovers=0, boots=0, node_s=0, checks=0)

    assert control_usage(counts).dynamodb_reads == 2 * (4 + 1.5)  # four of the life itself


@pytest.mark.parametrize(("node_s", "removals"), [(0, 0), (3_600, 30), (7_200, 60)])
def test_a_write_calls_redis_control_while_its_home_node_runs_and_takes_guests(node_s: int, removals: int) -> None:
    setup, leases = Setup(nodes=2, writes_per_h=60), replace(NOTHING, redis_s=node_s)
    guests = replace(leases, guests=GuestUse(told=1, told_batches=1))

    without, found = (live_usage(run, setup, period_us=HOUR_US) for run in (leases, guests))

    assert without.function_requests == 60
    assert found.function_requests == 60 + 1 + removals


def test_batches_of_reports_are_those_of_each_process_or_environment_of_the_proxy() -> None:
    told = GuestUse(told=4_000, told_batches=6, seen_writes=10)
    run = replace(NOTHING, n=4_000, n_s3=4_000, s3_requests=4_000, guests=told)

    near, far = (live_usage(run, Setup(readers=where, relay="none"), period_us=0, busy_s=60) for where in READERS)
    processes = live_usage(run, Setup(reader_processes=16, relay="none"), period_us=0, busy_s=60)

    assert (processes.events_64kb, processes.dynamodb_writes) == (16 * 6, 16 * 6 + 10)
    assert (near.events_64kb, far.events_64kb) == (6, 6 * (1 + 4_000 * 60 // 60_000))
    assert far.dynamodb_writes == far.events_64kb + 10
    rare = replace(run, guests=replace(told, told=5))
    assert live_usage(rare, Setup(readers="internet"), period_us=0, busy_s=60).events_64kb == 5


def test_with_cache_functions_the_use_of_a_key_is_learned_in_its_row_while_its_node_is_off() -> None:
    guests = GuestUse(fills=100, told=1_000, told_batches=6)
    run = replace(NOTHING, n=1_000, n_s3=800, n_lambda=200, s3_requests=800, guests=guests)

    without, found = (live_usage(run, Setup(relay=relay), period_us=0, busy_s=60) for relay in ("none", "nlb"))

    assert found.dynamodb_writes - without.dynamodb_writes == 1_000 - 100 - 200
    assert found.dynamodb_reads - without.dynamodb_reads == 1_000 - 100 - 200


def test_hits_of_readers_in_another_zone_are_billed_by_the_gb() -> None:
    hits = replace(NOTHING, n=3_000_000, n_s3=1_000_000, n_lambda=1_000_000, n_redis=1_000_000, s3_requests=1_000_000)

    near, far = (Setup(relay="direct", object_bytes=100_000, far_readers=share) for share in (0, Fraction(1, 2)))
    near_usd, far_usd = (bill(live_usage(hits, setup, period_us=0), TODAY).usd for setup in (near, far))

    assert far_usd - near_usd == pytest.approx(2_000_000 * 1e5 / 2**30 / 2 * 0.02)


@pytest.mark.parametrize(("relay", "usd"), [("nlb", 3.65), ("direct", 3.65), ("none", 0)])
def test_the_relays_public_address_is_billed_by_the_hour(relay: Relay, usd: float) -> None:
    without, with_address = (
        bill(live_usage(NOTHING, Setup(relay=relay, relay_ipv4=has_address), period_us=730 * HOUR_US), TODAY)
        for has_address in (False, True)
    )

    assert with_address.fixed_usd_exact - without.usd_exact == pytest.approx(usd)
