"""The scheduler: turns requests that S3 served into the start of a key's life."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.core.deadlines import STARTED_S
from burstcache.core.errors import HolderDiedTransientError
from burstcache.core.keys import key_hash, next_number
from burstcache.core.messages.events import KeyServed
from burstcache.core.messages.executions import key_execution_input
from burstcache.core.messages.operations import Serve
from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.phases import ENTRY_BY_NODE_PHASE, FIRST_PHASE, Entry
from burstcache.core.placement import node_for
from burstcache.core.policy import Request, is_silent, may_start, may_take, starts
from burstcache.core.rows import KeyRow

# What S3 serves later than this after a cache function announced itself should have been served by it: all readers know
# of a route by then.
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
    """Decides by `core.policy` and starts executions."""

    keys: KeyTable
    nodes: NodeTable
    hot_keys: HotKeys
    pauses: Pauses
    executions: Executions
    start_cache: Callable[[Serve], object]  # invokes a cache function and does not wait for it
    machine_arn: str
    node_names: Sequence[str]
    has_relay: bool  # without one there are no cache functions: a life begins with the boot of its node
    max_object_bytes: int
    parameters: Parameters
    clock: Clock

    def observe_all(self, served: Iterable[KeyServed]) -> dict[str, Outcome]:
        """Record the GETs of a report, and return what became of each key."""
        return {
            each["key"]: self.observe(
                each["key"],
                [Request.decode(text) for text in each["requests"]],
                etag=each["etag"],
                size_bytes=each["size_bytes"],
            )
            for each in served
        }

    def observe(self, key: str, requests: Sequence[Request], *, etag: str, size_bytes: int) -> Outcome:
        """Record GETs that S3 or a reader's memory served, and start the key's life when it has become hot.

        Handling a request twice, late or out of order changes nothing: counts derive from the remembered times.
        """
        now_us = self.clock.now_us()
        row = self._append(key_hash(key), key, requests, etag=etag, size_bytes=size_bytes)
        if row.is_live(now_us):
            return self.see_that_it_runs(row, now_us)
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
        """Start a key's life whatever its requests (the thesis's development API)."""
        now_us = self.clock.now_us()
        row = self.keys.read(key_hash(key)) or KeyRow(hash=key_hash(key), key=key)
        if row.is_live(now_us):
            return "already_hot"
        if row.size_bytes > self.max_object_bytes:
            return "too_large"
        by_hand = Request(now_us, "by-hand")
        self._append(row.hash, key, [by_hand], etag=row.etag, size_bytes=row.size_bytes)
        return self.start(replace(row, window=(*row.window, by_hand)), now_us)

    def replace_dead(self, task: Serve, cause: str) -> Outcome:
        """Have the state of a cache function that has died start the next one.

        After its promotion no state waits for it: `_see_that_it_is_held` replaces it while it is asked for.

        Args:
            task: What it was invoked with.
            cause: What Lambda says of its end.
        """
        died = HolderDiedTransientError(f"the cache function of {task['key']!r} has died: {cause}")
        return "replaced" if self.executions.fail(task["token"], died) else "remembered"

    def see_that_it_runs(self, row: KeyRow, now_us: int) -> Outcome:
        """Start a life's execution again if nothing has been heard of it."""
        if row.is_announced:
            return self._see_that_it_is_held(row, now_us)
        if not is_silent(started_at_us=row.changed_at_us, now_us=now_us):
            return "remembered"
        if self._run(row):
            return "restarted"
        return self.start(row, now_us, take_over=True)

    def _see_that_it_is_held(self, row: KeyRow, now_us: int) -> Outcome:
        """Replace the cache function of a key that waits for its node, if S3 serves it often enough to start a key.

        Nothing else hears of its death: the task that its heartbeats were for is complete. One that lives nevertheless,
        and was not reached for a while, finds out and leaves.
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
        """Whether a key that S3 serves may have a life: its cool-down is over and a faster tier takes the object."""
        return may_take(
            now_us=now_us,
            not_before_us=row.not_before_us,
            size_bytes=row.size_bytes,
            max_object_bytes=self.max_object_bytes,
        )

    def start(self, row: KeyRow, now_us: int, *, take_over: bool = False) -> Outcome:
        """Start the life of a key that has a request, if the stack is not paused, there is room and nobody else has.

        Args:
            row: As it was read.
            now_us: When it was read [us].
            take_over: The former life is known to be dead although its deadline has not passed.
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

    def _append(self, hash_: str, key: str, requests: Sequence[Request], *, etag: str, size_bytes: int) -> KeyRow:
        keep, within_us = self.parameters.window_length, self.parameters.lambda_threshold_us
        return self.keys.append(hash_, key, requests, etag=etag, size_bytes=size_bytes, keep=keep, within_us=within_us)

    def _entry(self, node: str, now_us: int) -> Entry | None:
        """Return the way in; None if the node cools down and there is nothing else."""
        if not node:
            return "lambda"
        row = self.nodes.read(node)
        if not self.has_relay:
            return None if row.is_barred(now_us) else "redis"
        return ENTRY_BY_NODE_PHASE[row.phase_at(now_us)]

    def _run(self, row: KeyRow) -> bool:
        return self.executions.start(self.machine_arn, row.execution_name, key_execution_input(row))
