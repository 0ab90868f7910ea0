"""The same rules for all: who stays warm, who pays for what, what is free, how fast a hit is."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.allowances import free_usd
from burstcache_sim.bill.comparison import OURS, Billing, ComparedSystem, compare
from burstcache_sim.bill.competitors import competitor_names, quotes
from burstcache_sim.bill.cost import Bill, bill_line
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.latency_model import NOT_MODIFIED_SHARE, LatencyModel
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import static_month
from burstcache_sim.choose.advise.worth import Yield, best_buys
from burstcache_sim.latency import TierLatencies
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from support.project import ROOT
from support.runs import run
from support.searches import seeds

TODAY = price_sheet("today-us-east-1")
MB = 1_000_000


def random_reads(requests: int, objects: int, size_bytes: int, lasts_us: int) -> Trace:
    """Objects at random, all alike, evenly over a time."""
    ids = np.random.default_rng(1).integers(objects, size=requests).astype(np.int32)
    names = tuple(f"key-{i}" for i in range(objects))
    return Trace(
        np.arange(requests, dtype=np.int64) * (lasts_us // requests), ids, np.full(requests, size_bytes), names
    )


def offer(name: str, trace: Trace, *, period_us: int | None = None, setup: Setup | None = None, **more: Any) -> Quote:
    demand = demand_of(trace, object_bytes=10_000, period_us=period_us)
    locality = locality_of(trace, object_bytes=10_000, period_us=demand.period_us)
    market = Market(demand=demand, locality=locality, prices=TODAY, setup=setup or Setup(), **more)
    return quotes(market, names=(name,))[0]


def systems_again(trace: Trace) -> dict[str, ComparedSystem]:
    """Return the systems where each repetition asks for the same objects."""
    billing = Billing(TODAY, Setup(), same_objects=True)
    return {system.name: system for system in compare(Thesis.configured(9, 4), trace, billing)}


def systems(trace: Trace, **options: Any) -> dict[str, ComparedSystem]:
    billing = Billing(TODAY, Setup(**options))
    return {system.name: system for system in compare(Thesis.configured(9, 4), trace, billing)}


# Nodes


def test_a_node_that_holds_part_of_the_objects_serves_part_of_the_requests() -> None:
    trace = random_reads(20_000, 1_000, 12 * MB, US_PER_H)  # 12 GB, of which an r7g.large holds 12.9 GB

    shares = [offer(f"ec2:{type_}", trace).in_memory_pct for type_ in ("t4g.nano", "r7g.medium", "r7g.large")]

    assert shares[0] == pytest.approx(100 * 33 / 1_000, abs=1)
    assert shares[1] == pytest.approx(100 * 536 / 1_000, abs=2)
    assert shares[2] == pytest.approx(95)


@pytest.mark.parametrize(
    "name",
    ["ec2:{}t4g.nano", "ec2-scheduled:{}t4g.nano", "fargate:{}0.5GB", "fargate-spot:{}0.5GB",
     "elasticache-valkey:{}t4g.micro"],
)  # fmt: skip
def test_several_nodes_cost_as_many_times_as_much_and_hold_their_share_of_the_keys(name: str) -> None:
    trace = random_reads(20_000, 200, 12 * MB, US_PER_H)  # 2.4 GB, of which each holds 0.4

    one, three = (offer(name.format(count), trace, period_us=24 * US_PER_H) for count in ("", "3x"))

    fixed_usd = [found.bill.fixed_usd_exact for found in (one, three)]
    assert fixed_usd[1] == 3 * fixed_usd[0]
    assert three.name == name.format("3x")
    assert three.in_memory_pct == pytest.approx(3 * one.in_memory_pct, rel=0.1)


def test_several_of_a_rivals_nodes_are_offered_where_they_are_the_cheapest_of_their_size() -> None:
    trace = random_reads(4_000, 2_500, 2 * MB, US_PER_H)  # 5 GB, of which three smalls hold nearly all

    names = {found.name for found in quotes(Billing(TODAY, Setup()).market(trace))}

    assert {"ec2:3xt4g.small", "ec2-scheduled:3xt4g.small", "fargate-spot:3x2GB"} <= names
    assert "ec2:2xt4g.nano" not in names  # a larger one costs no more
    assert not any(name.startswith(("serverless", "s3", "efs")) and "x" in name.partition(":")[2] for name in names)


def test_always_on_nodes_have_the_misses_of_as_many_of_ours() -> None:
    trace = random_reads(20_000, 1_000, 2 * MB, US_PER_H)
    setup = Setup(relay="none", nodes=3, always_on_nodes=3, instance_type="t4g.nano")
    market = Billing(TODAY, setup).market(trace)

    ours, theirs = static_month(market, None), quotes(market, names=("ec2:3xt4g.nano",))[0]

    assert 100 * (1 - ours.n_s3 / ours.n) == pytest.approx(theirs.in_memory_pct)


def test_values_above_what_redis_accepts_are_read_from_s3() -> None:
    assert offer("ec2:r7g.4xlarge", random_reads(100, 2, 600 * MB, US_PER_H)).in_memory_pct == 0


def test_what_is_always_on_stays_warm_when_the_log_comes_again_and_ours_starts_empty() -> None:
    trace = random_reads(1_000, 500, 10_000, 1_200 * US_PER_S)
    found = systems(trace)

    node, ours = found["ec2:t4g.micro"], found[OURS]
    assert node.in_memory_pct < 60
    assert node.month_in_memory_pct > 90  # and what is missed are new objects
    assert systems_again(trace)["ec2:t4g.micro"].month_in_memory_pct > 99.9
    assert ours.month_in_memory_pct == ours.in_memory_pct


def test_nobody_pays_for_what_outlasts_the_log_but_the_one_who_lasts() -> None:
    trace = random_reads(7_200, 3, 10_000, 2 * US_PER_H)
    found = systems(trace)

    node_h = [line.quantity for line in found["elasticache-valkey:t4g.micro"].bill.lines if line.unit == "h"]
    balancer_h = [line.quantity for line in found[OURS].bill.lines if line.text == "NLB of the relay"]
    assert node_h == [2]
    assert balancer_h[0] > 2


def test_valkey_on_fargate_spot_costs_its_task() -> None:
    found = offer("fargate-spot:0.5GB", random_reads(10, 2, 10, US_PER_H), period_us=730 * US_PER_H)

    assert found.bill.fixed_usd_exact == pytest.approx(2.30, abs=0.01)


def test_a_scheduled_node_runs_in_the_busy_hours_of_the_day_and_is_empty_at_each_start() -> None:
    day = np.concatenate([np.arange(3_000) * US_PER_S, 12 * US_PER_H + np.arange(30) * US_PER_S])
    arrivals_us = np.concatenate([day + number * 24 * US_PER_H for number in range(6)])
    ids = (np.arange(len(arrivals_us)) % 5).astype(np.int32)
    trace = Trace(arrivals_us, ids, np.full(len(ids), 1_000), tuple("abcde"))

    found = offer("ec2-scheduled:t4g.nano", trace, period_us=6 * 24 * US_PER_H)

    (node_h,) = (line.quantity for line in found.bill.lines if line.unit == "h")
    assert node_h == 6 * (1 + Fraction(1, 60))  # an hour a day and a minute to boot
    assert found.in_memory_pct == pytest.approx(100 * 6 * 2_995 / len(ids))
    assert {line.text for line in found.bill.lines} >= {"volume"}


def test_a_schedule_takes_the_hours_that_a_hit_is_worth() -> None:
    hours = np.repeat([0, 5], [3_000, 300])
    arrivals_us = hours * US_PER_H + np.arange(3_300) * US_PER_S // 2
    trace = Trace(arrivals_us.astype(np.int64), np.zeros(3_300, np.int32), np.full(3_300, 10), ("a",))

    costly, cheap = (
        offer("ec2-scheduled:r7g.large", trace, period_us=24 * US_PER_H, usd_per_hit=Fraction(usd))
        for usd in ("1e-4", "1")
    )

    assert costly.note.startswith("on a schedule, 1 hour of 24")
    assert cheap.note.startswith("on a schedule, 2 hours of 24")


def test_a_readers_memory_costs_its_misses_and_several_readers_miss_more() -> None:
    trace = random_reads(1_000, 10, 10_000, US_PER_H)

    one, many = (offer("reader-memory:64MB", trace, setup=Setup(reader_processes=count)) for count in (1, 20))

    assert one.bill.usd == pytest.approx(10 * 4e-7)
    assert many.bill.usd > 10 * one.bill.usd


def test_a_file_system_pays_for_bytes_kept_written_and_read() -> None:
    found = offer("efs", random_reads(100, 1, 1024**3, US_PER_H), period_us=730 * US_PER_H)

    amounts = {line.item: float(line.quantity) for line in found.bill.lines}
    storage = 730 * (1 + 2 / 1024**2)  # with 2 KiB of metadata
    assert amounts == pytest.approx({"efs-storage": storage, "efs-read": 99, "efs-write": 1, "s3-get": 1})


# Readers


def test_readers_on_the_internet_cost_everybody_the_way_and_all_but_http_the_same_door() -> None:
    trace, far = random_reads(1_000, 10, 100_000, US_PER_H), Setup(readers="internet")
    names = ("s3-only", "cloudfront", "ec2:t4g.micro", "s3-express")

    near, found = ({name: offer(name, trace, setup=setup) for name in names} for setup in (Setup(), far))

    def items(one: Quote) -> set[str]:
        return {line.item for line in one.bill.lines}

    assert not any({"http-api-request", "internet-transfer"} & items(one) for one in near.values())
    assert {"http-api-request", "internet-transfer"} <= items(found["ec2:t4g.micro"]) & items(found["s3-express"])
    assert "internet-transfer" in items(found["s3-only"])
    assert "http-api-request" not in items(found["s3-only"]) | items(found["cloudfront"])
    assert found["cloudfront"].bill == near["cloudfront"].bill


def test_the_door_costs_a_rival_what_it_costs_us() -> None:
    found = systems(random_reads(1_000, 10, 100_000, US_PER_H), readers="internet")

    def door(system: ComparedSystem) -> dict[str, float]:
        return {
            line.text: line.usd for line in system.bill.lines if line.item in ("http-api-request", "internet-transfer")
        }

    assert door(found[OURS]) == door(found["ec2:t4g.micro"]) != {}


def test_a_front_door_takes_its_time_of_everybody_behind_it() -> None:
    near, far = LatencyModel(), LatencyModel(front_door_ms=10)
    result = run([0, 400_000_000], Thesis.configured(9, 4))

    assert (near.with_burstcache(result).mean_ms, far.with_burstcache(result).mean_ms) == pytest.approx((25, 35))
    assert (near.first_byte_ms("ec2:t4g.micro"), far.first_byte_ms("ec2:t4g.micro")) == (1, 11)
    assert (near.first_byte_ms("cloudfront"), far.first_byte_ms("cloudfront")) == (10, 10)
    assert far.without(2).mean_ms == pytest.approx(25)


def test_asking_a_node_in_vain_takes_our_readers_as_long_as_a_rivals() -> None:
    trace, clock = random_reads(2_000, 800, 1_000_000, US_PER_H), LatencyModel()
    setup = Setup(relay="none", nodes=1, always_on_nodes=1, instance_type="t4g.nano")
    demand = demand_of(trace, object_bytes=1)
    locality = locality_of(trace, object_bytes=1, period_us=demand.period_us)
    ours = static_month(Market(demand=demand, locality=locality, prices=TODAY, setup=setup), None)
    theirs = systems(trace)["ec2:t4g.nano"]

    assert 100 * (1 - ours.n_s3 / ours.n) == pytest.approx(theirs.in_memory_pct)
    mean_ms = 1 + 25 * ours.n_s3 / ours.n
    assert clock.with_burstcache(ours).mean_ms == pytest.approx(mean_ms)
    assert clock.saved_ms(ours) == pytest.approx(ours.n * (25 - mean_ms))
    once = replace(theirs, month_in_memory_pct=theirs.in_memory_pct)
    assert clock.mean_ms(once) == pytest.approx(mean_ms)


def test_an_answer_that_takes_too_long_is_no_hit() -> None:
    clock = LatencyModel(TierLatencies(), hit_within_ms=2)
    result = replace(run([0], Thesis.configured(9, 4)), n=3, n_lambda=1, n_redis=1)

    assert [clock.is_hit(name) for name in ("ec2:t4g.nano", "s3-express", "cloudfront")] == [True, False, False]
    assert clock.hits(result) == 2
    assert replace(clock, hit_within_ms=1.2).hits(result) == 1


# What is free


def cloudfront_month(requests: int, gb: int) -> Bill:
    lines = [
        bill_line(TODAY, item, quantity, "")
        for item, quantity in (("cloudfront-request", requests), ("cloudfront-transfer", gb), ("s3-get", 1_000))
    ]
    return Bill("", tuple(lines))


@pytest.mark.parametrize(
    ("requests", "gb", "usd", "plan"),
    [
        (9_000_000, 1_000, 0.0004, ""),  # within the free tier
        (11_000_000, 1_124, 1 + 100 * 0.085 + 0.0004, ""),
        (9_000_000, 10_000, 15.0004, "Pro"),
        (400_000_000, 40_000, 1_000.0004, "Premium"),
        (600_000_000, 0, 590.0004, ""),  # above every plan
    ],
)
def test_cloudfront_costs_what_its_free_tier_leaves_or_the_plan_that_is_large_enough(
    requests: int, gb: int, usd: float, plan: str
) -> None:
    found_usd, found_plan = free_usd(cloudfront_month(requests, gb))

    assert (float(found_usd), found_plan) == (pytest.approx(usd), plan)


def test_functions_of_both_processors_share_their_free_seconds() -> None:
    lines = tuple(bill_line(TODAY, f"lambda-duration:{name}", 300_000, "") for name in ("arm", "x86"))

    usd, _ = free_usd(Bill("", lines))

    assert usd == 200_000 * TODAY.usd("lambda-duration:x86")


def test_polls_of_a_queue_are_free_unless_writes_use_up_the_allowance() -> None:
    def month_usd(writes: int) -> Fraction:
        return free_usd(Bill("", tuple(bill_line(TODAY, "sqs-request", count, "") for count in (657_000, 3 * writes))))[
            0
        ]

    assert month_usd(100_000) == 0
    assert month_usd(1_000_000) == (657_000 + 3_000_000 - 1_000_000) * TODAY.usd("sqs-request")


# What would change the verdict


def test_the_best_buy_at_each_value_is_the_upper_envelope() -> None:
    lines = [("s3", 0.0, 0.0), ("node", 1_000.0, 100.0), ("ours", 900.0, 30.0), ("dearer", 900.0, 31.0)]

    spans = best_buys(lines)

    assert [span.name for span in spans] == ["s3", "ours", "node"]
    assert [span.start for span in spans] == pytest.approx([0, 30 / 900, 0.7])
    assert (best_buys(lines, 0.5)[0].name, best_buys(lines, 0.5)[0].start) == ("ours", 0.5)


def test_of_equal_lines_the_first_is_the_best_buy() -> None:
    rounded = 0.1 + 0.2
    lines = [("s3", 0.0, 0.0), ("64MB", 1_000.0, 0.3), ("256MB", 1_000.0 * rounded / 0.3, rounded), ("least", 2.0, 9.0)]

    assert [span.name for span in best_buys(lines)] == ["s3", "64MB"]


def test_hits_that_differ_by_rounding_alone_change_no_verdict() -> None:
    lines = [("cheap", 89_462.95, 0.02), ("dear", 89_462.950001, 4.0)]

    assert [span.name for span in best_buys(lines)] == ["cheap"]


def test_what_s3_confirms_is_saved_in_proportion_to_its_latency() -> None:
    confirmed_ms = 1_000 * (1 - NOT_MODIFIED_SHARE) * 25

    gain = Yield(0.0, 0.0, 2_000 * 25 + confirmed_ms, 2_000, 1_000)

    assert gain.at_s3_ms(-25).saved_ms == pytest.approx(0)
    assert gain.at_s3_ms(25).saved_ms == pytest.approx(2 * gain.saved_ms)


@pytest.mark.parametrize("seed", seeds(20))
def test_no_other_line_is_higher_inside_a_span(seed: int) -> None:
    random = np.random.default_rng(seed)
    lines = [(f"{i % 7}", float(random.uniform(-5, 100)), float(random.uniform(-5, 80))) for i in range(40)]

    spans = best_buys(lines)

    assert [span.start for span in spans[1:]] == [span.to for span in spans[:-1]]
    for span in spans:
        value = 2 * span.start + 10 if span.to is None else (span.start + span.to) / 2
        best = max(lines, key=lambda line: line[1] * value - line[2])
        assert best[0] == span.name, f"seed {seed}"


def test_every_kind_of_rival_is_documented() -> None:
    table = (ROOT / "docs/operate/costs.md").read_text().split("### How competitors are counted")[1]
    kinds = {name.partition(":")[0] for name in competitor_names(TODAY, Setup())}

    documented = {name.partition(":")[0] for name in re.findall(r"`([a-z0-9+-]+(?::[A-Z]+)?)`", table)}

    assert kinds <= documented


def test_a_node_that_outlasts_its_log_is_billed_for_no_more_than_the_month() -> None:
    trace = random_reads(2_000, 3, 10_000, 1_200 * US_PER_S)
    policy = Thesis(replace(Thesis.configured(9, 4).parameters, redis_utilization_us=4 * US_PER_H, redis_threshold=0))

    ours = compare(policy, trace, Billing(TODAY, Setup()), against=("s3-only",))[0]

    def node_h(bill: Bill) -> Fraction:
        return sum((line.quantity for line in bill.lines if line.item.startswith("ec2:")), Fraction(0))

    assert node_h(ours.bill) > Fraction(1_200, 3_600)
    assert node_h(ours.month) == 730


# Together with a reader's own memory


def test_own_memory_before_express_asks_it_for_what_memory_leaves() -> None:
    trace = random_reads(4_000, 400, 4 * MB, US_PER_H)

    together = offer("reader-memory+s3-express-all", trace, own_memory_mb=256)
    alone = offer("s3-express-all", trace)

    def lines(offer: Quote) -> dict[str, float]:
        return {line.item: float(line.quantity) for line in offer.bill.lines}

    assert together.in_memory_pct == pytest.approx(alone.in_memory_pct, abs=0.1)
    assert together.own_memory_pct == pytest.approx(offer("reader-memory:256MB", trace).in_memory_pct, abs=3)
    asked = 1 - together.own_memory_pct / 100
    assert lines(together)["s3-express-get"] == pytest.approx(asked * lines(alone)["s3-express-get"], abs=1)


def test_own_memory_before_a_node_saves_time_and_no_money_but_gets() -> None:
    trace = random_reads(4_000, 400, 4 * MB, US_PER_H)

    together, alone = offer("reader-memory+ec2:t4g.micro", trace, own_memory_mb=256), offer("ec2:t4g.micro", trace)

    fixed = [float(one.bill.fixed_usd_exact) for one in (together, alone)]
    assert fixed[0] == fixed[1]
    assert together.in_memory_pct == pytest.approx(alone.in_memory_pct, abs=3)


def test_memory_that_holds_everything_needs_nothing_below_it() -> None:
    few, many = random_reads(400, 10, MB, US_PER_H), random_reads(4_000, 2_000, 4 * MB, US_PER_H)

    names, more = ({one.name for one in quotes(Billing(TODAY, Setup()).market(trace))} for trace in (few, many))

    assert not any(name.startswith("reader-memory+") for name in names)
    assert "reader-memory+s3-express" in more
