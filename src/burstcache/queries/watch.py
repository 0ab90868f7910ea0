"""Follows a key or a node through its states, from one execution to the next, by the names of the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from sys import maxsize
from typing import Literal

from burstcache.adapters.clock import Clock
from burstcache.core.errors import BurstcacheError, ServiceTransientError
from burstcache.core.keys import key_hash
from burstcache.core.rows import KeyRow
from burstcache.queries.history import History
from burstcache.queries.places import node_of, place_of
from burstcache.queries.states import GUEST, STATE_OF_KEY_PHASE, STATE_OF_NODE_PHASE
from burstcache.queries.system import System

POLL_S = 0.5
_FAILS_FOR_S = 60.0  # AWS that fails for as long ends a watch; what passes sooner is not worth a word
# After these an execution ends before its key or node is at rest: the instance still stops, or another one goes on.
_LAST_BEFORE_REST = frozenset({"StopNode", "Superseded"})


class NotReachedError(BurstcacheError):
    """A watched state was not entered in time."""


@dataclass(frozen=True, slots=True)
class Life:
    """What a row says of its key or node at an instant."""

    state: str  # at rest: that in which it is now, which no execution has
    is_at_rest: bool  # no execution owns it
    execution_name: str
    since_us: int


@dataclass(frozen=True, slots=True)
class Entered:
    """One state entered."""

    at_us: int  # 0: not known
    state: str
    execution_name: str  # empty: at rest
    failure: str = ""  # error and cause, if the execution before ended badly
    doubt: Literal["", "no_execution", "deadline_passed"] = ""  # why the state is not in an execution's history


@dataclass(slots=True)
class Watcher:
    """Finds the states entered since the last look."""

    read_life: Callable[[], Life]
    open_history: Callable[[str], History]
    rest_state: str  # in which an execution leaves it
    _name: str = ""  # of the execution that is followed, or was last
    _history: History | None = None  # None: it is over
    _is_first: bool = True
    _is_superseded: bool = False  # the last look found a newer life, but no end of the one that is followed
    _last_state: str = ""
    _resting: str = ""  # the state at rest that was reported last; empty: an execution was entered since
    _last_at_us: int = 0
    _is_rest_due: bool = False  # the execution has ended, and nothing has shown yet that its key or node is at rest
    _found: list[Entered] = field(default_factory=list)  # by a look that has not ended, or has failed

    def look(self) -> list[Entered]:
        """Return the states entered since the last look; the first look gives those of the current life.

        After a failure the next look gives what this one would have given.

        Raises:
            ServiceError: DynamoDB or Step Functions fails.
        """
        life = self.read_life()  # before the history: what ends after this is seen at the next look
        is_first, self._is_first = self._is_first, False
        self._found += self._follow()
        if life.is_at_rest:
            self._found += self._rest(life, is_first)
        elif life.execution_name != self._name and self._lets_go():
            self._name, self._last_state, self._is_rest_due = life.execution_name, "", False
            self._history = self.open_history(life.execution_name)
            self._found += self._follow()
            if is_first and not self._found:
                self._found.append(Entered(life.since_us, life.state, self._name, doubt="no_execution"))
        entered, self._found = self._found, []
        for each in entered:
            self._resting = "" if each.execution_name else each.state
            self._last_at_us = max(self._last_at_us, each.at_us)
        return entered

    def _rest(self, life: Life, is_first: bool) -> list[Entered]:
        if is_first:
            self._name = life.execution_name
            return [Entered(life.since_us, life.state, "")]
        if self._is_rest_due:
            self._is_rest_due = False
            return [Entered(0, life.state, "")]
        if self._history is None:  # a guest comes and goes with its node, without an execution of its own
            since_us = life.since_us if life.since_us > self._last_at_us else 0
            return [Entered(since_us, life.state, "")] if self._resting not in ("", life.state) else []
        if not self._lets_go():
            return []
        self._history = None
        return [Entered(0, life.state, "", doubt="deadline_passed")]

    def _lets_go(self) -> bool:
        """Whether to stop following: the execution has ended, or not reported its end within one look.

        A killed execution never reports it.
        """
        self._is_superseded = self._history is not None and not self._is_superseded
        return not self._is_superseded

    def _follow(self) -> list[Entered]:
        steps = self._history.read_new() if self._history else None
        entered = []
        for step in steps or ():
            if step.state:
                self._last_state = step.state
                entered.append(Entered(step.at_us, step.state, self._name))
                continue
            self._history = None
            self._is_rest_due = self._last_state in _LAST_BEFORE_REST and not step.failure
            if not self._is_rest_due:
                entered.append(Entered(step.at_us, self.rest_state, "", step.failure))
        return entered


def key_watcher(system: System, key: str, *, max_object_bytes: int = maxsize) -> Watcher:
    """Return a watcher of one key, which need not have been requested yet.

    Args:
        system: What is asked.
        key: Name of the object.
        max_object_bytes: What a faster tier takes [bytes].
    """
    hash_ = key_hash(key)

    def read_life() -> Life:
        row = system.keys.read(hash_) or KeyRow(hash_, key)
        name = row.execution_name if row.epoch else ""
        now_us = system.clock.now_us()
        if row.is_live(now_us):
            return Life(STATE_OF_KEY_PHASE[row.phase], False, name, row.changed_at_us)
        node = node_of(row, [system.nodes.read(name) for name in system.node_names], now_us)
        if node and place_of(row, node, now_us, max_object_bytes=max_object_bytes) == "guest":
            return Life(GUEST, True, name, node.ready_at_us)
        return Life(STATE_OF_KEY_PHASE["s3"], True, name, row.changed_at_us)

    return Watcher(read_life, system.key_history, STATE_OF_KEY_PHASE["s3"])


def node_watcher(system: System, node: str) -> Watcher:
    """Return a watcher of one Redis node."""

    def read_life() -> Life:
        row = system.nodes.read(node)
        phase = row.phase_at(system.clock.now_us())
        name = row.execution_name if row.generation else ""
        return Life(STATE_OF_NODE_PHASE[phase], phase == "stopped", name, row.ready_at_us if phase == "running" else 0)

    return Watcher(read_life, system.node_history, STATE_OF_NODE_PHASE["stopped"])


def watch(
    watcher: Watcher, clock: Clock, *, until: str = "", timeout_s: float = inf, poll_s: float = POLL_S
) -> Iterator[Entered]:
    """Yield the states as they are entered, until one of them is `until`.

    Args:
        watcher: Of a key or a node.
        clock: What time is measured and waited by.
        until: The state that ends the watch, at once if it is the current one; empty for none.
        timeout_s: How long to watch at most [s].
        poll_s: Time between two looks [s].

    Raises:
        NotReachedError: `until` was not entered within `timeout_s`.
        ServiceError: DynamoDB or Step Functions fails; after the first look not in passing.
    """
    end_s = clock.monotonic_s() + timeout_s
    first = watcher.look()
    yield from first
    state, answered_s = first[-1].state if first else "", clock.monotonic_s()
    while not until or state != until:
        if (left_s := end_s - clock.monotonic_s()) <= 0:
            if until:
                raise NotReachedError(f"{until} was not entered within {timeout_s:g} s; the state is {state}")
            return
        clock.sleep(min(poll_s, left_s))
        try:
            looked = watcher.look()
        except ServiceTransientError:
            if clock.monotonic_s() - answered_s > _FAILS_FOR_S:
                raise
            continue
        answered_s = clock.monotonic_s()
        for entered in looked:
            yield entered
            state = entered.state
            if state == until:
                return
