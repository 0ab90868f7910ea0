"""The answer to "should I deploy this for my log, and how?". The rule: `docs/use/advise.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.spending import weighed
from burstcache_sim.choose.advise.samconfig import busiest_second, hot_keys, template_parameters
from burstcache_sim.choose.advise.systems import (
    System,
    check_without,
    choices,
    competitors,
    our_system,
    s3_usd_per_month,
    yield_of,
)
from burstcache_sim.choose.advise.worth import Pays, Value, Yield, pays
from burstcache_sim.choose.tune.candidates import ThesisSpace, WorthSpace
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.choose.tune.hold_out import HoldOut, hold_out
from burstcache_sim.choose.tune.objectives import NEARLY
from burstcache_sim.choose.tune.search import Tuned, tune
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.latency import LatencySummary
from burstcache_sim.policies.policy import WorthPolicy
from burstcache_sim.policies.thesis import Thesis

if TYPE_CHECKING:
    from burstcache_sim.world.result import RunResult

_KNOB_EFFORT = 0.25  # a policy with one knob needs fewer candidates


@dataclass(frozen=True, slots=True)
class Choice:
    """A policy under its best parameters."""

    tried: Tried
    result: RunResult  # with details
    system: System


@dataclass(frozen=True, slots=True)
class Lasting:
    """What some parameters give in the log's second half, for a month."""

    tuned_on: str
    tried: Tried
    net_usd: float
    usd_per_hit: float  # above S3 alone


@dataclass(frozen=True, slots=True)
class BreakEvenValue:
    """From which value of latency Burstcache pays: against S3 alone (`from` only), and against all one could buy."""

    over_s3_usd: float | None
    best_buy: Pays | None


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do for a log, and what it rests on."""

    workload: Workload
    clock: Clock
    value: Value
    ours: Choice  # what the live system can do
    simulated: Choice  # a policy that the live system does not have
    simulated_policy: type[WorthPolicy]
    tuned: Tuned
    tuned_knob: Tuned  # of the simulated policy
    lasting: tuple[Lasting, ...]  # empty: the log is too short to say
    others: tuple[System, ...]
    winner: System
    per_hit: BreakEvenValue
    per_ms: BreakEvenValue
    latency: LatencySummary
    latency_without: LatencySummary
    hot_keys: int
    template: dict[str, str]

    @property
    def deploys(self) -> bool:
        """Whether Burstcache is the best buy."""
        return self.winner is self.ours.system

    @property
    def runner_up(self) -> System:
        """The best buy other than Burstcache."""
        return max(choices(self.others), key=lambda system: system.gain.net_usd(self.value))


@dataclass(frozen=True, slots=True)
class _BestBuy:
    """The most net value; if nothing is worth more than S3 alone, what would be at the lowest value of a hit."""

    value: Value
    clock: Clock
    s3_usd: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return the negated net value, or else what a hit costs on top of S3 alone."""
        gain = _gain(tried, self.clock, self.s3_usd)
        net_usd = gain.net_usd(self.value)
        return (0.0, -net_usd, gain.extra_usd) if net_usd > 0 else (0.0, _usd_per_hit(gain), gain.extra_usd)

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """True if the loss is at most one per cent of the net value and of the bill, or else of a hit's cost."""
        mine, theirs = (_gain(one, self.clock, self.s3_usd) for one in (tried, best))
        most_usd = theirs.net_usd(self.value)
        if most_usd > 0:
            return most_usd - mine.net_usd(self.value) <= NEARLY * min(most_usd, best.usd_per_month)
        return _usd_per_hit(mine) <= _usd_per_hit(theirs) * (1 + NEARLY)


def advise(
    workload: Workload,
    value: Value,
    clock: Clock,
    simulated_policy: type[WorthPolicy],
    *,
    candidates: int | None = None,
    without: Sequence[str] = (),
) -> Advice:
    """Find the best parameters for a log and compare them with what else one could buy.

    Args:
        workload: The log and how it is billed.
        value: What latency is worth. If that is unknown, money decides and the parameters are those that pay first.
        clock: How long requests take.
        simulated_policy: Which policy to mention that the live system does not have.
        candidates: How many settings of the thesis's policy to try; None for what takes seconds.
        without: Competitors to leave out.

    Raises:
        InvalidSettingError: There is no such competitor.
        PriceMissingError: The sheet has no price for this system.
    """

    check_without(without, workload)  # before the work

    def objective_of(load: Workload) -> _BestBuy:
        return _BestBuy(value, clock, s3_usd_per_month(load))

    s3_usd, objective = s3_usd_per_month(workload), objective_of(workload)
    tuned = tune(workload, objective, ThesisSpace(), candidates=candidates)
    held_out = hold_out(workload, objective_of, ThesisSpace(), candidates=candidates)
    knob = WorthSpace(simulated_policy, weighed(workload.prices, workload.setup))
    simulated = tune(workload, objective, knob, candidates=candidates, effort=_KNOB_EFFORT)
    ours = _choice(workload, tuned.best or tuned.closest, clock, s3_usd)
    others = tuple(competitors(workload, ours.system, clock, without=without))
    real = choices(others)
    gains = [_gain(tried, clock, s3_usd) for tried in tuned.front]
    return Advice(
        workload=workload,
        clock=clock,
        value=value,
        ours=ours,
        simulated=_choice(workload, simulated.best or simulated.closest, clock, s3_usd),
        simulated_policy=simulated_policy,
        tuned=tuned,
        tuned_knob=simulated,
        lasting=() if held_out is None else _lasting(held_out, value, clock),
        others=others,
        winner=min([ours.system, *real], key=lambda system: (-system.gain.net_usd(value), system.usd_per_month)),
        per_hit=_break_even(gains, [system.gain for system in real], is_per_ms=False),
        per_ms=_break_even(gains, [system.gain for system in real], is_per_ms=True),
        latency=clock.with_burstcache(ours.result),
        latency_without=clock.without(ours.result.n),
        hot_keys=hot_keys(ours.result),
        template=_template(workload, ours),
    )


def _choice(workload: Workload, tried: Tried, clock: Clock, s3_usd: float) -> Choice:
    """Return a candidate with the details that a search's sums leave out."""
    result = workload.replay_in_detail(tried.policy)
    return Choice(tried, result, our_system(workload, result, clock, s3_usd))


def _lasting(held_out: HoldOut, value: Value, clock: Clock) -> tuple[Lasting, ...]:
    s3_usd = s3_usd_per_month(held_out.workload)
    gains = [(tuned_on, tried, _gain(tried, clock, s3_usd)) for tuned_on, tried in held_out.rows()]
    return tuple(Lasting(tuned_on, tried, gain.net_usd(value), _usd_per_hit(gain)) for tuned_on, tried, gain in gains)


def _usd_per_hit(gain: Yield) -> float:
    return gain.extra_usd / gain.hits if gain.hits else float("inf")


def _gain(tried: Tried, clock: Clock, s3_usd: float) -> Yield:
    return yield_of(tried.result, clock, tried.usd_per_month - s3_usd, tried.repeats_per_month)


def _break_even(ours: list[Yield], others: list[Yield], *, is_per_ms: bool) -> BreakEvenValue:
    def amount(gain: Yield) -> float:
        return gain.saved_ms if is_per_ms else gain.hits

    soonest = [gain.extra_usd / amount(gain) for gain in ours if amount(gain) > 0]
    return BreakEvenValue(min(soonest, default=None), pays(ours, others, amount))


def _template(workload: Workload, ours: Choice) -> dict[str, str]:
    policy = ours.tried.policy
    assert isinstance(policy, Thesis), "the live system has the thesis's policy"
    busiest = busiest_second(workload.trace)
    return template_parameters(policy.parameters, workload.setup, hot_keys=hot_keys(ours.result), per_s=busiest)
