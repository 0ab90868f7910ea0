"""Where each key is in its life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import maxsize
from typing import Literal

from burstcache.core.deadlines import RUNNING_S
from burstcache.core.parameters import QUEUE_LENGTH, US_PER_S
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.queries.history import Step
from burstcache.queries.places import node_of, place_of
from burstcache.queries.states import GUEST, STATE_OF_KEY_PHASE
from burstcache.queries.system import System


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key: its state, and since when."""

    key: str
    state: str
    is_expired: bool  # the state's deadline has passed, so every reader of the row takes the key for one of S3
    tier: Literal["s3", "lambda", "redis"]  # that readers ask first now, apart from their own memory
    node: str  # that of its life, or that it is a guest of; empty: neither
    since_us: int  # when it entered the state; 0: it has never left S3
    noted_requests: int  # the newest that the scheduler was told of: requests that S3 served
    is_window_full: bool  # older requests may have been forgotten
    execution_name: str  # of the current or last life; empty: none yet
    failures: int  # failed lives in a row
    not_before_us: int  # after a failed life: no new one before this; 0: at any time


def read_keys(system: System, *, max_object_bytes: int) -> list[KeyView]:
    """Return every key that the table has, which are those that were asked for lately or have ever been hot, by name.

    Args:
        system: What is asked.
        max_object_bytes: What a faster tier takes [bytes].

    Raises:
        ServiceError: DynamoDB or Step Functions fails.
    """
    now_us = system.clock.now_us()
    nodes = [system.nodes.read(name) for name in system.node_names]

    def view(row: KeyRow) -> KeyView:
        steps = system.key_history(row.execution_name).read_new() if row.is_live(now_us) else None
        return key_view(row, now_us, steps or (), node=node_of(row, nodes, now_us), max_object_bytes=max_object_bytes)

    return sorted(map(view, system.key_rows()), key=lambda view: view.key)


def key_view(
    row: KeyRow,
    now_us: int,
    steps: Sequence[Step] = (),
    *,
    node: NodeRow | None = None,
    max_object_bytes: int = maxsize,
) -> KeyView:
    """Return where a key is at an instant: its state and its tier tell the same.

    Args:
        row: The key's row.
        now_us: The instant [us].
        steps: The states that the execution of a live key has entered; without them the row has when it was written.
        node: What `node_of` found.
        max_object_bytes: What a faster tier takes [bytes].
    """
    is_live, place = row.is_live(now_us), place_of(row, node, now_us, max_object_bytes=max_object_bytes)
    view = KeyView(
        key=row.key,
        state=STATE_OF_KEY_PHASE[row.phase],
        is_expired=row.phase != "s3" and not is_live,
        tier="redis" if place == "guest" else place,
        node=row.node if is_live else "",
        since_us=_entered_us(STATE_OF_KEY_PHASE[row.phase], steps) or _written_us(row),
        noted_requests=len(row.window),
        # No window is kept shorter than the queue of five, so fewer requests than that are all there were.
        is_window_full=len(row.window) >= QUEUE_LENGTH,
        execution_name=row.execution_name if row.epoch else "",
        failures=row.failures,
        not_before_us=row.not_before_us if row.not_before_us > now_us else 0,
    )
    if place == "guest" and node:
        return replace(view, state=GUEST, is_expired=False, node=node.node, since_us=node.ready_at_us)
    return view


def _entered_us(state: str, steps: Sequence[Step]) -> int:
    """Return when a state was entered last, or 0 if not yet: a row may be a step ahead of its execution."""
    return next((step.at_us for step in reversed(steps) if step.state == state), 0)


def _written_us(row: KeyRow) -> int:
    """Return when a row got its phase; of RedisShutdown, which takes a second, when the one before it began."""
    if row.phase == "redis_bootup":
        return row.joined_at_us or row.changed_at_us
    if row.phase in ("redis_running", "redis_shutdown"):  # with a deadline that is never moved
        return max(row.changed_at_us, row.deadline_at_us - RUNNING_S * US_PER_S)
    return row.changed_at_us
