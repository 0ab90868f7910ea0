"""Slices on nodes that a policy runs: hits and GETs next to LRU caches of slices, and bills that fall."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import price_sheet
from burstcache.core.slices import MISSED_AGAIN_S, SLICE_BYTES
from burstcache_sim.bill import policy_month as policy_months
from burstcache_sim.bill.comparison import own_bill
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.policy_month import policy_month
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.bill.static_tiers import ENTRY_BYTES
from burstcache_sim.policies.node_use import Breakeven
from burstcache_sim.policies.policy import Options
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.ranges import piece_text
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from support.runs import run_many, run_shared

MIB, SECOND_US, MINUTE_US = 1 << 20, 1_000_000, 60_000_000
TODAY = price_sheet("today-us-east-1")
SHORT = Setup(relay="none", nodes=1, instance_type="m7g.medium", reader_memory_bytes=8 * MIB)
HIT_VALUE = "1e-4"
SMALL_BYTES = 2 * MIB  # above an eighth of the readers' memory, so only nodes hold it
GET_SLICES = 8 * MIB // SLICE_BYTES
Request = tuple[int, int, int, int]  # time [us], object (0: the small one), start, end
Unit = tuple[int, int]  # object, slice


def lake(seed: int, *, ranges: int, longest: int, files: int = 12, file_bytes: int = 1 << 30) -> list[Request]:
    """Return requests of three hours: ranges at any time, and bursts for a small object, which run the node."""
    draw = random.Random(seed)
    requests: list[Request] = []
    for start_s in (600, 6_000):
        at_us = start_s * SECOND_US
        while at_us < (start_s + 1_800) * SECOND_US:
            requests.append((at_us, 0, 0, SMALL_BYTES))
            at_us += draw.randrange(SECOND_US)
    for _ in range(ranges):
        of, place = draw.randint(1, files), int(draw.paretovariate(0.3)) - 1
        start = (place * 5 * MIB + draw.randrange(MIB)) % file_bytes
        end = min(file_bytes, start + draw.randrange(1, longest))
        requests.append((draw.randrange(3 * US_PER_H), of, start, end))
    return sorted(requests)


def trace_of(requests: list[Request], file_bytes: int = 1 << 30) -> Trace:
    keys = sorted({request[1:] for request in requests})
    ids: dict[tuple[int, ...], int] = {key: number for number, key in enumerate(keys)}
    whole = np.array([file_bytes if of else SMALL_BYTES for _, of, _, _ in requests])
    return Trace(
        np.array([at_us for at_us, *_ in requests]),
        np.array([ids[key] for _, *rest in requests for key in [tuple(rest)]], np.int32),
        np.array([end - start for _, _, start, end in requests]),
        tuple(f"{of}{piece_text(b'%d-%d' % (start, end - 1))}" if of else "small" for of, start, end in keys),
        object_bytes=whole,
        objects=tuple(str(of) for of, _, _ in keys),
    )


def decides(setup: Setup) -> Breakeven:
    options = Options(hit_value_usd=Fraction(HIT_VALUE), has_relay=setup.relay != "none")
    return Breakeven.from_options(options, policy_prices(TODAY, setup))


def market(trace: Trace, setup: Setup, repeats: int = 1, period_us: int = 4 * US_PER_H) -> Market:
    return Market(
        demand=demand_of(trace, object_bytes=1, period_us=period_us),
        locality=locality_of(trace, object_bytes=1, period_us=period_us),
        prices=TODAY,
        setup=setup,
        repeats=Fraction(repeats),
        usd_per_hit=Fraction(HIT_VALUE),
    )


def month(trace: Trace, setup: Setup, repeats: int = 1) -> RunResult:
    return policy_month(market(trace, setup, repeats), decides(setup), None)


@dataclass
class Lru:
    """An LRU cache of sizes."""

    capacity_bytes: int
    held: OrderedDict[Unit, int] = field(default_factory=OrderedDict)
    used_bytes: int = 0
    evicted: int = 0

    def reads(self, unit: Unit) -> bool:
        if unit in self.held:
            self.held.move_to_end(unit)
        return unit in self.held

    def put(self, unit: Unit, size_bytes: int) -> None:
        self.held[unit] = size_bytes
        self.used_bytes += size_bytes
        while self.used_bytes > self.capacity_bytes:
            self.used_bytes -= self.held.popitem(last=False)[1]
            self.evicted += 1

    def clear(self) -> None:
        self.held.clear()
        self.used_bytes = 0


@dataclass
class Expected:
    """Answers by tier, and GETs of S3, of caches that are written out."""

    memory: int = 0
    redis: int = 0
    s3: int = 0
    gets: int = 0
    evicted: int = 0


def expected(requests: list[Request], spans_us: list[tuple[int, int]], setup: Setup, node_bytes: int) -> Expected:
    """Return the answers of readers' memory above a node that runs in these spans."""
    found, memory = Expected(), Lru(setup.reader_memory_bytes)
    node, marks = Lru(node_bytes), dict[Unit, int]()
    starts = iter([*(since_us for since_us, _ in spans_us), 1 << 62])
    next_us = next(starts)
    for at_us, of, start, end in requests:
        while at_us >= next_us:
            node.clear()
            marks.clear()
            node.put((0, 0), SMALL_BYTES)  # the boot loads what was read lately
            next_us = next(starts)
        is_running = any(since_us <= at_us < stop_us for since_us, stop_us in spans_us)
        if not of:
            is_hit = is_running and node.reads((0, 0))
            assert is_hit == is_running, "the small object is read too often to be evicted"
            found.redis, found.s3, found.gets = found.redis + is_hit, found.s3 + (not is_hit), found.gets + (not is_hit)
            continue
        reach_node = missed = 0
        before = None
        for place in range(start // SLICE_BYTES, -(-end // SLICE_BYTES)):
            unit, size_bytes = (of, place), SLICE_BYTES
            if memory.reads(unit):
                continue
            memory.put(unit, size_bytes + ENTRY_BYTES)
            reach_node += 1
            if is_running and node.reads(unit):
                continue
            missed += 1
            found.gets += before is None or place != before + 1 or place % GET_SLICES == 0
            before = place
            if is_running and at_us - marks.get(unit, -1 << 62) < MISSED_AGAIN_S * SECOND_US:
                node.put(unit, size_bytes)
            elif is_running:
                marks[unit] = at_us
        found.memory += not reach_node
        found.redis += bool(reach_node) and not missed
        found.s3 += bool(missed)
    found.evicted = node.evicted
    return found


def spans_of(requests: list[Request], setup: Setup) -> list[tuple[int, int]]:
    """Return when the node runs for the small object alone."""
    times_us = np.array([at_us for at_us, of, _, _ in requests if not of])
    trace = Trace(times_us, np.zeros(len(times_us), np.int32), np.full(len(times_us), SMALL_BYTES), ("small",))
    found = simulate(decides(setup), Scenario(trace, timings=policy_months.month_timings(setup)))
    assert found.guests.loads == found.redis_starts > 0
    return list(found.redis_spans_us)


@pytest.mark.parametrize(
    ("ranges", "longest", "node_mib"),
    [(4_000, MIB, 3_072), (4_000, MIB, 32), (3_000, 24 * MIB, 160), (300, 300 * MIB, 512)],
)
@pytest.mark.parametrize("repeats", [1, 2])
def test_hits_and_gets_are_those_of_an_lru_cache_of_slices_while_the_node_runs(
    ranges: int, longest: int, node_mib: int, repeats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_months, "node_capacity_bytes", lambda _: node_mib * MIB)
    requests, period_us = lake(ranges + repeats, ranges=ranges, longest=longest), 4 * US_PER_H
    begin_us = requests[0][0]
    shifted = [(at_us - begin_us + number * period_us, *rest) for number in range(repeats) for at_us, *rest in requests]
    spans_us = spans_of(shifted, SHORT)  # type: ignore[arg-type]

    found = month(trace_of(requests), SHORT, repeats)

    caches = expected(shifted, spans_us, SHORT, node_mib * MIB)  # type: ignore[arg-type]
    assert (found.n_memory, found.n_redis, found.n_s3) == (caches.memory, caches.redis, caches.s3)
    assert found.n_s3 + found.range_gets == caches.gets
    assert found.redis_starts == len(spans_us) == 2 * repeats
    small = sum(any(since_us <= at_us < to_us for since_us, to_us in spans_us) for at_us, of, _, _ in shifted if not of)
    assert found.n_redis > small
    assert bool(caches.evicted) == (node_mib < 3_072)


def test_a_bill_with_a_policys_node_falls_by_the_gets_of_a_lakes_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(lake(1, ranges=60_000, longest=MIB))

    def billed() -> tuple[RunResult, dict[str, float]]:
        load = market(trace, SHORT, repeats=180)
        run = policy_month(load, decides(SHORT), None)
        bill = own_bill(run, load.demand.repeated(load.all_repeats), TODAY, SHORT)
        return run, {line.item: line.usd for line in bill.lines}

    run, usd = billed()
    monkeypatch.setattr(policy_months, "has_slices_on_nodes", lambda _: False)
    without, without_usd = billed()

    assert run.n_redis > without.n_redis
    assert run.n == without.n
    assert (run.redis_starts, run.redis_s, run.guests) == (without.redis_starts, without.redis_s, without.guests)
    assert usd["s3-get"] < 0.9 * without_usd["s3-get"]
    assert {item: usd[item] for item in usd if item != "s3-get"} == {
        item: without_usd[item] for item in without_usd if item != "s3-get"
    }


def test_s3_express_is_asked_for_the_slices_that_the_node_lacks() -> None:
    trace = trace_of(lake(1, ranges=20_000, longest=4 * MIB))
    load = market(trace, replace(SHORT, express=True), repeats=30)

    found = policy_month(load, decides(load.setup), Fraction(HIT_VALUE))
    off_node = policy_month(
        replace(load, setup=replace(load.setup, far_readers=1)), decides(load.setup), Fraction(HIT_VALUE)
    )

    assert found.n_memory + found.n_redis + found.n_express + found.n_s3 == found.n
    assert min(found.n_memory, found.n_redis, found.n_express, found.n_s3) > 0
    assert found.n_redis > off_node.n_redis
    assert off_node.n_express + off_node.n_s3 < found.express.asks < off_node.express.asks


@pytest.mark.parametrize(
    "setup",
    [replace(SHORT, instance_type="t4g.micro"), replace(SHORT, far_readers=1), replace(SHORT, reader_memory_bytes=0)],
    ids=["slow node", "another zone", "readers without memory"],
)
def test_a_node_on_which_slices_do_not_pay_serves_small_objects_alone(setup: Setup) -> None:
    requests = lake(1, ranges=1_000, longest=MIB)

    found = month(trace_of(requests), setup)

    assert 0 < found.n_redis < sum(not of for _, of, _, _ in requests)


def test_slices_neither_start_a_node_nor_keep_it() -> None:
    requests = lake(1, ranges=20_000, longest=MIB)
    alone = [request for request in requests if request[1]]

    found = month(trace_of(alone), SHORT)

    assert (found.redis_starts, found.n_redis, found.guests.told) == (0, 0, 0)
    assert month(trace_of(requests), SHORT).redis_starts == 2


def slice_reads(*times_s: float, size_bytes: int = 1, pauses_s: range = range(0)) -> Trace:
    """Return reads of a small object in an hour's first half but for a pause, and of a slice at these times."""
    small = [(half / 2, 0) for half in range(3_600) if half // 2 not in pauses_s]
    requests = sorted([*small, *((at_s, 1) for at_s in times_s)])
    times_us = np.array([round(at_s * SECOND_US) for at_s, _ in requests])
    ids = np.array([key for _, key in requests], np.int32)
    return Trace(times_us, ids, np.where(ids, size_bytes, 1), ("small", "slice"))


@pytest.mark.parametrize("run", [run_many, run_shared])
@pytest.mark.parametrize(
    ("times_s", "tiers"),
    [
        ((100, 200, 300, 400), "SSRR"),
        ((100, 699, 700), "SSR"),
        ((100, 700, 800, 900), "SSSR"),  # the first mark has expired, and the second one begins
        ((100, 100, 100), "SSR"),
        ((1, 2, 3), "SSS"),  # no node runs yet
        ((10, 100, 200, 300), "SSSR"),  # a miss before the boot leaves no mark
    ],
)
def test_a_node_takes_a_slice_at_its_second_miss_within_ten_minutes(run, times_s, tiers) -> None:  # type: ignore[no-untyped-def]
    trace = slice_reads(*times_s)
    assert trace.key_ids is not None

    found = run(trace, Breakeven.worth(HIT_VALUE), slices=1)

    assert "".join(tier for tier, key in zip(found.tiers, trace.key_ids.tolist(), strict=True) if key) == tiers


@pytest.mark.parametrize("run", [run_many, run_shared])
def test_a_stop_of_the_node_loses_slices_and_the_marks_of_misses(run) -> None:  # type: ignore[no-untyped-def]
    trace = slice_reads(50, 60, 70, 400, 410, 420, pauses_s=range(100, 320))
    assert trace.key_ids is not None

    found = run(trace, Breakeven.worth("1e-5"), slices=1)

    assert found.redis_starts == 2
    assert "".join(tier for tier, key in zip(found.tiers, trace.key_ids.tolist(), strict=True) if key) == "SSRSSR"


@pytest.mark.parametrize("run", [run_many, run_shared])
def test_a_slice_evicts_what_was_not_read_for_longest(run) -> None:  # type: ignore[no-untyped-def]
    trace = slice_reads(100, 200, 300, size_bytes=4)
    assert trace.key_ids is not None

    found = run(trace, Breakeven.worth(HIT_VALUE), slices=1, capacity_bytes=4)

    small = "".join(tier for tier, key in zip(found.tiers, trace.key_ids.tolist(), strict=True) if not key)
    assert small.strip("S").count("S") == 2  # each brings the small object back, which evicts the slice
    assert "".join(tier for tier, key in zip(found.tiers, trace.key_ids.tolist(), strict=True) if key) == "SSS"


def test_only_policies_with_read_through_entries_have_slices_on_nodes() -> None:
    scenario = Scenario(slice_reads(100), slices=1)

    with pytest.raises(InvalidSettingError, match="read-through entries"):
        simulate(Thesis.configured(9, 4), scenario)
    with pytest.raises(InvalidSettingError, match="read-through entries"):
        replay_each([Thesis.configured(9, 4)], scenario)
    with pytest.raises(InvalidSettingError, match="slices 3: expected from 0 to 2"):
        Scenario(slice_reads(100), slices=3)
