"""Rounds: every member that nobody needed lately is invoked, so that it stays; what it answers tells reclaims.

A member that was connected to a hub since the last round has been invoked, and may be busy: a second invocation would
make a second, empty environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

from burstcache.adapters.pool_table import PoolRows
from burstcache.control.pool_tools import PoolTools
from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.pool import MemberState
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.kept import MemberSeen, PoolChoice, PoolTotals
from burstcache.core.pool.redundancy import Load, choose
from burstcache.core.pool.slices import SLICE_BYTES
from burstcache.logs import logger

_AT_ONCE = 16  # connections that a client keeps
_CHOOSE_EVERY_US = 600 * US_PER_S
_LATELY = 0.75  # of the interval: a member that was in use since is not due yet
_WATCHED = 3  # intervals without a round, after which a new environment says nothing about reclaims


def run_round(tools: PoolTools, rows: PoolRows) -> PoolRows | None:
    """Invoke the members that are due, and write what they answer; return the rows after it.

    Args:
        tools: What the control works with.
        rows: What is known.

    Returns:
        None if another round has begun since the rows were read.
    """
    now_us = tools.clock.now_us()
    if not tools.table.claim_round(rows.state, now_us):
        return None
    totals = _without_the_lost(tools, rows, now_us)
    choice = rows.state.choice or choice_of(tools, rows, now_us)
    used = _used(rows)
    lately_us = now_us - round(choice.warm_s * _LATELY * US_PER_S)
    due = [name for name in tools.members if used.get(name, ("", 0))[1] < lately_us]
    members = dict(rows.members)
    made = reclaimed = warm_ms = 0
    for name, (environment, at_us) in used.items():
        seen = members.get(name, MemberSeen())
        if environment not in ("", seen.environment, seen.former):
            met, is_reclaimed = seen.met(
                environment, chunks=1, stored_bytes=seen.stored_bytes, at_us=at_us, has_copies=choice.backup_s > 0
            )
            members[name] = replace(met, chunks=seen.chunks, seen_at_us=seen.seen_at_us)  # what it has is not known
            made += 1
            reclaimed += is_reclaimed
    for name, answer in zip(due, _ask_all(tools, due), strict=True):
        seen = members.get(name, MemberSeen())
        if answer is None:
            members[name] = replace(seen, is_silent=True)
            continue
        members[name], is_reclaimed = seen.met(
            answer["environment"],
            chunks=answer["chunks"],
            stored_bytes=answer["stored_bytes"],
            at_us=now_us,
            has_copies=choice.backup_s > 0,
        )
        warm_ms += answer["billed_ms"]
        made += answer["environment"] not in (seen.environment, seen.former)
        reclaimed += is_reclaimed
    reclaims, since_us = rows.reclaims, rows.state.warmed_at_us
    if now_us - since_us <= _WATCHED * choice.warm_s * US_PER_S:
        reclaims = reclaims.after(reclaimed, warm_s=choice.warm_s, since_us=since_us, at_us=now_us)
    totals = replace(
        totals,
        rounds=totals.rounds + 1,
        warm_ups=totals.warm_ups + len(due),
        warm_ms=totals.warm_ms + warm_ms,
        environments=totals.environments + made,
    )
    after = PoolRows(replace(rows.state, warmed_at_us=now_us, totals=totals), members, reclaims, rows.hubs)
    if now_us >= choice.chosen_at_us + _CHOOSE_EVERY_US:
        choice = choice_of(tools, after, now_us)
    after = replace(after, state=replace(after.state, choice=choice))
    tools.table.finish_round(after.members, after.reclaims, choice, totals)
    silent = sum(member.is_silent for member in members.values())
    logger().info("round", extra={"warmed": len(due), "silent": silent, "made": made, "reclaimed": reclaimed})
    return after


def choice_of(tools: PoolTools, rows: PoolRows, now_us: int) -> PoolChoice:
    """Return how slices are written and members kept from now on, by what was measured since the last choice."""
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
    keeping = chosen.keeping
    choice = PoolChoice(
        keeping.redundancy,
        warm_s=keeping.warm_s,
        backup_s=keeping.backup_s,
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
    in_chunks = Fraction(former.redundancy.chunks, former.redundancy.data) * SLICE_BYTES  # a slice with its parity
    hours = Fraction(max(now_us - former.chosen_at_us, US_PER_S), 3_600 * US_PER_S)
    return Load(
        reads_per_h=max(0, totals.requests - former.requests) / hours,
        writes_per_h=max(0, totals.stored_bytes - former.stored_bytes) / in_chunks / hours,
        stored_slices=round(sum(member.stored_bytes for member in rows.members.values()) / in_chunks),
    )


def _used(rows: PoolRows) -> dict[str, tuple[str, int]]:
    """Return when each member was last in use, and in which environment."""
    used: dict[str, tuple[str, int]] = {}
    for hub in rows.hubs:
        for name, (environment, at_us) in hub.used.items():
            if at_us > used.get(name, ("", 0))[1]:
                used[name] = (environment, at_us)
    return used


def _without_the_lost(tools: PoolTools, rows: PoolRows, now_us: int) -> PoolTotals:
    """Drop the rows of hubs that are gone, and return the totals with what they saw."""
    totals = rows.state.totals
    for hub in rows.hubs:
        if not hub.is_live(now_us) and tools.table.drop_hub(hub):
            totals = totals.plus(hub)
    return totals


def _ask_all(tools: PoolTools, names: Sequence[str]) -> list[MemberState | None]:
    """Return the answers of members; None of those that do not answer."""

    def ask(name: str) -> MemberState | None:
        try:
            return tools.warm(name)
        except BurstcacheError as error:
            logger().warning("a member does not answer", extra={"member": name, "problem": str(error)})
            return None

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="warm-up") as pool:
        return list(pool.map(ask, names))
