"""Cache of results: layered stores, and single flight for computations within and across environments."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from burstcache.adapters.clock import Clock, Instant, instant
from burstcache.adapters.error_copies import copy_error
from burstcache.adapters.single_flight import Flight, FlightOutcome, SingleFlight, always
from burstcache.forks import new_lock
from burstcache.logs import logger
from burstcache.results.entries import ResultEntry
from burstcache.results.layers import Layers, Packing, SharedLayer
from burstcache.results.leases import ComputationLease, Renewals
from burstcache.results.meter import ResultMeter
from burstcache.results.steps import BlockingCall, Compute, Flow, Follow, Sleep
from burstcache.results.threads import Threads
from burstcache.results.work import Work, WorkUnderWay

COMPUTED, FOLLOWED = "computed", "followed"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
_STORE_THREADS = 32  # concurrent store calls of asyncio tasks
_REVALIDATION_THREADS = 8
_IMMUTABLE = {type(None), bool, int, float, str, bytes}
_MOST_IN_BACKGROUND = 64  # further calls are dropped; a stale result is then revalidated by a later caller
# Computations in progress in this thread or task, by cache and key. A recursive function must not wait for itself.
_COMPUTING: ContextVar[frozenset[tuple[object, str]]] = ContextVar("burstcache_results_computing", default=frozenset())


class Decoded(NamedTuple):
    """A decoded result: the value that the function returned, or the exception and where it was raised."""

    value: Any = None
    error: Exception | None = None
    traceback: TracebackType | None = None


class CachedResult(NamedTuple):
    """A cached entry with its decoded result, its layer's name, and its age [ms]."""

    entry: ResultEntry
    decoded: Decoded
    layer: str
    age_ms: int

    @property
    def is_stale(self) -> bool:
        """Whether the result must be revalidated."""
        return self.age_ms >= self.entry.fresh_ms


class Outcome(NamedTuple):
    """The outcome of a computation: the function's result, and its entry if it is cached.

    `source` is the result's layer, `computed` or `followed`. `is_shared`: whether the entry is visible to environments
    that wait for the lease.
    """

    decoded: Decoded
    entry: ResultEntry | None
    source: str = COMPUTED
    is_shared: bool = False


class Rules(Protocol):
    """Rules for the results of one function."""

    packing: Packing
    wait_s: float  # longest wait for another caller's or environment's computation

    def encode(self, value: Any, made: Instant) -> ResultEntry | None:
        """Return the entry of a returned value, or None if it is not cacheable."""
        ...

    def encode_error(self, error: Exception, made: Instant) -> ResultEntry | None:
        """Return the entry of a raised exception, or None if it is not cacheable."""
        ...

    def decode(self, entry: ResultEntry) -> Decoded | None:
        """Return an entry's result, or None if it cannot be decoded here or does not match this call."""
        ...

    def other_key(self, key: str) -> str | None:
        """Return the next key to try if the entry at `key` does not match this call, or None."""
        ...


class Cache:
    """A cache with one configuration. Functions, threads and tasks may share it."""

    def __init__(self, layers: Layers, clock: Clock) -> None:
        """Create the cache. `clock` measures the age of results."""
        self.layers = layers
        self.meter = ResultMeter.from_environment(clock)
        self._clock = clock
        self._flights: SingleFlight[Outcome, bool] = SingleFlight(clock, lambda: True, next_after_s=0)
        self._works = WorkUnderWay()
        self._renewals = Renewals()
        self._store_threads, self._revalidation_threads = Threads(_STORE_THREADS), Threads(_REVALIDATION_THREADS)
        self._in_background = 0
        self._lock = new_lock(self)

    def recall(self, key: str, rules: Rules) -> CachedResult | None:
        """Return the result cached in memory, fresh or stale, or None."""
        memory = self.layers.memory
        if memory is None or (entry := memory.get(key)) is None:
            return None
        return self._cached_result(entry, memory.name, rules)

    def close(self) -> None:
        """Clear memory and close the connections. A later call opens new ones."""
        self.layers.close()

    def read_shared(self, key: str, rules: Rules) -> CachedResult | None:
        """Return the result cached in a shared layer, fresh or stale, and copy it to the layers above."""
        with self._works.begin(key) as reading:
            stored = self.layers.get_shared(key, rules.packing)
            if stored is None or (cached := self._cached_result(stored[0], stored[1].name, rules)) is None:
                return None
            self._lift(reading, *stored, rules)
        return cached

    def search(self, key: str, rules: Rules) -> Flow[tuple[CachedResult | None, str]]:
        """Return the lookup flow after a memory miss. The flow returns the cached result or None, and the final key."""
        for _ in range(2):  # a result that varies by request fields has a second key
            other = rules.other_key(key)
            if other is None and self.layers.shared:
                if (cached := (yield BlockingCall(partial(self.read_shared, key, rules)))) is not None:
                    return cached, key
                other = rules.other_key(key)
            if other is None:
                break
            key = other
            if (cached := self.recall(key, rules)) is not None:
                return cached, key
        return None, key

    def compute(self, key: str, rules: Rules) -> Flow[Outcome]:
        """Return the flow that computes a missing result under single flight."""
        while (self, key) not in _COMPUTING.get():
            mine = self._flights.new_flight()
            try:
                flight, is_leader = self._flights.join(key, always, mine)
                if is_leader:
                    return (yield from self._lead(key, flight, rules))
            finally:
                self._flights.abandon(key, mine)
            try:
                landed = yield Follow(flight.outcome, rules.wait_s)
            except TimeoutError:
                break
            if landed is not None:
                if (followed := _followed(landed.result(), rules)) is not None:
                    return followed
                break
        return (yield from self._compute(key, rules))

    def revalidate(self, key: str, rules: Rules) -> Flow[None]:
        """Return the flow of a background computation. It does nothing if another computation is in progress."""
        mine = self._flights.new_flight()
        try:
            flight, is_leader = self._flights.join(key, always, mine)
            if is_leader:
                outcome = yield from self._lead(key, flight, rules)
                if (error := outcome.decoded.error) is not None and outcome.entry is None:  # no caller sees this error
                    logger().warning("results: a stale result was not revalidated", key=key, reason=repr(error))
        finally:
            self._flights.abandon(key, mine)

    def refresh(self, key: str, rules: Rules) -> Flow[Outcome]:
        """Return the flow of a computation that ignores cached results and other computations."""
        return self._compute(key, rules)

    def forget(self, key: str) -> bool:
        """Remove an entry from all layers. Return True if every layer has removed it.

        Concurrent computations and reads of the key in this process are not cached.
        """
        self._works.forget(key)
        is_removed = self.layers.forget(key, on_removed=partial(self._works.forget, key))
        self._flights.forget(key)  # last, so that no later caller joins a computation that still found the entry
        return is_removed

    def is_computing(self, key: str) -> bool:
        """Whether this process is computing a key's result, or waiting for another environment to compute it."""
        return self._flights.has(key)

    def submit(self, call: Callable[[], object]) -> None:
        """Run a call in the background, unless too many calls are pending or the process is exiting."""
        with self._lock:
            if self._in_background >= _MOST_IN_BACKGROUND:
                return
            self._in_background += 1
        try:
            self._revalidation_threads.pool().submit(call).add_done_callback(self._end_background_call)
        except RuntimeError:
            self._end_background_call(call)

    @property
    def threads(self) -> Executor:
        """Threads for calls that would block an event loop."""
        return self._store_threads.pool()

    def after_fork(self) -> None:
        """Replace the lock, and drop the parent's background calls."""
        self._lock, self._in_background = new_lock(self), 0

    def _cached_result(self, entry: ResultEntry, layer: str, rules: Rules) -> CachedResult | None:
        """Return an entry's decoded result, or None if the entry has expired or cannot be decoded here."""
        age_ms = entry.age_ms(self._clock)
        if age_ms >= entry.kept_ms or (decoded := rules.decode(entry)) is None:
            return None
        return CachedResult(entry, decoded, layer, age_ms)

    def _end_background_call(self, _: object) -> None:
        with self._lock:
            self._in_background -= 1

    def _lead(self, key: str, flight: Flight[Outcome, bool], rules: Rules) -> Flow[Outcome]:
        outcome, outer = None, _COMPUTING.get()
        try:
            _COMPUTING.set(outer | {(self, key)})
            self._flights.begin(key, flight)
            outcome = yield from self._find_or_compute(key, rules)
        finally:
            _COMPUTING.set(outer)
            self._flights.land(key, flight, None if outcome is None else FlightOutcome(outcome))
        return outcome

    def _find_or_compute(self, key: str, rules: Rules) -> Flow[Outcome]:
        if (outcome := self._recall(key, rules)) is not None:
            return outcome
        if (layer := self.layers.leasing) is None:
            return (yield from self._compute(key, rules))
        lease = ComputationLease(layer, key, rules.packing.most_bytes)
        if (outcome := (yield from self._await_lease(lease, rules))) is not None:
            yield BlockingCall(lease.give_back)
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
        yield BlockingCall(lease.give_back if outcome.is_shared else lease.open)
        return outcome

    def _recall(self, key: str, rules: Rules) -> Outcome | None:
        """Return the fresh result that another thread has stored in memory since the caller's miss, or None."""
        if (cached := self.recall(key, rules)) is None or cached.is_stale:
            return None
        return Outcome(cached.decoded, cached.entry, cached.layer)

    def _await_lease(self, lease: ComputationLease, rules: Rules) -> Flow[Outcome | None]:
        """Return another environment's result, or None if the caller must compute, with or without the lease."""
        end_s, pause_s = self._clock.monotonic_s() + rules.wait_s, _FIRST_PAUSE_S
        while True:
            with self._works.begin(lease.key) as reading:
                data = yield BlockingCall(lease.take)
                if data is not None and (cached := self._read(lease.layer, lease.key, data, rules)) is not None:
                    yield BlockingCall(partial(self._lift, reading, cached.entry, lease.layer, rules))
                    return Outcome(cached.decoded, cached.entry, cached.layer)
            if lease.is_mine or lease.is_open or self._clock.monotonic_s() >= end_s:
                return None
            yield Sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _read(self, layer: SharedLayer, key: str, data: bytes, rules: Rules) -> CachedResult | None:
        """Decode stored bytes, or return None if they are not a fresh entry."""
        entry = layer.read(key, data, rules.packing)
        if entry is None or (cached := self._cached_result(entry, layer.name, rules)) is None or cached.is_stale:
            return None
        return cached

    def _compute(self, key: str, rules: Rules) -> Flow[Outcome]:
        with self._works.begin(key) as computing:
            try:
                result = Decoded((yield Compute()))
            except Exception as error:
                result = Decoded(error=error, traceback=error.__traceback__)
                entry = rules.encode_error(error, instant(self._clock))
            else:
                entry = rules.encode(result.value, instant(self._clock))
            if entry is None:
                return Outcome(result, None)
            put = partial(self._put, computing, entry, rules)
            is_shared = (yield BlockingCall(put)) if self.layers.shared else put()
        return Outcome(result, entry, is_shared=is_shared)

    def _put(self, computing: Work, entry: ResultEntry, rules: Rules) -> bool:
        """Store an entry unless its key was forgotten. Return True if environments waiting for a lease see it."""
        with self._works.resume(computing):
            if computing.is_forgotten:
                return False
            is_shared = self.layers.put(computing.key, entry, entry.age_ms(self._clock), rules.packing)
            return not self._undo_if_forgotten(computing) and is_shared

    def _lift(self, reading: Work, entry: ResultEntry, found_in: SharedLayer, rules: Rules) -> None:
        """Copy an entry to the layers above the one in which it was found, unless its key was forgotten."""
        with self._works.resume(reading):
            if not reading.is_forgotten:
                self.layers.lift(reading.key, entry, found_in, entry.age_ms(self._clock), rules.packing)
                self._undo_if_forgotten(reading)

    def _undo_if_forgotten(self, work: Work) -> bool:
        """Remove a newly stored entry if its key has been forgotten meanwhile. Return whether it was removed."""
        if work.is_forgotten:
            self.layers.forget(work.key)
        return work.is_forgotten


def _followed(outcome: Outcome, rules: Rules) -> Outcome | None:
    """Return a follower's outcome, or None if the leader's result is mutable and cannot be copied."""
    result: Decoded | None = outcome.decoded
    if outcome.decoded.error is not None:
        error = copy_error(outcome.decoded.error, outcome.decoded.traceback)
        result = None if error is None else Decoded(error=error)
    elif outcome.entry is not None:
        result = rules.decode(outcome.entry)
    elif type(outcome.decoded.value) not in _IMMUTABLE:
        result = None
    return None if result is None else outcome._replace(decoded=result, source=FOLLOWED)
