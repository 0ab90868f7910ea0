"""The keys of a system: each key's state, tier and node."""

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
    """The view of one key: its state, its tier, and the time of its entry into the state."""

    key: str
    state: str
    is_expired: bool  # the state's deadline has passed, so readers of the row treat the key as one on S3
    tier: Literal["s3", "lambda", "redis"]  # the tier that readers try first now, apart from their own memory
    node: str  # of the key's life or read-through entry; empty if it has neither
    since_us: int  # when the key entered the state; 0 if it has never left S3
    noted_requests: int  # number of newest requests in the row, served by S3
    is_window_full: bool  # older requests may have been dropped
    execution_name: str  # of the current or last life; empty before the first life
    failures: int  # consecutive failed lives
    not_before_us: int  # end of the cool-down after a failed life; 0 if none


def read_keys(system: System, *, max_object_bytes: int) -> list[KeyView]:
    """Return the keys in the table, sorted by name: keys that were read recently or have ever been hot.

    Args:
        system: The system to query.
        max_object_bytes: The largest object that a faster tier accepts [bytes].

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
    """Return the view of a key at an instant. Its state and tier are consistent.

    Args:
        row: The key's row.
        now_us: The instant [us].
        steps: The states that a live key's execution has entered. Without steps, the row's times are used.
        node: The result of `node_of`.
        max_object_bytes: The largest object that a faster tier accepts [bytes].
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
        # A window has room for at least five requests, so a shorter window has dropped no requests.
        is_window_full=len(row.window) >= QUEUE_LENGTH,
        execution_name=row.execution_name if row.epoch else "",
        failures=row.failures,
        not_before_us=row.not_before_us if row.not_before_us > now_us else 0,
    )
    if place == "guest" and node:
        return replace(view, state=GUEST, is_expired=False, node=node.node, since_us=node.ready_at_us)
    return view


def _entered_us(state: str, steps: Sequence[Step]) -> int:
    """Return the time of the last entry into a state, or 0 before it, since a row may be ahead of its execution."""
    return next((step.at_us for step in reversed(steps) if step.state == state), 0)


def _written_us(row: KeyRow) -> int:
    """Return the time at which a row's phase was written.

    For RedisShutdown, which lasts about a second, return the time of RedisRunning.
    """
    if row.phase == "redis_bootup":
        return row.joined_at_us or row.changed_at_us
    if row.phase in ("redis_running", "redis_shutdown"):  # their deadline never moves
        return max(row.changed_at_us, row.deadline_at_us - RUNNING_S * US_PER_S)
    return row.changed_at_us
