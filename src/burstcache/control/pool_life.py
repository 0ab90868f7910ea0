"""The time that the pool is kept alive: one execution at a time, from the first use until nobody wants it any more."""

from __future__ import annotations

from math import ceil

from burstcache.adapters.pool_table import PoolRows
from burstcache.control.pool_rounds import run_round
from burstcache.control.pool_tools import PoolTools
from burstcache.core.errors import FunctionFailedError
from burstcache.core.keys import next_number
from burstcache.core.messages.executions import PoolExecutionInput
from burstcache.core.messages.pool_control import PoolEnds, Ticked
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.kept import REPORT_S, PoolState

LOOK_S = 300  # between two ticks while hubs report, whose reports keep the schedule: a transition costs as 125 warm-ups
TICK_TAKES_S = 400  # at most, with all its repeats: the execution has died if the next one is later than that
MOST_TICKS = 2_000  # of one execution: each is 9 of the 25,000 events that one may have
_EARLY_US = 5 * US_PER_S  # reports and ticks are not that punctual
_SUPERSEDED = PoolEnds(outcome="superseded", ended="the time goes on in its next part, or another one has begun")


def is_due(state: PoolState, now_us: int) -> bool:
    """Whether members must be invoked."""
    warm_s = state.choice.warm_s if state.choice else 0
    return now_us >= state.warmed_at_us + warm_s * US_PER_S - _EARLY_US


def see_that_it_runs(tools: PoolTools, state: PoolState) -> None:
    """Start the execution that keeps members, until it has shown that it is there: its start may have failed."""
    if state.warmed_at_us < state.generation * 1000:
        _execute(tools, state)


def start(tools: PoolTools, seen: PoolState) -> bool:
    """Have members kept alive from now on; False if somebody else just did that."""
    now_us = tools.clock.now_us()
    state = tools.table.change(
        seen,
        generation=next_number(seen.generation, now_us=now_us),
        part=1,
        deadline_at_us=now_us + TICK_TAKES_S * US_PER_S,
    )
    if state is None:
        return False
    _execute(tools, state)
    return True


def tick(tools: PoolTools, generation: int, part: int, *, ticks: int) -> Ticked | PoolEnds:
    """Keep members alive if it is time, and return when to do so again, or why the execution ends. It may run twice.

    Args:
        tools: What the control works with.
        generation: Of the execution that asks.
        part: Its part.
        ticks: How many ticks this part has had before.

    Raises:
        FunctionFailedError: No member answers.
        ServiceError: DynamoDB or Step Functions fails.
    """
    now_us, rows = tools.clock.now_us(), tools.table.read()
    state = rows.state
    if (state.generation, state.part) != (generation, part) or state.ended_at_us > generation * 1000:
        if (state.generation, state.part) == (generation, part + 1):
            _execute(tools, state)  # a tick that has ended this part may have died before it did
        return _SUPERSEDED
    reason, has_hubs = _over(tools, rows, now_us), bool(rows.live_hubs(now_us))
    late_us = REPORT_S * US_PER_S if has_hubs else 0  # only their reports tell which members are busy
    if not reason and is_due(state, now_us - late_us) and (after := run_round(tools, rows)) is not None:
        rows, reason = after, _over(tools, after, now_us)
    if reason:
        tools.table.change(state, deadline_at_us=0, ended_at_us=now_us)
        return PoolEnds(outcome="unused", ended=reason)
    if rows.state.warmed_at_us >= generation * 1000 and _is_silent(tools, rows):
        raise FunctionFailedError("no member of the pool answers; the log of pool control says why")
    warm_s = rows.state.choice.warm_s if rows.state.choice else 0
    unused_s = ceil((_unused_at_us(tools, rows) - now_us) / US_PER_S)
    wait_s = min(max(warm_s, LOOK_S if has_hubs else 0), unused_s)
    is_last = ticks + 1 >= MOST_TICKS
    deadline_at_us = tools.clock.now_us() + (wait_s + TICK_TAKES_S) * US_PER_S
    kept = tools.table.change(state, part=part + is_last, deadline_at_us=deadline_at_us)
    if kept is None:
        return _SUPERSEDED
    if is_last:
        _execute(tools, kept)
        return _SUPERSEDED
    return Ticked(outcome="used", wait_s=wait_s, ticks=ticks + 1)


def _execute(tools: PoolTools, state: PoolState) -> None:
    input_ = PoolExecutionInput(generation=state.generation, part=state.part)
    tools.executions.start(tools.machine_arn, state.execution_name, input_)


def _over(tools: PoolTools, rows: PoolRows, now_us: int) -> str:
    """Return why members need not be kept any more; empty: they do."""
    if pause := tools.pauses.read():
        return f"the stack was paused: {pause.reason}"
    if now_us >= _unused_at_us(tools, rows):
        return f"nobody read from it for {tools.keep_s} s"
    used_at_us = _used_at_us(rows)
    members = [rows.members.get(name) for name in tools.members]
    if all(member and member.seen_at_us > used_at_us and not member.is_silent for member in members) and not any(
        member.stored_bytes for member in members if member
    ):
        return "nothing was stored any more"
    return ""


def _used_at_us(rows: PoolRows) -> int:
    return max([rows.state.totals.used_at_us, *(hub.used_at_us for hub in rows.hubs)])


def _unused_at_us(tools: PoolTools, rows: PoolRows) -> int:
    """Return when nobody will have read from the pool for as long as it is kept."""
    return _used_at_us(rows) + tools.keep_s * US_PER_S


def _is_silent(tools: PoolTools, rows: PoolRows) -> bool:
    """Whether no member has answered the last time that it was invoked."""
    return all(name in rows.members and rows.members[name].is_silent for name in tools.members)
