"""The scheduler, which starts a key's life from reports of requests that S3 served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.core.deadlines import STARTED_S
from burstcache.core.errors import HolderDiedTransientError
from burstcache.core.keys import key_hash, next_number
from burstcache.core.messages.events import KeyServed
from burstcache.core.messages.executions import key_execution_input
from burstcache.core.messages.operations import Serve
from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.phases import ENTRY_BY_NODE_PHASE, FIRST_PHASE, Entry
from burstcache.core.placement import node_for
from burstcache.core.policy import RecordedRequest, is_silent, may_start, may_take, starts
from burstcache.core.rows import KeyRow

# All readers know the route to a cache function this long after its announcement. From then on, S3 should serve no
# request for the key.
_ROUTE_IS_KNOWN_US = 5 * US_PER_S

Outcome = Literal[
    "remembered",
    "started",
    "restarted",
    "taken_over",
    "replaced",
    "lost",
    "full",
    "paused",
    "cools_down",
    "no_tier",
    "already_hot",
    "too_large",
    "booted",
]


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler that decides by `core.policy` and starts executions."""

    keys: KeyTable
    nodes: NodeTable
    hot_keys: HotKeys
    pauses: PauseSwitch
    executions: Executions
    start_cache: Callable[[Serve], object]  # invokes a cache function asynchronously
    machine_arn: str
    node_names: Sequence[str]
    has_relay: bool  # without a relay there are no cache functions, so a life begins with its node's boot
    max_object_bytes: int
    parameters: Parameters
    clock: Clock

    def observe_all(self, served: Iterable[KeyServed]) -> dict[str, Outcome]:
        """Record the GETs of a report, and return the outcome of each key."""
        return {
            each["key"]: self.observe(
                each["key"],
                [RecordedRequest.decode(text) for text in each["requests"]],
                etag=each["etag"],
                size_bytes=each["size_bytes"],
            )
            for each in served
        }

    def observe(self, key: str, requests: Sequence[RecordedRequest], *, etag: str, size_bytes: int) -> Outcome:
        """Record GETs that S3 or a reader's memory served, and start the key's life if it is hot.

        Idempotent and independent of the order of requests, since counts derive from the recorded times.
        """
        now_us = self.clock.now_us()
        row = self._append(key_hash(key), key, requests, etag=etag, size_bytes=size_bytes)
        if row.is_live(now_us):
            return self.ensure_running(row, now_us)
        if not may_start(
            row.window,
            now_us=now_us,
            changed_at_us=row.changed_at_us,
            not_before_us=row.not_before_us,
            size_bytes=row.size_bytes,
            max_object_bytes=self.max_object_bytes,
            parameters=self.parameters,
        ):
            return "remembered"
        return self.start(row, now_us)

    def start_by_hand(self, key: str) -> Outcome:
        """Start a key's life regardless of its requests (the thesis's development API)."""
        now_us = self.clock.now_us()
        row = self.keys.read(key_hash(key)) or KeyRow(hash=key_hash(key), key=key)
        if row.is_live(now_us):
            return "already_hot"
        if row.size_bytes > self.max_object_bytes:
            return "too_large"
        by_hand = RecordedRequest(now_us, "by-hand")
        self._append(row.hash, key, [by_hand], etag=row.etag, size_bytes=row.size_bytes)
        return self.start(replace(row, window=(*row.window, by_hand)), now_us)

    def replace_dead(self, task: Serve, cause: str) -> Outcome:
        """Fail the task of a dead cache function, so that its state starts the next function.

        After a promotion no state waits for the function, and `_ensure_held` replaces it while the key is in use.

        Args:
            task: The payload of the function's invocation.
            cause: Lambda's description of the failure.
        """
        died = HolderDiedTransientError(f"the cache function of {task['key']!r} has died: {cause}")
        return "replaced" if self.executions.fail(task["token"], died) else "remembered"

    def ensure_running(self, row: KeyRow, now_us: int) -> Outcome:
        """Restart the silent execution of a live key, or replace the key's lost cache function."""
        if row.is_announced:
            return self._ensure_held(row, now_us)
        if not is_silent(started_at_us=row.changed_at_us, now_us=now_us):
            return "remembered"
        if self._run(row):
            return "restarted"
        return self.start(row, now_us, take_over=True)

    def _ensure_held(self, row: KeyRow, now_us: int) -> Outcome:
        """Replace the cache function of a key that waits for its node, if S3 serves the key at the rate of a hot key.

        No other part notices the function's death, since the task that gets its heartbeats is complete. If the function
        was only unreachable, it detects the loss of its lease and ends.
        """
        if row.phase != "redis_bootup" or row.tier != "lambda":
            return "remembered"
        missed = [request for request in row.window if request.at_us > row.ready_at_us + _ROUTE_IS_KNOWN_US]
        if not starts(missed, now_us=now_us, changed_at_us=row.ready_at_us, parameters=self.parameters):
            return "remembered"
        if self.pauses.read():
            return "paused"
        if not self.keys.replace_holder(row):
            return "lost"
        attempt = row.attempt + 1
        self.start_cache(Serve(key=row.key, key_hash=row.hash, epoch=row.epoch, attempt=attempt, token=""))
        return "replaced"

    def may_take(self, row: KeyRow, now_us: int) -> bool:
        """Return whether a key on S3 is past its cool-down, and its object is small enough for faster tiers."""
        return may_take(
            now_us=now_us,
            not_before_us=row.not_before_us,
            size_bytes=row.size_bytes,
            max_object_bytes=self.max_object_bytes,
        )

    def start(self, row: KeyRow, now_us: int, *, take_over: bool = False) -> Outcome:
        """Start the life of a requested key, unless the stack is paused or full, or another caller was faster.

        Args:
            row: The key's row as read.
            now_us: The time of that read [us].
            take_over: Whether the previous life is dead although its deadline has not passed.
        """
        if not (self.node_names or self.has_relay):
            return "no_tier"
        if self.hot_keys.is_full_for(row.hash):
            return "full"
        if self.pauses.read():
            return "paused"
        node = node_for(row.hash, self.node_names) if self.node_names else ""
        if (entry := self._entry(node, now_us)) is None:
            return "cools_down"
        life = replace(
            row,
            phase=FIRST_PHASE[entry],
            node=node,
            entry=entry,
            epoch=next_number(row.epoch, now_us=now_us),
            trigger=row.window[-1],
            changed_at_us=now_us,
            deadline_at_us=now_us + STARTED_S * US_PER_S,
        )
        admission = self.hot_keys.start(life, former_epoch=row.epoch, now_us=now_us, take_over=take_over)
        if admission != "started":
            return admission
        self._run(life)
        return "taken_over" if take_over else "started"

    def _append(
        self, hash_: str, key: str, requests: Sequence[RecordedRequest], *, etag: str, size_bytes: int
    ) -> KeyRow:
        keep, within_us = self.parameters.window_length, self.parameters.lambda_threshold_us
        return self.keys.append(hash_, key, requests, etag=etag, size_bytes=size_bytes, keep=keep, within_us=within_us)

    def _entry(self, node: str, now_us: int) -> Entry | None:
        """Return the entry of a new life, or None if the node cools down and there are no cache functions."""
        if not node:
            return "lambda"
        row = self.nodes.read(node)
        if not self.has_relay:
            return None if row.is_barred(now_us) else "redis"
        return ENTRY_BY_NODE_PHASE[row.phase_at(now_us)]

    def _run(self, row: KeyRow) -> bool:
        return self.executions.start(self.machine_arn, row.execution_name, key_execution_input(row))
