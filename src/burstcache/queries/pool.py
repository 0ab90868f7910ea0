"""The pool of a system: hubs, members, reclaims, the chosen redundancy and intervals, and the bill."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.adapters.pool_table import PoolRows
from burstcache.core.pool.costs import MemberPrice
from burstcache.core.pool.retention import HubStatus, PoolChoice, PoolTotals
from burstcache.queries.system import System


@dataclass(frozen=True, slots=True)
class HubView:
    """The view of a hub that still reports."""

    hub: str
    reported_at_us: int
    members: int  # number of members that the hub has used
    requests: int
    hits: int


@dataclass(frozen=True, slots=True)
class PoolMemberView:
    """The view of a member at its last answer."""

    member: str
    environment: str
    seen_at_us: int
    chunks: int
    stored_bytes: int
    is_silent: bool


@dataclass(frozen=True, slots=True)
class PoolBill:
    """The members' bill since the pool's first use, at list prices, excluding hubs and control [USD]."""

    warm_up_usd: float
    serving_usd: float
    environments_usd: float

    @property
    def usd(self) -> float:
        """The total [USD]."""
        return self.warm_up_usd + self.serving_usd + self.environments_usd


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pool at an instant."""

    execution_name: str  # of the execution that keeps the members alive; empty if there is none
    warmed_at_us: int
    hubs: tuple[HubView, ...]
    members: tuple[PoolMemberView, ...]  # members that have been invoked
    requests: int
    hits: int
    written_bytes: int
    reclaims_per_min: float
    watched_min: float
    reclaimed: tuple[tuple[int, int], ...]  # newest rounds with reclaims: time [s since the epoch], number of members
    codes: tuple[str, ...]  # such as `10+2`; the first applies to new slices
    warm_s: int
    backup_s: int  # 0: never
    availability: float
    reasons: tuple[str, ...]
    chosen_at_us: int
    bill: PoolBill


def read_pool(system: System, price: MemberPrice) -> PoolView:
    """Return the view of the pool.

    Args:
        system: The system to query.
        price: The price of a member.

    Raises:
        ServiceError: DynamoDB fails.
    """
    return pool_view(system.pool.read(), price, system.clock.now_us())


def pool_view(rows: PoolRows, price: MemberPrice, now_us: int) -> PoolView:
    """Return the view of the pool's rows at an instant [us]."""
    state, totals = rows.state, rows.state.totals
    for hub in rows.hubs:
        totals = totals.plus(hub)
    choice = state.choice
    return PoolView(
        execution_name=state.execution_name if state.is_kept(now_us) else "",
        warmed_at_us=state.warmed_at_us,
        hubs=tuple(_hub_view(hub) for hub in rows.live_hubs(now_us)),
        members=tuple(
            PoolMemberView(
                name, seen.environment, seen.seen_at_us, seen.chunks, seen.stored_bytes, is_silent=seen.is_silent
            )
            for name, seen in rows.members.items()
        ),
        requests=totals.requests,
        hits=totals.hits,
        written_bytes=totals.stored_bytes,
        reclaims_per_min=rows.reclaims.per_minute,
        watched_min=rows.reclaims.watched_minutes,
        reclaimed=rows.reclaims.recent,
        codes=_codes(choice),
        warm_s=choice.warm_s if choice else 0,
        backup_s=choice.backup_s if choice else 0,
        availability=choice.availability if choice else 0.0,
        reasons=choice.reasons if choice else (),
        chosen_at_us=choice.chosen_at_us if choice else 0,
        bill=_bill(totals, price),
    )


def _hub_view(hub: HubStatus) -> HubView:
    totals = hub.totals
    return HubView(hub.address["id"], hub.reported_at_us, len(hub.used), totals["requests"], totals["hits"])


def _codes(choice: PoolChoice | None) -> tuple[str, ...]:
    codes = (choice.redundancy, *choice.former) if choice else ()
    return tuple(f"{redundancy.data}+{redundancy.parity}" for redundancy in codes)


def _bill(totals: PoolTotals, price: MemberPrice) -> PoolBill:
    ms_usd = price.memory_gb * price.gb_s_usd / 1000
    return PoolBill(
        warm_up_usd=float(totals.warm_ups * price.request_usd + totals.warm_ms * ms_usd),
        serving_usd=float(totals.invocations * price.request_usd + Fraction(totals.served_ms) * ms_usd),
        environments_usd=float(totals.environments * price.environment_usd),
    )
