"""Advice on whether and how to deploy Burstcache for a log. For the rule, see `docs/use/advise.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

from burstcache.core.node_kinds import NodeKind, node_kind
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.bill.demand import sample_rate
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.locality import EVERYTHING_BYTES
from burstcache_sim.bill.nodes import ec2_nodes, node_capacity_bytes
from burstcache_sim.bill.static_tiers import memory_bytes_of
from burstcache_sim.choose.advise.classes import Against, against_rivals
from burstcache_sim.choose.advise.confidence import Confidence, confidence_of
from burstcache_sim.choose.advise.configurations import Choice, express_choices, scheduled_choices, static_choices
from burstcache_sim.choose.advise.large_objects import LargeObjects, large_objects
from burstcache_sim.choose.advise.reassessment import Reassessment, hits_bracket_pct, spans_by_processes
from burstcache_sim.choose.advise.samconfig import (
    busiest_second,
    hot_keys,
    setup_parameters,
    template_parameters,
)
from burstcache_sim.choose.advise.systems import (
    System,
    Weighing,
    at_values,
    check_without,
    competitors,
    for_sale,
    our_system,
    shown_pct,
)
from burstcache_sim.choose.advise.worth import Pays, Span, Value, Yield, best_buys, pays
from burstcache_sim.choose.tune.candidates import ThesisSpace
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.choose.tune.hold_out import HoldOut, hold_out
from burstcache_sim.choose.tune.objectives import NEARLY
from burstcache_sim.choose.tune.search import Tuned, tune
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.latency import LatencySummary
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import Thesis

_OTHER_VALUES_USD = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)  # hit values (a higher value leads to more S3 Express copies)
_LEAST_S3_MS = 5.0  # lowest S3 latency at which a cache saves time
_TIE_USD = 0.01  # net values a month this close, or within `NEARLY` of the highest, are equal
_LEAST_PCT = 1.0  # the least share of requests for which the library is recommended in a tie with S3 alone

Verdict = Literal["use the library", "deploy", "buy", "keep ranges", "s3 alone", "too short to say"]
_VERDICTS: dict[str, Verdict] = {
    "s3-only": "s3 alone",
    "reader-memory": "use the library",
    "reader-memory-confirmed": "use the library",
    "range-memory": "keep ranges",
}


@dataclass(frozen=True, slots=True)
class Lasting:
    """Results of one parameter set in the log's second half, scaled to a month."""

    tuned_on: str
    tried: Tried
    net_usd: float
    usd_per_hit: float  # above the cost of S3 alone


@dataclass(frozen=True, slots=True)
class BreakEvenValue:
    """The lowest value at which Burstcache beats S3 alone, and the value range in which it beats all competitors."""

    over_s3_usd: float | None
    best_buy: Pays | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The verdict's sensitivity: the best buy by hit value, millisecond value and S3 latency."""

    by_hit_value: tuple[Span, ...]  # [USD]
    by_ms_value: tuple[Span, ...]  # [USD]
    by_s3_ms: tuple[Span, ...]  # by S3's time to first byte [ms], at the user's value (empty without a value)
    by_processes: tuple[Span, ...]  # by reader processes (empty if they do not matter, or if the log is too long)


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice for a log, with all results behind it."""

    workload: Workload
    clock: LatencyModel
    value: Value
    ours: Choice  # the best deployment of Burstcache
    thesis_choice: Choice  # the best deployment under the thesis's policy
    further: tuple[Choice, ...]  # all other deployments, without a policy or with nodes that a policy boots and stops
    at_other_values: tuple[Choice, ...]  # deployments with S3 Express, for other hit values
    tuned: Tuned
    lasting: tuple[Lasting, ...]  # empty if a half of the log is too short, or if no policy is tuned
    others: tuple[System, ...]  # competitors, S3 alone first
    free_tiers: bool  # whether the bill after allowances decides
    winner: System
    highest: System  # the highest net value, the winner's unless that wins a tie without a purchase
    bounded_winner: System  # the best buy with bounded staleness
    other_column_winner: System  # the best buy if the other bill column decided
    sensitivity: Sensitivity
    per_hit: BreakEvenValue
    per_ms: BreakEvenValue
    latency: LatencySummary
    latency_without: LatencySummary
    hot_keys: int
    template: dict[str, str]  # empty if the template cannot deploy the nodes
    large: LargeObjects | None  # objects too large for all other tiers
    confidence: Confidence

    @property
    def verdict(self) -> Verdict:
        """The verdict, or `too short to say` if the log is too short."""
        return "too short to say" if self.confidence.too_short else self.verdict_if_it_lasts

    @property
    def verdict_if_it_lasts(self) -> Verdict:
        """The verdict if every month is like the log."""
        if self.winner is self.ours.system:
            return "deploy"
        return _VERDICTS.get(self.winner.kind, "buy")

    @property
    def net_usd(self) -> float:
        """The net value of the verdict [USD a month]."""
        return self.winner.gain.net_usd(self.value)

    @property
    def deploys(self) -> bool:
        """Whether the stack is the best buy."""
        return self.verdict_if_it_lasts == "deploy"

    @property
    def verdict_differs(self) -> bool:
        """Whether another system is the best buy by the bill's other column."""
        return self.winner.name != self.other_column_winner.name

    @property
    def runner_up(self) -> System:
        """The best buy other than Burstcache."""
        return max(for_sale(self.others), key=lambda system: system.gain.net_usd(self.value))

    @property
    def by_kind(self) -> dict[NodeKind, Choice]:
        """The best deployment with nodes of each kind."""
        every = sorted((self.thesis_choice, *self.further), key=lambda choice: _rank(choice.system.gain, self.value))
        return {node_kind(one.setup.instance_type): one for one in reversed(every) if one.setup.nodes}

    @property
    def against_rivals(self) -> list[Against]:
        """Burstcache against the rivals of each latency class."""
        ours = [self.thesis_choice, *self.further, *self.at_other_values]
        worth_usd = self.clock.usd_per_hit(usd_per_hit=self.value.usd_per_hit, usd_per_ms=self.value.usd_per_ms)
        return against_rivals(ours, self.others, self.clock, usd_per_hit=float(worth_usd))


@dataclass(frozen=True, slots=True)
class _BestBuy:
    """The search objective: the highest net value, or the lowest extra cost per hit if no net value is positive."""

    weighing: Weighing
    s3_usd: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return the negated net value if positive, otherwise the extra cost per hit over S3 alone."""
        return _rank(_gain(tried, self.weighing, self.s3_usd), self.weighing.value)

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Return whether a candidate is nearly as good as the best.

        The loss of net value may be at most 1 % of the smaller of net value and bill. Without a positive net value,
        the cost per hit may be at most 1 % higher.
        """
        gain, best_gain = (_gain(one, self.weighing, self.s3_usd) for one in (tried, best))
        value = self.weighing.value
        most_usd = best_gain.net_usd(value)
        if most_usd > 0:
            return most_usd - gain.net_usd(value) <= NEARLY * min(most_usd, best.usd_per_month)
        return _usd_per_hit(gain) <= _usd_per_hit(best_gain) * (1 + NEARLY)


def advise(
    workload: Workload,
    value: Value,
    clock: LatencyModel,
    *,
    candidates: int | None = None,
    without: Sequence[str] = (),
    free_tiers: bool = False,
    only: str = "",
    node_kinds: tuple[NodeKind, ...] = ("ec2",),
) -> Advice:
    """Find the best deployment of Burstcache for a log and compare it with its competitors.

    Args:
        workload: The log and its billing.
        value: Value of latency. If unknown, the lowest bill wins, and Burstcache competes with the parameters that
            break even at the lowest value.
        clock: Latencies.
        candidates: Number of settings to try for the thesis's policy. If None, as many as finish within seconds.
        without: Competitors to exclude. `reader-memory` also excludes the memory of Burstcache's readers.
        free_tiers: Whether the bill after permanent allowances and with CloudFront's plans decides.
        only: The only policy that Burstcache may use. If empty, any policy or none.
        node_kinds: Kinds of nodes to try. The thesis's policy has EC2 instances alone.

    Raises:
        InvalidSettingError: A name in `without` is not a competitor.
        PriceMissingError: The sheet lacks a price that Burstcache needs.
    """

    check_without(without, workload)  # fail before the expensive search
    setup = workload.setup
    clock = clock.for_log(workload.trace, object_bytes=setup.object_bytes, front_door=setup.front_door)

    def objective_of(load: Workload) -> _BestBuy:
        weighing = Weighing(load, clock, value)
        return _BestBuy(weighing, weighing.s3_usd)

    has_memory = "reader-memory" not in without
    weighing = Weighing(workload, clock, value, free_tiers, has_memory, node_kinds=node_kinds)
    objective = objective_of(workload)
    s3_usd = objective.s3_usd
    tuned = tune(workload, objective, ThesisSpace(), candidates=candidates)
    best = tuned.best or tuned.closest
    result = workload.replay_in_detail(best.policy)
    others = competitors(weighing, result, without=without)
    s3, real = others[0], for_sale(others)
    name = Thesis.name
    thesis_choice = Choice(workload.setup, result, our_system(weighing, result, s3), name, best)
    policies = [policy for policy in WORTH_POLICIES.values() if only in ("", policy.name)]
    static = static_choices(weighing)
    scheduled = scheduled_choices(weighing, policies, static) if policies else []
    further = [*([] if only else static), *scheduled]
    has_thesis = only not in WORTH_POLICIES and "ec2" in node_kinds
    tried = [thesis_choice, *further] if has_thesis or not further else further
    ours = min(tried, key=lambda choice: _rank(choice.system.gain, value))
    other_values_usd = () if only else _OTHER_VALUES_USD
    at_other_values = [choice for usd in other_values_usd for choice in express_choices(weighing, Fraction(usd))]
    gains = [_gain(tried, weighing, s3_usd) for tried in tuned.front]
    gains += [choice.system.gain for choice in (*further, *at_other_values)]
    rivals = [*real, *for_sale(_express(weighing, ours.system, without))]
    has_hits = [choice for choice in tried if shown_pct(choice.system.in_memory_pct)]
    buys = [*real, *([ours.system] if ours in has_hits else [])]
    winner, highest = _winner(buys, value, is_free=free_tiers), _highest(buys, value, is_free=free_tiers)
    # A copy rule for another hit value may do better at this value, but cannot be deployed. Drop its results.
    most_usd = highest.gain.net_usd(value)
    gains = [gain for gain in gains if gain.net_usd(value) <= most_usd]
    rivals = [rival for rival in rivals if rival.gain.net_usd(value) <= most_usd]
    reassessment = Reassessment(weighing, tried, ours, others, without)
    held_out = None
    if ours is thesis_choice:
        held_out = hold_out(workload, objective_of, ThesisSpace(), candidates=candidates)
    return Advice(
        workload=workload,
        clock=clock,
        value=value,
        ours=ours,
        thesis_choice=thesis_choice,
        further=tuple(further),
        at_other_values=tuple(at_other_values),
        tuned=tuned,
        lasting=() if held_out is None else _lasting(held_out, clock, value),
        others=tuple(others),
        free_tiers=free_tiers,
        winner=winner,
        highest=highest,
        bounded_winner=_winner([buy for buy in buys if buy.freshness != "unbounded"], value, is_free=free_tiers),
        other_column_winner=_winner(buys, value, is_free=not free_tiers),
        sensitivity=_sensitivity(weighing, ours.system, gains, rivals, _by_processes(reassessment, value)),
        per_hit=_break_even(gains, [system.gain for system in rivals], is_per_ms=False),
        per_ms=_break_even(gains, [system.gain for system in rivals], is_per_ms=True),
        latency=clock.with_burstcache(ours.result),
        latency_without=clock.without(ours.result.n),
        hot_keys=_hot_keys(workload, ours),
        template=parameters_of(weighing, ours),
        large=large_objects(workload, weighing.usd_per_hit, clock, usd_per_ms=value.usd_per_ms),
        confidence=confidence_of(
            weighing,
            _memory_bytes(winner, ours),
            bracket_pct=hits_bracket_pct(weighing, winner, ours),
        ),
    )


def _memory_bytes(winner: System, ours: Choice) -> int:
    """Return the memory size of the best buy, or of the stack if S3 alone wins [bytes]."""
    kind, _, of = winner.name.partition(":")
    if winner is not ours.system and kind in ("reader-memory", "reader-memory-confirmed", "range-memory"):
        return memory_bytes_of(of)
    if winner is not ours.system and kind == "ec2":
        nodes = ec2_nodes(of)
        return nodes.count * nodes.each_bytes
    setup = ours.setup
    if winner.name in (OURS, "s3-only") and not setup.express:
        each_bytes = node_capacity_bytes(setup.instance_type) or 0
        return max(setup.reader_memory_bytes, setup.nodes * each_bytes) or EVERYTHING_BYTES
    return EVERYTHING_BYTES


def _express(weighing: Weighing, ours: System, without: Sequence[str]) -> list[System]:
    if "s3-express" in without or not weighing.workload.prices.kinds("s3-express-get"):
        return []
    return at_values(weighing, ours, _OTHER_VALUES_USD)


def _highest(systems: Sequence[System], value: Value, *, is_free: bool) -> System:
    """Return the system with the highest net value, the cheapest of equals."""

    def rank(system: System) -> tuple[float, float]:
        gain = _gain_of(system, is_free=is_free)
        return -gain.net_usd(value), gain.extra_usd

    return min(systems, key=rank)


def _winner(systems: Sequence[System], value: Value, *, is_free: bool) -> System:
    """Return the best buy: the highest net value, or within a cent or 1 % of it what needs no purchase.

    That is the library, or S3 alone where the library answers less than 1 % of the requests.
    """
    best_usd = _gain_of(_highest(systems, value, is_free=is_free), is_free=is_free).net_usd(value)
    least_usd = best_usd - max(_TIE_USD, NEARLY * best_usd)
    tied = [one for one in systems if _gain_of(one, is_free=is_free).net_usd(value) > least_usd]
    library = [one for one in tied if _VERDICTS.get(one.kind) == "use the library"]
    useful = [one for one in library if max(one.in_memory_pct, one.confirmed_pct) >= _LEAST_PCT]
    s3_alone = [one for one in tied if one.name == "s3-only"]
    return _highest(useful or s3_alone or library or tied, value, is_free=is_free)


def _gain_of(system: System, *, is_free: bool) -> Yield:
    return system.free_gain if is_free else system.list_gain


def _by_processes(reassessment: Reassessment, value: Value) -> tuple[Span, ...]:
    """Return the best buys by the number of reader processes."""
    if not reassessment.is_possible:
        return ()
    weighing = reassessment.weighing

    def name_at(processes: int) -> str:
        systems = [
            one for one in reassessment.systems_with(processes) if one.name != OURS or shown_pct(one.in_memory_pct)
        ]
        return _winner(systems, value, is_free=weighing.free_tiers).name

    def kind_of(name: str) -> str:
        kind = name.partition(":")[0]
        return _VERDICTS.get(kind, kind)

    return spans_by_processes(name_at, kind_of, weighing.workload.setup.reader_processes)


def _sensitivity(
    weighing: Weighing,
    ours: System,
    gains: Sequence[Yield],
    rivals: Sequence[System],
    by_processes: tuple[Span, ...],
) -> Sensitivity:
    value, s3_ms, first_byte_ms = weighing.value, weighing.clock.s3_ms, weighing.clock.tiers.s3_ms
    transfer_ms = s3_ms - first_byte_ms
    lines = [(rival.name, rival.gain) for rival in rivals] + [(ours.name, gain) for gain in gains]
    by_s3_ms: tuple[Span, ...] = ()
    if value.usd_per_hit and first_byte_ms:
        # A hit saves nearly all of S3's latency, so the hit value grows in proportion to that latency.
        usd_per_ms = value.usd_per_hit / s3_ms
        of_hits = [(name, gain.hits * usd_per_ms, gain.extra_usd) for name, gain in lines]
        by_s3_ms = best_buys([(name, usd, extra - usd * transfer_ms) for name, usd, extra in of_hits], _LEAST_S3_MS)
    elif value.usd_per_ms:
        at_zero = [(name, gain.at_s3_ms(-first_byte_ms)) for name, gain in lines]
        slopes = [
            (name, gain.s3_waits * value.usd_per_ms, gain.extra_usd - gain.saved_ms * value.usd_per_ms)
            for name, gain in at_zero
        ]
        by_s3_ms = best_buys(slopes, _LEAST_S3_MS)
    return Sensitivity(
        by_hit_value=best_buys([(name, gain.hits, gain.extra_usd) for name, gain in lines]),
        by_ms_value=best_buys([(name, gain.saved_ms, gain.extra_usd) for name, gain in lines]),
        by_s3_ms=by_s3_ms,
        by_processes=by_processes,
    )


def _lasting(held_out: HoldOut, clock: LatencyModel, value: Value) -> tuple[Lasting, ...]:
    weighing = Weighing(held_out.workload, clock, value)
    s3_usd = weighing.s3_usd
    gains = [(tuned_on, tried, _gain(tried, weighing, s3_usd)) for tuned_on, tried in held_out.rows()]
    return tuple(Lasting(tuned_on, tried, gain.net_usd(value), _usd_per_hit(gain)) for tuned_on, tried, gain in gains)


def _rank(gain: Yield, value: Value) -> tuple[float, ...]:
    """Return a rank (lower is better): the negated net value if positive, otherwise the extra cost per hit."""
    net_usd = gain.net_usd(value)
    return (0.0, -net_usd, gain.extra_usd) if net_usd > 0 else (0.0, _usd_per_hit(gain), gain.extra_usd)


def _usd_per_hit(gain: Yield) -> float:
    return gain.extra_usd / gain.hits if gain.hits else float("inf")


def _gain(tried: Tried, weighing: Weighing, s3_usd: float) -> Yield:
    return weighing.yield_of(tried.result, tried.usd_per_month - s3_usd)


def _break_even(ours: list[Yield], others: list[Yield], *, is_per_ms: bool) -> BreakEvenValue:
    def amount(gain: Yield) -> float:
        return gain.saved_ms if is_per_ms else gain.hits

    break_even_usd = [gain.extra_usd / amount(gain) for gain in ours if amount(gain) > 0]
    return BreakEvenValue(min(break_even_usd, default=None), pays(ours, others, amount))


def parameters_of(weighing: Weighing, ours: Choice) -> dict[str, str]:
    """Return the template's parameters for a deployment."""
    workload = weighing.workload
    busiest, keys = ceil(busiest_second(workload.trace) / sample_rate(workload.trace)), _hot_keys(workload, ours)
    if ours.tried is None:
        usd_per_hit, prices = weighing.usd_per_hit, workload.prices
        return setup_parameters(ours.setup, ours.policy, prices, usd_per_hit=usd_per_hit, hot_keys=keys, per_s=busiest)
    policy = ours.tried.policy
    assert isinstance(policy, Thesis), "only the thesis's policy is tuned"
    return template_parameters(policy.parameters, ours.setup, hot_keys=keys, per_s=busiest)


def _hot_keys(workload: Workload, ours: Choice) -> int:
    return ceil(hot_keys(ours.result) / sample_rate(workload.trace))
