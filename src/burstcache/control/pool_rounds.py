"""The pool's rounds. A round invokes all idle members to keep them alive, and detects reclaims from their answers.

A round skips members that were connected to a hub since the last round. They may be busy, and invoking a busy member
would start a second, empty environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction

from burstcache.adapters.pool_table import PoolRows
from burstcache.control.pool_tools import PoolTools
from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.pool import MemberState
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.redundancy import Load, choose
from burstcache.core.pool.retention import HubStatus, MemberStatus, PoolChoice, PoolTotals
from burstcache.core.pool.slices import SLICE_BYTES
from burstcache.logs import logger

_AT_ONCE = 16  # the size of a client's connection pool
_INVOKE_WITHIN_S = 30.0  # no invocation begins later, since a silent member takes 20 s and pool control has 60 s
_CHOOSE_EVERY_US = 600 * US_PER_S
_LATELY = 0.75  # share of the interval; a member used within this time is not due
_WATCHED = 3  # intervals without a round, after which a new environment is no evidence of a reclaim


def run_round(tools: PoolTools, rows: PoolRows) -> PoolRows | None:
    """Invoke the members that are due, record their answers, and return the new rows.

    Args:
        tools: The tools of pool control.
        rows: The rows as read.

    Returns:
        The new rows, or None if another round has begun since the rows were read.
    """
    now_us, since_us = tools.clock.now_us(), rows.state.warmed_at_us
    if not tools.table.claim_round(rows.state, now_us):
        return None
    choice = rows.state.choice or choice_of(tools, rows, now_us)
    used = _used(rows)
    lately_us = now_us - round(choice.warm_s * _LATELY * US_PER_S)
    due = [name for name in tools.members if used.get(name, ("", 0))[1] < lately_us]
    due.sort(key=lambda name: -rows.members.get(name, MemberStatus()).seen_at_us)  # most recently seen members first
    roll = _Roll(dict(rows.members), has_copies=choice.backup_s > 0)
    for name, (environment, at_us) in used.items():
        roll.note_use(name, environment, at_us)
    for name, answer in zip(due, _invoke_all(tools, due), strict=True):
        roll.note_answer(name, answer, now_us)
    reclaims = rows.reclaims
    if now_us - since_us <= _WATCHED * choice.warm_s * US_PER_S:
        reclaims = reclaims.after(roll.reclaimed, warm_s=choice.warm_s, since_us=since_us, at_us=now_us)
    totals, hubs, left = _settled(tools, rows, now_us)
    control_requests, control_ms = tools.control_after((totals.control_requests, totals.control_ms))
    totals = replace(
        totals,
        rounds=totals.rounds + 1,
        warm_ups=totals.warm_ups + len(due),
        warm_ms=totals.warm_ms + roll.billed_ms,
        environments=totals.environments + roll.made,
        control_requests=control_requests,
        control_ms=control_ms,
    )
    after = PoolRows(replace(rows.state, warmed_at_us=now_us, totals=totals), roll.members, reclaims, hubs)
    if now_us >= choice.chosen_at_us + _CHOOSE_EVERY_US:
        choice = choice_of(tools, after, now_us)
    tools.table.finish_round(roll.members, reclaims, choice, totals)
    for hub in left:
        tools.table.drop_hub(hub)
    logger().info("round", extra={"warmed": len(due), "made": roll.made, "reclaimed": roll.reclaimed})
    return replace(after, state=replace(after.state, choice=choice))


@dataclass(slots=True)
class _Roll:
    """The members' states, updated one by one in a round."""

    members: dict[str, MemberStatus]
    has_copies: bool
    made: int = 0  # new environments
    reclaimed: int = 0
    billed_ms: int = 0

    def note_use(self, name: str, environment: str, at_us: int) -> None:
        """Record the environment of a member that a hub has used. The environment's contents are unknown."""
        seen = self.members.get(name, MemberStatus())
        if at_us > seen.seen_at_us and environment not in ("", seen.environment, seen.former):
            met = self._meet(seen, environment, chunks=1, stored_bytes=seen.stored_bytes, at_us=at_us)
            self.members[name] = replace(met, chunks=seen.chunks, seen_at_us=seen.seen_at_us)

    def note_answer(self, name: str, answer: MemberState | None, at_us: int) -> None:
        """Record a member's answer, or its silence if the answer is None."""
        seen = self.members.get(name, MemberStatus())
        if answer is None:
            self.members[name] = replace(seen, is_silent=True)
            return
        self.members[name] = self._meet(
            seen, answer["environment"], chunks=answer["chunks"], stored_bytes=answer["stored_bytes"], at_us=at_us
        )
        self.billed_ms += answer["billed_ms"]

    def _meet(
        self, seen: MemberStatus, environment: str, *, chunks: int, stored_bytes: int, at_us: int
    ) -> MemberStatus:
        met, is_reclaimed = seen.after_answer(
            environment, chunks=chunks, stored_bytes=stored_bytes, at_us=at_us, has_copies=self.has_copies
        )
        self.made += environment not in (seen.environment, seen.former)
        self.reclaimed += is_reclaimed
        return met


def choice_of(tools: PoolTools, rows: PoolRows, now_us: int) -> PoolChoice:
    """Choose the redundancy and the warm-up intervals from measurements since the last choice."""
    former, totals = rows.state.choice, rows.state.totals
    for hub in rows.hubs:
        totals = totals.plus(hub)
    chosen = choose(
        len(tools.members),
        _load(rows, former, totals, now_us),
        tools.price,
        rows.reclaims.intervals,
        present=former.redundancy if former else None,
    )
    plan = chosen.plan
    choice = PoolChoice(
        plan.redundancy,
        warm_s=plan.warm_s,
        backup_s=plan.backup_s,
        availability=chosen.availability,
        reasons=chosen.reasons,
        chosen_at_us=now_us,
        requests=totals.requests,
        stored_bytes=totals.stored_bytes,
    )
    return choice.after(former) if former else choice


def _load(rows: PoolRows, former: PoolChoice | None, totals: PoolTotals, now_us: int) -> Load:
    if former is None:
        return Load()
    in_chunks = Fraction(former.redundancy.chunks, former.redundancy.data) * SLICE_BYTES  # a slice and its parity
    hours = Fraction(max(now_us - former.chosen_at_us, US_PER_S), 3_600 * US_PER_S)
    return Load(
        reads_per_h=max(0, totals.requests - former.requests) / hours,
        writes_per_h=max(0, totals.stored_bytes - former.stored_bytes) / in_chunks / hours,
        stored_slices=round(sum(member.stored_bytes for member in rows.members.values()) / in_chunks),
    )


def _used(rows: PoolRows) -> dict[str, tuple[str, int]]:
    """Return the environment and the time of each member's last use [us]."""
    used: dict[str, tuple[str, int]] = {}
    for hub in rows.hubs:
        for name, (environment, at_us) in hub.used.items():
            if at_us > used.get(name, ("", 0))[1]:
                used[name] = (environment, at_us)
    return used


def _settled(
    tools: PoolTools, rows: PoolRows, now_us: int
) -> tuple[PoolTotals, tuple[HubStatus, ...], list[HubStatus]]:
    """Add up the totals of hubs that are gone. Return the totals, the remaining hubs, and the hubs that have left.

    A silent hub's row is kept for a day, because its process may only be suspended, and continues to count once it
    resumes.
    """
    totals, kept, left = rows.state.totals, [], []
    for hub in rows.hubs:
        if hub.has_left:
            totals = totals.plus(hub)
            left.append(hub)
        elif hub.is_live(now_us) or hub.is_counted or not tools.table.count_hub(hub, now_us):
            kept.append(hub)
        else:
            totals = totals.plus(hub)
            kept.append(replace(hub, counted=hub.totals, control=(0, 0)))
    return totals, tuple(kept), left


def _invoke_all(tools: PoolTools, names: Sequence[str]) -> list[MemberState | None]:
    """Invoke members and return their answers, or None for members that did not answer or were not invoked in time."""
    end_s = tools.clock.monotonic_s() + _INVOKE_WITHIN_S

    def invoke(name: str) -> MemberState | None:
        if tools.clock.monotonic_s() >= end_s:
            logger().warning("no time to invoke a member, others were silent", extra={"member": name})
            return None
        try:
            return tools.warm(name)
        except BurstcacheError as error:
            logger().warning("a member does not answer", extra={"member": name, "problem": str(error)})
            return None

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="warm-up") as pool:
        return list(pool.map(invoke, names))
