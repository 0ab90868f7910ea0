"""The pool's keep-alive: one execution at a time keeps members alive, from the first use until the pool is unused."""

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
from burstcache.core.pool.retention import REPORT_S, PoolState

CHECK_S = 300  # interval of ticks while hubs' reports trigger the rounds; a transition costs as much as 125 warm-ups
TICK_TAKES_S = 400  # maximum duration of a tick with all retries; if the next tick is later, the execution is dead
MOST_TICKS = 2_000  # per execution, since a tick takes 9 of a history's 25,000 events
_EARLY_US = 5 * US_PER_S  # tolerance for the jitter of reports and ticks
_SUPERSEDED = PoolEnds(outcome="superseded", ended="the time goes on in its next part, or another one has begun")


def is_due(state: PoolState, now_us: int) -> bool:
    """Return whether the next round of invocations is due."""
    warm_s = state.choice.warm_s if state.choice else 0
    return now_us >= state.warmed_at_us + warm_s * US_PER_S - _EARLY_US


def ensure_running(tools: PoolTools, state: PoolState) -> None:
    """Start the execution again if it has not run a round yet, since its first start may have failed."""
    if state.warmed_at_us < state.generation * 1000:
        _execute(tools, state)


def start(tools: PoolTools, seen: PoolState) -> bool:
    """Start keeping members alive. Return False if another caller was faster."""
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
    """Run a round if it is due. Return the time of the next tick, or the reason why the execution ends. Idempotent.

    Args:
        tools: The tools of pool control.
        generation: The generation of the calling execution.
        part: Its part.
        ticks: The number of earlier ticks of this part.

    Raises:
        FunctionFailedError: No member answers.
        ServiceError: DynamoDB or Step Functions fails.
    """
    now_us, rows = tools.clock.now_us(), tools.table.read()
    state = rows.state
    if (state.generation, state.part) != (generation, part) or state.ended_at_us > generation * 1000:
        if (state.generation, state.part) == (generation, part + 1):
            _execute(tools, state)  # the last tick of this part may have died before starting the next part
        return _SUPERSEDED
    reason, has_hubs = _over(tools, rows, now_us), bool(rows.live_hubs(now_us))
    late_us = REPORT_S * US_PER_S if has_hubs else 0  # only hubs' reports say which members are busy
    if not reason and is_due(state, now_us - late_us) and (after := run_round(tools, rows)) is not None:
        rows, reason = after, _over(tools, after, now_us)
    if reason:
        tools.table.change(state, deadline_at_us=0, ended_at_us=now_us)
        return PoolEnds(outcome="unused", ended=reason)
    if rows.state.warmed_at_us >= generation * 1000 and _is_silent(tools, rows):
        raise FunctionFailedError("no member of the pool answers; the log of pool control says why")
    warm_s = rows.state.choice.warm_s if rows.state.choice else 0
    unused_s = ceil((_unused_at_us(tools, rows) - now_us) / US_PER_S)
    wait_s = min(max(warm_s, CHECK_S if has_hubs else 0), unused_s)
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
    """Return the reason to end the keep-alive, or an empty string."""
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
    """Return the time at which the keep-alive ends without further use [us]."""
    return _used_at_us(rows) + tools.keep_s * US_PER_S


def _is_silent(tools: PoolTools, rows: PoolRows) -> bool:
    """Return whether no member has answered its last invocation."""
    return all(name in rows.members and rows.members[name].is_silent for name in tools.members)
