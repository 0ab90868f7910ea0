"""The use scheduler, which boots nodes and starts cache functions from reports of requests that Redis did not serve.

It schedules nodes with read-through entries. Reports are delivered at least once, may be late, and may arrive
concurrently. A node's use counts each report once. A key's use counts only requests newer than the last counted
request.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from burstcache.adapters.clock import Clock, back_off
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.use_table import StoredUse, UseTable
from burstcache.control.scheduler import Outcome, Scheduler
from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache.core.key_use import KeyRule, stored_key_use
from burstcache.core.keys import key_hash
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.events import KeyServed
from burstcache.core.messages.operations import Serve
from burstcache.core.node_memory import with_missed
from burstcache.core.node_use import NodeUse, UseRule, learn_repeats, use_or_first
from burstcache.core.node_use import encode as encode_use
from burstcache.core.pending_reports import REPORT_BYTES, PendingReport, Repeat
from burstcache.core.placement import node_for
from burstcache.core.policies import LivePolicy, UsePolicy
from burstcache.core.policy import EVENT_LATENESS_US, RecordedRequest
from burstcache.core.recency import is_repeat, should_record
from burstcache.core.rows import KeyRow, NodeRow, SeenKey
from burstcache.core.worth import Worth
from burstcache.logs import logger

_ATTEMPTS = 8
_MOST_PENDING = 6  # reports of missed requests, for which the item stays below 1 KB
# Ignore bursts that ended longer ago than a busy reader's batching time plus the delay of bus and function. A reader
# with few requests reports later, and gives less reason to boot a node.
_LATENESS_US = MIN_BATCH_AGE_US + EVENT_LATENESS_US


class ReportScheduler(Protocol):
    """A scheduler that decides from reports of requests."""

    def observe_all(self, served: Iterable[KeyServed]) -> dict[str, Outcome]:
        """Count requests, and return the outcome of each key."""

    def start_by_hand(self, key: str) -> Outcome:
        """Start a key's life, or boot its node, by hand."""

    def replace_dead(self, task: Serve, cause: str) -> Outcome:
        """Replace a key's dead cache function. `cause` describes the failure."""


@dataclass(frozen=True, slots=True)
class UseScheduler:
    """A scheduler that decides by the use of nodes and keys."""

    policy: UsePolicy
    scheduler: Scheduler  # starts lives of keys
    nodes: NodeTable
    uses: UseTable
    boot: Callable[[NodeRow], object]  # boots a stopped node; no effect if another scheduler was faster
    clock: Clock
    has_cache_functions: bool
    chance: Callable[[], float] = random.random  # from 0 to 1: jitter of retries after a write conflict

    def observe_all(self, served: Iterable[KeyServed]) -> dict[str, Outcome]:
        """Count requests that Redis did not serve, and return the outcome of each key."""
        by_node: defaultdict[str, list[KeyServed]] = defaultdict(list)
        outcomes: dict[str, Outcome] = {}
        for each in served:
            if each["size_bytes"] <= self.scheduler.max_object_bytes:
                by_node[node_for(key_hash(each["key"]), self.scheduler.node_names)].append(each)
            else:
                outcomes[each["key"]] = "too_large"
        for node, keys in by_node.items():
            outcomes |= self._observe(node, keys)
        return outcomes

    def start_by_hand(self, key: str) -> Outcome:
        """Boot the key's node regardless of its requests (the thesis's development API)."""
        row = self.nodes.read(node_for(key_hash(key), self.scheduler.node_names))
        if row.phase_at(self.clock.now_us()) != "stopped":
            return "already_hot"
        if self.scheduler.pauses.read():
            return "paused"
        self.boot(row)
        return "booted"

    def replace_dead(self, task: Serve, cause: str) -> Outcome:
        """Fail the task of a dead cache function, so that its state starts the next function."""
        return self.scheduler.replace_dead(task, cause)

    def _observe(self, node: str, keys: Sequence[KeyServed]) -> dict[str, Outcome]:
        now_us = self.clock.now_us()
        row = self.nodes.read(node)
        phase = row.phase_at(now_us)
        seen = self.uses.seen(node, {key_hash(each["key"]) for each in keys})
        repeats = _repeats(keys, seen, self.policy.worth)
        outcomes: dict[str, Outcome] = {each["key"]: "remembered" for each in keys}
        # The utilisation check of a running node counts the hits that the node itself records.
        if phase == "running" and repeats:
            self._count_missed(node, repeats, _report_id(keys))
        if phase != "running":
            boots = bool(repeats) and self._learn(node, repeats, _report_id(keys), now_us)
            if boots and phase == "stopped" and not row.is_barred(now_us) and not self.scheduler.pauses.read():
                self.boot(row)
                phase = "booting"
                logger().info("node boots", extra={"node": node, "repeats": len(repeats)})
            if self.has_cache_functions and self.policy.key.ever_starts:
                for each in keys:
                    if each.get("served_by") != "lambda":  # its cache function records the key's use
                        outcomes[each["key"]] = self._observe_key(each, row, is_booting=phase == "booting")
        self.uses.note_seen(node, _newly_seen(keys, seen, is_booting=phase == "booting"))
        return outcomes

    def _learn(self, node: str, repeats: Sequence[Repeat], report: bytes, now_us: int) -> bool:
        """Count repeated requests in the node's use. Return whether one of them makes the node boot.

        A past burst boots nothing, because an older request is evaluated as of `_LATENESS_US` ago. If another writer
        was faster, the report stays pending and the decision includes all pending reports, so nothing is tried again.
        """
        rule, earliest_us = self.policy.node, now_us - _LATENESS_US
        stored = self.uses.read(node)
        if not stored.has(report):
            use, boots = _decided(rule, stored, repeats, earliest_us)
            if self.uses.write(node, use, seen=stored, report=report):
                return boots
            stored = self.uses.add_pending(node, PendingReport(report, repeats))
        use, boots = _decided(rule, stored, (), earliest_us)
        return boots or rule.boots(use, max(repeats[-1][0], earliest_us))

    def _count_missed(self, node: str, repeats: Sequence[Repeat], report: bytes) -> None:
        """Count repeats that a running node missed, if it evicts entries. Otherwise write nothing.

        Most reports stay pending, so that the node's check seldom meets another writer.
        """
        rule, weight = self.policy.node, sum(weight for _, weight in repeats)
        stored = self.uses.read(node)
        if not stored.memory.is_evicting or stored.has(report):
            return
        if len(stored.pending) >= _MOST_PENDING:
            memory = with_missed(stored.memory, weight)
            if self.uses.write(node, stored.use_by(rule), seen=stored, report=report, memory=memory):
                return
        self.uses.add_pending(node, PendingReport(report, missed=weight))

    def _observe_key(self, each: KeyServed, node: NodeRow, *, is_booting: bool) -> Outcome:
        """Count requests in a key's use, and start its cache function if the requests pay for it."""
        scheduler, rule = self.scheduler, self.policy.key
        hash_, now_us = key_hash(each["key"]), self.clock.now_us()
        requests = sorted(RecordedRequest.decode(text) for text in each["requests"])
        for attempt in range(_ATTEMPTS):
            row = scheduler.keys.read(hash_) or KeyRow(hash=hash_, key=each["key"])
            if row.is_live(now_us) and row.is_announced:  # its cache function records its own requests
                return scheduler.ensure_running(row, now_us)
            newer = [request for request in requests if not row.window or request > row.window[-1]]
            if not newer:
                return "remembered"
            size_bytes = each["size_bytes"] or row.size_bytes
            weight = self.policy.worth.weight_of(size_bytes)
            use, starts = _learned(rule, row, newer, weight, node, is_booting=is_booting)
            learned = scheduler.keys.learn(row, use, newer[-1], etag=each["etag"], size_bytes=size_bytes)
            if learned is not None and row.is_live(now_us):
                return scheduler.ensure_running(row, now_us)
            if learned is not None:
                in_time = now_us - newer[-1].at_us < _LATENESS_US and newer[-1].at_us > row.changed_at_us
                if starts and in_time and scheduler.may_take(learned, now_us):
                    return scheduler.start(learned, now_us)
                return "remembered"
            back_off(self.clock, attempt, self.chance)
        # Other reports about the key were counted meanwhile, and decided. A report is a statistic, so drop this one.
        logger().info("report about a key dropped", key=each["key"], attempts=_ATTEMPTS)
        return "remembered"


def report_scheduler(
    policy: LivePolicy, scheduler: Scheduler, uses: UseTable, boot: Callable[[NodeRow], object]
) -> ReportScheduler:
    """Return a policy's scheduler. It is `scheduler` itself if the policy gives each key its own life and lease.

    Args:
        policy: The stack's policy.
        scheduler: Starts lives of keys.
        uses: The table of nodes' uses.
        boot: Boots a stopped node; no effect if another scheduler was faster.
    """
    if policy.use is None:
        return scheduler
    nodes, clock = scheduler.nodes, scheduler.clock
    return UseScheduler(policy.use, scheduler, nodes, uses, boot, clock, has_cache_functions=scheduler.has_relay)


def _decided(rule: UseRule, stored: StoredUse, repeats: Sequence[Repeat], earliest_us: int) -> tuple[NodeUse, bool]:
    """Return the node's use after pending and new repeats, and whether one of them makes the node boot."""
    use, boots = use_or_first(rule, stored.use), False
    for at_us, learned in learn_repeats(rule, use, [*stored.pending_repeats, *repeats]):
        use, boots = learned, boots or rule.boots(learned, max(at_us, earliest_us))
    return use, boots


def _learned(
    rule: KeyRule, row: KeyRow, requests: Sequence[RecordedRequest], weight: int, node: NodeRow, *, is_booting: bool
) -> tuple[bytes, bool]:
    """Return the key's use after newer requests, and whether one of them starts a cache function."""
    use, starts = stored_key_use(rule, row.use, node_ready_us=node.ready_at_us), False
    for request in requests:
        use = rule.observe(use, request.at_us, weight)
        starts = starts or (use.last_us == request.at_us and rule.starts(use, is_booting=is_booting))
    return encode_use(use), starts


def _repeats(keys: Iterable[KeyServed], seen: Mapping[str, SeenKey], worth: Worth) -> list[Repeat]:
    """Return the repeated requests, which count for the node, oldest first."""
    repeats: list[Repeat] = []
    seen_us = {hash_: key.seen_at_us for hash_, key in seen.items()}
    for each in keys:
        hash_ = key_hash(each["key"])
        weight = worth.weight_of(each["size_bytes"] or (seen[hash_].size_bytes if hash_ in seen else 0))
        for at_us in _times_us(each):
            if is_repeat(seen_us.get(hash_), at_us):
                repeats.append((at_us, weight))
            if should_record(seen_us.get(hash_), at_us):
                seen_us[hash_] = at_us
    return sorted(repeats)


def _newly_seen(keys: Iterable[KeyServed], seen: Mapping[str, SeenKey], *, is_booting: bool) -> Collection[SeenKey]:
    """Return the keys to record as seen."""
    noted: dict[str, SeenKey] = {}
    for each in keys:
        hash_ = key_hash(each["key"])
        former = seen.get(hash_)
        size_bytes = each["size_bytes"] or (former.size_bytes if former else 0)
        for at_us in _times_us(each):
            last = noted.get(hash_, former)
            if should_record(last.seen_at_us if last else None, at_us, is_booting=is_booting):
                noted[hash_] = SeenKey(hash_, each["key"], size_bytes, at_us)
    return noted.values()


def _times_us(each: KeyServed) -> list[int]:
    """Return the request times of a key, oldest first [us]. Requests omitted from the report get the oldest time."""
    times_us = sorted(RecordedRequest.decode(text).at_us for text in each["requests"])
    return [*times_us[:1] * each.get("left_out", 0), *times_us]


def _report_id(keys: Iterable[KeyServed]) -> bytes:
    """Return the idempotency key of a report."""
    return hashlib.sha256(b"".join(encode(each) for each in keys)).digest()[:REPORT_BYTES]
