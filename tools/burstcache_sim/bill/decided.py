"""A month under a policy that judges nodes by their use: below the readers' memory, above S3 Express.

The policy meets what the readers' memory leaves; what no node answers asks Express. Nodes, memory and copies are as the
repetition before has left them: the log is replayed once and twice in a row, the second is what every further one is.
"""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from burstcache_sim.bill.ladder import Asked, past_memory, with_express
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import GuestUse, RunResult
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.policies.policy import Policy
    from burstcache_sim.world.express import CopyRules

_COUNTS = tuple(field.name for field in fields(RunResult) if field.type == "int")
_GUESTS = tuple(field.name for field in fields(GuestUse))


def month_under(market: Market, policy: Policy, rule: CopyRules | None) -> RunResult:
    """Return a month's run of a setup whose nodes a policy starts and stops.

    Args:
        market: The log and how often it comes, the prices, the setup.
        policy: What decides; it takes guests.
        rule: When objects are copied to S3 Express; None: never, there is no bucket.
    """
    import numpy as np

    locality, repeats = market.locality, market.repeats
    asked = past_memory(locality, market.setup)
    indices = np.concatenate((np.flatnonzero(asked.first), np.flatnonzero(asked.again) + len(locality.ids)))
    once = int(asked.first.sum())
    runs = [
        replay_each([policy], _scenario(market, indices[:count]), details=True)[0] for count in (once, len(indices))
    ]
    first, both = runs
    is_left = np.zeros(2 * len(locality.ids), np.bool_)
    is_left[indices] = np.frombuffer(both.tiers.encode(), np.uint8) == ord("S")
    left = Asked(is_left[: len(locality.ids)], is_left[len(locality.ids) :])

    def in_month(once: int, twice: int) -> int:
        return round(once + (repeats - 1) * (twice - once))

    counts: dict[str, Any] = {name: in_month(getattr(first, name), getattr(both, name)) for name in _COUNTS}
    guests = {name: in_month(getattr(first.guests, name), getattr(both.guests, name)) for name in _GUESTS}
    month = replace(RunResult(**counts), guests=GuestUse(**guests), n=round(market.demand.requests * repeats), end_us=0)
    month = replace(month, n_memory=max(0, month.n - month.n_s3 - month.n_lambda - month.n_redis))
    return with_express(month, market, rule, left, Fraction(month.n_s3) / repeats)


def _scenario(market: Market, indices: NDArray[np.int64]) -> Scenario:
    """Return what the policy meets: requests by their number, counted on in a second repetition."""
    locality, setup = market.locality, market.setup
    count = len(locality.ids)
    ids = locality.ids[indices % count]
    trace = Trace(
        locality.times_us[indices % count] + indices // count * locality.period_us,
        ids.astype("int32"),
        locality.sizes_bytes[ids],
        tuple(map(str, range(len(locality.sizes_bytes)))),
    )
    return Scenario(trace, setup.nodes, node_capacity_bytes(setup.instance_type), always_on=setup.always_on_nodes)
