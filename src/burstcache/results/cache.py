"""A cache of results: layers, and one computation per key at a time, in this process and over all environments."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from burstcache.adapters.clock import Clock, Instant, instant
from burstcache.forks import new_lock
from burstcache.logs import logger
from burstcache.results.entries import Entry
from burstcache.results.error_copies import copy_error
from burstcache.results.flights import Flights, Work
from burstcache.results.layers import Layers, Packing, SharedLayer
from burstcache.results.leases import Lease, Renewals
from burstcache.results.meter import ResultMeter
from burstcache.results.steps import Ask, Compute, Flow, Follow, Pause
from burstcache.results.threads import Threads

COMPUTED, FOLLOWED = "computed", "followed"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
_ASKING = 32  # stores that tasks of event loops ask at a time
_REVALIDATING = 8  # functions that are computed anew at a time
_UNCHANGEABLE = {type(None), bool, int, float, str, bytes}
_MOST_IN_BACKGROUND = 64  # more are left to later calls
# What this thread or task is computing, by cache and key: a function that calls itself must not wait for itself.
_COMPUTING: ContextVar[frozenset[tuple[object, str]]] = ContextVar("burstcache_results_computing", default=frozenset())


class Opened(NamedTuple):
    """What an entry says that the function returned, or raised, and where it was raised."""

    value: Any = None
    error: Exception | None = None
    traceback: TracebackType | None = None


class Found(NamedTuple):
    """An entry, what it says, the name of the layer that had it, and its age [ms]."""

    entry: Entry
    opened: Opened
    layer: str
    age_ms: int

    @property
    def is_stale(self) -> bool:
        """Whether it is to be computed anew."""
        return self.age_ms >= self.entry.fresh_ms


class Outcome(NamedTuple):
    """How a computation ended: what the function returned or raised, and the entry of that if it is kept.

    `source` is the layer that had it, `computed` or `followed`; `is_shared`: whether those find it who wait for the
    lease.
    """

    opened: Opened
    entry: Entry | None
    source: str = COMPUTED
    is_shared: bool = False


class Rules(Protocol):
    """What one function has decided of its results."""

    packing: Packing
    wait_s: float  # for what another caller or environment computes, before computing it, too

    def encode(self, value: Any, made: Instant) -> Entry | None:
        """Return the entry of what the function returned, or None if it is not to be kept."""
        ...

    def encode_error(self, error: Exception, made: Instant) -> Entry | None:
        """Return the entry of what the function raised, or None if it is not to be kept."""
        ...

    def open(self, entry: Entry) -> Opened | None:
        """Return what an entry says, or None if it cannot be decoded here or is no answer to this call."""
        ...

    def other_key(self, key: str) -> str | None:
        """Return the key under which to look next if `key` had an answer to other calls than this one."""
        ...


class Cache:
    """Layers of one configuration; functions share it, and so may threads and tasks."""

    def __init__(self, layers: Layers, clock: Clock) -> None:
        """Use these layers, and a clock that results age by."""
        self.layers = layers
        self.meter = ResultMeter.from_environment(clock)
        self._clock = clock
        self._flights: Flights[Outcome] = Flights()
        self._renewals = Renewals()
        self._asking, self._revalidating = Threads(_ASKING), Threads(_REVALIDATING)
        self._in_background = 0
        self._lock = new_lock(self)

    def recall(self, key: str, rules: Rules) -> Found | None:
        """Return what memory has, fresh or stale."""
        memory = self.layers.memory
        if memory is None or (entry := memory.get(key)) is None:
            return None
        return self._found(entry, memory.name, rules)

    def close(self) -> None:
        """Forget what is in memory, and close the connections; a later call opens new ones."""
        self.layers.close()

    def look(self, key: str, rules: Rules) -> Found | None:
        """Return what a shared layer has, fresh or stale, and put it into the layers above."""
        with self._flights.working(key) as reading:
            stored = self.layers.get_shared(key, rules.packing)
            if stored is None or (found := self._found(stored[0], stored[1].name, rules)) is None:
                return None
            self._lift(reading, *stored, rules)
        return found

    def search(self, key: str, rules: Rules) -> Flow[tuple[Found | None, str]]:
        """Return the flow of a call for which memory has nothing, to what is found and the key that is the call's."""
        for _ in range(2):  # a result that depends on more than its key has a second one
            other = rules.other_key(key)
            if other is None and self.layers.shared:
                if (found := (yield Ask(partial(self.look, key, rules)))) is not None:
                    return found, key
                other = rules.other_key(key)
            if other is None:
                break
            key = other
            if (found := self.recall(key, rules)) is not None:
                return found, key
        return None, key

    def compute(self, key: str, rules: Rules) -> Flow[Outcome]:
        """Return the flow of a call that found nothing."""
        while (self, key) not in _COMPUTING.get():
            flight, is_mine = self._flights.join(key)
            if is_mine:
                return (yield from self._lead(key, flight, rules))
            try:
                outcome = yield Follow(flight, rules.wait_s)
            except TimeoutError:
                break
            if outcome is not None:
                if (followed := _followed(outcome, rules)) is not None:
                    return followed
                break
        return (yield from self._compute(key, rules))

    def revalidate(self, key: str, rules: Rules) -> Flow[None]:
        """Return the flow of a computation for which nobody waits: it leaves the key to another that is under way."""
        flight, is_mine = self._flights.join(key)
        if is_mine:
            outcome = yield from self._lead(key, flight, rules)
            if (error := outcome.opened.error) is not None and outcome.entry is None:  # nobody else hears of it
                logger().warning("results: a stale result is not computed anew", key=key, reason=repr(error))

    def refresh(self, key: str, rules: Rules) -> Flow[Outcome]:
        """Return the flow of a call that takes nothing that is kept, and waits for nobody else."""
        return self._compute(key, rules)

    def forget(self, key: str) -> bool:
        """Remove an entry from all layers, and return whether all have removed it.

        What this process computes or reads of the key meanwhile is not kept.
        """
        self._flights.forget(key)
        return self.layers.forget(key)

    def is_computing(self, key: str) -> bool:
        """Whether this process computes a key, or waits for another that does."""
        return self._flights.has(key)

    def submit(self, call: Callable[[], object]) -> None:
        """Do something in a thread, unless too much is waiting for one or the process ends."""
        with self._lock:
            if self._in_background >= _MOST_IN_BACKGROUND:
                return
            self._in_background += 1
        try:
            self._revalidating.pool().submit(call).add_done_callback(self._one_less)
        except RuntimeError:
            self._one_less(call)

    @property
    def threads(self) -> Executor:
        """Threads for what would block the tasks of an event loop."""
        return self._asking.pool()

    def after_fork(self) -> None:
        """Leave to the parent what it does in the background."""
        self._lock, self._in_background = new_lock(self), 0

    def _found(self, entry: Entry, layer: str, rules: Rules) -> Found | None:
        """Return an entry with what it says, if it is still kept and can be decoded here."""
        age_ms = entry.age_ms(self._clock)
        if age_ms >= entry.kept_ms or (opened := rules.open(entry)) is None:
            return None
        return Found(entry, opened, layer, age_ms)

    def _one_less(self, _: object) -> None:
        with self._lock:
            self._in_background -= 1

    def _lead(self, key: str, flight: Future[Outcome | None], rules: Rules) -> Flow[Outcome]:
        outcome, outer = None, _COMPUTING.get()
        _COMPUTING.set(outer | {(self, key)})
        try:
            outcome = yield from self._find_or_compute(key, rules)
        finally:
            _COMPUTING.set(outer)
            self._flights.land(key, flight, outcome)
        return outcome

    def _find_or_compute(self, key: str, rules: Rules) -> Flow[Outcome]:
        if (outcome := self._recall(key, rules)) is not None:
            return outcome
        if (layer := self.layers.leasing) is None:
            return (yield from self._compute(key, rules))
        lease = Lease(layer, key, rules.packing.most_bytes)
        if (outcome := (yield from self._await_lease(lease, rules))) is not None:
            yield Ask(lease.give_back)
            return outcome
        if not lease.is_mine:
            return (yield from self._compute(key, rules))
        renewal = self._renewals.begin(lease.renew)
        try:
            outcome = yield from self._compute(key, rules)
        except BaseException:
            self.submit(lease.open)
            raise
        finally:
            self._renewals.end(renewal)
        yield Ask(lease.give_back if outcome.is_shared else lease.open)
        return outcome

    def _recall(self, key: str, rules: Rules) -> Outcome | None:
        """Return what another thread has put into memory since the caller looked there."""
        if (found := self.recall(key, rules)) is None or found.is_stale:
            return None
        return Outcome(found.opened, found.entry, found.layer)

    def _await_lease(self, lease: Lease, rules: Rules) -> Flow[Outcome | None]:
        """Return what another environment has computed, or None when the caller has to, with the lease or without."""
        end_s, pause_s = self._clock.monotonic_s() + rules.wait_s, _FIRST_PAUSE_S
        while True:
            with self._flights.working(lease.key) as reading:
                data = yield Ask(lease.take)
                if data is not None and (found := self._read(lease.layer, lease.key, data, rules)) is not None:
                    yield Ask(partial(self._lift, reading, found.entry, lease.layer, rules))
                    return Outcome(found.opened, found.entry, found.layer)
            if lease.is_mine or lease.is_open or self._clock.monotonic_s() >= end_s:
                return None
            yield Pause(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _read(self, layer: SharedLayer, key: str, data: bytes, rules: Rules) -> Found | None:
        """Return what stored bytes say, if they are an entry and fresh."""
        entry = layer.read(key, data, rules.packing)
        if entry is None or (found := self._found(entry, layer.name, rules)) is None or found.is_stale:
            return None
        return found

    def _compute(self, key: str, rules: Rules) -> Flow[Outcome]:
        with self._flights.working(key) as computing:
            try:
                opened = Opened((yield Compute()))
            except Exception as error:
                opened = Opened(error=error, traceback=error.__traceback__)
                entry = rules.encode_error(error, instant(self._clock))
            else:
                entry = rules.encode(opened.value, instant(self._clock))
            if entry is None:
                return Outcome(opened, None)
            put = partial(self._put, computing, entry, rules)
            is_shared = (yield Ask(put)) if self.layers.shared else put()
        return Outcome(opened, entry, is_shared=is_shared)

    def _put(self, computing: Work, entry: Entry, rules: Rules) -> bool:
        """Keep an entry unless its key was forgotten since; return whether those find it who wait for a lease."""
        if computing.is_forgotten:
            return False
        is_shared = self.layers.put(computing.key, entry, entry.age_ms(self._clock), rules.packing)
        return not self._is_removed(computing) and is_shared

    def _lift(self, reading: Work, entry: Entry, found_in: SharedLayer, rules: Rules) -> None:
        """Put an entry into the layers above the one that had it, unless its key was forgotten since."""
        if not reading.is_forgotten:
            self.layers.lift(reading.key, entry, found_in, entry.age_ms(self._clock), rules.packing)
            self._is_removed(reading)

    def _is_removed(self, work: Work) -> bool:
        """Remove again what was put while its key was forgotten, and return whether it was."""
        if work.is_forgotten:
            self.layers.forget(work.key)
        return work.is_forgotten


def _followed(outcome: Outcome, rules: Rules) -> Outcome | None:
    """Return an outcome as a follower may have it, or None: what a caller may change is not another's, too."""
    opened: Opened | None = outcome.opened
    if outcome.opened.error is not None:
        error = copy_error(outcome.opened.error, outcome.opened.traceback)
        opened = None if error is None else Opened(error=error)
    elif outcome.entry is not None:
        opened = rules.open(outcome.entry)
    elif type(outcome.opened.value) not in _UNCHANGEABLE:
        opened = None
    return None if opened is None else outcome._replace(opened=opened, source=FOLLOWED)
