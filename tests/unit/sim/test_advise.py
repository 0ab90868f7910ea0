"""Advice for a log: the rule by which it is given, what it recommends, and what it says."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import yaml

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S, Parameters, parameters_from_text
from burstcache.core.prices import price_sheet
from burstcache_local.errors import TemplateError
from burstcache_local.template.intrinsics import Conditions
from burstcache_local.template.parameters import parameter_values
from burstcache_local.template.read import read
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.nodes import fitting_type, node_capacity_bytes
from burstcache_sim.bill.setup import OriginEvents, Setup
from burstcache_sim.choose.advise.advice import Advice, advise
from burstcache_sim.choose.advise.classes import WITHIN_MS
from burstcache_sim.choose.advise.configurations import scheduled_choices, static_choices
from burstcache_sim.choose.advise.limits import assumptions
from burstcache_sim.choose.advise.samconfig import (
    INSTANCE_TYPES,
    busiest_second,
    check_deployable,
    hot_keys,
    setup_parameters,
    template_parameters,
)
from burstcache_sim.choose.advise.systems import Weighing, competitors, for_sale
from burstcache_sim.choose.advise.text import advice_text, best_of_each_kind, month_text, shown, the_rest
from burstcache_sim.choose.advise.verdict import change_lines, verdict_lines
from burstcache_sim.choose.advise.worth import Pays, Span, Value, Yield, pays
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.latency import TierLatencies
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult
from support.project import ROOT
from support.runs import run

PRICES = price_sheet("today-us-east-1")
CLOCK = LatencyModel(TierLatencies(), 10)
DAY_US = 24 * 3_600_000_000


def hits(gain: Yield) -> float:
    return gain.hits


def burst(objects: int = 1, size_bytes: int = 10_000) -> Trace:
    """Ten minutes of ten requests a second, over this many objects in turn."""
    arrivals_us = np.arange(6_000) * 100_000
    if objects == 1:
        return Trace(arrivals_us)
    key_ids = (np.arange(6_000) % objects).astype(np.int32)
    return Trace(arrivals_us, key_ids, np.full(6_000, size_bytes), tuple(f"key-{i}" for i in range(objects)))


def small() -> Workload:
    return workload_of(burst(), PRICES, Setup(), period_us=DAY_US)


def large() -> Workload:
    """Ten minutes a day: 20 small objects, and a tail of 500 that only a large node holds."""
    arrivals_us = np.arange(6_000) * 100_000
    key_ids = (np.arange(6_000) % 20).astype(np.int32)
    sizes_bytes = np.full(6_000, 10_000)
    key_ids[::12], sizes_bytes[::12] = np.arange(20, 520), 4_000_000
    trace = Trace(arrivals_us, key_ids, sizes_bytes, tuple(f"key-{i}" for i in range(520)))
    return workload_of(trace, PRICES, Setup(instance_type="r7g.large"), period_us=DAY_US)


@cache
def vast() -> Workload:
    """Ten minutes a day: 2,000 objects of 4 MB at random, all alike, so a node has hits in proportion to its memory."""
    arrivals_us = np.arange(20_000) * 30_000
    key_ids = np.random.default_rng(1).integers(2_000, size=20_000).astype(np.int32)
    trace = Trace(arrivals_us, key_ids, np.full(20_000, 4_000_000), tuple(f"key-{i}" for i in range(2_000)))
    return workload_of(trace, PRICES, Setup(instance_type="r7g.large"), period_us=DAY_US)


# Without a bucket of one zone, a reader's own memory, tasks that AWS may end, and hours known in advance.
ALWAYS_ON_ALONE = [
    *("cloudfront", "efs", "fargate", "fargate-spot", "reader-memory", "reader-memory-confirmed", "s3-express"),
    *("s3-express-all", "ec2-scheduled"),
]


@cache
def usual() -> Advice:
    return advice(small(), Value(usd_per_hit=1e-4))


@cache
def unvalued() -> Advice:
    return advice(small())


@cache
def valued() -> Advice:
    return advice(large(), Value(usd_per_hit=5e-4))


def advice(workload: Workload, value: Value | None = None, **options: Any) -> Advice:
    given: dict[str, Any] = {"candidates": 80, "only": "thesis"} | options
    return advise(workload, value or Value(), CLOCK, **given)


def tuned_for(found: Advice) -> Tried:
    assert found.ours.tried is not None
    return found.ours.tried


# The rule


def test_a_system_pays_where_its_line_crosses_the_others() -> None:
    s3, always_on = Yield(0, 0, 0), Yield(100, 1000, 0)

    assert pays([Yield(30, 900, 0)], [s3, always_on], hits) == Pays(30 / 900, 70 / 100)
    assert pays([Yield(30, 900, 0)], [s3], hits) == Pays(30 / 900, None)


def test_what_costs_more_and_serves_less_never_pays() -> None:
    assert pays([Yield(30, 900, 0)], [Yield(0, 0, 0), Yield(6, 1000, 0)], hits) is None
    assert pays([Yield(30, 0, 0)], [Yield(0, 0, 0)], hits) is None


def test_the_best_of_our_parameters_counts_at_each_value() -> None:
    ours = [Yield(30, 500, 0), Yield(60, 1000, 0)]

    assert pays(ours, [Yield(0, 0, 0), Yield(90, 1100, 0)], hits) == Pays(60 / 1000, 30 / 100)


@pytest.mark.slow
def test_between_the_two_values_and_nowhere_else_burstcache_is_the_best_buy() -> None:
    span = advice(vast(), without=ALWAYS_ON_ALONE).per_hit.best_buy
    assert span is not None
    assert span.to_usd is not None

    below, within, above = (
        advice(vast(), Value(usd_per_hit=usd), without=ALWAYS_ON_ALONE)
        for usd in (span.from_usd * 0.9, (span.from_usd + span.to_usd) / 2, span.to_usd * 1.2)
    )

    assert [below.deploys, within.deploys, above.deploys] == [False, True, False]
    assert below.winner.name in ("ec2:r7g.medium", "s3-only")
    assert above.winner.name == "ec2:5xt4g.small"
    text = advice_text(within)
    assert text.startswith("DEPLOY the stack with nodes: r7g.large, cache functions, the thesis policy.")
    assert "Put this into samconfig.toml, replace your-bucket-name, then deploy:" in text
    assert "\nmake deploy\n" in text
    assert "sam deploy" not in text


@pytest.mark.slow
def test_the_winner_has_the_highest_net_value_of_what_can_be_bought() -> None:
    found = advice(large(), Value(usd_per_ms=2e-6))

    nets = {system.name: system.gain.net_usd(found.value) for system in (found.ours.system, *found.others)}
    no_choice = {system.name for system in found.others if system.ruled_out}
    hitless = {system.name for system in found.others if not (system.in_memory_pct or system.confirmed_pct)}
    assert max(nets.keys() - no_choice, key=lambda name: nets[name]) == found.winner.name
    assert no_choice == {"infinicache", "perfect-automation:r7g.large", "lambda-always"} | hitless - {"s3-only"}
    assert nets["s3-only"] == 0


def test_without_a_value_money_decides_for_s3_and_the_value_from_which_it_pays_is_named() -> None:
    found = advice(small(), without=ALWAYS_ON_ALONE)

    assert verdict_lines(found)[0].startswith("S3 ALONE IS ENOUGH: ")
    assert found.verdict == "s3 alone"
    value, *_ = change_lines(found)
    assert value.startswith("Value of a hit: S3 alone up to ")
    assert re.search(
        r"The stack is better than S3 alone from [\d.]+ USD per million, but something else is always better\b", value
    )


@pytest.mark.slow
def test_a_hit_worth_the_break_even_value_is_worth_the_bill() -> None:
    value_usd = unvalued().per_hit.over_s3_usd
    assert value_usd is not None

    above, below = (advice(small(), Value(usd_per_hit=value_usd * factor)) for factor in (1.01, 0.99))

    assert above.ours.system.gain.net_usd(above.value) > 0 > below.ours.system.gain.net_usd(below.value)


@pytest.mark.slow
def test_a_higher_value_buys_more_hits_and_each_has_the_most_net_value_that_was_found() -> None:
    gaps_us = np.random.default_rng(2).exponential(20_000_000, 2_000).astype(np.int64)
    load = workload_of(Trace(gaps_us.cumsum()), PRICES, Setup(instance_type="r7g.large"))

    found = [advice(load, Value(usd_per_hit=usd)) for usd in (2e-3, 3e-2)]

    assert found[0].ours.result.n_redis < found[1].ours.result.n_redis
    for one in found:
        repeats, s3_usd = float(load.repeats_per_month), one.others[0].usd_per_month
        nets = [
            (t.result.n_lambda + t.result.n_redis) * repeats * one.value.usd_per_hit - t.usd_per_month + s3_usd
            for t in one.tuned.front
        ]
        assert one.ours.system.gain.net_usd(one.value) >= 0.99 * max(nets) > 0


@pytest.mark.slow
def test_what_is_worth_nearly_as_much_and_is_plainer_is_recommended() -> None:
    found = valued()

    most = found.tuned.closest
    ours = tuned_for(found)
    assert ours.text.count("=") < most.text.count("=")
    repeats, hits_lost = float(found.workload.repeats_per_month), ours.result.n_s3 - most.result.n_s3
    lost_usd = 5e-4 * hits_lost * repeats + ours.usd_per_month - most.usd_per_month
    net_usd = found.ours.system.gain.net_usd(found.value) + lost_usd
    assert 0 <= lost_usd <= 0.0101 * min(net_usd, most.usd_per_month)


def test_plain_parameters_never_cost_more_than_a_hundredth_of_the_bill() -> None:
    found = advice(small(), Value(usd_per_hit=1))  # net value is a thousand times the bill

    ours, most = tuned_for(found), found.tuned.closest
    assert found.ours.system.gain.net_usd(found.value) > 1_000 * most.usd_per_month
    assert ours.usd_per_month <= 1.01 * most.usd_per_month


@pytest.mark.slow
def test_what_parameters_give_on_requests_they_were_not_tuned_on_is_reported() -> None:
    found = valued()

    before, hindsight, usual = found.lasting
    assert (before.tuned_on, hindsight.tuned_on) == ("the first half", "the second half itself")
    assert before.tried.result.n == 3_000
    assert before.net_usd <= hindsight.net_usd
    assert usual.tried.text == ""
    text = advice_text(found, is_long=True)
    assert f"{before.net_usd:,.2f}" in text
    assert "net USD a month" in text.split("\ntuned on")[1].splitlines()[0]


def test_a_log_too_short_to_check_says_so() -> None:
    found = advice(workload_of(Trace(np.arange(150) * 1_000_000), PRICES, Setup()))

    assert found.lasting == ()
    text = " ".join(advice_text(found, is_long=True).split())
    assert "Overfitting cannot be checked: one half of the log has fewer than 100 requests" in text


def test_burstcache_is_not_bought_for_objects_that_it_never_caches() -> None:
    found = advice(workload_of(burst(3, 5_000_000), PRICES, Setup()), Value(usd_per_hit=1))

    assert found.ours.result.n_s3 == found.ours.result.n == 6_000
    assert not found.deploys
    to_first_byte_ms, rest_ms = 10 + 25, 2 * 1024**2 / 270e3 + (5_000_000 - 2 * 1024**2) / 85e3
    assert found.ours.system.mean_ms == pytest.approx(to_first_byte_ms + rest_ms)
    assert found.ours.system.gain.net_usd(found.value) < 0


@pytest.mark.slow
def test_what_is_left_out_is_no_choice() -> None:
    value = Value(usd_per_hit=1e-3)
    first = advice(small(), value)

    second = advice(small(), value, without=[first.winner.name.partition(":")[0]])

    assert first.winner.name != second.winner.name
    with pytest.raises(InvalidSettingError, match=r"--without S3: expected one of s3-express, "):
        advice(small(), value, without=["S3"])


def test_a_proxied_miss_is_slower_than_s3_and_that_counts() -> None:
    result = run([0, 400_000_000], Thesis.configured(9, 4))

    assert CLOCK.saved_ms(result) == -20
    assert CLOCK.with_burstcache(result).mean_ms == pytest.approx(35)
    assert CLOCK.without(2).mean_ms == pytest.approx(25)


def test_the_bill_is_the_one_of_the_comparison() -> None:
    found = unvalued()

    lines = found.ours.system.bill.lines
    assert {"NLB of the relay", "Step Functions", "INIT of all functions"} <= {line.text for line in lines}
    assert found.ours.system.usd_per_month == pytest.approx(tuned_for(found).usd_per_month)


@pytest.mark.parametrize(
    ("requests", "period_us", "told"), [(41, None, "2.5 % too often"), (41, DAY_US, ""), (200, None, "")]
)
def test_a_log_of_few_requests_says_how_much_too_often_they_come(
    requests: int, period_us: int | None, told: str
) -> None:
    found = advice(workload_of(Trace(np.arange(requests) * 10_000_000), PRICES, Setup(), period_us=period_us))

    assert ("too often" in month_text(found)) == bool(told)
    assert told in month_text(found)


def test_one_request_is_answered_too() -> None:
    found = advice(workload_of(Trace(np.array([5_000_000])), PRICES, Setup()))

    assert verdict_lines(found)[0].startswith("TOO SHORT TO SAY: 1 request, ")
    assert found.verdict == "too short to say"
    assert "100.0 %" not in advice_text(found)
    assert "1 request for 1 object in 0 s" in advice_text(found)
    assert "Per millisecond saved: the stack never pays" in advice_text(found, is_long=True)


# Setups in which nothing is decided


def pages() -> Workload:
    """A day of 20,000 requests for 2,000 objects of 30 KB, half of them for the most popular tenth."""
    draw = np.random.default_rng(3)
    key_ids = np.where(draw.random(20_000) < 0.5, draw.integers(200, size=20_000), draw.integers(2_000, size=20_000))
    arrivals_us = np.sort(draw.integers(0, DAY_US, 20_000))
    trace = Trace(arrivals_us, key_ids.astype(np.int32), np.full(20_000, 30_000), tuple(map(str, range(2_000))))
    return workload_of(trace, PRICES, Setup(), period_us=DAY_US)


@cache
def on_pages(usd_per_hit: float = 1e-5, *without: str) -> Advice:
    clock = LatencyModel(TierLatencies())
    return advise(pages(), Value(usd_per_hit=usd_per_hit), clock, candidates=40, without=without)


@pytest.mark.slow
def test_memory_express_and_nodes_are_weighed_in_every_mixture_that_could_be_best() -> None:
    setups = [choice.setup for choice in on_pages().further if not choice.policy]

    assert len(setups) == len(set(setups))
    assert {setup.reader_memory_bytes // 1024**2 for setup in setups} == {0, 64}  # which holds everything
    assert {setup.instance_type for setup in setups if setup.nodes} == {"t4g.nano"}
    assert {setup.express for setup in setups} == {False, True}
    assert not any(setup.decides for setup in setups)
    judged = [choice for choice in on_pages().further if choice.policy]
    assert {choice.policy for choice in judged} == {"breakeven", "hazard"}
    assert all(choice.setup.decides and choice.setup.nodes for choice in judged)


@pytest.mark.parametrize("events", ["queue", "direct"])
def test_a_queue_is_polled_and_recommended_for_stacks_that_keep_copies(events: OriginEvents) -> None:
    trace = Trace(np.arange(100) * US_PER_S, np.zeros(100, np.int32), np.full(100, 1_000), ("k",))
    workload = workload_of(trace, PRICES, Setup(origin_events=events), period_us=DAY_US)

    bare, *others = static_choices(Weighing(workload, CLOCK, Value(usd_per_hit=1e-5)))

    polls = {line.usd for choice in others for line in choice.system.month.lines if line.item == "sqs-request"}
    given = [
        setup_parameters(one.setup, "", PRICES, usd_per_hit=Fraction("1e-5"), hot_keys=1, per_s=1) for one in others
    ]
    assert polls == ({0.2628} if events == "queue" else set())
    assert {accepted(each)["OriginEvents"] for each in given} == {events}
    assert not any(line.item == "sqs-request" for line in bare.system.month.lines)


def test_what_is_redirected_to_s3_does_not_pass_our_front_door() -> None:
    ids = np.arange(100, dtype=np.int32) % 5
    trace = Trace(np.arange(100) * US_PER_S, ids, np.full(100, 9_000_000), tuple(map(str, range(5))))
    large = workload_of(trace, PRICES, Setup(readers="internet"), period_us=DAY_US)

    bare = static_choices(Weighing(large, CLOCK, Value(usd_per_hit=1e-5)))[0]

    requests = large.demand.requests * large.repeats_per_month
    metered = {line.item: line.quantity for line in bare.system.month.lines}["http-api-request"]
    assert metered == pytest.approx(requests, rel=1e-3)
    assert bare.system.month.usd > large.demand.internet_bytes / 1024**3 * 30 * 0.09  # S3 sends them all the same


@pytest.mark.slow
def test_several_nodes_are_weighed_where_they_are_the_cheapest_of_their_size() -> None:
    found = static_choices(Weighing(vast(), CLOCK, Value(usd_per_hit=1e-5)))

    nodes = {(one.setup.instance_type, one.setup.nodes) for one in found if one.setup.nodes}
    usd = {(type_, count): count * PRICES.usd(f"ec2:{type_}") for type_, count in nodes}
    sizes_bytes = [count * (node_capacity_bytes(type_) or 0) for type_, count in sorted(nodes, key=usd.__getitem__)]
    assert {("t4g.micro", 3), ("t4g.medium", 1)} <= nodes
    assert ("t4g.nano", 2) not in nodes  # a larger one costs no more
    assert sizes_bytes == sorted(set(sizes_bytes))
    assert sizes_bytes[-2] < 1.2 * vast().demand.stored_bytes  # which several do not share quite evenly
    assert vast().demand.stored_bytes <= sizes_bytes[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("usd_per_ms", "is_tried"), [(1e-8, False), (2e-5, True)])
def test_a_relay_is_weighed_if_the_waits_that_are_left_could_pay_for_it(usd_per_ms: float, is_tried: bool) -> None:
    relayed = replace(vast(), setup=replace(vast().setup, relay="direct"))
    weighing = Weighing(relayed, CLOCK, Value(usd_per_ms=usd_per_ms), has_memory=False)

    still = static_choices(weighing)

    found = scheduled_choices(weighing, [WORTH_POLICIES["breakeven"]], still)

    judged_nodes, weighed_nodes = (
        {(one.setup.instance_type, one.setup.nodes) for one in some} for some in (found, still)
    )
    assert judged_nodes == {nodes for nodes in weighed_nodes if nodes[1]}
    assert any(choice.setup.relay == "direct" for choice in found) == is_tried


@pytest.mark.slow
def test_ours_is_the_setup_of_the_most_net_value() -> None:
    found = on_pages()

    nets = [choice.system.gain.net_usd(found.value) for choice in (found.thesis_choice, *found.further)]
    assert found.ours.system.gain.net_usd(found.value) == max(nets)
    assert found.ours.tried is None
    assert found.lasting == ()


def test_a_readers_memory_of_ours_has_a_rivals_hits_and_costs_the_digest() -> None:
    found = on_pages()
    rival = next(system for system in found.others if system.name == "reader-memory:64MB")

    ours = next(
        choice.system
        for choice in found.further
        if choice.setup.reader_memory_bytes and not choice.setup.nodes and not choice.setup.express
    )

    assert ours.in_memory_pct == pytest.approx(rival.in_memory_pct, abs=0.5)
    reads = next(line for line in ours.month.lines if line.text == "DynamoDB reads")
    variable_usd = float(ours.month.variable_usd_exact)
    assert variable_usd - reads.usd == pytest.approx(rival.usd_per_month, rel=0.05)


@pytest.mark.parametrize("years", [1, 10])
def test_a_month_of_few_requests_has_the_hits_of_a_library_with_the_same_memory(years: int) -> None:
    ids = np.random.default_rng(2).integers(60, size=500).astype(np.int32)
    trace = Trace(np.arange(500) * 63_072_000_000 * years, ids, np.full(500, 300_000), tuple(map(str, range(60))))
    weighing = Weighing(workload_of(trace, PRICES, Setup()), CLOCK, Value(usd_per_hit=1e3))

    bare = [choice for choice in static_choices(weighing) if not (choice.setup.nodes or choice.setup.express)]
    ours = {choice.setup.reader_memory_bytes: choice.system for choice in bare}

    (_, theirs) = competitors(weighing, names=("s3-only", "reader-memory:64MB"))
    assert ours[64 * 1024**2].in_memory_pct == theirs.in_memory_pct == 88.0
    assert ours[64 * 1024**2].gain.net_usd(weighing.value) < theirs.gain.net_usd(weighing.value)  # by the digest
    assert ours[0].month.lines[0].usd == pytest.approx(4e-7 * weighing.requests)


def test_a_rival_behind_own_memory_is_no_choice_if_one_of_the_two_answers_nothing() -> None:
    def ruled_out(objects: int, name: str) -> str:
        ids = np.arange(400, dtype=np.int32) % objects
        trace = Trace(np.arange(400) * 600 * US_PER_S, ids, np.full(400, 2**28), tuple(map(str, range(objects))))
        weighing = Weighing(workload_of(trace, PRICES, Setup()), CLOCK, Value(usd_per_hit=1e-9))
        return competitors(weighing, names=("s3-only", name))[1].ruled_out

    assert ruled_out(100, "reader-memory+s3-express-all") == "readers' memory answers no request"
    assert ruled_out(100, "reader-memory+s3-express") == "answers no request"
    never_again = np.concatenate([np.zeros(300), np.arange(1, 101)]).astype(np.int32)
    trace = Trace(np.arange(400) * 600 * US_PER_S, never_again, np.full(400, 2**28), tuple(map(str, range(101))))
    weighing = Weighing(workload_of(trace, PRICES, Setup(), period_us=730 * US_PER_H), CLOCK, Value(usd_per_hit=1e-9))
    below = competitors(weighing, names=("s3-only", "reader-memory+s3-express"))[1]
    assert below.ruled_out == "s3-express adds no hit to readers' memory"


@pytest.mark.slow
@pytest.mark.parametrize("value", [Value(usd_per_hit=1e-4), Value(usd_per_ms=1e-6), Value()])
@pytest.mark.parametrize("without", [(), ("reader-memory",), ("reader-memory", "s3-express")])
def test_what_would_change_the_verdict_begins_at_the_verdict(value: Value, without: tuple[str, ...]) -> None:
    # Two reads of each object: the rule of copies for 10 USD per million drops them sooner, and is better at 100, too.
    ids = np.arange(4_000, dtype=np.int32) // 2
    trace = Trace(np.arange(4_000) * 200 * US_PER_S, ids, np.full(4_000, 100_000), tuple(map(str, range(2_000))))

    found = advise(workload_of(trace, PRICES, Setup()), value, LatencyModel(), candidates=8, without=without)

    def best_at(spans: tuple[Span, ...], at: float) -> str:
        return next(span.name for span in reversed(spans) if span.start <= at)

    spans = found.sensitivity
    if not value.usd_per_ms:
        assert best_at(spans.by_hit_value, value.usd_per_hit) == found.winner.name
    if not value.usd_per_hit:
        assert best_at(spans.by_ms_value, value.usd_per_ms) == found.winner.name
    if value.is_known:
        assert best_at(spans.by_s3_ms, 25) == found.winner.name


def test_values_of_a_hit_in_one_sentence_have_one_unit() -> None:
    spans = (Span("s3-only", 0.0, 1e-4), Span("cloudfront", 1e-4, 5.5), Span(OURS, 5.5, None))
    found = usual()

    line = change_lines(replace(found, sensitivity=replace(found.sensitivity, by_hit_value=spans)))[0]

    assert "S3 alone up to 100 USD per million, cloudfront up to 5,500,000 USD per million, then the stack" in line


def test_who_says_what_a_millisecond_is_worth_hears_at_which_values_of_one_the_verdict_changes() -> None:
    spans = (Span("s3-express", 0.0, 2e-5), Span("efs", 2e-5, None))
    found = replace(usual(), value=Value(usd_per_ms=1e-3))

    line = change_lines(replace(found, sensitivity=replace(found.sensitivity, by_ms_value=spans)))[0]

    assert line.startswith("Value of a millisecond saved: s3-express up to 20 USD per million, then efs.")


@pytest.mark.slow
def test_readers_that_keep_nothing_keep_nothing_for_burstcache_either() -> None:
    found = on_pages(1e-5, "reader-memory")

    assert not any(choice.setup.reader_memory_bytes for choice in found.further)


def test_each_rival_is_met_by_the_burstcache_that_costs_least_next_to_it() -> None:
    found = on_pages()

    for one in found.against_rivals:
        within_ms = WITHIN_MS[one.latency_class]
        usd = one.ours.system.usd_per_month + one.lacking_usd
        for choice in (found.thesis_choice, *found.further):
            share = found.clock.hits(choice.result, within_ms) / choice.result.n
            lacking = max(0.0, one.rival.in_memory_pct / 100 - share) * 20_000 * 365 / 12
            assert usd <= choice.system.usd_per_month + 1e-5 * lacking + 1e-6
        assert one.excess_usd == pytest.approx(usd - 1.1 * one.rival.usd_per_month - 0.5)
    assert {one.latency_class for one in found.against_rivals} == set(WITHIN_MS)


@pytest.mark.slow
def test_unbounded_staleness_is_named_with_the_best_buy_that_has_a_bound() -> None:
    found = on_pages(1e-3)

    assert found.winner.freshness == "unbounded"
    assert found.bounded_winner is found.ours.system
    said = " ".join(verdict_lines(found))
    assert said.startswith("USE THE LIBRARY, with nothing to deploy: 64 MB of memory per reader. ")
    assert "After a write it may serve the old object forever." in said
    assert "the best buy is the stack without Redis nodes, plus 64 MB of memory per reader: " in said


@pytest.mark.slow
def test_a_standing_setup_is_described_with_what_its_readers_need() -> None:
    found = on_pages(1e-3)

    said = " ".join(advice_text(found, is_long=True).split())

    assert "the stack without Redis nodes, plus 64 MB of memory per reader" in said
    assert 'stack_name="burstcache", memory_bytes=67_108_864,' in said
    assert "nothing boots on demand" in said
    assert "No policy parameters are tuned" in said


# What is recommended


def accepted(given: dict[str, str], region: str = "us-east-1") -> dict[str, Any]:
    """Return the values of all parameters, as CloudFormation accepts them by their patterns and by the rules."""
    template = read(ROOT / "template.yaml")
    alone = {name: value for name, value in given.items() if name != "ApiAuth"}  # which the local run refuses
    values = parameter_values(template["Parameters"], alone) | {"ApiAuth": given.get("ApiAuth", "public")}
    of_region = {**values, "AWS::Region": region, "AWS::Partition": "aws"}
    Conditions(template, of_region).check_rules(template["Rules"])
    return values


@pytest.mark.parametrize("setup", [Setup(), Setup(front_door="alb"), Setup(nodes=0, relay="none")])
def test_a_bucket_of_ones_own_is_opened_to_nobody(setup: Setup) -> None:
    given = setup_parameters(setup, "", PRICES, usd_per_hit=Fraction("1e-5"), hot_keys=1, per_s=1)

    values = accepted(given)

    assert values["OriginBucketName"] == "your-bucket-name"
    assert values["ExistingBucketIsPublic"] == "no"
    if setup.front_door == "http-api":
        with pytest.raises(TemplateError, match="NoBucketIsOpenedByAccident"):
            accepted({name: value for name, value in given.items() if name != "ApiAuth"})


def test_the_template_accepts_what_is_recommended() -> None:
    found = unvalued()
    template = ROOT / "template.yaml"
    declared = yaml.load(template.read_text(), Loader=yaml.BaseLoader)["Parameters"]

    values = accepted(found.template)

    read = parameters_from_text(
        rate=values["PolicyRatePerMin"], sensitivity=values["PolicySensitivity"], overrides=values["PolicyOverrides"]
    )
    assert read == tuned_for(found).policy.parameters
    assert declared["RedisInstanceType"]["AllowedValues"] == list(INSTANCE_TYPES)


@pytest.mark.parametrize("policy", ["", "hazard"])
def test_the_template_accepts_every_setup_that_is_weighed(policy: str) -> None:
    tried = [choice for choice in on_pages().further if choice.policy == policy]

    for choice in tried:
        given = setup_parameters(choice.setup, policy, PRICES, usd_per_hit=Fraction("1e-5"), hot_keys=7, per_s=150)
        values = accepted(given)

        assert values["Relay"] == choice.setup.relay
        if choice.setup.relay != "none":
            assert values["MaxHotKeys"] == "7"
        assert values["HitValueUsdPerMillion"] == "10"
        assert values["RedisNodeCount"] == str(choice.setup.nodes)
        assert values["ThrottleRatePerS"] == "150"
        assert bool(values["ExpressZone"]) == choice.setup.express
        always_on = choice.setup.always_on_nodes
        assert values["RedisAlwaysOnNodes"] == str(always_on)
        if choice.setup.nodes:
            assert (values["RedisOn"], values["RedisInstanceType"]) == ("ec2", choice.setup.instance_type)
            assert values["Policy"] == (policy or "breakeven")


def test_the_lines_for_samconfig_are_toml_with_pairs_as_sam_reads_them() -> None:
    found = unvalued()

    text = "[default.deploy" + advice_text(found, is_long=True).split("[default.deploy")[1].split("\n\n")[0]

    overrides = tomllib.loads(text)["default"]["deploy"]["parameters"]["parameter_overrides"]
    pairs = dict(re.findall(r'([A-Za-z0-9]+)="((?:\\.|[^"\\])*)"', overrides))  # how SAM takes it apart
    assert pairs == found.template
    assert " ".join(f'{name}="{value}"' for name, value in pairs.items()) == overrides


def test_limits_follow_the_log() -> None:
    usual = parameters_from_text(rate="9", sensitivity="4")

    quiet = template_parameters(usual, Setup(), hot_keys=1, per_s=3)
    busy = template_parameters(usual, Setup(), hot_keys=40, per_s=300)
    most = template_parameters(usual, Setup(), hot_keys=6_000, per_s=300)

    assert (quiet["MaxHotKeys"], busy["MaxHotKeys"], most["MaxHotKeys"]) == ("2", "40", "5000")
    assert "ThrottleRatePerS" not in quiet
    assert (busy["ThrottleRatePerS"], busy["ThrottleBurstRequests"]) == ("300", "600")


def test_text_that_would_be_read_as_something_else_is_refused() -> None:
    usual = parameters_from_text(rate="9", sensitivity="4")

    with pytest.raises(InvalidSettingError, match="expected a time above 0 s"):
        template_parameters(replace(usual, tick_us=0), Setup(), hot_keys=1, per_s=1)


def test_cache_functions_that_live_at_once_are_counted_with_their_start() -> None:
    def result(*spans_us: tuple[int, int]) -> RunResult:
        return replace(run([], Thesis(Parameters(1, 2, 1, 4, 1))), lambda_spans_us=spans_us)

    assert hot_keys(result((0, 10_000_000), (10_500_000, 20_000_000))) == 2
    assert hot_keys(result((0, 10_000_000), (11_000_000, 20_000_000))) == 1
    assert hot_keys(result()) == 0


def test_the_busiest_second_is_found() -> None:
    assert busiest_second(Trace(np.array([0, 999_999, 1_000_000, 1_000_000, 1_000_001]))) == 3


def test_a_node_is_large_enough_for_the_objects() -> None:
    assert node_capacity_bytes("t4g.micro") == 805_306_368
    assert fitting_type(PRICES, 800_000_000) == "t4g.micro"
    assert fitting_type(PRICES, 900_000_000) == "t4g.small"
    assert fitting_type(PRICES, 90_000_000_000) == "r7g.large"


@pytest.mark.parametrize("setup", [Setup(instance_type="t2.micro"), Setup(cache_memory_mb=64)])
def test_what_the_template_cannot_deploy_is_refused(setup: Setup) -> None:
    with pytest.raises(InvalidSettingError, match="expected "):
        check_deployable(setup)


# The text


def test_verdict_table_and_what_would_change_it_come_first_and_the_rest_if_asked_for() -> None:
    found = valued()

    short, full = advice_text(found), advice_text(found, is_long=True)

    verdict, *to_do, table, changes, more = short.split("\n\n")
    assert verdict.startswith("USE THE LIBRARY")
    assert to_do[0] == "Install the library and wrap your S3 client:"
    assert {"burstcache", "s3-only"} < {line.split(" ")[0] for line in table.splitlines()}
    assert re.match(
        r"What would change it:\n- Value of a hit: .*\n[^$]*- Latency of S3 \(25 ms to the first byte assumed\), "
        r"with the value of a hit\s",
        changes,
    )
    assert more.startswith("--long: ")
    assert full.startswith(short.removesuffix(more))
    for title in ("With the stack:", "Its bill", "All others:", "Assumptions:"):
        assert f"\n\n{title}" in full


def test_a_policy_that_never_stops_is_called_what_it_is() -> None:
    seldom = usual()
    month = seldom.ours.system.month
    hours = [replace(line, quantity=Fraction(730)) if line.item.startswith("ec2:") else line for line in month.lines]
    system = replace(seldom.ours.system, month=replace(month, lines=tuple(hours)))
    always = replace(seldom, ours=replace(seldom.ours, system=system))

    assert not any("never stop" in line for line in verdict_lines(seldom))
    assert any(line.startswith("Under this policy its nodes never stop") for line in verdict_lines(always))
    assert "in effect always on" in advice_text(always)


def test_each_class_of_latency_has_its_best_and_everything_is_in_the_long_answer_once() -> None:
    found = usual()

    rivals = [system for system in shown(found) if system.name not in (OURS, "s3-only")]
    assert {one.latency_class for one in rivals} == {one.latency_class for one in for_sale(found.others[1:])}
    assert len({one.kind for one in rivals}) == len(rivals) >= 3
    everything = [*best_of_each_kind(found), *the_rest(found)]
    assert sorted(system.name for system in everything) == sorted([OURS, *(one.name for one in found.others)])
    nets = [system.gain.net_usd(found.value) for system in shown(found)]
    assert nets == sorted(nets, reverse=True)


def test_free_tiers_are_named_where_they_change_the_verdict() -> None:
    found = usual()
    other = next(system for system in found.others if system.name == "cloudfront")
    differs = replace(found, other_column_winner=other)

    told = change_lines(differs)[-1]

    assert told.startswith("With free tiers and CloudFront's flat-rate plans the best buy is cloudfront, ")
    assert "--free-tiers" in told
    assert change_lines(replace(differs, free_tiers=True))[-1].startswith("Without free tiers")
    assert not any("plans" in line for line in change_lines(replace(found, other_column_winner=found.winner)))


@pytest.mark.parametrize(
    ("names", "value_usd", "said"),
    [
        ("A", 1e-5, "Value of a hit: always A."),
        ("AB", 1e-5, "Value of a hit: A up to 10 USD per million, then B."),
        (
            "ABCDE",
            0.0,
            "A up to 10 USD per million, B up to 20 USD per million, C up to 30 USD per million, then o",
        ),
        ("ABCDE", 2.5e-5, "others up to 10 USD per million, B up to 20 USD per million, C up to 30 USD per million, D"),
        (
            "ABCDE",
            1.0,
            "others up to 20 USD per million, C up to 30 USD per million, D up to 40 USD per million, ",
        ),
    ],
)
def test_the_best_buys_around_the_given_value_are_named(names: str, value_usd: float, said: str) -> None:
    found = replace(usual(), value=Value(usd_per_hit=value_usd))
    ends = [*(1e-5 * (i + 1) for i in range(len(names) - 1)), None]
    spans = tuple(Span(name, 1e-5 * i, to) for i, (name, to) in enumerate(zip(names, ends, strict=True)))

    line = change_lines(replace(found, sensitivity=replace(found.sensitivity, by_hit_value=spans)))[0]

    assert said in line


@pytest.mark.slow
def test_the_log_and_its_oddities_are_described() -> None:
    seconds = workload_of(Trace(np.arange(300) * 1_000_000), PRICES, Setup())
    said = "\n".join(assumptions(advice(seconds)))

    assert "A log shorter than an hour says little about a month" in said
    assert "The log's clock has whole seconds" in said
    assert "The log has no sizes: every object counts as 10000 bytes" in said


@pytest.mark.slow
def test_objects_that_are_never_cached_are_named() -> None:
    said = "\n".join(assumptions(advice(workload_of(burst(3, 5_000_000), PRICES, Setup()))))

    assert "100.0 % of the requests are for objects above 4,096 KiB, which the stack's API redirects" in said


@pytest.mark.slow
def test_functions_that_run_at_once_count_in_addition_to_those_that_cache() -> None:
    times_us = np.arange(2_000) * 10_000  # a hundred a second: eight in proxy and scheduler at once

    said = "\n".join(assumptions(advice(workload_of(Trace(times_us), PRICES, Setup()))))

    assert "Up to 1 cache function (MaxHotKeys) and about 9 other functions run at once" not in said
    busier = "\n".join(assumptions(advice(workload_of(Trace(times_us // 2), PRICES, Setup()))))
    assert "Up to 1 cache function (MaxHotKeys) and about 17 other functions run at once" in busier
