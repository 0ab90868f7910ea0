"""What the pool holds, what keeps it, how it was chosen to be kept, and what it has cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.adapters.pool_table import PoolRows
from burstcache.core.pool.costs import MemberPrice
from burstcache.core.pool.kept import HubSeen, PoolChoice, PoolTotals
from burstcache.queries.system import System


@dataclass(frozen=True, slots=True)
class HubView:
    """One hub that reports."""

    hub: str
    reported_at_us: int
    members: int  # that it has used
    requests: int
    hits: int


@dataclass(frozen=True, slots=True)
class PoolMemberView:
    """One member as it last answered."""

    member: str
    environment: str
    seen_at_us: int
    chunks: int
    stored_bytes: int
    is_silent: bool


@dataclass(frozen=True, slots=True)
class PoolBill:
    """What members have cost since the pool's first use, at list prices; hubs and control have their own cost [USD]."""

    warm_up_usd: float
    serving_usd: float
    environments_usd: float

    @property
    def usd(self) -> float:
        """The sum."""
        return self.warm_up_usd + self.serving_usd + self.environments_usd


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pool."""

    execution_name: str  # that keeps the members alive; empty: nobody does
    warmed_at_us: int
    hubs: tuple[HubView, ...]
    members: tuple[PoolMemberView, ...]  # that have been invoked
    requests: int
    hits: int
    written_bytes: int
    reclaims_per_min: float
    watched_min: float
    reclaimed: tuple[tuple[int, int], ...]  # the last rounds that found some: when [s since the epoch], how many
    codes: tuple[str, ...]  # the first is that of new slices, such as `10+2`
    warm_s: int
    backup_s: int  # 0: never
    availability: float
    reasons: tuple[str, ...]
    chosen_at_us: int
    bill: PoolBill


def read_pool(system: System, price: MemberPrice) -> PoolView:
    """Return what is known of the pool.

    Args:
        system: The system that has it.
        price: Of one of its members.

    Raises:
        ServiceError: DynamoDB fails.
    """
    return pool_view(system.pool.read(), price, system.clock.now_us())


def pool_view(rows: PoolRows, price: MemberPrice, now_us: int) -> PoolView:
    """Return what the pool's rows say at an instant [us]."""
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


def _hub_view(hub: HubSeen) -> HubView:
    totals = hub.totals
    return HubView(hub.address["id"], hub.reported_at_us, len(hub.used), totals["requests"], totals["hits"])


def _codes(choice: PoolChoice | None) -> tuple[str, ...]:
    coded = (choice.redundancy, *choice.former) if choice else ()
    return tuple(f"{redundancy.data}+{redundancy.parity}" for redundancy in coded)


def _bill(totals: PoolTotals, price: MemberPrice) -> PoolBill:
    ms_usd = price.memory_gb * price.gb_s_usd / 1000
    return PoolBill(
        warm_up_usd=float(totals.warm_ups * price.request_usd + totals.warm_ms * ms_usd),
        serving_usd=float(totals.invocations * price.request_usd + Fraction(totals.served_ms) * ms_usd),
        environments_usd=float(totals.environments * price.environment_usd),
    )
