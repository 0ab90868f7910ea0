"""A watch on a key or a node: its states as named in the console, across executions."""

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
_MAX_FAILING_S = 60.0  # transient failures that last longer end a watch; shorter failures are not reported
# After these states an execution ends before its owner is at rest, because the instance is still stopping, or another
# execution takes over.
_LAST_BEFORE_REST = frozenset({"StopNode", "Superseded"})


class NotReachedError(BurstcacheError):
    """A watched state was not entered in time."""


@dataclass(frozen=True, slots=True)
class RowState:
    """The state of a key or node in its row at an instant."""

    state: str  # if at rest, a state that no execution has
    is_at_rest: bool  # no execution owns the row
    execution_name: str
    since_us: int


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The entry into a state."""

    at_us: int  # 0: unknown
    state: str
    execution_name: str  # empty: at rest
    failure: str = ""  # error and cause, if the previous execution failed
    doubt: Literal["", "no_execution", "deadline_passed"] = ""  # why the state is not in an execution's history


@dataclass(slots=True)
class Watcher:
    """A watcher of one key or node, which returns the states entered since its last poll."""

    read_row: Callable[[], RowState]
    open_history: Callable[[str], History]
    rest_state: str  # the state after an execution's end
    _name: str = ""  # of the followed or last execution
    _history: History | None = None  # None once the execution has ended
    _is_first: bool = True
    _is_superseded: bool = False  # the last poll saw a newer execution, but not the end of the followed execution
    _last_state: str = ""
    _resting: str = ""  # the last reported state at rest; empty if an execution's state was reported since
    _last_at_us: int = 0
    _is_rest_due: bool = False  # the execution has ended, but the row has not been seen at rest yet
    _unreported: list[StateEntry] = field(default_factory=list)  # entries of a poll in progress or of a failed poll

    def poll(self) -> list[StateEntry]:
        """Return the states entered since the last poll. The first poll returns the states of the current execution.

        A failed poll loses no entries, since the next poll returns them, too.

        Raises:
            ServiceError: DynamoDB or Step Functions fails.
        """
        row = self.read_row()  # before the history, so that the next poll sees an execution that ends in between
        is_first, self._is_first = self._is_first, False
        self._unreported += self._follow()
        if row.is_at_rest:
            self._unreported += self._rest(row, is_first)
        elif row.execution_name != self._name and self._leaves():
            self._name, self._last_state, self._is_rest_due = row.execution_name, "", False
            self._history = self.open_history(row.execution_name)
            self._unreported += self._follow()
            if is_first and not self._unreported:
                self._unreported.append(StateEntry(row.since_us, row.state, self._name, doubt="no_execution"))
        entries, self._unreported = self._unreported, []
        for entry in entries:
            self._resting = "" if entry.execution_name else entry.state
            self._last_at_us = max(self._last_at_us, entry.at_us)
        return entries

    def _rest(self, row: RowState, is_first: bool) -> list[StateEntry]:
        if is_first:
            self._name = row.execution_name
            return [StateEntry(row.since_us, row.state, "")]
        if self._is_rest_due:
            self._is_rest_due = False
            return [StateEntry(0, row.state, "")]
        if self._history is None:  # a read-through entry appears and disappears with its node, without an execution
            since_us = row.since_us if row.since_us > self._last_at_us else 0
            return [StateEntry(since_us, row.state, "")] if self._resting not in ("", row.state) else []
        if not self._leaves():
            return []
        self._history = None
        return [StateEntry(0, row.state, "", doubt="deadline_passed")]

    def _leaves(self) -> bool:
        """Return whether to stop following the execution, which has ended or still has no end after one more poll.

        A killed execution never records its end.
        """
        self._is_superseded = self._history is not None and not self._is_superseded
        return not self._is_superseded

    def _follow(self) -> list[StateEntry]:
        steps = self._history.read_new() if self._history else None
        entries = []
        for step in steps or ():
            if step.state:
                self._last_state = step.state
                entries.append(StateEntry(step.at_us, step.state, self._name))
                continue
            self._history = None
            self._is_rest_due = self._last_state in _LAST_BEFORE_REST and not step.failure
            if not self._is_rest_due:
                entries.append(StateEntry(step.at_us, self.rest_state, "", step.failure))
        return entries


def key_watcher(system: System, key: str, *, max_object_bytes: int = maxsize) -> Watcher:
    """Return a watcher of one key, which need not have been requested yet.

    Args:
        system: The system to query.
        key: Name of the object.
        max_object_bytes: The largest object that a faster tier accepts [bytes].
    """
    hash_ = key_hash(key)

    def read_row() -> RowState:
        row = system.keys.read(hash_) or KeyRow(hash_, key)
        name = row.execution_name if row.epoch else ""
        now_us = system.clock.now_us()
        if row.is_live(now_us):
            return RowState(STATE_OF_KEY_PHASE[row.phase], False, name, row.changed_at_us)
        node = node_of(row, [system.nodes.read(name) for name in system.node_names], now_us)
        if node and place_of(row, node, now_us, max_object_bytes=max_object_bytes) == "guest":
            return RowState(GUEST, True, name, node.ready_at_us)
        return RowState(STATE_OF_KEY_PHASE["s3"], True, name, row.changed_at_us)

    return Watcher(read_row, system.key_history, STATE_OF_KEY_PHASE["s3"])


def node_watcher(system: System, node: str) -> Watcher:
    """Return a watcher of one Redis node."""

    def read_row() -> RowState:
        row = system.nodes.read(node)
        phase = row.phase_at(system.clock.now_us())
        name = row.execution_name if row.generation else ""
        return RowState(
            STATE_OF_NODE_PHASE[phase], phase == "stopped", name, row.ready_at_us if phase == "running" else 0
        )

    return Watcher(read_row, system.node_history, STATE_OF_NODE_PHASE["stopped"])


def watch(
    watcher: Watcher, clock: Clock, *, until: str = "", timeout_s: float = inf, poll_s: float = POLL_S
) -> Iterator[StateEntry]:
    """Yield the states as they are entered, until one of them is `until`.

    Args:
        watcher: Watcher of a key or a node.
        clock: Clock for timeouts and waits.
        until: State that ends the watch, immediately if it is the current state. If empty, no state does.
        timeout_s: Longest time to watch [s].
        poll_s: Time between two polls [s].

    Raises:
        NotReachedError: `until` was not entered within `timeout_s`.
        ServiceError: DynamoDB or Step Functions fails. After the first poll, transient failures of up to a minute are
            retried.
    """
    end_s = clock.monotonic_s() + timeout_s
    first = watcher.poll()
    yield from first
    state, answered_s = first[-1].state if first else "", clock.monotonic_s()
    while not until or state != until:
        if (left_s := end_s - clock.monotonic_s()) <= 0:
            if until:
                raise NotReachedError(f"{until} was not entered within {timeout_s:g} s; the state is {state}")
            return
        clock.sleep(min(poll_s, left_s))
        try:
            entries = watcher.poll()
        except ServiceTransientError:
            if clock.monotonic_s() - answered_s > _MAX_FAILING_S:
                raise
            continue
        answered_s = clock.monotonic_s()
        for entry in entries:
            yield entry
            state = entry.state
            if state == until:
                return
