"""Money over time: the cumulative bills of a run and its competitors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from burstcache.core.errors import PriceMissingError
from burstcache_sim.bill.comparison import OURS, Billing
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.sampled import scale_to_log
from burstcache_sim.bill.scenarios import scenario_of
from burstcache_sim.policies.policy import Policy
from burstcache_sim.progress import progress
from burstcache_sim.replay import replay

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

_STEPS = 24


@dataclass(frozen=True, slots=True)
class Account:
    """One system's cumulative bill at each instant [USD]."""

    name: str
    usd: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Money:
    """Cumulative bills of several systems at each instant, Burstcache first."""

    at_us: tuple[int, ...]
    accounts: tuple[Account, ...]


def money_over_time(
    policy: Policy, trace: Trace, billing: Billing, result: RunResult, names: Sequence[str] = ()
) -> Money:
    """Bill the run and its competitors up to each of 25 instants from the first request to the run's end.

    Args:
        policy: Policy of Burstcache.
        trace: Requests, at least one.
        billing: Prices and deployment. Burstcache pays hourly prices up to each instant, and
            competitors pay them up to the last request.
        result: The whole run.
        names: Competitors. A competitor without a price in the sheet is left out.

    Raises:
        InvalidSettingError: A name is not a competitor.
        PriceMissingError: The sheet lacks a price that Burstcache needs.
    """
    first_us, last_us = int(trace.arrivals_us[0]), max(result.end_us, int(trace.arrivals_us[0]) + 1)
    at_us = sorted({first_us + (last_us - first_us) * step // _STEPS for step in range(1, _STEPS + 1)})
    parts = [_up_to(trace, instant_us) for instant_us in at_us]
    so_far = replace(billing, period_us=None)

    def ours_usd(part: Trace, until_us: int) -> float:
        run = replay(policy, scenario_of(part, billing.setup, policy, until_us=until_us))
        demand = so_far.demand(part)
        return so_far.bill(scale_to_log(run, part, demand.requests), demand).usd

    def rival_usd(name: str, part: Trace, until_us: int) -> float:
        # Competitors do not pay for Burstcache's parts that outlast the last request.
        period_us = min(until_us, int(trace.arrivals_us[-1])) - first_us
        (offer,) = quotes(replace(billing, period_us=period_us).market(part), names=(name,))
        return offer.bill.usd

    accounts = [Account(OURS, tuple(map(ours_usd, progress(parts, text="money over time"), at_us)))]
    for name in progress(names, text="rivals over time"):
        try:
            accounts.append(Account(name, tuple(map(partial(rival_usd, name), parts, at_us))))
        except PriceMissingError:
            continue
    begin = tuple(replace(account, usd=(0.0, *account.usd)) for account in accounts)
    return Money((first_us, *at_us), begin)


def _up_to(trace: Trace, until_us: int) -> Trace:
    """Return the requests up to and including an instant."""
    n = int(trace.arrivals_us.searchsorted(until_us, side="right"))
    sample = trace.sample
    if sample is not None:  # scale the whole log's request count like the sample's
        sample = replace(sample, requests=-(-sample.requests * n // len(trace)))
    return replace(trace.part(slice(n)), sample=sample)
