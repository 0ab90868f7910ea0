"""The demand for nodes that take guests: what is served below Redis boots a node, or starts a key's cache function.

A report may come late, twice, or at the same time as another. The node's use counts each once; a key's use learns only
requests newer than the one that it knows.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.use_table import REPORT_BYTES, UseTable
from burstcache.control.scheduler import Outcome, Scheduler
from burstcache.core.errors import ContendedRowTransientError
from burstcache.core.gathering import AT_LEAST_US
from burstcache.core.key_use import KeyRule, stored_key_use
from burstcache.core.keys import key_hash
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.events import KeyServed
from burstcache.core.messages.operations import Serve
from burstcache.core.node_use import encode as encode_use
from burstcache.core.node_use import use_or_first
from burstcache.core.placement import node_for
from burstcache.core.policies import LivePolicy, UsePolicy
from burstcache.core.policy import EVENT_LATENESS_US, Request
from burstcache.core.rows import KeyRow, NodeRow, SeenKey
from burstcache.core.seen import is_repeat, notes_seen
from burstcache.core.worth import Worth
from burstcache.logs import logger

_ATTEMPTS = 8
# A load that has been over for this long when it is reported boots nothing: as long as a busy reader gathers, and the
# bus and the function take. A reader of little reports later, and has less to boot a node for.
_LATENESS_US = AT_LEAST_US + EVENT_LATENESS_US

Repeat = tuple[int, int]  # when it came, and its weight [us, millionths]


class Judge(Protocol):
    """What decides by reports of requests."""

    def observe_all(self, served: Iterable[KeyServed]) -> dict[str, Outcome]:
        """Count requests; return what became of each key."""

    def start_by_hand(self, key: str) -> Outcome:
        """Start what a person wants to have started."""

    def replace_dead(self, task: Serve, cause: str) -> Outcome:
        """Have the next cache function of a key started after one has died of `cause`."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Judges reports by the use of nodes and keys."""

    policy: UsePolicy
    lives: Scheduler
    nodes: NodeTable
    uses: UseTable
    boot: Callable[[NodeRow], object]  # a stopped node; harmless if another scheduler was faster
    clock: Clock
    has_cache_functions: bool
    chance: Callable[[], float] = random.random  # from 0 to 1: spreads out the attempts of writers that collided

    def observe_all(self, served: Iterable[KeyServed]) -> dict[str, Outcome]:
        """Count what was served below Redis and cache functions; return what became of each key."""
        by_node: defaultdict[str, list[KeyServed]] = defaultdict(list)
        outcomes: dict[str, Outcome] = {}
        for each in served:
            if each["size_bytes"] <= self.lives.max_object_bytes:
                by_node[node_for(key_hash(each["key"]), self.lives.node_names)].append(each)
            else:
                outcomes[each["key"]] = "too_large"
        for node, keys in by_node.items():
            outcomes |= self._observe(node, keys)
        return outcomes

    def start_by_hand(self, key: str) -> Outcome:
        """Boot the key's node whatever its requests (the thesis's development API)."""
        row = self.nodes.read(node_for(key_hash(key), self.lives.node_names))
        if row.phase_at(self.clock.now_us()) != "stopped":
            return "already_hot"
        if self.lives.pauses.read():
            return "paused"
        self.boot(row)
        return "booted"

    def replace_dead(self, task: Serve, cause: str) -> Outcome:
        """Have the state of a cache function that has died start the next one."""
        return self.lives.replace_dead(task, cause)

    def _observe(self, node: str, keys: Sequence[KeyServed]) -> dict[str, Outcome]:
        now_us = self.clock.now_us()
        row = self.nodes.read(node)
        phase = row.phase_at(now_us)
        seen = self.uses.seen(node, {key_hash(each["key"]) for each in keys})
        repeats = _repeats(keys, seen, self.policy.worth)
        outcomes: dict[str, Outcome] = {each["key"]: "remembered" for each in keys}
        # While the node runs it is judged by the hits that it notes itself.
        if phase != "running":
            boots = bool(repeats) and self._learn(node, repeats, _report(keys), now_us)
            if boots and phase == "stopped" and not row.is_barred(now_us) and not self.lives.pauses.read():
                self.boot(row)
                phase = "booting"
                logger().info("node boots", extra={"node": node, "repeats": len(repeats)})
            if self.has_cache_functions and self.policy.key.ever_starts:
                for each in keys:
                    if each.get("served_by") != "lambda":  # such a key's cache function knows its use
                        outcomes[each["key"]] = self._observe_key(each, row, is_booting=phase == "booting")
        self.uses.note_seen(node, _newly_seen(keys, seen, is_booting=phase == "booting"))
        return outcomes

    def _learn(self, node: str, repeats: Sequence[Repeat], report: bytes, now_us: int) -> bool:
        """Count repeats in the node's use; return whether it boots at one of them.

        A load that is over boots nothing: a report that comes late is judged some seconds before now.
        """
        rule = self.policy.node
        for attempt in range(_ATTEMPTS):
            stored = self.uses.read(node)
            use = use_or_first(rule, stored.use)
            if stored.has(report):
                return rule.boots(use, max(repeats[-1][0], now_us - _LATENESS_US))
            boots = False
            for at_us, weight in repeats:
                use = rule.observe(use, at_us, weight)
                boots = boots or rule.boots(use, max(at_us, now_us - _LATENESS_US))
            if self.uses.write(node, use, seen=stored, report=report):
                return boots
            self.clock.sleep(self.chance() * 0.01 * 2**attempt)
        raise ContendedRowTransientError(f"the use of {node} changed under {_ATTEMPTS} attempts to count requests")

    def _observe_key(self, each: KeyServed, node: NodeRow, *, is_booting: bool) -> Outcome:
        """Learn a key's requests, and start its cache function if they pay for one."""
        lives, rule = self.lives, self.policy.key
        hash_, now_us = key_hash(each["key"]), self.clock.now_us()
        requests = sorted(Request.decode(text) for text in each["requests"])
        for _ in range(_ATTEMPTS):
            row = lives.keys.read(hash_) or KeyRow(hash=hash_, key=each["key"])
            if row.is_live(now_us) and row.is_announced:  # its cache function learns what it serves
                return lives.see_that_it_runs(row, now_us)
            newer = [request for request in requests if not row.window or request > row.window[-1]]
            if not newer:
                return "remembered"
            size_bytes = each["size_bytes"] or row.size_bytes
            weight = self.policy.worth.weight_of(size_bytes)
            use, starts = _learned(rule, row, newer, weight, node, is_booting=is_booting)
            learned = lives.keys.learn(row, use, newer[-1], etag=each["etag"], size_bytes=size_bytes)
            if learned is not None and row.is_live(now_us):
                return lives.see_that_it_runs(row, now_us)
            if learned is not None:
                in_time = now_us - newer[-1].at_us < _LATENESS_US and newer[-1].at_us > row.changed_at_us
                if starts and in_time and lives.may_take(learned, now_us):
                    return lives.start(learned, now_us)
                return "remembered"
        raise ContendedRowTransientError(f"the use of {each['key']!r} changed under {_ATTEMPTS} attempts to learn it")


def judge(policy: LivePolicy, lives: Scheduler, uses: UseTable, boot: Callable[[NodeRow], object]) -> Judge:
    """Return what decides under a policy: the scheduler itself where each key has a life and a lease of its own.

    Args:
        policy: The stack's policy.
        lives: Starts lives of keys.
        uses: Has the use of nodes.
        boot: Boots a stopped node; harmless if another scheduler was faster.
    """
    if policy.use is None:
        return lives
    return Demand(policy.use, lives, lives.nodes, uses, boot, lives.clock, has_cache_functions=lives.has_relay)


def _learned(
    rule: KeyRule, row: KeyRow, requests: Sequence[Request], weight: int, node: NodeRow, *, is_booting: bool
) -> tuple[bytes, bool]:
    """Return the key's use with newer requests, and whether one of them starts a cache function."""
    use, starts = stored_key_use(rule, row.use, node_ready_us=node.ready_at_us), False
    for request in requests:
        use = rule.observe(use, request.at_us, weight)
        starts = starts or (use.last_us == request.at_us and rule.starts(use, is_booting=is_booting))
    return encode_use(use), starts


def _repeats(keys: Iterable[KeyServed], seen: Mapping[str, SeenKey], worth: Worth) -> list[Repeat]:
    """Return the requests that count for the node, oldest first."""
    repeats: list[Repeat] = []
    seen_us = {hash_: known.seen_at_us for hash_, known in seen.items()}
    for each in keys:
        hash_ = key_hash(each["key"])
        weight = worth.weight_of(each["size_bytes"] or (seen[hash_].size_bytes if hash_ in seen else 0))
        for at_us in _times_us(each):
            if is_repeat(seen_us.get(hash_), at_us):
                repeats.append((at_us, weight))
            if notes_seen(seen_us.get(hash_), at_us):
                seen_us[hash_] = at_us
    return sorted(repeats)


def _newly_seen(keys: Iterable[KeyServed], seen: Mapping[str, SeenKey], *, is_booting: bool) -> Collection[SeenKey]:
    """Return the keys whose sight is to be noted."""
    noted: dict[str, SeenKey] = {}
    for each in keys:
        hash_ = key_hash(each["key"])
        known = seen.get(hash_)
        size_bytes = each["size_bytes"] or (known.size_bytes if known else 0)
        for at_us in _times_us(each):
            last = noted.get(hash_, known)
            if notes_seen(last.seen_at_us if last else None, at_us, is_booting=is_booting):
                noted[hash_] = SeenKey(hash_, each["key"], size_bytes, at_us)
    return noted.values()


def _times_us(each: KeyServed) -> list[int]:
    """Return when a key was asked for, oldest first; what is left out came with the oldest [us]."""
    times_us = sorted(Request.decode(text).at_us for text in each["requests"])
    return [*times_us[:1] * each.get("left_out", 0), *times_us]


def _report(keys: Iterable[KeyServed]) -> bytes:
    """Return what stands for a report: the same for each of its deliveries."""
    return hashlib.sha256(b"".join(encode(each) for each in keys)).digest()[:REPORT_BYTES]
