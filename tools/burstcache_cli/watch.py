"""Follows a key or a node through its states, from one execution to the next, by the names of the console."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.core.errors import BurstcacheError
from burstcache.core.keys import key_hash
from burstcache.core.table import KeyRow
from burstcache_cli.history import History, histories
from burstcache_cli.keys import STATE_OF_PHASE
from burstcache_cli.stack import Stack
from burstcache_terminal.text import duration_text, time_text

POLL_S = 0.5
KEY_STATES = tuple(STATE_OF_PHASE.values())
STATE_OF_NODE_PHASE = {
    "stopped": "Stopped",
    "booting": "AwaitNode",
    "running": "RedisNodeRunning",
    "stopping": "StopNode",
}
NODE_STATES = ("Stopped", "StartNode", "AwaitNode", "RedisNodeRunning", "CheckNodeUse", "StopNode")
# This state starts the execution that goes on, so the end of the one it is in is no end.
_SUCCESSOR_STATE = "StartNodeSuccessor"


class NotReachedError(BurstcacheError):
    """A watched state was not entered in time."""


@dataclass(frozen=True, slots=True)
class Life:
    """What a row says of its key or node at an instant."""

    state: str
    is_at_rest: bool  # no execution owns it
    execution_name: str
    since_us: int


@dataclass(frozen=True, slots=True)
class Entered:
    """One state entered."""

    at_us: int  # 0: not known
    state: str
    execution_name: str  # empty: at rest
    note: str = ""  # what failed


@dataclass(slots=True)
class Watcher:
    """Finds the states entered since the last look."""

    read_life: Callable[[], Life]
    open_history: Callable[[str], History]
    rest_state: str
    _name: str = ""  # of the execution that is followed, or was last
    _history: History | None = None  # None: it is over
    _is_first: bool = True
    _is_superseded: bool = False  # the last look found a newer life, but no end of the one that is followed
    _last_state: str = ""

    def look(self) -> list[Entered]:
        """Return the states entered since the last look; the first look gives those of the current life."""
        life = self.read_life()  # before the history: what ends after this is seen at the next look
        is_first, self._is_first = self._is_first, False
        entered = self._follow()
        if life.is_at_rest:
            entered += self._rest(life, is_first)
        elif life.execution_name != self._name and self._lets_go():
            self._name, self._last_state = life.execution_name, ""
            self._history = self.open_history(life.execution_name)
            entered += self._follow()
            if is_first and not entered:
                entered.append(Entered(life.since_us, life.state, self._name, "no execution of this name (yet)"))
        return entered

    def _rest(self, life: Life, is_first: bool) -> list[Entered]:
        if is_first:
            self._name = life.execution_name
            return [Entered(life.since_us, self.rest_state, "")]
        if self._history is None or not self._lets_go():
            return []
        self._history = None
        return [Entered(0, self.rest_state, "", "its deadline has passed, the execution has not ended")]

    def _lets_go(self) -> bool:
        """Tell whether the followed execution is over, or has had a look's time to say so: a zombie never does."""
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
            if self._last_state != _SUCCESSOR_STATE:
                entered.append(Entered(step.at_us, self.rest_state, "", step.failure))
        return entered


@dataclass(slots=True)
class Lines:
    """Turns states into lines; each says how long the state before it took."""

    as_json: bool
    _before: Entered | None = field(default=None)

    def line(self, entered: Entered) -> str:
        """Return the line of a state just entered."""
        before, self._before = self._before, entered
        in_before_s = (entered.at_us - before.at_us) / 1_000_000 if before and before.at_us and entered.at_us else None
        if self.as_json:
            previous: dict[str, Any] = {"previous_state": before.state if before else None}
            previous["in_previous_s"] = in_before_s
            return json.dumps(asdict(entered) | previous)
        after = f"after {duration_text(in_before_s)} in {before.state}" if before and in_before_s is not None else ""
        cells = (time_text(entered.at_us, with_ms=True).ljust(24), entered.state.ljust(18), after, entered.note)
        return "  ".join(filter(None, cells)).rstrip()


def key_watcher(stack: Stack, key: str) -> Watcher:
    """Return a watcher of one key, which need not have been requested yet."""
    hash_ = key_hash(key)
    table = KeyTable(stack.output("TableName"), stack.client("dynamodb"), SystemClock())

    def read_life() -> Life:
        row = table.read(hash_) or KeyRow(hash_, key)
        name = row.execution_name if row.epoch else ""
        return Life(STATE_OF_PHASE[row.phase], not row.is_live(SystemClock().now_us()), name, row.changed_at_us)

    return Watcher(read_life, histories(stack, "KeyLifecycleArn"), STATE_OF_PHASE["s3"])


def node_watcher(stack: Stack, node: str) -> Watcher:
    """Return a watcher of one Redis node."""
    table = NodeTable(stack.output("TableName"), stack.client("dynamodb"))

    def read_life() -> Life:
        row = table.read(node)
        phase = row.phase_at(SystemClock().now_us())
        name = row.execution_name if row.generation else ""
        return Life(STATE_OF_NODE_PHASE[phase], phase == "stopped", name, row.ready_at_us if phase == "running" else 0)

    return Watcher(read_life, histories(stack, "RedisNodeArn"), STATE_OF_NODE_PHASE["stopped"])


def watch(
    watcher: Watcher,
    *,
    until: str = "",
    timeout_s: float = float("inf"),
    poll_s: float = POLL_S,
    clock_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Entered]:
    """Yield the states as they are entered, until one of them is `until`.

    Args:
        watcher: Of a key or a node.
        until: The state that ends the watch, at once if it is the current one; empty: none does.
        timeout_s: How long to watch at most [s].
        poll_s: Time between two looks [s].
        clock_s: Any clock that does not jump [s].
        sleep: Waits for so many seconds.

    Raises:
        NotReachedError: `until` was not entered within `timeout_s`.
    """
    end_s = clock_s() + timeout_s
    first = watcher.look()
    yield from first
    state = first[-1].state if first else ""
    while not until or state != until:
        if (left_s := end_s - clock_s()) <= 0:
            if until:
                raise NotReachedError(f"{until} was not entered within {timeout_s:g} s; the state is {state}")
            return
        sleep(min(poll_s, left_s))
        for entered in watcher.look():
            yield entered
            state = entered.state
            if state == until:
                return
